"""All scores in the order of std::sort.

OpenVINO sorts with it; among more than 16 entries equal scores do not keep their order, which follows from
how the entries are partitioned. This module repeats the steps of GNU's library, except its heapsort fallback for
adversarial sequences, and is needed for equal scores only.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.loops import iteration
from ortconv.graph.builder import Builder

__all__ = ["IN_ORDER", "fully_sorted"]

_F32, _I64 = ir.DataType.FLOAT, ir.DataType.INT64

IN_ORDER = 16
"""Up to this number, entries are sorted by insertion, which is stable."""


def fully_sorted(b: Builder, scores: ir.Value) -> ir.Value:
    """Emits the indices of scores, highest first.

    Args:
        b: The builder.
        scores: float32 [P].

    Returns:
        int64 [P].
    """
    count = b.op("Shape", scores)
    first = b.constant([0])
    total = b.op("Squeeze", count, first)
    places = b.op("Range", b.constant(0), total, b.constant(1))
    bounds = b.op("Concat", first, count, axis=0)
    # Parts with more entries are partitioned at a pivot: higher scores go first.
    with b.body() as body:
        iteration(body)
        order = body.input("order", _I64, [None])
        parts = body.input("bounds", _I64, [None])
        part = b.op("ArgMax", b.op("Cast", _large(b, parts), to=int(_I64)), axis=0, keepdims=1)
        behind = b.op("Add", part, b.constant([1]))
        start, stop = b.op("Gather", parts, part, axis=0), b.op("Gather", parts, behind, axis=0)
        parted, cut = _parted(b, scores, order, places, start, stop)
        end = b.constant([np.iinfo(np.int64).max])
        pieces = (b.op("Slice", parts, first, behind), cut, b.op("Slice", parts, behind, end))
        split = b.typed(b.op("Concat", *pieces, axis=0), _I64, [None])
        graph = body.graph([_some(b, _large(b, split)), parted, split])
    order, _ = b.op("Loop", None, b.op("Greater", total, b.constant(IN_ORDER)), places, bounds, outputs=2, body=graph)
    # The final insertion sort is stable, as is TopK.
    _, sorted_ = b.op("TopK", b.op("Gather", scores, order, axis=0), count, outputs=2, axis=0)
    return b.typed(b.op("Gather", order, sorted_, axis=0), _I64, [None])


def _large(b: Builder, bounds: ir.Value) -> ir.Value:
    """Tells which parts are large."""
    first, last, end = b.constant([1]), b.constant([-1]), b.constant([np.iinfo(np.int64).max])
    lengths = b.op("Sub", b.op("Slice", bounds, first, end), b.op("Slice", bounds, b.constant([0]), last))
    return b.op("Greater", lengths, b.constant([IN_ORDER]))


def _some(b: Builder, conditions: ir.Value) -> ir.Value:
    return b.op("Greater", b.op("ReduceMax", b.op("Cast", conditions, to=int(_I64)), keepdims=0), b.constant(0))


def _parted(
    b: Builder, scores: ir.Value, order: ir.Value, places: ir.Value, start: ir.Value, stop: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """Partitions the entries from start to stop: the pivot moves first; lower and higher entries are swapped.

    Two cursors move inwards. Each stops at entries that belong to the other side, or equal the pivot; the two entries
    are swapped, until the cursors meet.

    Returns:
        The order, and where the second part begins.
    """
    one, first = b.constant([1]), b.constant([0])
    low = b.op("Add", start, one)
    middle = b.op("Add", start, b.op("Div", b.op("Sub", stop, start), b.constant([2])))
    high = b.op("Sub", stop, one)
    pivot = _median(b, b.op("Gather", scores, order, axis=0), (low, middle, high))
    order = _traded(b, order, start, pivot)
    values = b.op("Gather", scores, order, axis=0)
    own = b.op("Gather", values, start, axis=0)
    before_end = b.op("Less", places, stop)
    ups = b.op("And", b.op("And", b.op("Greater", places, start), before_end), b.op("LessOrEqual", values, own))
    downs = b.op(
        "And", b.op("And", b.op("GreaterOrEqual", places, start), before_end), b.op("LessOrEqual", own, values)
    )
    rising, reverse = (b.op("Squeeze", b.op("NonZero", stops), first) for stops in (ups, downs))
    falling = b.op("Slice", reverse, b.constant([-1]), b.constant([np.iinfo(np.int64).min]), first, b.constant([-1]))
    both = b.op("Min", b.op("Shape", rising), b.op("Shape", falling))
    apart = b.op("Less", b.op("Slice", rising, first, both), b.op("Slice", falling, first, both))
    trades = b.op("ReduceSum", b.op("Cast", apart, to=int(_I64)), first, keepdims=1)
    left, right = (b.op("Slice", hand, first, trades) for hand in (rising, falling))
    next_ = b.op("Slice", rising, trades, b.op("Add", trades, one))
    last = b.op("Slice", right, b.op("Max", b.op("Sub", trades, one), first), trades)
    cut = b.op("ReduceMin", b.op("Concat", next_, last, axis=0), first, keepdims=1)
    return b.typed(_traded(b, order, left, right), _I64, [None]), cut


def _median(b: Builder, values: ir.Value, places: tuple[ir.Value, ir.Value, ir.Value]) -> ir.Value:
    """Returns the position of the median of three values; ties as in the library."""
    low, middle, high = places
    first, second, third = (b.op("Gather", values, place, axis=0) for place in places)
    above = b.op("Greater", first, second), b.op("Greater", second, third), b.op("Greater", first, third)
    falling = b.op("Where", above[1], middle, b.op("Where", above[2], high, low))
    rising = b.op("Where", above[2], low, b.op("Where", above[1], high, middle))
    return b.op("Where", above[0], falling, rising)


def _traded(b: Builder, order: ir.Value, one: ir.Value, other: ir.Value) -> ir.Value:
    """Swaps entries at positions with those at other positions."""
    places, sources = b.op("Concat", one, other, axis=0), b.op("Concat", other, one, axis=0)
    return b.op("ScatterElements", order, places, b.op("Gather", order, sources, axis=0), axis=0)
