"""Drops leading axes of size 1 of constant operands: numbers become scalars, rows become vectors.

A source has [1, 1, 64] where [64] broadcasts to the same. ONNX Runtime matches biases, normalizations and activations
by the shapes of their constants, and expects the shapes that exporters write.
"""

from __future__ import annotations

import itertools

import onnx_ir as ir

from ortconv.passes.context import Context

__all__ = ["run"]

_BROADCASTING = frozenset({"Add", "Div", "Mul", "Pow", "Sub"})
_UNCHANGED = frozenset({ir.DataType.DOUBLE})
"""Types in which older versions of ONNX Runtime fuse normalizations with a wrong epsilon."""


def run(graph: ir.Graph, context: Context) -> int:
    """Drops the leading axes of size 1 of constant scalars and vectors that are broadcast to more axes.

    Args:
        graph: The graph; bodies of its nodes are included.
        context: Makes the constants.

    Returns:
        How many operands were changed.
    """
    count = 0
    for node in ir.traversal.RecursiveGraphIterator(graph):
        if node.domain or node.op_type not in _BROADCASTING or len(node.inputs) != 2:
            continue
        for index, data in enumerate(reversed(node.inputs)):
            constant = node.inputs[index]
            if constant is None or constant.const_value is None or data is None or data.shape is None:
                continue
            if constant.dtype in _UNCHANGED:
                continue
            shape = [int(size) for size in constant.const_value.shape.numpy()]
            trimmed = list(itertools.dropwhile(lambda size: size == 1, shape))
            if len(trimmed) <= 1 and len(trimmed) < len(shape) <= len(data.shape):
                node.replace_input_with(index, context.constants.get(constant, trimmed))
                count += 1
    return count
