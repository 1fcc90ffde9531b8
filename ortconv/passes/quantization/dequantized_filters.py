"""Filters of bytes that are multiplied as floats.

ONNX Runtime computes a DequantizeLinear of constants on every run, since a QLinearConv might be made of it, but a Cast,
a Sub and a Mul once, when it loads the model.
"""

from __future__ import annotations

import onnx_ir as ir

from ortconv.graph.consumers import is_rounded
from ortconv.graph.edit import Inserter
from ortconv.graph.match import maker
from ortconv.opset.domain import DOMAIN
from ortconv.opset.ops import CONVOLUTIONS
from ortconv.passes.bias_fusion import Reshaped, forget
from ortconv.passes.quantization.weights import ByteWeights

__all__ = ["widen_filters"]

_CONVOLUTIONS = frozenset({("", "Conv"), ("", "ConvTranspose"), *((DOMAIN, op.name) for op in CONVOLUTIONS)})


def widen_filters(graph: ir.Graph, constants: Reshaped, inserter: Inserter) -> None:
    """Makes formulas of the DequantizeLinears that make filters of bytes, where no codes are multiplied by them.

    Args:
        graph: The graph; bodies of its nodes are included.
        constants: Its constants.
        inserter: Makes the new nodes.
    """
    for node in list(ir.traversal.RecursiveGraphIterator(graph)):
        if (node.domain, node.op_type) not in _CONVOLUTIONS:
            continue
        weights = ByteWeights.of(node.inputs[1])
        if weights is None or maker(node.inputs[1], "DequantizeLinear") is None or _is_integer(node):
            continue
        narrow = node.inputs[1]
        node.replace_input_with(1, _widened(node, weights, constants, inserter))
        forget(narrow)


def _is_integer(node: ir.Node) -> bool:
    """Tells whether a node takes codes and gives codes."""
    return is_rounded(node) and maker(node.inputs[0], "DequantizeLinear") is not None


def _widened(node: ir.Node, weights: ByteWeights, constants: Reshaped, inserter: Inserter) -> ir.Value:
    """Returns (bytes - point) * scale; the difference is exact."""
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
