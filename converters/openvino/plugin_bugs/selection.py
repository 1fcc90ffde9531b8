"""Bugs of ops that select: TopK, Unique, NonMaxSuppression, CTCLoss."""

from __future__ import annotations

import numpy as np

from ortconv.converters.openvino.plugin_bugs.bug import Bug, Live

__all__ = [
    "EMPTY_LABELS_COLLAPSED",
    "NO_BOX_SELECTED",
    "STABLE_TOP_K_BY_INDEX",
    "UNIQUE_SLICES_BEHIND_AXES",
    "UNIQUE_SLICES_OF_8_BITS",
    "UNIQUE_WITHOUT_INVERSE",
]

_ROWS = np.array([[2, 2, 2, 2, 2, 2, 2, 2], [1, 1, 1, 2, 2, 1, 2, 2]], np.float32)

STABLE_TOP_K_BY_INDEX = Bug(
    op="TopK",
    case="stable and sorted by index, of equal values",
    fault="may select later ones",
    live=Live(
        lambda ov, x: ov.opset11.topk(x, np.array(2), 0, "max", "index", stable=True).output(1),
        [np.array([1, 3, 1, 1, 2], np.float32)],
        np.array([1, 4], np.int32),
        steady=False,
    ),
)

UNIQUE_WITHOUT_INVERSE = Bug(
    op="Unique",
    case="unsorted, and no consumer of the third output",
    fault="does not fill the other outputs",
    live=Live(
        lambda ov, x: ov.opset10.unique(x, sorted=False).output(1),
        [np.array([2, -1, 2, 0, -1, 5], np.float32)],
        np.array([0, 1, 3, 5]),
        steady=False,
    ),
)

UNIQUE_SLICES_BEHIND_AXES = Bug(
    op="Unique",
    case="an axis behind others of more than one entry",
    fault="may return equal slices",
    live=Live(
        lambda ov, x: ov.opset10.unique(x, 1).output(0), [_ROWS], np.array([[2, 2], [1, 2]], np.float32), steady=False
    ),
)

UNIQUE_SLICES_OF_8_BITS = Bug(
    op="Unique",
    case="slices of 8-bit integers",
    fault="returns indices from other memory",
    live=Live(
        lambda ov, x: ov.opset10.unique(x, 0, False).output(1),
        [np.array([[1, 2, 1], [0, 5, 0], [1, 2, 1]], np.uint8)],
        np.array([0, 1]),
        steady=False,
    ),
)

NO_BOX_SELECTED = Bug(
    op="NonMaxSuppression",
    case="max_output_boxes_per_class 0",
    fault="does not write valid_outputs",
    live=Live(
        lambda ov, boxes, scores: ov.opset9.non_max_suppression(boxes, scores).output(2),
        [np.array([[[0, 0, 1, 1], [0, 0, 2, 2]]], np.float32), np.ones((1, 2, 2), np.float32)],
        np.array([0]),
        steady=False,
    ),
)

EMPTY_LABELS_COLLAPSED = Bug(
    op="CTCLoss",
    case="preprocess_collapse_repeated, and a sequence without labels",
    fault="uses its first label",
    live=Live(
        lambda ov, x: ov.opset4.ctc_loss(
            x, np.array([3]), np.array([[0, 1, 1]]), np.array([0]), preprocess_collapse_repeated=True
        ),
        [np.log(np.array([[[0.5, 0.25, 0.25], [0.25, 0.25, 0.5], [0.25, 0.5, 0.25]]], np.float32))],
        -np.log(np.array([0.25 * 0.5 * 0.25], np.float32)),
    ),
)
