"""SearchSorted and Bucketize."""

from __future__ import annotations

import onnx_ir as ir

from ortconv.converters.openvino.lib.broadcasting import rank_of
from ortconv.converters.openvino.lib.compute_types import (
    INTEGERS,
    apply,
)
from ortconv.converters.openvino.lib.index_type import INDEX_TYPES, IndexType
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.graph.builder import Builder

_BOOL, _I64 = ir.DataType.BOOL, ir.DataType.INT64


@REGISTRY.lowering("SearchSorted", since=15)
def search_sorted(
    b: Builder,
    sorted: ir.Value,
    values: ir.Value,
    /,
    *,
    right_mode: bool = False,
    output_type: IndexType = "i64",
) -> ir.Value:
    """ReduceSum of Less, or of LessOrEqual."""
    rows = sorted  # one row broadcasts as it is
    if sorted.shape is None or len(sorted.shape) != 1:
        rows = b.typed(b.op("Unsqueeze", sorted, b.constant([-2])), sorted.dtype, None)
    columns = b.typed(b.op("Unsqueeze", values, b.constant([-1])), values.dtype, None)
    return _count_below(b, rows, columns, rank_of(values, "values"), not right_mode, output_type)


@REGISTRY.lowering("Bucketize", since=3)
def bucketize(
    b: Builder,
    data: ir.Value,
    buckets: ir.Value,
    /,
    *,
    output_type: IndexType = "i64",
    with_right_bound: bool = True,
) -> ir.Value:
    """ReduceSum of Less, or of LessOrEqual."""
    if buckets.shape is not None and 0 in buckets.shape:  # ONNX Runtime keeps the axis of an empty sum
        return b.op("Expand", b.constant(0, INDEX_TYPES[output_type].numpy()), b.op("Shape", data))
    columns = b.typed(b.op("Unsqueeze", data, b.constant([-1])), data.dtype, None)
    return _count_below(b, buckets, columns, rank_of(data, "data"), with_right_bound, output_type)


def _count_below(
    b: Builder, bounds: ir.Value, values: ir.Value, axis: int, strictly: bool, output_type: IndexType
) -> ir.Value:
    """Counts the bounds below each value along the last axis."""
    if bounds.dtype != values.dtype:
        common = _I64 if {bounds.dtype, values.dtype} <= set(INTEGERS) else ir.DataType.DOUBLE
        bounds, values = b.cast(bounds, common), b.cast(values, common)
    below = apply(b, "Less" if strictly else "LessOrEqual", bounds, values, result=_BOOL)
    to = INDEX_TYPES[output_type]
    # With a negative axis ONNX Runtime keeps the axis of an empty sum.
    return b.op("ReduceSum", b.cast(below, to), b.constant([axis]), keepdims=0)
