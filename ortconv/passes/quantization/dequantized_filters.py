"""Dequantizes int8 filters that are multiplied as floats by Cast, Sub and Mul instead of DequantizeLinear.

ONNX Runtime does not fold a DequantizeLinear of constants, which it might fuse into QLinearConv, and computes it in
every run. It folds a Cast, a Sub and a Mul when it loads the model.
"""

from __future__ import annotations

import onnx_ir as ir

from ortconv.graph.edit import remove_unused
from ortconv.graph.match import is_quantized, producer
from ortconv.opset.domain import DOMAIN
from ortconv.opset.ops import CONVOLUTIONS
from ortconv.passes.context import Context
from ortconv.passes.quantization.weights import QuantizedWeights

__all__ = ["run"]

_CONVOLUTIONS = frozenset({("", "Conv"), ("", "ConvTranspose"), *((DOMAIN, op.name) for op in CONVOLUTIONS)})


def run(graph: ir.Graph, context: Context) -> int:
    """Replaces the DequantizeLinear of constant filters where the convolution has float data.

    Args:
        graph: The graph; bodies of its nodes are included.
        context: Makes nodes and constants.

    Returns:
        How many filters were changed.
    """
    count = 0
    for node in list(ir.traversal.RecursiveGraphIterator(graph)):
        if (node.domain, node.op_type) not in _CONVOLUTIONS:
            continue
        weights = QuantizedWeights.of(node.inputs[1])
        if weights is None or producer(node.inputs[1], "DequantizeLinear") is None or _is_integer(node):
            continue
        narrow = node.inputs[1]
        node.replace_input_with(1, _widened(node, weights, context))
        remove_unused(narrow)
        count += 1
    return count


def _is_integer(node: ir.Node) -> bool:
    """Tells whether data and output of a node are quantized."""
    return is_quantized(node) and producer(node.inputs[0], "DequantizeLinear") is not None


def _widened(node: ir.Node, weights: QuantizedWeights, context: Context) -> ir.Value:
    """Returns (data - zero point) * scale; the difference is exact."""
    constants, inserter = context.constants, context.inserter
    like = weights.value
    single = ir.DataType.FLOAT
    floats = inserter.before(node, "Cast", [like], like, dtype=single, to=int(single))
    if weights.point:
        floats = inserter.before(node, "Sub", [floats, constants.number(weights.point, single)], like, dtype=single)
    shape = [1] * weights.data.ndim
    if weights.axis is not None:
        shape[weights.axis] = weights.scale.size
    scale = constants.array(weights.scale.reshape(shape), f"{node.name}/scale")
    return inserter.before(node, "Mul", [floats, scale], like, dtype=single)
