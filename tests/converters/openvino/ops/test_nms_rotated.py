"""NMSRotated against OpenVINO's CPU plugin."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset13

from ortconv.errors import ConversionError
from tests.converters.openvino.live import Feed, Refusal, Row, assert_refused, check, check_row, model_of

F32 = np.float32


def boxes(batches: int, count: int, scale: float = 1, seed: int = 0) -> np.ndarray:
    """Returns random boxes that overlap in part."""
    random = np.random.default_rng([seed, batches, count])
    parts = (
        random.uniform(0, 4, (batches, count, 2)) * scale,
        random.uniform(0.5, 3, (batches, count, 2)) * scale,
        random.uniform(-7, 7, (batches, count, 1)),
    )
    return np.concatenate(parts, axis=2).astype(F32)


def stacked(batches: int, count: int, scale: float = 1, seed: int = 0) -> np.ndarray:
    """Returns boxes whose corners and edges often coincide."""
    random = np.random.default_rng([seed, batches, count])
    places = random.integers(0, 6, (batches, count, 2)) / 2
    sizes = random.integers(1, 5, (batches, count, 2)) / 2
    angles = random.choice([0, 0.3, np.pi / 4, np.pi / 2], (batches, count, 1))
    return np.concatenate([places * scale, sizes * scale, angles], axis=2).astype(F32)


def scores(*shape: int, steps: int = 0) -> np.ndarray:
    """Returns random scores, rounded into steps where there are any."""
    values = np.random.default_rng([steps, *shape]).uniform(0, 1, shape)
    return (np.round(values * steps) / steps if steps else values).astype(F32)


def suppress(most: int = 4, overlap: float = 0.3, least: float = 0.1, **attributes: Any) -> Any:
    """Returns a builder of the op over boxes and scores."""
    limits = (np.array(most), F32(overlap), F32(least))
    return lambda b, s: opset13.nms_rotated(b, s, *limits, **attributes).outputs()


ROWS = [
    Row(
        f"clockwise {clockwise}, sorted {in_order}, {output_type}",
        suppress(sort_result_descending=in_order, output_type=output_type, clockwise=clockwise),
        [[boxes(2, n), scores(2, 3, n)] for n in (8, 12)],
        0,
    )
    for clockwise in (True, False)
    for in_order in (True, False)
    for output_type in ("i64", "i32")
]
ROWS += [
    Row(
        f"at most {most}, overlap {overlap}, score {least}",
        suppress(most, overlap, least),
        [[boxes(2, 15), scores(2, 2, 15)]],
        0,
    )
    for most, overlap, least in (
        (1, 0.3, 0.0),
        (100, 0.0, 0.0),
        (100, -0.5, 0.0),
        (100, 0.2, 0.5),
        (100, 0.7, -1.0),
        (100, 1.5, 0.0),
        (5, 0.3, 2.0),
    )
]
ROWS += [
    Row(
        f"boxes {scale} times as large",
        suppress(100, 0.3, 0.0),
        [[boxes(2, n, scale), scores(2, 3, n)] for n in (20, 30)],
        0,
    )
    for scale in (0.003, 0.1, 30, 1000)
]
ROWS += [
    Row(
        f"boxes on each other, {scale} times as large, overlap {overlap}",
        suppress(100, overlap, 0.0),
        [[stacked(2, 25, scale), scores(2, 2, 25)]],
        0,
    )
    for scale in (0.01, 1, 50)
    for overlap in (0.0, 0.25, 0.5, 0.75, 1.0)
]
ROWS += [
    Row("scores that are equal", suppress(6, 0.2), [[boxes(2, 20), scores(2, 3, 20, steps=3)]], 0),
    Row("a score that is the threshold", suppress(6, 0.2, 0.5), [[boxes(2, 20), scores(2, 3, 20, steps=2)]], 0),
    Row("one box", suppress(), [[boxes(1, 1), F32([[[0.5]]])]], 0),
    Row(
        "float16",
        lambda b, s: opset13.nms_rotated(b, s, np.array(5), np.float16(0.3), np.float16(0.1)).outputs(),
        [[boxes(2, 9).astype(np.float16), scores(2, 2, 9).astype(np.float16)]],
        0,
    ),
    Row(
        "limits known at run time",
        lambda b, s, most, overlap, least: opset13.nms_rotated(b, s, most, overlap, least).outputs(),
        [[boxes(2, n), scores(2, 2, n), np.array([n // 3]), F32([0.1 * (n // 4)]), F32([0.2])] for n in (8, 12)],
        0,
    ),
]
STACKED = F32(
    [
        [4, 4, 2, 2, 0],
        [4, 4, 2, 2, 0],
        [4, 4, 2, 1, 0.5],
        [4, 4, 2, 1, 0.5],
        [4, 4, 2, 3, 0.5],
        [9, 4, 2, 2, 0],
        [11, 4, 2, 2, 0],
        [9, 4, 0, 2, 0],
        [9, 4, -1, 2, 0],
        [9, 4, -2, -2, 0],
        [9, 4, 2, 2, np.pi / 2],
    ]
)[None]
ROWS += [
    Row(
        f"boxes on each other, beside each other and without area, overlap {overlap}",
        suppress(100, overlap, 0.0),
        [[STACKED, scores(1, 2, STACKED.shape[1])]],
        0,
    )
    for overlap in (0.0, 0.1, 0.4, 0.6, 0.9)
]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_matches_openvino(row: Row) -> None:
    check_row(row)


def drawn(seed: int) -> tuple[openvino.Model, Feed]:
    """Returns a model with random attributes, and data for it."""
    random = np.random.default_rng(seed)
    batches, classes, count = (int(random.integers(1, most)) for most in (3, 4, 40))
    builder = suppress(
        int(random.choice([1, 3, 100])),
        float(random.choice([-0.1, 0, 0.05, 0.1, 0.3, 0.5, 0.7, 0.9, 1])),
        float(random.choice([-1, 0, 0.2, 0.5, 2])),
        sort_result_descending=bool(random.integers(2)),
        output_type=str(random.choice(["i64", "i32"])),
        clockwise=bool(random.integers(2)),
    )
    scale = float(random.choice([0.01, 0.1, 1, 10, 100]))
    drawn_boxes = (boxes if random.integers(2) else stacked)(batches, count, scale, seed)
    feed = [drawn_boxes, scores(batches, classes, count, steps=int(random.choice([0, 5])))]
    return model_of(builder, [feed]), feed


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(100))
def test_sweep_matches_openvino(seed: int) -> None:
    model, feed = drawn(seed)
    check(model, feed, bound=0)


def test_fewer_than_no_box_is_refused() -> None:
    assert_refused(
        Refusal(
            "fewer than no box",
            suppress(-1),
            [boxes(1, 4), scores(1, 2, 4)],
            ConversionError,
            {"problem": "max_output_boxes_per_class = [-1]"},
        )
    )


def test_differences_from_the_page_are_told() -> None:
    feed = [boxes(1, 4), scores(1, 2, 4)]
    converted = check(model_of(suppress(), [feed]), feed, bound=0)
    told = [text for step in converted.steps for text in step.warnings]
    assert [text.partition(":")[0] for text in told] == ["score_threshold", "overlaps"]
