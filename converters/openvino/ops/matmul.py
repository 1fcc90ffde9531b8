"""MatMul and GroupedMatMul."""

from __future__ import annotations

import math

import onnx_ir as ir

from ortconv.converters.openvino.lib.broadcasting import rank_of
from ortconv.converters.openvino.lib.compute_types import (
    FLOATS,
    apply,
    compute,
    dtype_of,
    require,
    saturated,
    saturates,
    warn_of_singles,
)
from ortconv.converters.openvino.lib.constants import int64_vector
from ortconv.converters.openvino.plugin_bugs.fake_quantize_levels import warn_of_moved_levels
from ortconv.converters.openvino.plugin_bugs.misread_weights import (
    has_odd_rows,
    has_scales_of_columns,
    has_uneven_groups,
)
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.converters.openvino.weights.compressed_products import product
from ortconv.converters.openvino.weights.dequantization import multiplied, transposed
from ortconv.converters.openvino.weights.shared_constants import is_used_otherwise
from ortconv.errors import ShapeError
from ortconv.graph.builder import Builder

__all__ = ["factors", "multiply"]

_FACTORS = "ortconv.openvino.factors"
"""Key in the metadata of products."""
_GROUPED = 3
"""Rank of matrices in groups."""
_MOST_GROUPS = 4096
"""There is a node for each group."""

_GEMM_TYPES = {ir.DataType.FLOAT, ir.DataType.DOUBLE}


@REGISTRY.lowering("MatMul", how="exact")
def matmul(
    b: Builder, a: ir.Value, c: ir.Value, /, *, transpose_a: bool = False, transpose_b: bool = False
) -> ir.Value:
    """Gemm of two matrices of floats if one is transposed, else MatMul after a Transpose; vectors never are.

    MatMulCompressed or MatMulCodebook of ``org.ortconv`` by compressed weights.
    """
    warn_of_singles(b, a, grows=True)
    _warn_of_shared_squares(b, c, transpose_b)
    warn_of_moved_levels(b, a, c, shifts=True)
    if has_uneven_groups(c):
        b.warn(
            "the page is followed: weights are in groups of a size whose products with few rows OpenVINO's CPU plugin "
            "computes wrongly"
        )
    if has_scales_of_columns(c, transpose=transpose_b):
        b.warn(
            "the page is followed: each column of the data has a scale of its own in the weights, whose products "
            "OpenVINO's CPU plugin computes wrongly"
        )
    if has_odd_rows(c, transpose=transpose_b) and not _has_few_rows(a, 4):
        b.warn(
            "the page is followed: weights of 4 bits have rows of an odd length, whose products with more than 4 rows "
            "of data OpenVINO's CPU plugin computes wrongly"
        )
    result = multiply(b, a, c, transpose_a=transpose_a, transpose_b=transpose_b)
    if not transpose_a:
        result.meta[_FACTORS] = a, c, transpose_b
    return result


def factors(value: ir.Value) -> tuple[ir.Value, ir.Value, bool] | None:
    """Returns of which two values a value is the product, and whether the second is transposed; None for no product.

    Products of transposed data are left out.
    """
    found: tuple[ir.Value, ir.Value, bool] | None = value.meta.get(_FACTORS)
    return found


def multiply(b: Builder, a: ir.Value, c: ir.Value, *, transpose_a: bool = False, transpose_b: bool = False) -> ir.Value:
    """Emits a product of matrices, batches of them, or vectors."""
    compressed = None if transpose_a else product(b, a, c, transpose=transpose_b)
    if compressed is not None:
        return compressed
    if (transpose_a or transpose_b) and _is_gemm(a, c, transpose_a, transpose_b):
        return b.op("Gemm", a, c, transA=1 if transpose_a else None, transB=1 if transpose_b else None)
    if _is_vector(c) and (transpose_a or _is_moved(a)):
        return _by_vector(b, a, c, transpose_a)
    left = _transposed(b, a, "a") if transpose_a else a
    right = multiplied(b, c, transpose=transpose_b)
    if right is None:
        right = _transposed(b, c, "b") if transpose_b else c
    return _multiplied(b, left, right)


def _multiplied(b: Builder, left: ir.Value, right: ir.Value) -> ir.Value:
    if not saturates(b, left.dtype):
        return apply(b, "MatMul", left, right, modular=True)
    wide = b.op("MatMul", b.cast(left, ir.DataType.INT32), b.cast(right, ir.DataType.INT32))
    return saturated(b, b.typed(wide, ir.DataType.INT32, None), dtype_of(left))


