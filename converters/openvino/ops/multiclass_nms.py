"""MulticlassNms."""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.detections import (
    Detections,
    SortBy,
    best_of_each_batch,
    box_limit,
    chosen_boxes,
    detection_outputs,
    is_class,
    marked_boxes,
    pairwise_overlaps,
    sorted_detections,
)
from ortconv.converters.openvino.lib.index_type import IndexType
from ortconv.converters.openvino.lib.loops import iteration
from ortconv.converters.openvino.lib.sizes import counted, size_of
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import UnsupportedAttributeError
from ortconv.graph.builder import Builder

_BOOL, _F32, _I32, _I64 = ir.DataType.BOOL, ir.DataType.FLOAT, ir.DataType.INT32, ir.DataType.INT64
_LEAST = float(np.finfo(np.float32).min)
_END = np.iinfo(np.int64).max


@REGISTRY.lowering("MulticlassNms", since=8)
@REGISTRY.lowering("MulticlassNms", since=9)
def multiclass_nms(
    b: Builder,
    boxes: ir.Value,
    scores: ir.Value,
    roisnum: ir.Value | None = None,
    /,
    *,
    sort_result_type: SortBy = "none",
    sort_result_across_batch: bool = False,
    output_type: IndexType = "i64",
    iou_threshold: float = 0.0,
    score_threshold: float = 0.0,
    nms_top_k: int = -1,
    keep_top_k: int = -1,
    background_class: int = -1,
    normalized: bool = True,
    nms_eta: float = 1.0,
) -> tuple[ir.Value, ...]:
    """NonMaxSuppression, and sorts; a Loop over the boxes if nms_eta lowers the threshold.

    With roisnum, each pair of an image and a class is suppressed as a batch of its own.
    """
    if not 0 <= nms_eta <= 1:
        raise UnsupportedAttributeError("nms_eta", nms_eta, "0 to 1")
    places, each = b.cast(boxes, _F32), b.cast(scores, _F32)
    if roisnum is not None:
        each = _of_images(b, each, roisnum)
    each = _candidates(b, each, nms_top_k, background_class)
    if not normalized:
        places = b.op("Add", places, b.constant([0, 0, 1, 1], np.float32))
    if roisnum is not None:
        places, each = _of_pairs(b, places, each)
    if nms_eta < 1:
        found = _suppressed(b, places, each, b.constant([iou_threshold], np.float32), score_threshold, nms_eta)
    else:
        # Any overlap reaches a threshold of 0: only the best box of each class is selected.
        most = _END if iou_threshold > 0 else 1
        reached = np.clip(np.nextafter(np.float32(iou_threshold), np.float32(-np.inf)), 0, 1)
        # OpenVINO selects scores equal to the threshold; ONNX requires greater ones.
        beyond = b.constant([np.nextafter(np.float32(score_threshold), np.float32(-np.inf))], np.float32)
        chosen = b.op("NonMaxSuppression", places, each, b.constant([most]), b.constant([reached], np.float32), beyond)
        columns = b.op("Split", chosen, outputs=3, axis=1, num_outputs=3)
        batch, class_, box = (b.op("Squeeze", column, b.constant([1])) for column in columns)
        found = Detections(batch, class_, box, b.op("GatherND", each, chosen))
    if roisnum is not None:
        classes = b.op("Shape", boxes, start=0, end=1)
        batch, class_ = b.op("Div", found.batch, classes), b.op("Mod", found.batch, classes)
        found = dataclasses.replace(found, batch=batch, class_=class_)
    kept = best_of_each_batch(b, found, keep_top_k)
    ordered = sorted_detections(b, kept, sort_result_type, sort_result_across_batch)
    return detection_outputs(b, boxes, ordered, output_type, roisnum)


def _of_images(b: Builder, scores: ir.Value, roisnum: ir.Value) -> ir.Value:
    """Returns scores [class, box] per image, [image, class, box]: the lowest float32 for boxes of other images."""
    numbers = b.cast(roisnum, _I64)
    ends = b.op("Unsqueeze", b.op("CumSum", numbers, b.constant(0)), b.constant([1]))
    starts = b.op("Sub", ends, b.op("Unsqueeze", numbers, b.constant([1])))
    places = counted(b, size_of(b, scores, 1))
    own = b.op("And", b.op("GreaterOrEqual", places, starts), b.op("Less", places, ends))
    least = b.constant(_LEAST, np.float32)
    return b.typed(b.op("Where", b.op("Unsqueeze", own, b.constant([1])), scores, least), _F32, [None] * 3)


