"""Suppression of sorted boxes, best first, as OpenVINO's CPU plugin computes it for region proposals."""

from __future__ import annotations

import functools

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.greedy_suppression import greedy
from ortconv.converters.openvino.lib.sizes import counted, joined, size_of
from ortconv.graph.builder import Builder

__all__ = ["unsuppressed"]

_BOOL, _F32, _I64 = ir.DataType.BOOL, ir.DataType.FLOAT, ir.DataType.INT64


def unsuppressed(
    b: Builder, boxes: ir.Value, candidates: ir.Value | None, most: int, threshold: float, extra: int
) -> ir.Value:
    """Emits which boxes remain: NonMaxSuppression, or a Loop if sides are one longer, which ONNX's op does not support.

    The overlap must exceed the threshold. It is computed in float32, in the plugin's order. Boxes whose corners are in
    the wrong order overlap nothing.

    Args:
        b: The builder.
        boxes: float32 corners [N, K, 4], best first.
        candidates: Boxes that count at all, bool [N, K]; None for all.
        most: How many may be left in each row.
        threshold: Overlap beyond which a box is suppressed, 0 or more.
        extra: Added to the distance of two corners for the length of a side, 0 or 1.

    Returns:
        bool [N, K].
    """
    count = size_of(b, boxes, 1)
    shape = joined(b, [size_of(b, boxes, 0), count])
    never = b.constant(-np.inf, np.float32)
    # Scores that keep the order: -1 for the first box, decreasing from box to box.
    ranks = b.op("Cast", b.op("Sub", b.constant(-1), counted(b, count)), to=int(_F32))
    scores = b.op("Expand", ranks, shape) if candidates is None else b.op("Where", candidates, ranks, never)
    by_class = b.op("Unsqueeze", scores, b.constant([1]))
    low, high = b.op("Split", boxes, outputs=2, axis=2, num_outputs=2)
    limit = b.constant([most])
    if extra:
        added, last = b.constant(extra, np.float32), b.constant([2])
        areas = b.op("ReduceProd", b.op("Add", b.op("Sub", high, low), added), last, keepdims=0)
        rule = functools.partial(_over, b, boxes, low, high, areas, threshold, extra)
        chosen, _ = greedy(b, by_class, limit, rule)
    else:
        chosen = b.op(
            "NonMaxSuppression",
            # ONNX's op would exchange corners in the wrong order; a box without area overlaps nothing.
            b.op("Concat", low, b.op("Max", low, high), axis=2),
            by_class,
            limit,
            # No overlap exceeds 1, in float32 as well.
            b.constant([min(threshold, 1.0)], np.float32),
            b.constant([np.finfo(np.float32).min]),
        )
    places = b.op("Gather", b.typed(chosen, _I64, [None, 3]), b.constant([0, 2]), axis=1)
    ones = b.op("Expand", b.constant(1, np.float32), b.op("Shape", places, start=0, end=1))
    none = b.op("Expand", b.constant(0, np.float32), shape)
    return b.typed(b.op("Cast", b.op("ScatterND", none, places, ones), to=int(_BOOL)), _BOOL, [None, None])


def _over(
    b: Builder,
    boxes: ir.Value,
    low: ir.Value,
    high: ir.Value,
    areas: ir.Value,
    threshold: float,
    extra: int,
    index: ir.Value,
) -> ir.Value:
    """Emits which boxes overlap those of an index [N, 1, 1] too much, bool [N, 1, K]."""
    zero, added, last = b.constant(0, np.float32), b.constant(extra, np.float32), b.constant([2])
    own = b.op("GatherND", boxes, index, batch_dims=1)
    own_low, own_high = b.op("Split", own, outputs=2, axis=2, num_outputs=2)
    gap = b.op("Max", b.op("Sub", own_low, high), b.op("Sub", low, own_high))
    touching = b.op("LessOrEqual", b.op("ReduceMax", gap, last, keepdims=0), zero)
    lengths = b.op("Add", b.op("Sub", b.op("Min", own_high, high), b.op("Max", own_low, low)), added)
    common = b.op("ReduceProd", b.op("Max", lengths, zero), last, keepdims=0)
    both = b.op("Add", b.op("GatherND", areas, index, batch_dims=1), areas)
    over = b.op("Greater", b.op("Div", common, b.op("Sub", both, common)), b.constant(threshold, np.float32))
    return b.op("Unsqueeze", b.op("And", over, touching), b.constant([1]))