def _warn_of_shared_squares(b: Builder, weights: ir.Value, transposed: bool) -> None:
    """Warns of a square constant that another MatMul has the other way: OpenVINO's CPU plugin keeps one for both."""
    sizes = () if weights.shape is None else tuple(weights.shape)
    if len(sizes) < 2 or sizes[-1] != sizes[-2] or any(size != 1 for size in sizes[:-2]):
        return
    if is_used_otherwise(weights, "transposed by a MatMul", transposed):
        b.warn(
            "the page is followed: where MatMuls share a square constant that only some of them transpose, "
            "OpenVINO's CPU plugin computes others wrongly"
        )


def _has_few_rows(value: ir.Value, most: int) -> bool:
    sizes = None if value.shape is None else [size for size in value.shape[:-1] if isinstance(size, int)]
    return sizes is not None and len(sizes) == len(value.shape or ()) - 1 and math.prod(sizes) <= most


def _is_vector(value: ir.Value) -> bool:
    return value.shape is not None and len(value.shape) == 1


def _is_moved(value: ir.Value) -> bool:
    """Whether ONNX Runtime may find a Transpose in front of a product, with a Cast between."""
    node = value.producer()
    return node is not None and not node.domain and node.op_type in ("Cast", "Transpose")


def _by_vector(b: Builder, a: ir.Value, vector: ir.Value, transpose_a: bool) -> ir.Value:
    """Emits a product whose first operand ONNX Runtime would transpose, which it gets wrong in front of a vector."""
    rank = rank_of(a, "a")
    if transpose_a and rank > 1:  # a vector from the left is one from the right of what is transposed
        weights = multiplied(b, a, transpose=False)
        return _multiplied(b, vector, a if weights is None else weights)
    column = b.typed(b.op("Unsqueeze", vector, b.constant([1])), vector.dtype, None)
    return b.op("Squeeze", _multiplied(b, a, column), b.constant([-1]))


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


@REGISTRY.lowering("GroupedMatMul", since=17, how="composed")
def grouped_matmul(b: Builder, mat_a: ir.Value, mat_b: ir.Value, offsets: ir.Value | None = None, /) -> ir.Value:
    """MatMul; with offsets a Split into the rows of each group, a MatMul for each, and a Concat."""
    require(mat_a, "mat_a", FLOATS)
    if rank_of(mat_b, "mat_b") != _GROUPED:
        raise ShapeError("mat_b", mat_b.shape, "its rank must be 3.")
    weights = _transposed(b, mat_b, "mat_b")
    rank = rank_of(mat_a, "mat_a")
    if offsets is None:
        if rank != _GROUPED:
            raise ShapeError("mat_a", mat_a.shape, "its rank must be 3 where there are no offsets.")
        return apply(b, "MatMul", mat_a, weights)
    if rank != _GROUPED - 1:
        raise ShapeError("mat_a", mat_a.shape, "its rank must be 2 where there are offsets.")
    assert mat_b.shape is not None
    groups = mat_b.shape[0]
    if not isinstance(groups, int) or not 0 < groups <= _MOST_GROUPS:
        raise ShapeError("mat_b", mat_b.shape, f"the number of groups must be known, 1 to {_MOST_GROUPS}.")

    def formula(rows: ir.Value, matrices: ir.Value) -> ir.Value:
        lengths = _lengths(b, rows, offsets)
        parts = b.op("Split", rows, lengths, outputs=groups, axis=0)
        own = b.op("Split", matrices, outputs=groups, axis=0, num_outputs=groups)
        first = b.constant([0])
        products = [
            b.op("MatMul", part, b.op("Squeeze", matrix, first)) for part, matrix in zip(parts, own, strict=True)
        ]
        return b.op("Concat", *products, axis=0)

    return compute(b, formula, mat_a, weights, kernels=("MatMul",))


def _lengths(b: Builder, rows: ir.Value, offsets: ir.Value) -> ir.Value:
    """Returns how many rows each group has. A group ends where its offset says, and no later than the rows."""
    ends = b.op("Min", int64_vector(b, offsets), b.op("Shape", rows, start=0, end=1))
    starts = b.op("Concat", b.constant([0]), b.op("Slice", ends, b.constant([0]), b.constant([-1])), axis=0)
    return b.op("Sub", ends, starts)
