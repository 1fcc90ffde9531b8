"""Folds an Add of a constant into the bias of the convolution or matrix product before it, as exporters write it."""

from __future__ import annotations

import math

import onnx_ir as ir

from ortconv.graph.edit import replace_node
from ortconv.passes.constants import Constants
from ortconv.passes.context import Context

__all__ = ["run"]

_CONVOLUTIONS = frozenset({"Conv", "ConvTranspose"})
_GEMM_TYPES = frozenset({ir.DataType.FLOAT, ir.DataType.DOUBLE})


def run(graph: ir.Graph, context: Context) -> int:
    """Folds a single-consumer Add into the bias of a Conv, ConvTranspose, Gemm or MatMul.

    ONNX Runtime does the same when it loads a model, so the numbers do not change.

    Args:
        graph: The graph; bodies of its nodes are included.
        context: Makes the bias, and notes each Add that is folded.

    Returns:
        How many Adds were folded.
    """
    count = 0
    for node in list(ir.traversal.RecursiveGraphIterator(graph)):
        if (node.domain, node.op_type) != ("", "Add") or len(node.inputs) != 2:
            continue
        for data, bias in (node.inputs, reversed(node.inputs)):
            fused = None if data is None or bias is None else _fuse(context.constants, data, bias)
            if fused is not None:
                context.note(node, f"is the bias of {fused.op_type} {fused.name!r}")
                replace_node(node, fused)
                count += 1
                break
    return count


def _fuse(constants: Constants, data: ir.Value, bias: ir.Value) -> ir.Node | None:
    """Returns the producer of `data` with the bias added to it, or None if the bias does not fit."""
    node, tensor = data.producer(), bias.const_value
    if node is None or node.domain or tensor is None or len(node.inputs) != 2 or node.inputs[1] is None:
        return None
    if len(data.uses()) != 1 or data.is_graph_output() or data.dtype != tensor.dtype or data.shape is None:
        return None
    rank = len(data.shape)
    if node.op_type in _CONVOLUTIONS:
        channels, axis = data.shape[1], 1
    elif node.op_type == "Gemm" or (node.op_type == "MatMul" and _is_gemm(node)):
        channels, axis = data.shape[rank - 1], rank - 1
    else:
        return None
    shape = tensor.shape.numpy()
    aligned = (1,) * (rank - len(shape)) + tuple(shape)
    if len(shape) > rank or not isinstance(channels, int) or math.prod(shape) != channels or aligned[axis] != channels:
        return None
    if node.op_type == "MatMul":
        node.op_type = "Gemm"
    node.resize_inputs(3)
    node.replace_input_with(2, constants.get(bias, [channels]))
    return node


def _is_gemm(node: ir.Node) -> bool:
    """Tells whether Gemm can replace a MatMul: of float matrices, with a summed dimension that is known and not 0."""
    shapes = [None if value is None else value.shape for value in node.inputs]
    if any(shape is None or len(shape) != 2 for shape in shapes):
        return False
    first, left, right = node.inputs[0], shapes[0], shapes[1]
    assert first is not None
    assert left is not None
    assert right is not None
    sizes = [size for size in (left[1], right[0]) if isinstance(size, int)]
    return first.dtype in _GEMM_TYPES and bool(sizes) and sizes[0] > 0
