"""Greedy non-maximum suppression with any overlap rule."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.loops import iteration
from ortconv.graph.builder import Builder

__all__ = ["greedy", "taken_rows"]

_F32, _I64 = ir.DataType.FLOAT, ir.DataType.INT64


def greedy(
    b: Builder, scores: ir.Value, most: ir.Value, suppressed: Callable[[ir.Value], ir.Value]
) -> tuple[ir.Value, ir.Value]:
    """Emits a Loop that selects the best box of each class (ties: the first) and drops those that it suppresses.

    Args:
        b: The builder.
        scores: float32 [batch, class, box]; -inf for a box that must not be taken.
        most: How many boxes of each class to take, an int64 vector of one entry.
        suppressed: Takes the int64 numbers of the boxes taken last, [batch, class, 1], and emits which boxes they
            suppress, as booleans [batch, class, box] or what broadcasts to that.

    Returns:
        Batch, class and box of each box taken, ordered by batch, class and score; and their scores.
    """
    never = b.constant(-np.inf, np.float32)
    number = b.op("Shape", scores, start=2, end=3)
    last = b.constant([0])
    trips = b.op("Squeeze", b.op("Min", most, number), last)
    boxes = b.op("Range", b.constant(0), b.op("Squeeze", number, last), b.constant(1))
    with b.body() as body:
        iteration(body, "iteration")
        current = body.input("scores", _F32, [None, None, None])
        best = b.op("ReduceMax", current, b.constant([2]), keepdims=1)
        index = b.op("ArgMax", current, axis=2, keepdims=1)
        gone = b.op("Or", b.op("Equal", boxes, index), suppressed(index))
        left = b.op("Where", gone, never, current)
        some = b.op("Greater", b.op("ReduceMax", left, keepdims=0), never)
        flat = b.constant([2])
        graph = body.graph([some, left, b.op("Squeeze", index, flat), b.op("Squeeze", best, flat)])
    _, taken, found = b.op("Loop", trips, b.constant(True), scores, outputs=3, body=graph)
    return taken_rows(b, taken, found, never)


def taken_rows(b: Builder, taken: ir.Value, found: ir.Value, least: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Emits the boxes that a Loop selected whose scores exceed `least`.

    Args:
        b: The builder.
        taken: int64 numbers of boxes, [iteration, batch, class].
        found: Their float32 scores, of the same shape.
        least: float32 that broadcasts to [batch, class, iteration].

    Returns:
        Batch, class and box of each row, ordered by batch, class and iteration; and the scores.
    """
    by_class = b.op("Transpose", found, perm=[1, 2, 0])
    rows = b.op("Transpose", b.op("NonZero", b.op("Greater", by_class, least)), perm=[1, 0])
    which = b.op("Slice", rows, b.constant([0]), b.constant([2]), b.constant([1]))
    box = b.op("GatherND", b.op("Transpose", taken, perm=[1, 2, 0]), rows)
    chosen = b.op("Concat", which, b.op("Unsqueeze", box, b.constant([1])), axis=1)
    return b.typed(chosen, _I64, [None, 3]), b.typed(b.op("GatherND", by_class, rows), _F32, [None])
