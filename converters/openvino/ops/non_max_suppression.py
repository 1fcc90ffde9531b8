"""NonMaxSuppression."""

from __future__ import annotations

from typing import Literal

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.constants import int64_vector, one_number
from ortconv.converters.openvino.lib.greedy_suppression import taken_rows
from ortconv.converters.openvino.lib.index_type import IndexType
from ortconv.converters.openvino.lib.selected_boxes import one_float, selected
from ortconv.converters.openvino.plugin_bugs.selection import NO_BOX_SELECTED
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.graph.builder import Builder

_BOOL, _F32, _I64 = ir.DataType.BOOL, ir.DataType.FLOAT, ir.DataType.INT64
_BELOW = np.float32(1 - 2**-24)
"""The factor that gives the next smaller value of a positive float."""

_COUNTS = 2
"""The output with the number of selected boxes."""

Encoding = Literal["corner", "center"]


@REGISTRY.lowering("NonMaxSuppression", since=1, without=["output_type"])
@REGISTRY.lowering("NonMaxSuppression", since=3, until=4)
def non_max_suppression(
    b: Builder,
    boxes: ir.Value,
    scores: ir.Value,
    max_output_boxes_per_class: ir.Value | None = None,
    iou_threshold: ir.Value | None = None,
    score_threshold: ir.Value | None = None,
    /,
    *,
    box_encoding: Encoding = "corner",
    sort_result_descending: bool = True,
    output_type: IndexType = "i64",
) -> ir.Value:
    """NonMaxSuppression, its rows sorted by score."""
    limits = (max_output_boxes_per_class, iou_threshold, score_threshold, None)
    return _suppress(b, boxes, scores, limits, box_encoding, sort_result_descending, output_type)[0]


@REGISTRY.lowering("NonMaxSuppression", since=5)
@REGISTRY.lowering("NonMaxSuppression", since=9)
def non_max_suppression_5(
    b: Builder,
    boxes: ir.Value,
    scores: ir.Value,
    max_output_boxes_per_class: ir.Value | None = None,
    iou_threshold: ir.Value | None = None,
    score_threshold: ir.Value | None = None,
    soft_nms_sigma: ir.Value | None = None,
    /,
    *,
    box_encoding: Encoding = "corner",
    sort_result_descending: bool = True,
    output_type: IndexType = "i64",
) -> tuple[ir.Value, ...]:
    """NonMaxSuppression, its rows sorted by score; a Loop with soft_nms_sigma."""
    limits = (max_output_boxes_per_class, iou_threshold, score_threshold, soft_nms_sigma)
    return _suppress(b, boxes, scores, limits, box_encoding, sort_result_descending, output_type)


def _suppress(
    b: Builder,
    boxes: ir.Value,
    scores: ir.Value,
    limits: tuple[ir.Value | None, ir.Value | None, ir.Value | None, ir.Value | None],
    encoding: Encoding,
    in_order: bool,
    output_type: IndexType,
) -> tuple[ir.Value, ...]:
    most, overlap, least, sigma = limits
    places, each = b.cast(boxes, _F32), b.cast(scores, _F32)
    count = b.constant([0]) if most is None else int64_vector(b, most)
    if one_number(b, count, "max_output_boxes_per_class") == 0 and len(b.node.outputs) > _COUNTS:
        NO_BOX_SELECTED.warn(b)
    lowest = b.constant([0], np.float32) if least is None else one_float(b, least)
    softness = None if sigma is None else b.array(sigma)
    if sigma is None or (softness is not None and not softness.any()):
        chosen = _hard(b, places, each, count, overlap, lowest, encoding)
        found = b.op("GatherND", each, chosen)
    else:
        chosen, found = _soft(b, places, each, count, lowest, one_float(b, sigma), encoding)
    return selected(b, chosen, found, in_order, output_type)


