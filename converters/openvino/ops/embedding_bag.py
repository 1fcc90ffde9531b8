"""Reductions of table rows selected by index: EmbeddingBag*, EmbeddingSegmentsSum, SegmentMax."""

from __future__ import annotations

from typing import Literal

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.broadcasting import rank_of
from ortconv.converters.openvino.lib.compute_types import FLOATS, INTEGERS, compute, dtype_of, require, scalar
from ortconv.converters.openvino.lib.constants import one_number
from ortconv.converters.openvino.lib.sizes import numbers_below
from ortconv.converters.openvino.plugin_bugs.empty_inputs import LAST_BAG_EMPTY, LOWEST_OF_16_BITS, NO_DEFAULT_ROW
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import ConversionError
from ortconv.graph.builder import Builder

_F32, _I64 = ir.DataType.FLOAT, ir.DataType.INT64

_UNLIKE = {
    ir.DataType.FLOAT16: "-infinity",
    **dict.fromkeys(
        (ir.DataType.INT16, ir.DataType.UINT32, _I64, ir.DataType.UINT64),
        "the low bits of the lowest number of 32 bits",
    ),
}
"""The fill value of OpenVINO's CPU plugin for types where it differs from the lowest value."""

Reduction = Literal["sum", "mean"]


@REGISTRY.lowering("EmbeddingBagPackedSum", since=3)
def embedding_bag_packed_sum(
    b: Builder, table: ir.Value, indices: ir.Value, per_sample_weights: ir.Value | None = None, /
) -> ir.Value:
    """ReduceSum of a Gather."""
    return embedding_bag_packed(b, table, indices, per_sample_weights)


@REGISTRY.lowering("EmbeddingBagPacked", since=15)
def embedding_bag_packed(
    b: Builder,
    table: ir.Value,
    indices: ir.Value,
    per_sample_weights: ir.Value | None = None,
    /,
    *,
    reduction: Reduction = "sum",
) -> ir.Value:
    """ReduceSum or ReduceMean of a Gather."""
    rows = _rows(b, table, indices, per_sample_weights, 2)
    inner = dtype_of(rows)
    mean, axis = reduction == "mean", b.constant([1])
    if inner in FLOATS:
        reduced = b.op("ReduceMean" if mean else "ReduceSum", rows, axis, keepdims=0)
        return b.cast(b.typed(reduced, inner, None), dtype_of(table))
    total = compute(b, lambda x: b.op("ReduceSum", x, axis, keepdims=0), rows, op_types=("ReduceSum",), modular=True)
    if not mean:
        return total
    count = b.typed(b.op("Shape", indices, start=1, end=2), _I64, [1])
    return b.typed(b.op("Div", total, b.cast(count, inner)), inner, None)


@REGISTRY.lowering("EmbeddingBagOffsetsSum", since=3)
def embedding_bag_offsets_sum(
    b: Builder,
    table: ir.Value,
    indices: ir.Value,
    offsets: ir.Value,
    default_index: ir.Value | None = None,
    per_sample_weights: ir.Value | None = None,
    /,
) -> ir.Value:
    """ScatterND of a Gather, adding."""
    return embedding_bag_offsets(b, table, indices, offsets, default_index, per_sample_weights)


@REGISTRY.lowering("EmbeddingBagOffsets", since=15)
def embedding_bag_offsets(
    b: Builder,
    table: ir.Value,
    indices: ir.Value,
    offsets: ir.Value,
    default_index: ir.Value | None = None,
    per_sample_weights: ir.Value | None = None,
    /,
    *,
    reduction: Reduction = "sum",
) -> ir.Value:
    """ScatterND of a Gather, adding; divided by the counts for mean."""
    if default_index is not None and per_sample_weights is not None:
        LAST_BAG_EMPTY.warn(b)
    segments, count = _segments(b, indices, offsets)
    known = b.array(offsets)
    spare = known is None or bool(known[:1].any())  # for what lies before the first bag
    return _segmented(b, table, indices, segments, count, default_index, per_sample_weights, reduction, spare)


@REGISTRY.lowering("EmbeddingSegmentsSum", since=3)
def embedding_segments_sum(
    b: Builder,
    table: ir.Value,
    indices: ir.Value,
    segment_ids: ir.Value,
    num_segments: ir.Value,
    default_index: ir.Value | None = None,
    per_sample_weights: ir.Value | None = None,
    /,
) -> ir.Value:
    """ScatterND of a Gather, adding."""
    default = b.array(default_index)
    if default is not None and (default < 0).any():
        NO_DEFAULT_ROW.warn(b)
    count = b.op("Reshape", b.cast(num_segments, _I64), b.constant([1]))
    segments = b.cast(segment_ids, _I64)
    ids, number = b.array(segment_ids), b.array(num_segments)
    spare = ids is None or number is None or bool((ids >= number).any())
    if spare:
        segments = b.typed(b.op("Min", segments, count), _I64, segment_ids.shape)
    return _segmented(b, table, indices, segments, count, default_index, per_sample_weights, "sum", spare)


