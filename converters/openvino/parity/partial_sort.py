"""The highest scores in the order of std::partial_sort.

OpenVINO sorts with it, and it is not stable: the order of equal scores follows from how a heap is built
and taken apart. Without equal scores TopK gives the same. This module repeats every step of the heap in GNU's
library, and is needed for equal scores only.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.loops import iteration
from ortconv.graph.builder import Builder

__all__ = ["partly_sorted"]

_I64 = ir.DataType.INT64


def partly_sorted(b: Builder, scores: ir.Value, count: ir.Value) -> ir.Value:
    """Emits the indices of the highest scores of each row, highest first.

    Args:
        b: The builder.
        scores: float32 [N, P].
        count: How many of each row, K: an int64 scalar, 1 to P.

    Returns:
        int64 [N, K].
    """
    size = _scalar(b, b.op("Shape", scores, start=1, end=2))
    rows = _scalar(b, b.op("Shape", scores, start=0, end=1))
    with b.body() as body:
        row = iteration(body, "row")
        own = b.typed(b.op("Gather", scores, row, axis=0), scores.dtype, [None])
        order = _sorted_row(b, own, size, count)
        graph = body.graph([b.constant(True), order])
    (orders,) = b.op("Loop", rows, b.constant(True), outputs=1, body=graph)
    return b.typed(orders, _I64, [None, None])


def _scalar(b: Builder, vector: ir.Value) -> ir.Value:
    return b.op("Squeeze", vector, b.constant([0]))


def _sorted_row(b: Builder, scores: ir.Value, size: ir.Value, count: ir.Value) -> ir.Value:
    """Sorts one row: builds a min-heap of the first entries, replaces its top by better ones, and takes it apart."""
    one, two, top = b.constant(1), b.constant(2), b.constant(0)
    half = b.op("Div", count, two)
    heap = b.op("Range", top, count, one)

    def built(step: ir.Value, heap: ir.Value) -> ir.Value:
        place = b.op("Sub", b.op("Sub", half, one), step)
        return _sift(b, scores, heap, place, count, b.op("Gather", heap, place, axis=0))

    def replaced(step: ir.Value, heap: ir.Value) -> ir.Value:
        entry = b.op("Add", count, step)
        lowest = b.op("Gather", heap, top, axis=0)
        better = b.op("Greater", b.op("Gather", scores, entry, axis=0), b.op("Gather", scores, lowest, axis=0))
        with b.body() as yes:
            changed = yes.graph([_sift(b, scores, heap, top, count, entry)])
        with b.body() as no:
            same = no.graph([heap])
        return b.op("If", better, then_branch=changed, else_branch=same)

    def taken(step: ir.Value, heap: ir.Value) -> ir.Value:
        last = b.op("Sub", b.op("Sub", count, one), step)
        entry, lowest = b.op("Gather", heap, last, axis=0), b.op("Gather", heap, b.constant([0]), axis=0)
        behind = b.op("ScatterElements", heap, b.op("Unsqueeze", last, b.constant([0])), lowest, axis=0)
        return _sift(b, scores, behind, top, last, entry)

    for trips, step in ((half, built), (b.op("Sub", size, count), replaced), (b.op("Sub", count, one), taken)):
        with b.body() as body:
            number = iteration(body)
            current = body.input("heap", _I64, [None])
            graph = body.graph([b.constant(True), b.typed(step(number, current), _I64, [None])])
        (heap,) = b.op("Loop", trips, b.constant(True), heap, outputs=1, body=graph)
        b.typed(heap, _I64, [None])
    return heap


def _sift(b: Builder, scores: ir.Value, heap: ir.Value, hole: ir.Value, length: ir.Value, entry: ir.Value) -> ir.Value:
    """Inserts an entry into the heap at a hole.

    The hole first sinks to a leaf, each time in favour of the child with the lower score, the right one of two equals.
    Then the entry rises from there past the higher scores.

    Args:
        b: The builder.
        scores: float32 [P].
        heap: int64 [K], indices of scores.
        hole: The place that is free.
        length: How many of the heap's places count.
        entry: The index that is put in.
    """
    first = b.constant([0])
    nearest = b.constant([1, 2])
    last = b.op("Sub", length, b.constant(1))

    def children(place: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Returns the positions of both children (a single one twice), and whether there is any."""
        doubled = b.op("Mul", place, b.constant(2))
        return b.op("Min", b.op("Add", doubled, nearest), last), b.op("Less", doubled, last)

    start, some = children(hole)
    with b.body() as body:
        iteration(body, "level")
        pair = body.input("children", _I64, [2])
        both = b.op("Gather", scores, b.op("Gather", heap, pair, axis=0), axis=0)
        lower = b.op("ArgMin", both, axis=0, keepdims=0, select_last_index=1)
        child = b.op("Gather", pair, lower, axis=0)
        below, more = children(child)
        graph = body.graph([more, below, child])
    _, path = b.op("Loop", None, some, start, outputs=2, body=graph)
    b.typed(path, _I64, [None])
    risen = b.op("Gather", heap, path, axis=0)
    own = b.op("Gather", scores, entry, axis=0)
    stays = b.op("LessOrEqual", b.op("Gather", scores, risen, axis=0), own)
    above = b.op("ReduceSum", b.op("Cast", stays, to=int(_I64)), first, keepdims=1)
    before = b.op("Slice", risen, first, above)
    behind = b.op("Slice", risen, above, b.constant([np.iinfo(np.int64).max]))
    entries = b.op("Concat", before, b.op("Unsqueeze", entry, first), behind, axis=0)
    places = b.op("Concat", b.op("Unsqueeze", hole, first), path, axis=0)
    return b.op("ScatterElements", heap, places, entries, axis=0)
