"""MatMul."""

from __future__ import annotations

import onnx_ir as ir

from ortconv.builder import Builder
from ortconv.converters.openvino.ops.broadcasting import rank_of
from ortconv.converters.openvino.ops.compression import multiplied, transposed
from ortconv.converters.openvino.ops.types import apply
from ortconv.converters.openvino.registry import REGISTRY

_GEMM_TYPES = {ir.DataType.FLOAT, ir.DataType.DOUBLE}


@REGISTRY.lowering("MatMul", how="exact")
def matmul(
    b: Builder, a: ir.Value, c: ir.Value, /, *, transpose_a: bool = False, transpose_b: bool = False
) -> ir.Value:
    """Gemm of two matrices of floats if one is transposed, else MatMul after a Transpose; vectors never are."""
    if (transpose_a or transpose_b) and _is_gemm(a, c, transpose_a, transpose_b):
        return b.op("Gemm", a, c, transA=1 if transpose_a else None, transB=1 if transpose_b else None)
    left = _transposed(b, a, "a") if transpose_a else a
    right = multiplied(b, c, transpose=transpose_b)
    if right is None:
        right = _transposed(b, c, "b") if transpose_b else c
    return apply(b, "MatMul", left, right, modular=True)


def _is_gemm(a: ir.Value, c: ir.Value, transpose_a: bool, transpose_b: bool) -> bool:
    """Whether ONNX Runtime's Gemm computes it, which needs something to sum over."""
    if a.shape is None or c.shape is None or (len(a.shape), len(c.shape)) != (2, 2):
        return False
    sizes = [size for size in (a.shape[not transpose_a], c.shape[transpose_b]) if isinstance(size, int)]
    return {a.dtype, c.dtype} <= _GEMM_TYPES and bool(sizes) and sizes[0] > 0


def _transposed(b: Builder, value: ir.Value, input: str) -> ir.Value:
    rank = rank_of(value, input)
    if rank < 2:
        return value
    perm = [*range(rank - 2), rank - 1, rank - 2]
    weights = transposed(b, value, perm)
    if weights is not None:
        return weights
    return b.typed(b.op("Transpose", value, perm=perm), value.dtype, None)