@REGISTRY.lowering("SegmentMax", since=16)
def segment_max(
    b: Builder,
    data: ir.Value,
    segment_ids: ir.Value,
    num_segments: ir.Value | None = None,
    /,
    *,
    fill_mode: Literal["zero", "lowest"] = "zero",
) -> ir.Value:
    """ScatterND that takes the larger."""
    own = dtype_of(data)
    require(data, "data", (*FLOATS, *INTEGERS))
    if fill_mode == "lowest" and own in _UNLIKE:
        LOWEST_OF_16_BITS.warn(b, _UNLIKE[own])
    inner = _F32 if own.bitwidth == 16 and own in FLOATS else own
    places = b.op("Unsqueeze", b.cast(segment_ids, _I64), b.constant([-1]))
    last = b.op("Slice", b.cast(segment_ids, _I64), b.constant([-1]), b.constant([2**63 - 1]))
    count = b.op("Add", last, b.constant([1]))
    wanted = None if num_segments is None else b.op("Reshape", b.cast(num_segments, _I64), b.constant([1]))
    if wanted is not None:  # segments beyond num_segments are dropped below
        count = b.op("Max", count, wanted)
    x = b.cast(data, inner)
    shape = b.op("Concat", count, b.op("Shape", data, start=1), axis=0)
    start = b.op("Expand", b.constant(np.asarray(own.min).astype(inner.numpy())), shape)
    result = b.op("ScatterND", start, places, x, reduction="max")
    if fill_mode == "zero":
        counts = _counts(b, places, count)
        empty = b.op("Equal", _behind(b, counts, rank_of(data, "data") - 1), b.constant(0))

        def zeroed(y: ir.Value) -> ir.Value:
            return b.op("Where", empty, scalar(b, 0, y), y)

        result = compute(b, zeroed, b.typed(result, inner, None), op_types=("Where",), modular=True)
    if wanted is not None:
        result = b.op("Slice", result, b.constant([0]), wanted, b.constant([0]))
    return b.cast(b.typed(result, inner, None), own)


def _rows(b: Builder, table: ir.Value, indices: ir.Value, weights: ir.Value | None, index_rank: int) -> ir.Value:
    """Returns the chosen rows, weighted."""
    inner = _F32 if dtype_of(table).bitwidth == 16 else dtype_of(table)
    x = b.cast(table, inner)
    rows = b.op("Gather", x, b.cast(indices, _I64), axis=0)
    if weights is not None:
        factors = _behind(b, b.cast(weights, inner), rank_of(table, "emb_table") - 1)
        rows = b.op("Mul", rows, factors)
    return b.typed(rows, inner, [None] * (index_rank + rank_of(table, "emb_table") - 1))


def _segments(b: Builder, indices: ir.Value, offsets: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Returns the bag index of each entry, -1 before the first bag, and the number of bags."""
    places = b.op("Unsqueeze", numbers_below(b, b.op("Shape", indices)), b.constant([1]))
    begun = b.op("LessOrEqual", b.cast(offsets, _I64), places)
    bags = b.op("ReduceSum", b.op("Cast", begun, to=int(_I64)), b.constant([1]), keepdims=0)
    segments = b.typed(b.op("Sub", bags, b.constant(1)), _I64, [None])
    return segments, b.op("Shape", offsets)


def _segmented(
    b: Builder,
    table: ir.Value,
    indices: ir.Value,
    segments: ir.Value,
    count: ir.Value,
    default_index: ir.Value | None,
    weights: ir.Value | None,
    reduction: Reduction,
    spare: bool,
) -> ir.Value:
    """Sums or averages the rows of each segment.

    Args:
        b: The builder.
        table: [rows, ...].
        indices: Which row each entry takes.
        segments: The segment of each entry; with `spare`, -1 or `count` where it belongs to none.
        count: How many segments there are, a vector of one entry.
        default_index: The row of segments without entries; None is zeros.
        weights: Of each entry.
        reduction: How rows are combined.
        spare: Whether to sum the entries of no segment in one more, which is left out.
    """
    if weights is not None and reduction == "mean":
        raise ConversionError("input per_sample_weights is given; reduction mean allows none.")
    if default_index is not None:
        one_number(b, default_index, "default_index")
    rows = _rows(b, table, indices, weights, 1)
    inner = dtype_of(rows)
    behind = rank_of(table, "emb_table") - 1
    places = b.op("Unsqueeze", b.cast(segments, _I64), b.constant([-1]))
    room = b.op("Add", count, b.constant([1])) if spare else count
    shape = b.op("Concat", room, b.op("Shape", table, start=1), axis=0)
    zeros = b.op("Expand", scalar(b, 0, rows), shape)
    total = b.typed(b.op("ScatterND", zeros, places, rows, reduction="add"), inner, None)
    counts = _counts(b, places, room)
    if reduction == "mean":
        most = b.typed(b.op("Max", counts, b.constant([1])), _I64, [None])
        total = b.op("Div", total, _behind(b, b.cast(most, inner), behind))
    if default_index is not None:
        index = b.op("Reshape", b.cast(default_index, _I64), b.constant([1]))
        given = b.op("And", b.op("Equal", counts, b.constant(0)), b.op("GreaterOrEqual", index, b.constant(0)))
        row = b.op("Gather", b.cast(table, inner), b.op("Max", index, b.constant([0])), axis=0)
        empty = _behind(b, b.typed(given, ir.DataType.BOOL, [None]), behind)
        either = (b.typed(row, inner, None), b.typed(total, inner, None))
        total = compute(
            b, lambda default, y: b.op("Where", empty, default, y), *either, op_types=("Where",), modular=True
        )
    if spare:
        total = b.op("Slice", total, b.constant([0]), count, b.constant([0]))
    return b.cast(b.typed(total, inner, None), dtype_of(table))


def _counts(b: Builder, places: ir.Value, count: ir.Value) -> ir.Value:
    """Counts how often each segment occurs."""
    ones = b.op("Expand", b.constant(1), b.op("Shape", places, end=-1))
    return b.typed(b.op("ScatterND", b.op("Expand", b.constant(0), count), places, ones, reduction="add"), _I64, [None])


def _behind(b: Builder, value: ir.Value, axes: int) -> ir.Value:
    """Appends axes of size 1."""
    if not axes:
        return value
    rank = rank_of(value, "the rows")
    return b.typed(b.op("Unsqueeze", value, b.constant(list(range(rank, rank + axes)))), value.dtype, None)
