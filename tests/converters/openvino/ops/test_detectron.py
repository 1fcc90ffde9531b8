"""Detectron's experimental ops against OpenVINO's CPU plugin."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from openvino.utils.node_factory import NodeFactory

from ortconv.errors import ConversionError, UnsupportedAttributeError
from tests.converters.openvino.live import Feed, Refusal, Row, assert_refused, check, check_row, model_of, numbers

F32 = np.float32
BOUND = 64


def node(name: str, attributes: dict[str, Any]) -> Any:
    """Returns a builder of an op of opset 6 over its inputs."""
    kind = f"ExperimentalDetectron{name}"
    return lambda *inputs: list(NodeFactory("opset6").create(kind, [i.output(0) for i in inputs], attributes).outputs())


def grid(**attributes: Any) -> Any:
    return node("PriorGridGenerator", {"flatten": True, "h": 0, "w": 0, "stride_x": 0.0, "stride_y": 0.0} | attributes)


def maps(height: int, width: int, image: tuple[int, int] = (100, 203), dtype: Any = F32) -> list[np.ndarray]:
    """Returns priors, a feature map and an image."""
    priors = numbers(3, 4, low=-30, high=30).astype(dtype)
    return [priors, np.zeros((1, 2, height, width), dtype), np.zeros((1, 2, *image), dtype)]


ROWS = [
    Row(f"prior grid {name}", grid(**attributes), [maps(4, 6), maps(5, 3, (77, 200))], 0)
    for name, attributes in {
        "with all defaults": {},
        "not flat": {"flatten": False},
        "with strides": {"stride_x": 8.0, "stride_y": 0.3},
        "with a stride across": {"stride_x": 8.0},
        "with a stride down, not flat": {"stride_y": 7.7, "flatten": False},
    }.items()
]
ROWS += [
    Row("prior grid of the map's own size", grid(h=4, w=6), [maps(4, 6)], 0),
    Row("prior grid of one cell", grid(), [maps(1, 1)], 0),
    Row("prior grid float16", grid(), [maps(4, 6, dtype=np.float16)], 1),
]


def likely(count: int, steps: int = 0) -> list[np.ndarray]:
    """Returns boxes and their probabilities, rounded into steps where there are any."""
    values = np.random.default_rng([count, steps]).uniform(0, 1, count)
    return [numbers(count, 4), (np.round(values * steps) / steps if steps else values).astype(F32)]


ROWS += [
    Row(f"top {most} of {' or '.join(map(str, counts))} boxes", node("TopKROIs", {"max_rois": most}), feeds, 0)
    for most, counts in ((3, (8,)), (8, (8,)), (1, (5, 9)), (50, (200, 70)), (0, (4,)))
    for feeds in [[likely(count) for count in counts]]
]
ROWS += [
    Row(f"top {most} of {count} boxes of equal probability", node("TopKROIs", {"max_rois": most}), feeds, 0)
    for most, count in ((7, 16), (7, 17), (100, 100), (40, 300))
    for feeds in [[likely(count, steps), likely(count + 2, steps)] for steps in (1, 5)]
]
ROWS += [
    Row(
        "top boxes float16",
        node("TopKROIs", {"max_rois": 7}),
        [[array.astype(np.float16) for array in likely(16)]],
        0,
    ),
]

SIDES = [
    start * (1 + step * 2.0**-22) for start in (56.0, 112.0, 224.0) for step in (-40, -20, -12, -8, -6, -4, -2, 0, 2)
]

SPECIAL = F32([[5, 5, 5, 9], [9, 9, 5, 5], [9, 9, 5, 12], [0, 0, 224, 224], [0, 0, 112, 112], [3, 4, 3.2, 4.1]])


def pyramid(count: int, channels: int, scales: list[int], size: int = 256, seed: int = 0) -> list[np.ndarray]:
    """Returns boxes of all sizes and the feature maps of a pyramid."""
    random = np.random.default_rng([seed, count, size])
    corner = random.uniform(-20, size, (count, 2))
    sides = np.exp(random.uniform(-2, np.log(size * 1.5), (count, 2)))
    boxes = np.concatenate([SPECIAL, np.concatenate([corner, corner + sides], axis=1)]).astype(F32)
    return [boxes] + [
        numbers(1, channels, max(1, size // scale), max(1, size // scale + 1), seed=scale) for scale in scales
    ]


def features(size: int, ratio: int, scales: list[int], aligned: bool) -> Any:
    return node(
        "ROIFeatureExtractor",
        {"output_size": size, "sampling_ratio": ratio, "pyramid_scales": scales, "aligned": aligned},
    )


ROWS += [
    Row(
        f"features to {size}, ratio {ratio}, aligned {aligned}, {levels} levels",
        features(size, ratio, [4 * 2**level for level in range(levels)], aligned),
        [pyramid(count, 3, [4 * 2**level for level in range(levels)]) for count in counts],
        BOUND,
    )
    for size, ratio, levels, counts in (
        (7, 2, 4, (12, 5)),
        (7, 0, 4, (12,)),
        (3, -1, 3, (12, 5)),
        (2, 1, 5, (30, 9)),
        (1, 0, 3, (12,)),
        (1, 2, 1, (12,)),
        (3, 2, 2, (0, 4)),
    )
    for aligned in (False, True)
]
ROWS += [
    Row(
        "features float16",
        features(3, 2, [4, 8], False),
        [[array.astype(np.float16) for array in pyramid(4, 2, [4, 8], 64)]],
        BOUND,
    ),
]

DETECTION: dict[str, Any] = {
    "score_threshold": 0.05,
    "nms_threshold": 0.5,
    "num_classes": 4,
    "post_nms_count": 100,
    "max_detections_per_image": 20,
    "class_agnostic_box_regression": False,
    "max_delta_log_wh": 4.135166645050049,
    "deltas_weights": [10.0, 10.0, 5.0, 5.0],
}


def proposals(
    count: int, *, classes: int = 4, size: float = 100, steps: int = 0, ordered: bool = True, seed: int = 0
) -> list[np.ndarray]:
    """Returns the inputs of a detection; with steps, corners are whole and scores equal now and then."""
    random = np.random.default_rng([seed, count, classes])
    corner = random.uniform(-5, size, (count, 2))
    boxes = np.concatenate([corner, corner + random.uniform(0, size / 2, (count, 2))], axis=1)
    if not ordered:
        boxes = random.uniform(0, size, (count, 4))
    moves, scores = random.normal(0, 1, (count, classes * 4)), random.uniform(0, 1, (count, classes))
    if steps:
        boxes, moves, scores = np.round(boxes), moves * 0, np.round(scores * steps) / steps
    return [array.astype(F32) for array in (boxes, moves, scores, F32([[size, size, 1]]))]


ROWS += [
    Row(
        f"detections {name}",
        node("DetectionOutput", DETECTION | attributes),
        [proposals(count, **data) for count in (12, 30)],
        4,
    )
    for name, attributes, data in (
        ("with usual attributes", {}, {}),
        ("by score", {"max_detections_per_image": 5}, {}),
        ("one", {"max_detections_per_image": 1}, {}),
        ("two of each class", {"post_nms_count": 2}, {}),
        ("all of each class", {"post_nms_count": -1, "max_detections_per_image": 200}, {}),
        ("none of each class", {"post_nms_count": 0}, {}),
        ("of high scores", {"score_threshold": 0.8}, {}),
        ("of scores that nothing reaches", {"score_threshold": 2.0}, {}),
        ("of all scores", {"score_threshold": -1.0, "max_detections_per_image": 200}, {"ordered": False}),
        ("overlap 0", {"nms_threshold": 0.0}, {}),
        ("overlap 1", {"nms_threshold": 1.0}, {}),
        ("with small growth", {"max_delta_log_wh": 0.2, "deltas_weights": [1.0, 2.0, 0.5, 1.0]}, {}),
        ("class agnostic", {"class_agnostic_box_regression": True}, {}),
        ("corners out of order", {}, {"ordered": False}),
        ("equal scores and overlaps", {"nms_threshold": 0.25}, {"steps": 64, "size": 12}),
        ("equal scores, by score", {"max_detections_per_image": 5}, {"steps": 2}),
        ("equal scores of many boxes, by score", {"max_detections_per_image": 30}, {"steps": 1, "size": 900}),
        (
            "narrower than an element",
            {"nms_threshold": 0.0, "deltas_weights": [1.0, 1.0, 1.0, 1.0], "max_detections_per_image": 100},
            {"size": 10},
        ),
        ("background only", {"num_classes": 1}, {"classes": 1}),
    )
]
ROWS += [
    Row(
        "detections float16",
        node("DetectionOutput", DETECTION),
        [[array.astype(np.float16) for array in proposals(12)]],
        4,
    ),
]
ROWS += [
    Row(
        "features of boxes about as large as a level begins",
        features(2, 2, [4, 8, 16, 32], False),
        [[F32([[0, 0, side, side] for side in SIDES]), *pyramid(1, 2, [4, 8, 16, 32])[1:]]],
        BOUND,
    )
]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_matches_openvino(row: Row) -> None:
    check_row(row)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(100))
def test_sweep_of_features_matches_openvino(seed: int) -> None:
    random = np.random.default_rng(seed)
    scales = [4 * 2**level for level in range(int(random.integers(1, 6)))]
    size, ratio = int(random.choice([1, 2, 7])), int(random.choice([0, 1, 2]))
    feed = pyramid(
        int(random.integers(0, 30)), int(random.integers(1, 4)), scales, int(random.choice([64, 256, 700])), seed
    )
    check(model_of(features(size, ratio, scales, bool(random.integers(2))), [feed]), feed, bound=BOUND)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(50))
def test_sweep_of_likeliest_boxes_matches_openvino(seed: int) -> None:
    random = np.random.default_rng(seed)
    count = int(random.integers(1, 400))
    feed = likely(count, steps=int(random.choice([0, 1, 3, 50])))
    check(model_of(node("TopKROIs", {"max_rois": int(random.integers(0, count + 1))}), [feed]), feed, bound=0)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(100))
def test_sweep_of_detections_matches_openvino(seed: int) -> None:
    random = np.random.default_rng(seed)
    classes = int(random.integers(1, 6))
    attributes: dict[str, Any] = {
        "score_threshold": float(random.choice([0, 0.05, 0.3, 0.7, 2])),
        "nms_threshold": float(random.choice([0, 0.1, 0.3, 0.5, 0.7, 1])),
        "num_classes": classes,
        "post_nms_count": int(random.choice([-1, 0, 1, 3, 100])),
        "max_detections_per_image": int(random.choice([1, 5, 20, 100])),
        "class_agnostic_box_regression": bool(random.integers(2)),
        "max_delta_log_wh": float(random.choice([0.5, 4.135])),
        "deltas_weights": [10.0, 10.0, 5.0, 5.0] if random.integers(2) else [1.0, 1.0, 1.0, 1.0],
    }
    ordered, size = bool(random.random() < 0.7), float(random.choice([10, 100, 800]))
    steps = int(random.choice([0, 0, 1, 4]))
    feeds: list[Feed] = [
        proposals(int(random.integers(1, 40)), classes=classes, size=size, steps=steps, ordered=ordered, seed=seed)
        for _ in range(int(random.integers(1, 3)))
    ]
    check(model_of(node("DetectionOutput", attributes), feeds), *feeds, bound=4)


def refused(name: str, build: Any, feed: Feed, error: type[ConversionError], **fields: object) -> Refusal:
    return Refusal(name, build, feed, error, fields)


REFUSALS = [
    refused("a grid of fewer cells", grid(h=3), maps(4, 6), UnsupportedAttributeError, attribute="h", value=3),
    refused("a grid of more cells", grid(w=9), maps(4, 6), UnsupportedAttributeError, attribute="w", value=9),
    refused(
        "more boxes than there are",
        node("TopKROIs", {"max_rois": 9}),
        likely(8),
        UnsupportedAttributeError,
        attribute="max_rois",
        allowed="at most 8",
    ),
    refused(
        "no detections",
        node("DetectionOutput", DETECTION | {"max_detections_per_image": 0}),
        proposals(5),
        UnsupportedAttributeError,
        attribute="max_detections_per_image",
    ),
    refused(
        "fewer than no detections of a class",
        node("DetectionOutput", DETECTION | {"post_nms_count": -2}),
        proposals(5),
        UnsupportedAttributeError,
        attribute="post_nms_count",
    ),
    refused(
        "levels without scales",
        features(3, 2, [4], False),
        pyramid(3, 2, [4, 8], 64),
        UnsupportedAttributeError,
        attribute="pyramid_scales",
    ),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_refused(refusal: Refusal) -> None:
    assert_refused(refusal)


@pytest.mark.parametrize(
    ("build", "feed", "warnings"),
    [
        (grid(), maps(4, 6), []),
        (node("TopKROIs", {"max_rois": 3}), likely(16), []),
        (features(3, 2, [4], False), pyramid(3, 2, [4], 64), ["second output"]),
        (node("DetectionOutput", DETECTION), proposals(5), ["clips boxes at 0 only"]),
    ],
)
def test_differences_from_the_page_are_told(build: Any, feed: Feed, warnings: list[str]) -> None:
    converted = check(model_of(build, [feed]), feed, bound=BOUND)
    told = [text for step in converted.steps for text in step.warnings]
    assert len(told) == len(warnings)
    assert all(warning in text for warning, text in zip(warnings, told, strict=True))


def test_fewer_boxes_than_asked_for_at_run_time_leave_zeros() -> None:
    feeds = [likely(9), likely(4)]
    converted = check(model_of(node("TopKROIs", {"max_rois": 4}), feeds), *feeds, bound=0)
    assert any("are zeros" in text for step in converted.steps for text in step.warnings)
