"""Constant operands in the shapes that exporters write: numbers as scalars, rows as vectors.

A source says [1, 1, 64] where broadcasting [64] gives the same. ONNX Runtime looks for products with a bias, for
normalisations and activations by the shapes of their constants, and finds them only so.
"""

from __future__ import annotations

import itertools

import onnx_ir as ir

from ortconv.passes.bias_fusion import Reshaped

__all__ = ["trim_operands"]

_BROADCASTING = frozenset({"Add", "Div", "Mul", "Pow", "Sub"})
_LEFT = frozenset({ir.DataType.DOUBLE})
"""Types whose normalisations older versions of ONNX Runtime find and compute with an epsilon of their own."""


def trim_operands(graph: ir.Graph, constants: Reshaped) -> None:
    """Drops the leading axes of size 1 of constant scalars and vectors that are broadcast to more axes.

    Args:
        graph: The graph; bodies of its nodes are included.
        constants: Its constants in other shapes.
    """
    for node in ir.traversal.RecursiveGraphIterator(graph):
        if node.domain or node.op_type not in _BROADCASTING or len(node.inputs) != 2:
            continue
        for index, data in enumerate(reversed(node.inputs)):
            constant = node.inputs[index]
            if constant is None or constant.const_value is None or data is None or data.shape is None:
                continue
            if constant.dtype in _LEFT:
                continue
            shape = [int(size) for size in constant.const_value.shape.numpy()]
            trimmed = list(itertools.dropwhile(lambda size: size == 1, shape))
            if len(trimmed) <= 1 and len(trimmed) < len(shape) <= len(data.shape):
                node.replace_input_with(index, constants.get(constant, trimmed))
