"""Fuses ops on image channels into BatchNormalization, GlobalAveragePool and DepthToSpace, whose kernels are faster."""

from __future__ import annotations

import math

import onnx_ir as ir

from ortconv.graph.edit import become, replace_node
from ortconv.passes.context import Context

__all__ = ["run"]

_RANKS = (3, 4, 5)
_RANK_OF_LAYOUT = 4
"""The rank of data that ONNX Runtime computes in its blocked layout."""
_MOST_PIXELS = 1 << 11
"""ONNX Runtime sums the pixels of a GlobalAveragePool one by one; rounding errors grow with their number."""


def run(graph: ir.Graph, context: Context) -> int:
    """Replaces groups of nodes by the one node that exporters write; results may differ in the last digit.

    A Mul and an Add of a constant per channel become BatchNormalization, a mean of pixels GlobalAveragePool, and a
    Transpose between two Reshapes that moves channels into pixels DepthToSpace. ONNX Runtime's CPU provider computes
    convolutions in a blocked layout and reorders data for other nodes; one BatchNormalization reads its data once,
    not twice.

    Args:
        graph: The graph; bodies of its nodes are included.
        context: Makes constants, and notes each node that is fused.

    Returns:
        How many groups were fused.
    """
    count = 0
    for node in list(ir.traversal.RecursiveGraphIterator(graph)):
        if _is_mean_of_pixels(node):
            become(node, "GlobalAveragePool", node.inputs[:1])
            count += 1
        elif (node.domain, node.op_type) == ("", "Mul"):
            count += _normalize(node, context)
        elif (node.domain, node.op_type) == ("", "Reshape") and node.graph is not None:
            count += _shuffle(node, context)
    return count


def _is_mean_of_pixels(node: ir.Node) -> bool:
    if (node.domain, node.op_type) != ("", "ReduceMean") or not node.attributes.get_int("keepdims", 1):
        return False
    data, axes = (*node.inputs, None)[:2]
    if data is None or axes is None or axes.const_value is None or not _is_image(data):
        return False
    assert data.shape is not None
    rank = len(data.shape)
    if rank != _RANK_OF_LAYOUT:
        return False
    along = sorted(int(axis) % rank for axis in axes.const_value.numpy().reshape(-1))
    pixels = math.prod(size if isinstance(size, int) else 0 for size in data.shape[2:])
    return along == list(range(2, rank)) and 0 < pixels <= _MOST_PIXELS


def _normalize(product: ir.Node, context: Context) -> bool:
    """Fuses a Mul and the Add that is its single consumer into BatchNormalization; tells whether it did."""
    constants, total = context.constants, _single_consumer(product, "Add")
    if total is None:
        return False
    for data, scale in (product.inputs, reversed(product.inputs)):
        for shift in total.inputs:
            if data is None or scale is None or shift is None or not _is_image(data):
                continue
            assert data.shape is not None
            channels = data.shape[1]
            if not (_is_of_channels(scale, data.shape) and _is_of_channels(shift, data.shape)):
                continue
            assert isinstance(channels, int)
            parameters = [constants.get(scale, [channels]), constants.get(shift, [channels])]
            mean, variance = constants.full(channels, 0), constants.full(channels, 1)
            become(product, "BatchNormalization", [data, *parameters, mean, variance], epsilon=0.0)
            context.note(total, f"is the shift of BatchNormalization {product.name!r}")
            replace_node(total, product)
            return True
    return False


def _shuffle(split: ir.Node, context: Context) -> bool:
    """Fuses a Reshape, a Transpose and a Reshape into DepthToSpace; tells whether it did."""
    moved = _single_consumer(split, "Transpose")
    merged = None if moved is None else _single_consumer(moved, "Reshape")
    data = split.inputs[0]
    if moved is None or merged is None or merged.inputs[0] is not moved.outputs[0] or data is None:
        return False
    perm = moved.attributes.get("perm")
    sizes = [_tail(value) for value in (data, split.outputs[0], merged.outputs[0])]
    if data.dtype != ir.DataType.FLOAT or perm is None or [len(each) for each in sizes] != [3, 5, 3]:
        return False
    (depth, height, width), apart, together = sizes
    for mode, order, channel, block in (("CRD", [0, 1, 4, 2, 5, 3], 0, 1), ("DCR", [0, 3, 4, 1, 5, 2], 2, 0)):
        factor, channels = apart[block], apart[channel]
        if (
            list(perm.as_ints()) == order
            and apart[block : block + 2] == [factor, factor]
            and depth == channels * factor**2
            and apart[3:] == [height, width]
            and together == [channels, height * factor, width * factor]
        ):
            for node in (moved, merged):
                context.note(node, f"is a part of DepthToSpace {split.name!r}")
            become(split, "DepthToSpace", [data], blocksize=factor, mode=mode)
            replace_node(moved, split)
            replace_node(merged, split)
            return True
    return False


def _single_consumer(node: ir.Node, op_type: str) -> ir.Node | None:
    """Returns the single consumer of a node's output if it is an ai.onnx node of this type, else None."""
    (value,) = node.outputs
    if len(value.uses()) != 1 or value.is_graph_output():
        return None
    ((user, _),) = value.uses()
    return user if (user.domain, user.op_type) == ("", op_type) else None


def _tail(value: ir.Value) -> list[int]:
    """Returns the dimensions after the first if they are static and not 0, else an empty list."""
    sizes = [] if value.shape is None else [size for size in value.shape[1:] if isinstance(size, int) and size]
    return sizes if value.shape is not None and len(sizes) == len(value.shape) - 1 else []


def _is_image(data: ir.Value) -> bool:
    return data.dtype == ir.DataType.FLOAT and data.shape is not None and len(data.shape) in _RANKS


def _is_of_channels(constant: ir.Value, shape: ir.Shape) -> bool:
    """Tells whether a value is a constant with one entry per channel."""
    if constant.const_value is None or not isinstance(shape[1], int):
        return False
    of_one = [1] * (len(shape) - 2)
    return list(constant.const_value.shape.numpy()) in ([shape[1], *of_one], [1, shape[1], *of_one])
