"""Fuses the formula of a normalization, its scale and its shift into LayerNormalization or InstanceNormalization."""

from __future__ import annotations

import dataclasses
import math

import onnx_ir as ir

from ortconv.graph.edit import become, replace_node
from ortconv.passes.context import Context

__all__ = ["run"]


@dataclasses.dataclass(frozen=True)
class _Standardized:
    """The nodes of (x - mean) / sqrt(variance + epsilon).

    Attributes:
        node: The last of its nodes, a Div.
        formula: The nodes before it, the last one first.
        data: The input x.
        axes: The axes of mean and variance, ascending.
        epsilon: The number epsilon.
    """

    node: ir.Node
    formula: tuple[ir.Node, ...]
    data: ir.Value
    axes: tuple[int, ...]
    epsilon: float


@dataclasses.dataclass(frozen=True)
class _Fused:
    """The node that a formula becomes.

    Attributes:
        op_type: Its op.
        sizes: The shape of its scale and shift.
        parts: The Mul and the Add that become its scale and shift, each with its constant.
    """

    op_type: str
    sizes: list[int]
    parts: tuple[tuple[ir.Node, ir.Value], ...]


def run(graph: ir.Graph, context: Context) -> int:
    """Fuses (x - mean) / sqrt(variance + epsilon), and constants that scale and shift it, into one node.

    Without such constants, the scale is ones.

    Args:
        graph: The graph; bodies of its nodes are included.
        context: Makes scales and shifts, and notes each Mul and Add that is fused.

    Returns:
        How many normalizations were fused.
    """
    constants, count = context.constants, 0
    for node in list(ir.traversal.RecursiveGraphIterator(graph)):
        found = _standardized(node)
        fused = None if found is None else _fused(found)
        if found is None or fused is None:
            continue
        if not fused.parts and not constants.has_room(2 * math.prod(fused.sizes)):
            continue
        attributes: dict[str, int | float] = {"epsilon": found.epsilon}
        if fused.op_type == "LayerNormalization":
            attributes["axis"] = -len(fused.sizes)
        inputs = [constants.get(value, fused.sizes) for _, value in fused.parts]
        if not inputs:
            (size,) = fused.sizes
            numbers = (1, 0) if fused.op_type == "InstanceNormalization" else (1,)
            inputs = [constants.full(size, number) for number in numbers]
        become(node, fused.op_type, [found.data, *inputs], **attributes)
        for producer in found.formula:
            assert producer.graph is not None
            producer.graph.remove(producer, safe=True)
        for (part, _), role in zip(fused.parts, ("scale", "shift"), strict=False):
            context.note(part, f"is the {role} of {fused.op_type} {node.name!r}")
            replace_node(part, node)
        count += 1
    return count


def _fused(found: _Standardized) -> _Fused | None:
    """Returns the fused node, or None where there is none."""
    scale = _by_constant(found.node.outputs[0], "Mul")
    shift = None if scale is None else _by_constant(scale[0].outputs[0], "Add")
    parts = tuple(part for part in (scale, shift) if part is not None)
    layer, channels = _sizes_of_layer(found), _sizes_of_channels(found)
    if scale is not None and layer and _fits(scale[1], layer, found):
        fitting = tuple(part for part in parts if _fits(part[1], layer, found))
        return _Fused("LayerNormalization", layer, fitting)
    if shift is not None and channels and all(_fits(constant, channels, found) for _, constant in parts):
        return _Fused("InstanceNormalization", channels[:1], parts)
    if len(layer) == 1:
        return _Fused("LayerNormalization", layer, ())
    return _Fused("InstanceNormalization", channels[:1], ()) if channels else None


def _standardized(node: ir.Node) -> _Standardized | None:
    """Returns the formula that ends with a node, if nothing else uses an intermediate result of it."""
    if node.graph is None or (quotient := _inputs(node, "Div")) is None:
        return None
    centred, root = quotient
    sums = _inputs(root.producer(), "Sqrt", 1)
    parts = None if sums is None else _inputs(sums[0].producer(), "Add")
    variance = None if parts is None else _inputs(parts[0].producer(), "ReduceMean")
    square = None if variance is None else _inputs(variance[0].producer(), "Mul")
    difference = _inputs(centred.producer(), "Sub")
    mean = None if difference is None else _inputs(difference[1].producer(), "ReduceMean")
    if sums is None or parts is None or variance is None or square is None or difference is None or mean is None:
        return None
    data, axes, epsilon = mean[0], mean[1], parts[1]
    if square != [centred, centred] or difference[0] is not data or variance[1] is not axes:
        return None
    # The square uses x - mean twice, the quotient once.
    uses = {root: 1, sums[0]: 1, parts[0]: 1, variance[0]: 1, centred: 3, difference[1]: 1}
    if any(len(value.uses()) != count or value.is_graph_output() for value, count in uses.items()):
        return None
    if axes.const_value is None or epsilon.const_value is None or epsilon.const_value.size != 1:
        return None
    if data.dtype != ir.DataType.FLOAT or not data.shape:
        return None
    producers = tuple(producer for value in uses if (producer := value.producer()) is not None)
    along = sorted(int(axis) % len(data.shape) for axis in axes.const_value.numpy().reshape(-1))
    return _Standardized(node, producers, data, tuple(along), float(epsilon.const_value.numpy().reshape(-1)[0]))


def _inputs(node: ir.Node | None, op_type: str, count: int = 2) -> list[ir.Value] | None:
    """Returns the inputs of a node if it is an ai.onnx node of this type with that many, else None."""
    if node is None or (node.domain, node.op_type) != ("", op_type) or len(node.inputs) != count:
        return None
    if op_type == "ReduceMean" and not node.attributes.get_int("keepdims", 1):
        return None
    found = [value for value in node.inputs if value is not None]
    return found if len(found) == count else None


def _by_constant(value: ir.Value, op_type: str) -> tuple[ir.Node, ir.Value] | None:
    """Returns the only node that uses a value, if it is of that type, and the constant which is its other input."""
    if len(value.uses()) != 1 or value.is_graph_output():
        return None
    ((node, index),) = value.uses()
    operands = _inputs(node, op_type)
    if operands is None or operands[1 - index].const_value is None:
        return None
    return node, operands[1 - index]


def _sizes_of_layer(found: _Standardized) -> list[int]:
    """Returns the sizes of the axes if they are the last ones and static, else an empty list."""
    assert found.data.shape is not None
    rank = len(found.data.shape)
    sizes = [size for axis in found.axes if isinstance(size := found.data.shape[axis], int)]
    return sizes if found.axes == tuple(range(rank - len(sizes), rank)) else []


def _sizes_of_channels(found: _Standardized) -> list[int]:
    """Returns the shape of one number per channel if the axes are all after batch and channels, else an empty list."""
    assert found.data.shape is not None
    rank = len(found.data.shape)
    channels = found.data.shape[1] if rank > 2 else None
    if not isinstance(channels, int) or found.axes != tuple(range(2, rank)):
        return []
    return [channels, *[1] * (rank - 2)]


def _fits(constant: ir.Value, sizes: list[int], found: _Standardized) -> bool:
    """Tells whether a constant has that shape, leading axes of size 1 aside."""
    assert constant.const_value is not None
    assert found.data.shape is not None
    shape = [int(size) for size in constant.const_value.shape.numpy()]
    front = len(shape) - len(sizes)
    return 0 <= front <= len(found.data.shape) - len(sizes) and shape == [1] * front + sizes
