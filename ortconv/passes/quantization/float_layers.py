"""Layers of floats between codes, whose weights ONNX Runtime would round to 8 bits, which their source does not."""

from __future__ import annotations

import onnx_ir as ir

from ortconv.graph.consumers import is_rounded
from ortconv.graph.edit import Inserter
from ortconv.graph.match import maker
from ortconv.passes.bias_fusion import Reshaped, forget

__all__ = ["keep_floats"]

_LAYERS = frozenset({"Conv", "ConvTranspose", "Gemm"})


def keep_floats(graph: ir.Graph, constants: Reshaped, inserter: Inserter) -> None:
    """Makes the formula of the DequantizeLinear in front of such layers, of which ONNX Runtime takes no notice.

    Args:
        graph: The graph; bodies of its nodes are included.
        constants: Its constants.
        inserter: Makes the new nodes.
    """
    for node in list(ir.traversal.RecursiveGraphIterator(graph)):
        if node.domain or node.op_type not in _LAYERS or not is_rounded(node):
            continue
        data, weights = node.inputs[:2]
        dequantizer = maker(data, "DequantizeLinear")
        if dequantizer is None or weights is None or weights.const_value is None:
            continue
        codes, scale, point = (*dequantizer.inputs, None)[:3]
        if codes is None or scale is None or scale.shape is None or len(scale.shape) != 0:
            continue
        single = ir.DataType.FLOAT
        floats = inserter.before(node, "Cast", [codes], codes, dtype=single, to=int(single))
        if point is not None and point.const_value is not None and point.const_value.numpy().any():
            zero = constants.number(int(point.const_value.numpy()), single)
            floats = inserter.before(node, "Sub", [floats, zero], codes, dtype=single)
        node.replace_input_with(0, inserter.before(node, "Mul", [floats, scale], codes, dtype=single))
        forget(data)
