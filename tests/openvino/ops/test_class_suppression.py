"""Suppression class by class against OpenVINO's CPU plugin."""

from __future__ import annotations

import numpy as np
import pytest
from openvino import opset8, opset9

from ortconv.errors import ConversionError, UnsupportedAttributeError
from tests.openvino.live import Refusal, Row, assert_refused, check_row, numbers


def boxes(batches: int, count: int) -> np.ndarray:
    """Returns random boxes that overlap in part."""
    corner = numbers(batches, count, 2, low=0, high=4)
    return np.concatenate([corner, corner + numbers(batches, count, 2, low=1, high=3, seed=1)], axis=2)


def scores(*shape: int) -> np.ndarray:
    """Returns random scores, all different."""
    count = int(np.prod(shape))
    return (np.random.default_rng(count).permutation(count).reshape(shape) / count).astype(np.float32)


VARIANTS: tuple[dict[str, object], ...] = (
    {},
    {"score_threshold": 0.3},
    {"sort_result_type": "score"},
    {"sort_result_type": "classid"},
    {"sort_result_type": "score", "sort_result_across_batch": True},
    {"sort_result_type": "classid", "sort_result_across_batch": True},
    {"keep_top_k": 4},
    {"keep_top_k": 4, "sort_result_type": "classid"},
    {"nms_top_k": 3},
    {"background_class": 1, "output_type": "i32"},
    {"normalized": False, "sort_result_type": "score"},
)

ROWS = [
    Row(
        f"{name} {variant}",
        lambda b, s, op=op, variant=variant, extra=extra: list(op(b, s, **{**extra, **variant}).outputs()),
        [[boxes(2, n), scores(2, 3, n)] for n in (7, 9)],
        bound=16,
    )
    for name, op, extra in (
        ("multiclass_nms-8", opset8.multiclass_nms, {"iou_threshold": 0.4}),
        ("multiclass_nms-9", opset9.multiclass_nms, {"iou_threshold": 0.2, "score_threshold": 0.1}),
        ("matrix_nms linear", opset8.matrix_nms, {"decay_function": "linear"}),
        ("matrix_nms gaussian", opset8.matrix_nms, {"decay_function": "gaussian", "post_threshold": 0.2}),
    )
    for variant in VARIANTS
]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_matches_openvino(row: Row) -> None:
    check_row(row)


REFUSALS = [
    Refusal(
        "multiclass_nms with a threshold that adapts",
        lambda b, s: opset8.multiclass_nms(b, s, nms_eta=0.9).outputs(),
        [boxes(1, 4), scores(1, 2, 4)],
        UnsupportedAttributeError,
        {"attribute": "nms_eta", "allowed": "1: a threshold that stays the same"},
    ),
    Refusal(
        "multiclass_nms of boxes by class",
        lambda b, s, n: opset9.multiclass_nms(b, s, n).outputs(),
        [boxes(2, 4), scores(2, 4), np.array([4])],
        ConversionError,
        {"problem": "input roisnum is given"},
    ),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_refused(refusal: Refusal) -> None:
    assert_refused(refusal)
