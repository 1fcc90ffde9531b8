"""Stops ONNX Runtime from quantizing the weights of float layers that sit between Q and DQ."""

from __future__ import annotations

import onnx_ir as ir

from ortconv.graph.edit import remove_unused
from ortconv.graph.match import is_quantized, producer
from ortconv.passes.context import Context

__all__ = ["run"]

_LAYERS = frozenset({"Conv", "ConvTranspose", "Gemm"})


def run(graph: ir.Graph, context: Context) -> int:
    """Replaces the DequantizeLinear before such a layer by Cast, Sub and Mul, which ONNX Runtime does not fuse.

    Args:
        graph: The graph; bodies of its nodes are included.
        context: Makes nodes and constants.

    Returns:
        How many layers were changed.
    """
    count = 0
    for node in list(ir.traversal.RecursiveGraphIterator(graph)):
        if node.domain or node.op_type not in _LAYERS or not is_quantized(node):
            continue
        data, weights = node.inputs[:2]
        dequantizer = producer(data, "DequantizeLinear")
        if dequantizer is None or weights is None or weights.const_value is None:
            continue
        quantized, scale, point = (*dequantizer.inputs, None)[:3]
        if quantized is None or scale is None or scale.shape is None or len(scale.shape) != 0:
            continue
        single = ir.DataType.FLOAT
        floats = context.inserter.before(node, "Cast", [quantized], quantized, dtype=single, to=int(single))
        if point is not None and point.const_value is not None and point.const_value.numpy().any():
            zero = context.constants.number(int(point.const_value.numpy()), single)
            floats = context.inserter.before(node, "Sub", [floats, zero], quantized, dtype=single)
        node.replace_input_with(0, context.inserter.before(node, "Mul", [floats, scale], quantized, dtype=single))
        remove_unused(data)
        count += 1
    return count
