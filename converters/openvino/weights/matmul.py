"""Matrix products by plain or weight-only quantized matrices.

The product by quantized weights is MatMulCompressed or MatMulCodebook of ``org.ortconv``, which never have the weights
as floats: ONNX Runtime dequantizes the whole matrix on every run, which takes longer than the product itself.
"""

from __future__ import annotations

import onnx_ir as ir

from ortconv.converters.openvino.lib.broadcasting import rank_of
from ortconv.converters.openvino.lib.compute_types import apply, dtype_of, saturated, saturates
from ortconv.converters.openvino.weights.compressed_matrix import CompressedMatrix
from ortconv.converters.openvino.weights.dequantization import as_matmul_operand, transposed
from ortconv.graph.annotations import MATMUL_OPERANDS
from ortconv.graph.builder import Builder
from ortconv.opset.ops.compressed_weights import OLDEST_OPSET
from ortconv.opset.ops.matmul_codebook import MATMUL_CODEBOOK
from ortconv.opset.ops.matmul_compressed import MATMUL_COMPRESSED

__all__ = ["matmul", "matmul_operands", "record_operands", "transposed_operand"]

_FLOATS = (ir.DataType.FLOAT, ir.DataType.FLOAT16)
_GEMM_TYPES = {ir.DataType.FLOAT, ir.DataType.DOUBLE}


def matmul(b: Builder, a: ir.Value, c: ir.Value, *, transpose_a: bool = False, transpose_b: bool = False) -> ir.Value:
    """Emits a product of matrices, batches of them, or vectors.

    Args:
        b: The builder.
        a: Data [..., M, K], or [..., K, M] with `transpose_a`; a vector is never transposed.
        c: Plain or quantized weights [..., K, N], or [..., N, K] with `transpose_b`.
        transpose_a: Whether the last two axes of `a` are exchanged.
        transpose_b: Whether those of `c` are.
    """
    compressed = None if transpose_a else _compressed(b, a, c, transpose=transpose_b)
    if compressed is not None:
        return compressed
    if (transpose_a or transpose_b) and _is_gemm(a, c, transpose_a, transpose_b):
        return b.op("Gemm", a, c, transA=1 if transpose_a else None, transB=1 if transpose_b else None)
    if _is_vector(c) and (transpose_a or _is_moved(a)):
        return _by_vector(b, a, c, transpose_a)
    left = transposed_operand(b, a, "a") if transpose_a else a
    right = as_matmul_operand(b, c, transpose=transpose_b)
    if right is None:
        right = transposed_operand(b, c, "b") if transpose_b else c
    return _plain(b, left, right)


def record_operands(product: ir.Value, a: ir.Value, c: ir.Value, *, transpose_b: bool) -> None:
    """Records what a product is computed from, for `matmul_operands`."""
    MATMUL_OPERANDS.set(product, (a, c, transpose_b))


def matmul_operands(value: ir.Value) -> tuple[ir.Value, ir.Value, bool] | None:
    """Returns the two operands of a product, and whether the second is transposed; None if it is no product.

    Products whose first operand is transposed are not recorded.
    """
    return MATMUL_OPERANDS.get(value)


def transposed_operand(b: Builder, value: ir.Value, input: str) -> ir.Value:
    """Emits a value with its last two axes exchanged; a vector is returned as it is.

    Args:
        b: The builder.
        value: The operand.
        input: Its name in errors.
    """
    rank = rank_of(value, input)
    if rank < 2:
        return value
    perm = [*range(rank - 2), rank - 1, rank - 2]
    weights = transposed(b, value, perm)
    if weights is not None:
        return weights
    return b.typed(b.op("Transpose", value, perm=perm), value.dtype, None)


def _compressed(b: Builder, x: ir.Value, weights: ir.Value, *, transpose: bool) -> ir.Value | None:
    """Emits the product by a quantized matrix; None where operators of ours are unwanted or do not compute it."""
    if b.options.target == "onnx" or b.options.opset < OLDEST_OPSET:
        return None
    if x.dtype not in _FLOATS or weights.dtype != x.dtype or x.shape is None or len(x.shape) < 2:
        return None
    matrix = CompressedMatrix.of(weights, transpose=not transpose)
    if matrix is None:
        return None
    y = matrix.product(b, MATMUL_COMPRESSED, MATMUL_CODEBOOK, x)
    return b.typed(y, x.dtype, ir.Shape([*x.shape[:-1], matrix.data.shape.numpy()[0]]))


def _plain(b: Builder, left: ir.Value, right: ir.Value) -> ir.Value:
    if not saturates(b, left.dtype):
        return apply(b, "MatMul", left, right, modular=True)
    wide = b.op("MatMul", b.cast(left, ir.DataType.INT32), b.cast(right, ir.DataType.INT32))
    return saturated(b, b.typed(wide, ir.DataType.INT32, None), dtype_of(left))


def _is_vector(value: ir.Value) -> bool:
    return value.shape is not None and len(value.shape) == 1


def _is_moved(value: ir.Value) -> bool:
    """Tells whether ONNX Runtime may fuse a Transpose in front of a product into it, also through a Cast."""
    node = value.producer()
    return node is not None and not node.domain and node.op_type in ("Cast", "Transpose")


def _by_vector(b: Builder, a: ir.Value, vector: ir.Value, transpose_a: bool) -> ir.Value:
    """Emits a product by a vector so that ONNX Runtime fuses no Transpose into it, which it does wrongly there."""
    rank = rank_of(a, "a")
    if transpose_a and rank > 1:  # the transposed matrix by a vector is the vector by the matrix
        weights = as_matmul_operand(b, a, transpose=False)
        return _plain(b, vector, a if weights is None else weights)
    column = b.typed(b.op("Unsqueeze", vector, b.constant([1])), vector.dtype, None)
    return b.op("Squeeze", _plain(b, a, column), b.constant([-1]))


def _is_gemm(a: ir.Value, c: ir.Value, transpose_a: bool, transpose_b: bool) -> bool:
    """Tells whether ONNX Runtime's Gemm computes a product: two float matrices with something to sum over."""
    if a.shape is None or c.shape is None or (len(a.shape), len(c.shape)) != (2, 2):
        return False
    sizes = [size for size in (a.shape[not transpose_a], c.shape[transpose_b]) if isinstance(size, int)]
    return {a.dtype, c.dtype} <= _GEMM_TYPES and bool(sizes) and sizes[0] > 0
