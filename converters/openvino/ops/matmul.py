"""MatMul and GroupedMatMul."""

from __future__ import annotations

import math

import onnx_ir as ir

from ortconv.converters.openvino.lib.broadcasting import rank_of
from ortconv.converters.openvino.lib.compute_types import (
    FLOATS,
    apply,
    compute,
    require,
    warn_of_float32_integers,
)
from ortconv.converters.openvino.lib.constants import int64_vector
from ortconv.converters.openvino.plugin_bugs.compressed_weights import (
    ODD_ROWS,
    SCALE_PER_INPUT_COLUMN,
    UNEVEN_BLOCKS,
    has_odd_rows,
    has_scale_per_input_column,
    has_uneven_blocks,
)
from ortconv.converters.openvino.plugin_bugs.fake_quantize import ZERO_POINT_ROUNDED, rounds_zero_point
from ortconv.converters.openvino.plugin_bugs.shared_constants import warn_of_shared_square
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.converters.openvino.weights.matmul import matmul, record_operands, transposed_operand
from ortconv.errors import ShapeError
from ortconv.graph.builder import Builder

_GROUPED = 3
"""Rank of grouped matrices."""
_MOST_GROUPS = 4096
"""The largest number of groups: each becomes a node."""


@REGISTRY.lowering("MatMul", how="exact")
def lower_matmul(
    b: Builder, a: ir.Value, c: ir.Value, /, *, transpose_a: bool = False, transpose_b: bool = False
) -> ir.Value:
    """Gemm of two matrices of floats if one is transposed, else MatMul after a Transpose; vectors never are.

    MatMulCompressed or MatMulCodebook of ``org.ortconv`` by compressed weights.
    """
    warn_of_float32_integers(b, a, may_overflow=True)
    warn_of_shared_square(b, c, transposed=transpose_b)
    if rounds_zero_point(a, c, asymmetric=True):
        ZERO_POINT_ROUNDED.warn(b)
    if has_uneven_blocks(c):
        UNEVEN_BLOCKS.warn(b)
    if has_scale_per_input_column(c, transpose=transpose_b):
        SCALE_PER_INPUT_COLUMN.warn(b)
    if has_odd_rows(c, transpose=transpose_b) and not _has_few_rows(a, 4):
        ODD_ROWS.warn(b)
    result = matmul(b, a, c, transpose_a=transpose_a, transpose_b=transpose_b)
    if not transpose_a:
        record_operands(result, a, c, transpose_b=transpose_b)
    return result


def _has_few_rows(value: ir.Value, most: int) -> bool:
    sizes = None if value.shape is None else [size for size in value.shape[:-1] if isinstance(size, int)]
    return sizes is not None and len(sizes) == len(value.shape or ()) - 1 and math.prod(sizes) <= most


@REGISTRY.lowering("GroupedMatMul", since=17, how="composed")
def grouped_matmul(b: Builder, mat_a: ir.Value, mat_b: ir.Value, offsets: ir.Value | None = None, /) -> ir.Value:
    """MatMul; with offsets a Split into the rows of each group, a MatMul for each, and a Concat."""
    require(mat_a, "mat_a", FLOATS)
    if rank_of(mat_b, "mat_b") != _GROUPED:
        raise ShapeError("mat_b", mat_b.shape, "its rank must be 3.")
    weights = transposed_operand(b, mat_b, "mat_b")
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

    return compute(b, formula, mat_a, weights, op_types=("MatMul",))


def _lengths(b: Builder, rows: ir.Value, offsets: ir.Value) -> ir.Value:
    """Returns the number of rows of each group. Offsets are the ends of groups, clipped to the number of rows."""
    ends = b.op("Min", int64_vector(b, offsets), b.op("Shape", rows, start=0, end=1))
    starts = b.op("Concat", b.constant([0]), b.op("Slice", ends, b.constant([0]), b.constant([-1])), axis=0)
    return b.op("Sub", ends, starts)