def _hard(
    b: Builder,
    boxes: ir.Value,
    scores: ir.Value,
    count: ir.Value,
    overlap: ir.Value | None,
    lowest: ir.Value,
    encoding: Encoding,
) -> ir.Value:
    """Emits NonMaxSuppression. Any overlap reaches a threshold of 0: only the best box of each class is selected."""
    known = 0 if overlap is None else one_number(b, overlap, "iou_threshold")
    if known is not None:
        threshold = np.float32(known)
        if threshold <= 0:
            count = b.op("Min", count, b.constant([1]))
        reached = b.constant(np.clip(threshold * _BELOW if threshold <= 1 else 1, 0, 1).reshape(1), np.float32)
    else:
        assert overlap is not None
        given = one_float(b, overlap)
        none = b.op("LessOrEqual", given, b.constant([0], np.float32))
        count = b.op("Where", none, b.op("Min", count, b.constant([1])), count)
        below = b.op("Mul", given, b.constant([_BELOW], np.float32))
        most = b.op("Where", b.op("Greater", given, b.constant([1], np.float32)), given, below)
        reached = b.op("Clip", most, b.constant(0, np.float32), b.constant(1, np.float32))
    center = 1 if encoding == "center" else None
    return b.typed(
        b.op("NonMaxSuppression", boxes, scores, count, reached, lowest, center_point_box=center), _I64, [None, 3]
    )


def _soft(
    b: Builder,
    boxes: ir.Value,
    scores: ir.Value,
    count: ir.Value,
    lowest: ir.Value,
    sigma: ir.Value,
    encoding: Encoding,
) -> tuple[ir.Value, ir.Value]:
    """Emits a Loop that selects the best box of each class and decays the scores of those that it overlaps.

    iou_threshold does not count then, as in OpenVINO's CPU plugin.

    Returns:
        Batch, class and box of each row, ordered by these two and the score; and the scores.
    """
    least = b.constant(-np.inf, np.float32)
    shared = _overlaps(b, boxes, encoding)
    exponent = b.op("Div", b.op("Mul", b.op("Mul", shared, shared), b.constant([-0.5], np.float32)), sigma)
    weights = b.typed(b.op("Unsqueeze", b.op("Exp", exponent), b.constant([1])), _F32, [None, 1, None, None])
    number = b.op("Shape", scores, start=2, end=3)
    trips = b.op("Squeeze", b.op("Min", count, number), b.constant([0]))
    classes = b.op("Range", b.constant(0), b.op("Squeeze", number, b.constant([0])), b.constant(1))
    with b.body() as body:
        body.input("iteration", _I64, ())
        body.input("condition", _BOOL, ())
        current = body.input("scores", _F32, [None, None, None])
        best = b.op("ReduceMax", current, b.constant([-1]), keepdims=1)
        index = b.op("ArgMax", current, axis=-1, keepdims=1)
        taken = b.op("Equal", classes, index)
        row = b.op("Unsqueeze", b.op("Cast", taken, to=int(_F32)), b.constant([2]))
        faded = b.op("Squeeze", b.op("MatMul", row, weights), b.constant([2]))
        left = b.op("Where", b.op("Greater", current, lowest), b.op("Mul", current, faded), least)
        graph = body.graph(
            [
                b.constant(True),
                b.op("Where", taken, least, left),
                b.op("Squeeze", index, b.constant([2])),
                b.op("Squeeze", best, b.constant([2])),
            ]
        )
    _, boxes_chosen, scores_chosen = b.op("Loop", trips, b.constant(True), scores, outputs=3, body=graph)
    return taken_rows(b, boxes_chosen, scores_chosen, lowest)


def _overlaps(b: Builder, boxes: ir.Value, encoding: Encoding) -> ir.Value:
    """Returns the intersection over union of any two boxes, [batch, box, box]; 0 for boxes without area."""
    first, second = b.op("Split", boxes, outputs=2, axis=2, num_outputs=2)
    if encoding == "center":
        half = b.op("Mul", second, b.constant(0.5, np.float32))
        low, high = b.op("Sub", first, half), b.op("Add", first, half)
    else:
        low, high = b.op("Min", first, second), b.op("Max", first, second)
    rows = [b.op("Unsqueeze", corner, b.constant([2])) for corner in (low, high)]
    columns = [b.op("Unsqueeze", corner, b.constant([1])) for corner in (low, high)]
    sides = b.op("Sub", b.op("Min", rows[1], columns[1]), b.op("Max", rows[0], columns[0]))
    zero = b.constant(0, np.float32)
    common = b.op("ReduceProd", b.op("Max", sides, zero), b.constant([-1]), keepdims=0)
    area = b.op("ReduceProd", b.op("Sub", high, low), b.constant([-1]), keepdims=1)
    turned = b.op("Transpose", area, perm=[0, 2, 1])
    union = b.op("Sub", b.op("Add", area, turned), common)
    smaller = b.op("Min", area, turned)
    return b.op("Where", b.op("Greater", smaller, zero), b.op("Div", common, union), zero)
