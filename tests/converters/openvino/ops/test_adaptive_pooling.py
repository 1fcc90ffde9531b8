"""AdaptiveAvgPool and AdaptiveMaxPool against OpenVINO's CPU plugin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from openvino import opset8

from ortconv.errors import ConversionError, ShapeError, UnsupportedTypeError
from tests.converters.openvino.live import Refusal, Row, assert_refused, check_row, numbers


def average(*goal: int) -> Callable[..., Any]:
    return lambda x: opset8.adaptive_avg_pool(x, np.array(goal, np.int64))


def largest(*goal: int) -> Callable[..., Any]:
    """Returns a builder with both outputs; the plugin makes no 64-bit indices."""
    return lambda x: opset8.adaptive_max_pool(x, np.array(goal, np.int64), "i32").outputs()


CASES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((2, 3, 5), (1,)),
    ((2, 3, 5), (3,)),
    ((1, 2, 7, 6), (3, 4)),
    ((1, 2, 8, 6), (4, 3)),
    ((1, 2, 4, 4), (1, 1)),
    ((1, 2, 3, 3), (5, 7)),
    ((1, 2, 4, 5, 6), (2, 3, 4)),
)


def feeds(shape: tuple[int, ...], dtype: Any = np.float32) -> list[list[np.ndarray]]:
    larger = (*shape[:2], shape[2] + 1, *shape[3:])
    return [[np.round(numbers(*size, dtype=np.float32)).astype(dtype)] for size in (shape, larger)]


ROWS = [Row(f"average of {shape} to {goal}", average(*goal), feeds(shape), 8) for shape, goal in CASES]
ROWS += [Row(f"largest of {shape} to {goal}, with ties", largest(*goal), feeds(shape)) for shape, goal in CASES]
ROWS += [
    Row(f"{name} {dtype}", build, feeds((1, 2, 7, 6), dtype)[:1], 8)
    for name, build in (("average", average(3, 4)), ("average, even", average(7, 3)), ("largest", largest(3, 4)))
    for dtype in ("float16", "float64", "int8", "uint8", "int32")
    if not (name == "largest" and dtype == "uint8")
]
ROWS.append(
    Row(
        "an axis that stays, and no data",
        average(1, 3),
        [[numbers(n, 2, 1, 7)] for n in (0, 2)],
        emits=["MatMul", "Div"],
    )
)
ROWS += [
    Row(
        f"{op.__name__} to a size of the run",
        lambda x, goal, op=op: op(x, goal).output(0),
        [[numbers(1, 2, 7, 6), np.array(goal, np.int64)] for goal in ((3, 4), (2, 6))],
        8,
    )
    for op in (opset8.adaptive_avg_pool,)
]
ROWS.append(
    Row(
        "sizes of the run to others of the run",
        lambda x, goal: opset8.adaptive_avg_pool(x, goal),
        [[numbers(1, 2, 7, n), np.array(goal, np.int64)] for n, goal in ((6, (3, 4)), (5, (2, 5)))],
        8,
    )
)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_matches_openvino(row: Row) -> None:
    check_row(row)


REFUSALS = [
    Refusal(
        "windows of 64-bit integers",
        largest(3, 4),
        [numbers(1, 2, 7, 6, dtype=np.int64)],
        UnsupportedTypeError,
        {"dtype": "i64"},
    ),
    Refusal(
        "a rank that is not known",
        lambda x, goal: opset8.adaptive_avg_pool(x, goal),
        [numbers(1, 2, 7, 6), np.array((3, 4), np.int64)],
        ShapeError,
        {"input": "output_shape"},
        shapes=[[1, 2, 7, 6], [-1]],
    ),
    Refusal("a size of 0", average(0, 4), [numbers(1, 2, 7, 6)], ConversionError, {"problem": "output_shape"}),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_refused(refusal: Refusal) -> None:
    assert_refused(refusal)
