"""Sizes that a file of version 10 states and that are upper bounds only, or plain wrong.

Model Optimizer could not state a size that is known at run time only. It wrote the outputs of NonZero and
NonMaxSuppression as if they found everything, what a Loop stacks as if it ran once where its end is open, and all that
follows accordingly. The parts that a Loop stacks it gave the size of the stack. OpenVINO infers every size itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set

from ortconv.converters.openvino.reader.layers import Layer, Net, Wire
from ortconv.converters.openvino.reader.xml import Element
from ortconv.frontend.source_graph import Dim, SourceValue

__all__ = ["bounded_layers", "certain_dims", "stacked_parts"]

_NUMBER = re.compile(r"\s*-?[0-9]{1,9}\s*", re.ASCII)

_FINDERS = {"NonMaxSuppression": 5, "NonZero": 3}
"""Ops whose first output has the size of what they find: the first opset whose form does so."""

_SAME_DIMS = frozenset({"Abs", "Convert", "Exp", "LogicalNot", "Negative", "ReLU", "Sigmoid", "Sqrt", "Tanh"})

_SIZES_FROM_SIZES = frozenset(
    {
        *("Add", "Concat", "Divide", "Equal", "FloorMod", "Gather", "GatherElements", "GatherND", "Greater"),
        *("GreaterEqual", "Less", "LessEqual", "LogicalAnd", "LogicalOr", "MatMul", "Maximum", "Minimum", "Mod"),
        *("Multiply", "NotEqual", "Power", "ScatterElementsUpdate", "ScatterNDUpdate", "ScatterUpdate", "Select"),
        "Subtract",
    }
)
"""Ops whose sizes depend on no value but those of constants."""

_SIZES_FROM_THE_FIRST = frozenset({"Eye", "If", "RandomUniform", "Range", "Unique"})
"""Ops whose sizes depend on the values of their first input."""


def bounded_layers(net: Net, order: Sequence[Layer], *, parameters_too: bool = False) -> Set[int]:
    """Returns the ids of layers whose stated sizes may be upper bounds.

    Args:
        net: The model, or a body.
        order: Its layers, each behind what it needs.
        parameters_too: Whether what comes into a body is bounded.
    """
    found: set[int] = set()
    for layer in order if net.version == 10 else ():
        producers = [net.layers[wire[0]] for wire in net.wires[layer.id] if wire is not None]
        if (
            any(producer.id in found for producer in producers)
            or (layer.type == "Parameter" and parameters_too)
            or (layer.type in _FINDERS and _finds(layer, producers))
            or (layer.type == "Loop" and _runs_on(layer, producers))
        ):
            found.add(layer.id)
    return found


def certain_dims(
    layer: Layer, index: int, dims: tuple[Dim, ...], inputs: Sequence[SourceValue | None]
) -> tuple[Dim, ...]:
    """Returns the stated dims of an output of a bounded layer without those that may be upper bounds.

    Args:
        layer: The layer.
        index: The number of the output.
        dims: What the file states.
        inputs: Of the layer; their shapes are certain.
    """
    if layer.type == "NonZero":
        return (*dims[:-1], None)
    if layer.type == "NonMaxSuppression":
        return dims if index == 2 else (None, *dims[1:])
    if layer.type == "ShapeOf":
        return dims
    shapes = [value.shape for value in inputs if value is not None]
    if all(shape is not None and None not in shape for shape in shapes):
        axis = _stacked_axes(layer).get(layer.outputs[index].id) if layer.type == "Loop" else None
        if axis is not None and dims:
            return tuple(None if place == axis % len(dims) else dim for place, dim in enumerate(dims))
        if layer.type == "Loop" or layer.type in _SIZES_FROM_SIZES:
            return dims
        sizing = inputs[layer.type not in _SIZES_FROM_THE_FIRST :]
        if all(value is None or value.constant is not None for value in sizing):
            return dims
    data = shapes[0] if shapes else None
    if data is not None and len(data) == len(dims):
        if layer.type in _SAME_DIMS:
            return data
        constant = inputs[1].constant if layer.type == "Transpose" and len(inputs) == 2 and inputs[1] else None
        order = [] if constant is None else constant.numpy().ravel().tolist()
        if sorted(order) == list(range(len(dims))):
            return tuple(data[axis] for axis in order)
    return (None,) * len(dims)


def stacked_parts(layer: Layer, body: Net) -> dict[Wire, int]:
    """Returns the tensors of a Loop's body that have size 1 along an axis, whatever the file says, and the axis."""
    if layer.type != "Loop" or body.version != 10:
        return {}
    parts: dict[Wire, int] = {}
    for port in _stacks(layer):
        wires = body.wires.get(port.integer("internal_layer_id"), ())
        if port.attributes.get("part_size", "1") == "1" and len(wires) == 1 and wires[0] is not None:
            parts[wires[0]] = int(port.attributes["axis"])
    return parts


def _finds(layer: Layer, producers: Sequence[Layer]) -> bool:
    """Tells whether a layer finds some of many, and the file says how many."""
    return (
        layer.opset >= _FINDERS[layer.type]
        and any(producer.type != "Const" for producer in producers)
        and all(None not in output.dims for output in layer.outputs[:1])
    )


def _runs_on(layer: Layer, producers: Sequence[Layer]) -> bool:
    """Tells whether a Loop stacks parts as often as it is known at run time only, and the file says how often."""
    axes = _stacked_axes(layer)
    sizes = [
        output.dims[axes[output.id] % len(output.dims)] for output in layer.outputs if output.id in axes and output.dims
    ]
    if not sizes or None in sizes:
        return False
    return any(producer.type != "Const" for producer in producers[:2]) or not _goes_on(layer)


def _goes_on(layer: Layer) -> bool:
    """Tells whether the condition of a Loop's body is a constant, or what it was before."""
    ports, body = layer.element.child("port_map"), layer.element.child("body")
    layers, edges = (None, None) if body is None else (body.child("layers"), body.child("edges"))
    if ports is None or layers is None or edges is None:
        return False
    types = {each.attributes.get("id"): each.attributes.get("type") for each in layers.all("layer")}
    condition = [
        port.attributes.get("internal_layer_id")
        for port in ports.all("output")
        if port.attributes.get("purpose") == "execution_condition"
    ]
    sources = [
        edge.attributes.get("from-layer") for edge in edges.all("edge") if edge.attributes.get("to-layer") in condition
    ]
    return all(types.get(source) in ("Const", "Parameter") for source in sources)


def _stacks(layer: Layer) -> list[Element]:
    """Returns the rows of the port map that stack parts, as far as they are well-formed."""
    ports = layer.element.child("port_map")
    numbers = ("axis", "external_port_id")
    return [
        port
        for port in (() if ports is None else ports.all("output"))
        if all(_NUMBER.fullmatch(port.attributes.get(name, "")) for name in numbers)
    ]


def _stacked_axes(layer: Layer) -> dict[int, int]:
    return {int(port.attributes["external_port_id"]): int(port.attributes["axis"]) for port in _stacks(layer)}
