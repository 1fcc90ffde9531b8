"""MatrixNms."""

from __future__ import annotations

from typing import Literal

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.detections import (
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
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.graph.builder import Builder

_F32 = ir.DataType.FLOAT


@REGISTRY.lowering("MatrixNms", since=8)
def matrix_nms(
    b: Builder,
    boxes: ir.Value,
    scores: ir.Value,
    /,
    *,
    sort_result_type: SortBy = "none",
    sort_result_across_batch: bool = False,
    output_type: IndexType = "i64",
    score_threshold: float = 0.0,
    nms_top_k: int = -1,
    keep_top_k: int = -1,
    background_class: int = -1,
    decay_function: Literal["gaussian", "linear"] = "linear",
    gaussian_sigma: float = 2.0,
    post_threshold: float = 0.0,
    normalized: bool = True,
) -> tuple[ir.Value, ...]:
    """TopK of each class, scores decayed by overlaps, and sorts."""
    places, each = b.cast(boxes, _F32), b.cast(scores, _F32)
    count = box_limit(b, nms_top_k, each)
    values, order = b.op("TopK", each, count, outputs=2, axis=2)
    corners = chosen_boxes(b, places, order)
    overlaps = pairwise_overlaps(b, corners, normalized)
    # A box is compared with the better ones only, which come before it.
    rows = b.op("Unsqueeze", b.op("Range", b.constant(0), b.op("Squeeze", count), b.constant(1)), b.constant([1]))
    before = b.op("Less", b.op("Transpose", rows, perm=[1, 0]), rows)
    zero, one = b.constant(0, np.float32), b.constant(1, np.float32)
    with_better = b.op("Where", before, overlaps, zero)
    own_most = b.op("ReduceMax", with_better, b.constant([3]), keepdims=1)
    most = b.op("Transpose", own_most, perm=[0, 1, 3, 2])
    if decay_function == "gaussian":
        difference = b.op("Sub", b.op("Mul", most, most), b.op("Mul", overlaps, overlaps))
        decays = b.op("Exp", b.op("Mul", difference, b.constant(gaussian_sigma, np.float32)))
    else:
        decays = b.op("Div", b.op("Sub", one, overlaps), b.op("Sub", one, most))
    decay = b.op("ReduceMin", b.op("Where", before, decays, one), b.constant([3]), keepdims=0)
    lowered = b.op("Mul", values, decay)
    good = b.op(
        "And",
        b.op("Greater", values, b.constant(score_threshold, np.float32)),
        b.op("Greater", lowered, b.constant(post_threshold, np.float32)),
    )
    if background_class >= 0:
        other = b.op("Not", is_class(b, each, background_class))
        good = b.op("And", good, b.op("Unsqueeze", other, b.constant([1])))
    kept = best_of_each_batch(b, marked_boxes(b, good, order, lowered), keep_top_k)
    if sort_result_type == "classid" and not sort_result_across_batch:
        b.follow("sort_result_type classid: OpenVINO sorts by score if sort_result_across_batch is false")
        sort_result_type = "score"
    ordered = sorted_detections(b, kept, sort_result_type, sort_result_across_batch)
    return detection_outputs(b, boxes, ordered, output_type)