def _of_pairs(b: Builder, boxes: ir.Value, scores: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Returns the boxes [pair, box, 4] and the scores [pair, 1, box] of each pair of an image and a class."""
    every = b.op("Expand", boxes, b.op("Concat", b.op("Shape", scores), b.constant([4]), axis=0))
    count = b.op("Shape", boxes, start=1, end=2)
    pairs = b.op("Mul", b.op("Shape", scores, start=0, end=1), b.op("Shape", boxes, start=0, end=1))
    places = b.op("Reshape", every, b.op("Concat", pairs, count, b.constant([4]), axis=0))
    each = b.op("Reshape", scores, b.op("Concat", pairs, b.constant([1]), count, axis=0))
    return b.typed(places, _F32, [None, None, 4]), b.typed(each, _F32, [None, 1, None])


def _suppressed(
    b: Builder, boxes: ir.Value, scores: ir.Value, threshold: ir.Value, least: float, eta: float
) -> Detections:
    """Selects a box unless its overlap with a selected one reaches the threshold, which decays by eta down to 0.5.

    As in OpenVINO, a box whose score equals score_threshold is compared with the last selected box only.
    """
    size = b.op("Shape", scores, start=2, end=3)
    values, order = b.op("TopK", scores, size, outputs=2, axis=2)
    overlaps = pairwise_overlaps(b, chosen_boxes(b, boxes, order), True)
    bound = b.constant(least, np.float32)
    good, edge = b.op("GreaterOrEqual", values, bound), b.op("Equal", values, bound)
    last, one = b.constant([-1]), b.constant(1)
    places = b.op("Range", b.constant(0), b.op("Squeeze", size, b.constant([0])), one)
    nothing = b.op("Expand", b.constant(False), b.op("Shape", scores))
    groups = b.op("Concat", b.op("Shape", scores, start=0, end=2), b.constant([1]), axis=0)
    with b.body() as body:
        number = iteration(body, "box")
        kept, latest = body.input("kept", _BOOL, [None] * 3), body.input("latest", _BOOL, [None] * 3)
        limit = body.input("threshold", _F32, [None] * 3)
        place = b.op("Unsqueeze", number, b.constant([0]))
        better = b.op("Not", b.op("Gather", edge, place, axis=2))
        compared = b.op("Or", latest, b.op("And", better, kept))
        close = b.op("And", compared, b.op("GreaterOrEqual", b.op("Gather", overlaps, number, axis=2), limit))
        covered = b.op("ReduceMax", b.op("Cast", close, to=int(_I32)), last, keepdims=1)
        free = b.op("Equal", covered, b.constant(0, np.int32))
        taken = b.op("And", b.op("Gather", good, place, axis=2), free)
        own = b.op("And", taken, b.op("Equal", places, number))
        after, newest = b.op("Or", kept, own), b.op("Or", own, b.op("And", b.op("Not", taken), latest))
        high = b.op("And", taken, b.op("Greater", limit, b.constant(0.5, np.float32)))
        lower = b.op("Where", high, b.op("Mul", limit, b.constant(eta, np.float32)), limit)
        graph = body.graph([b.constant(True), after, newest, lower])
    trips = b.op("Squeeze", size, b.constant([0]))
    start = (nothing, nothing, b.op("Expand", threshold, groups))
    kept, _, _ = b.op("Loop", trips, b.constant(True), *start, outputs=3, body=graph)
    return marked_boxes(b, kept, order, values)


def _candidates(b: Builder, scores: ir.Value, top: int, background_class: int) -> ir.Value:
    """Sets the scores of the background and of all but the best boxes of each class to the lowest float32."""
    least = b.constant(_LEAST, np.float32)
    if top >= 0:
        values, order = b.op("TopK", scores, box_limit(b, top, scores), outputs=2, axis=2)
        scores = b.op("ScatterElements", b.op("Expand", least, b.op("Shape", scores)), order, values, axis=2)
    if background_class >= 0:
        background = b.op("Unsqueeze", is_class(b, scores, background_class), b.constant([1]))
        scores = b.op("Where", background, least, scores)
    return scores
