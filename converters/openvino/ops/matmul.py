"""MatMul."""

from __future__ import annotations

import onnx_ir as ir

from ortconv.builder import Builder
from ortconv.converters.openvino.ops.broadcasting import rank_of
from ortconv.converters.openvino.ops.types import apply
from ortconv.converters.openvino.registry import REGISTRY


@REGISTRY.lowering("MatMul")
def matmul(
    b: Builder, a: ir.Value, c: ir.Value, /, *, transpose_a: bool = False, transpose_b: bool = False
) -> ir.Value:
    """MatMul, after a Transpose of what is transposed; vectors never are."""
    left = _transposed(b, a, "a") if transpose_a else a
    right = _transposed(b, c, "b") if transpose_b else c
    return apply(b, "MatMul", left, right, modular=True)


def _transposed(b: Builder, value: ir.Value, input: str) -> ir.Value:
    rank = rank_of(value, input)
    if rank < 2:
        return value
    perm = [*range(rank - 2), rank - 1, rank - 2]
    return b.typed(b.op("Transpose", value, perm=perm), value.dtype, None)
