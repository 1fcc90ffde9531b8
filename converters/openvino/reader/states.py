"""States of a model, which become inputs and outputs.

``ReadValue`` reads a variable and ``Assign`` writes it. The ONNX model takes the variable's value as an input of the
variable's name and returns the new value as an output of that name with ``.next`` appended. The first value is removed
from the graph: the caller feeds it. It is zeros unless the source states another; then the conversion warns. If a state
of dynamic shape is read once, and its first value is computed from the inputs, as the cross-attention cache of a
decoder is, an empty state stands for the first value. The model's metadata lists the states under the key
`STATES_KEY`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence

from ortconv.converters.openvino.reader.layers import Layer, Net
from ortconv.frontend.source_graph import SourceState

__all__ = ["STATES_KEY", "State", "cut_states", "metadata"]

STATES_KEY = "ortconv.states"
"""Metadata of a model: a JSON list of its states, with the names of variable, input and output."""

_MOVES = frozenset({"Broadcast", "Convert", "ConvertLike", "Reshape", "Squeeze", "Tile", "Transpose", "Unsqueeze"})
"""Ops that return zeros for zeros."""


@dataclasses.dataclass(frozen=True)
class State:
    """A variable of the model.

    Attributes:
        variable: Its id.
        reads: The ReadValue layers.
        writes: The Assign layers.
        first: The layer that computes the first value, looking through ops that keep zeros; None for zeros.
        begins: Whether an empty state stands for the first value.
    """

    variable: str
    reads: tuple[Layer, ...]
    writes: tuple[Layer, ...]
    first: Layer | None
    begins: bool


def cut_states(net: Net) -> tuple[Net, tuple[State, ...]]:
    """Cuts the wires that lead into ReadValue layers, and returns the net's states in the order of these.

    Raises:
        ModelFormatError: A variable is written and not read, or written twice.
    """
    reads: dict[str, list[Layer]] = {}
    writes: dict[str, list[Layer]] = {}
    for layer in net.layers.values():
        if layer.type in ("ReadValue", "Assign"):
            if "variable_id" not in layer.attributes:
                raise layer.error("attribute variable_id is missing.")
            found = reads if layer.type == "ReadValue" else writes
            found.setdefault(layer.attributes["variable_id"], []).append(layer)
    for variable, layers in writes.items():
        if variable not in reads:
            raise layers[0].error(f"no ReadValue reads variable_id = {variable!r}.")
        if len(layers) > 1:
            raise layers[1].error(f"variable_id = {variable!r} is written twice; first by layer {layers[0].id}.")
    for layers in reads.values():
        if any(len(layer.outputs) != 1 for layer in layers):
            raise layers[0].error("a ReadValue has one output port.")
    states = tuple(
        State(name, tuple(layers), tuple(writes.get(name, ())), first, _begins(layers, first))
        for name, layers in reads.items()
        for first in [_first(net, layers[0])]
    )
    kept = {state.reads[0].id for state in states if state.begins}
    cut = {layer.id: () for layers in reads.values() for layer in layers if layer.id not in kept}
    return (dataclasses.replace(net, wires={**net.wires, **cut}) if cut else net), states


def _begins(reads: Sequence[Layer], first: Layer | None) -> bool:
    """Tells whether a state of dynamic shape is read once, and its first value is computed."""
    is_open = any(not isinstance(dim, int) for dim in reads[0].outputs[0].dims)
    return len(reads) == 1 and is_open and first is not None and first.type != "Const"


def _first(net: Net, read: Layer) -> Layer | None:
    layer, seen = read, {read.id}
    while layer is read or layer.type in _MOVES:
        wires = net.wires[layer.id]
        if not wires or wires[0] is None:
            return None if layer is read else layer
        layer = net.layers[wires[0][0]]
        if layer.id in seen:
            raise layer.error("it needs itself, in a circle.")
        seen.add(layer.id)
    return layer


def metadata(states: Sequence[SourceState]) -> dict[str, str]:
    """Returns the metadata that lists the states of a model."""
    if not states:
        return {}
    facts = [
        {
            "variable": state.variable,
            "input": state.input.name,
            "output": None if state.output is None else state.output.name,
        }
        for state in states
    ]
    return {STATES_KEY: json.dumps(facts)}
