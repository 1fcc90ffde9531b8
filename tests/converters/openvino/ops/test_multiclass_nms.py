"""Suppression class by class against OpenVINO's CPU plugin."""

from __future__ import annotations

import numpy as np
import pytest
from openvino import opset8, opset9

from tests.converters.openvino.live import Row, check_row, numbers


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
ROWS += [
    Row(
        f"multiclass_nms-9 whose threshold of {threshold} falls by {eta} {variant}",
        lambda b, s, threshold=threshold, eta=eta, variant=variant: list(
            opset9.multiclass_nms(b, s, iou_threshold=threshold, nms_eta=eta, **variant).outputs()
        ),
        [[boxes(2, n), scores(2, 3, n)] for n in (20, 30)],
        bound=16,
    )
    for threshold, eta in ((0.3, 0.9), (0.6, 0.9), (0.8, 0.7), (0.9, 0.5))
    for variant in ({}, {"score_threshold": 0.3, "keep_top_k": 5}, {"nms_top_k": 6, "background_class": 1})
]
ROWS += [
    Row(
        f"multiclass_nms-9 whose threshold falls from {threshold}, of scores that are the least wanted, {least}",
        lambda b, s, threshold=threshold, least=least: list(
            opset9.multiclass_nms(b, s, iou_threshold=threshold, nms_eta=0.7, score_threshold=least).outputs()
        ),
        [[boxes(1, n), np.maximum(scores(1, 2, n), np.float32(least))] for n in (12, 20)],
        bound=16,
    )
    for threshold in (0.2, 0.6, 0.8)
    for least in (0, 0.5, 0.75)
]
ROWS += [
    Row(
        f"multiclass_nms-9 of boxes by class, {images} of images, {extra} {variant}",
        lambda b, s, n, variant=variant, extra=extra: list(
            opset9.multiclass_nms(b, s, n, **{**extra, **variant}).outputs()
        ),
        [[boxes(3, sum(each)), scores(3, sum(each)), np.array(each, dtype)] for each in images],
        bound=16,
    )
    for images, dtype in ((((4, 5), (6, 9)), "int64"), (((3, 0, 8), (0, 12, 1)), "int32"), (((9,), (7,)), "int64"))
    for extra in ({"iou_threshold": 0.2, "score_threshold": 0.1}, {"iou_threshold": 0.6, "nms_eta": 0.7})
    for variant in VARIANTS
]

TOUCHING = np.array(
    [[[0, 0, 1, 1], [1, 0, 2, 1], [5, 5, 6, 6], [0, 0, 0.5, 0.5], [0.9, 0, 1.9, 1], [0, 0, 1, 1]]], np.float32
)
"""Boxes that share an edge with the first, lie far from it, cover a quarter of it, a little of it, and all of it."""
ROWS += [
    Row(
        f"multiclass_nms-9 whose threshold of {threshold} an overlap is, eta {eta}, normalized {normalized}",
        lambda b, s, threshold=threshold, eta=eta, normalized=normalized: list(
            opset9.multiclass_nms(b, s, iou_threshold=threshold, nms_eta=eta, normalized=normalized).outputs()
        ),
        [[TOUCHING, np.array([[[0.9, 0.8, 0.7, 0.6, 0.5, 0.4]]], np.float32)], [boxes(1, 9), scores(1, 1, 9)]],
        bound=16,
    )
    for threshold in (-0.5, 0.0, 0.25, 1.0, 1.5)
    for eta in (1.0, 0.99, 0.0)
    for normalized in (True, False)
]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_matches_openvino(row: Row) -> None:
    check_row(row)
