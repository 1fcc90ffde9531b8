"""Dimensions that a file of version 10 states although they are dynamic, so that they are upper bounds or wrong.

Model Optimizer could not state dynamic dimensions. It wrote the outputs of NonZero and NonMaxSuppression as if they
found everything, the stacked outputs of a Loop of unknown trip count as if it ran once, and all that depends on them
accordingly. It gave the slices that a Loop stacks the size of the stack. OpenVINO infers all shapes itself.
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
"""Ops whose first output has the number of entries found, and the first opset with that output."""

_SAME_DIMS = frozenset({"Abs", "Convert", "Exp", "LogicalNot", "Negative", "ReLU", "Sigmoid", "Sqrt", "Tanh"})

_SIZES_FROM_SIZES = frozenset(
    {
        *("Add", "Concat", "Divide", "Equal", "FloorMod", "Gather", "GatherElements", "GatherND", "Greater"),
        *("GreaterEqual", "Less", "LessEqual", "LogicalAnd", "LogicalOr", "MatMul", "Maximum", "Minimum", "Mod"),
        *("Multiply", "NotEqual", "Power", "ScatterElementsUpdate", "ScatterNDUpdate", "ScatterUpdate", "Select"),
        "Subtract",
    }
)
"""Ops whose output shape depends on input shapes and constants alone."""

_SIZES_FROM_THE_FIRST = frozenset({"Eye", "If", "RandomUniform", "Range", "Unique"})
"""Ops whose output shape depends on the values of their first input."""


def bounded_layers(net: Net, order: Sequence[Layer], *, parameters_too: bool = False) -> Set[int]:
    """Returns the ids of layers whose stated sizes may be upper bounds.

    Args:
        net: The model, or a body.
        order: Its layers, each behind what it needs.
        parameters_too: Whether the inputs of a body are bounded.
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
    """Tells whether the file states how many entries a layer finds."""
    return (
        layer.opset >= _FINDERS[layer.type]
        and any(producer.type != "Const" for producer in producers)
        and all(None not in output.dims for output in layer.outputs[:1])
    )


def _runs_on(layer: Layer, producers: Sequence[Layer]) -> bool:
    """Tells whether the file states the size of a Loop's stacked output although the trip count is dynamic."""
    axes = _stacked_axes(layer)
    sizes = [
        output.dims[axes[output.id] % len(output.dims)] for output in layer.outputs if output.id in axes and output.dims
    ]
    if not sizes or None in sizes:
        return False
    return any(producer.type != "Const" for producer in producers[:2]) or not _goes_on(layer)


def _goes_on(layer: Layer) -> bool:
    """Tells whether the condition that a Loop's body returns is a constant, or its input."""
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
    """Returns the well-formed entries of the port map that stack slices."""
    ports = layer.element.child("port_map")
    numbers = ("axis", "external_port_id")
    return [
        port
        for port in (() if ports is None else ports.all("output"))
        if all(_NUMBER.fullmatch(port.attributes.get(name, "")) for name in numbers)
    ]


def _stacked_axes(layer: Layer) -> dict[int, int]:
    return {int(port.attributes["external_port_id"]): int(port.attributes["axis"]) for port in _stacks(layer)}
