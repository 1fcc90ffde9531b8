"""GroupedMatMul against OpenVINO's CPU plugin, which wants constant weights, and against its definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset1, opset17

from ortconv.api import conversion
from ortconv.errors import ShapeError, UnsupportedTypeError
from tests.converters.openvino.live import (
    Refusal,
    Row,
    assert_close,
    assert_refused,
    check,
    check_row,
    model_of,
    numbers,
    run_onnx,
)

BOUND = 16
WEIGHTS = numbers(3, 5, 8, seed=1)
WITH_OFFSETS = ["Concat", "MatMul", "MatMul", "MatMul", "Split"]


def grouped(weights: np.ndarray = WEIGHTS, offsets: Any = None) -> Callable[..., Any]:
    fixed = [] if offsets is None else [np.array(offsets)]
    return lambda rows, *given: opset17.grouped_matmul(rows, opset1.constant(weights), *(given or fixed))


ROWS = [
    Row("matrices in groups", grouped(), [[numbers(3, n, 8)] for n in (2, 4)], BOUND, emits=["MatMul"]),
    Row("rows in groups", grouped(offsets=[3, 5, 7]), [[numbers(7, 8)]], BOUND, emits=WITH_OFFSETS),
    Row("a group without rows", grouped(offsets=[3, 3, 7]), [[numbers(7, 8)]], BOUND),
    Row("groups without rows at both ends", grouped(offsets=[0, 7, 7]), [[numbers(7, 8)]], BOUND),
    Row("an end behind the rows", grouped(offsets=[3, 9, 12]), [[numbers(7, 8)]], BOUND),
    Row("one group", grouped(WEIGHTS[:1], [4]), [[numbers(4, 8)]], BOUND),
    Row(
        "offsets of the run",
        grouped(),
        [[numbers(n, 8), np.array(ends, np.int32)] for n, ends in ((7, [3, 5, 7]), (9, [0, 8, 9]))],
        BOUND,
    ),
    Row("64-bit offsets of the run", grouped(), [[numbers(7, 8), np.array([2, 2, 7])]], BOUND),
    Row("f16", grouped(WEIGHTS.astype(np.float16), [3, 5, 7]), [[numbers(7, 8, dtype=np.float16)]], 2),
    Row("f64", grouped(WEIGHTS.astype(np.float64), [3, 5, 7]), [[numbers(7, 8, dtype=np.float64)]], BOUND),
]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_matches_openvino(row: Row) -> None:
    check_row(row)


@pytest.mark.parametrize("offsets", [None, [3, 5, 7]], ids=["matrices", "rows"])
def test_compressed_weights(offsets: list[int] | None) -> None:
    codes = np.random.default_rng(0).integers(0, 255, (3, 5, 8))
    scale = numbers(3, 5, 1, low=0.01, high=0.1)

    def build(rows: Any) -> Any:
        stored = openvino.op.Constant(openvino.Type.u8, openvino.Shape([3, 5, 8]), codes.ravel().tolist())
        shifted = opset1.subtract(opset1.convert(stored, "f32"), np.float32(128))
        weights = opset1.multiply(shifted, opset1.constant(scale))
        return opset17.grouped_matmul(rows, weights, *([] if offsets is None else [np.array(offsets)]))

    feed = [numbers(3, 2, 8) if offsets is None else numbers(7, 8)]
    check(model_of(build, [feed]), feed, bound=BOUND)


def test_weights_of_the_run() -> None:
    """The plugin does not run these."""
    feed = [numbers(7, 8), WEIGHTS, np.array([3, 3, 7])]
    (actual,) = run_onnx(conversion(model_of(opset17.grouped_matmul, [feed], [[-1, 8], [3, -1, -1], [3]])), [feed])[0]
    rows, weights = (array.astype(np.float64) for array in feed[:2])
    expected = np.concatenate([rows[:3] @ weights[0].T, rows[3:] @ weights[2].T])
    assert_close(actual, expected.astype(np.float32), BOUND)


REFUSALS = [
    Refusal(
        "integers",
        grouped(WEIGHTS.astype(np.int32), [3, 5, 7]),
        [numbers(7, 8, dtype=np.int32)],
        UnsupportedTypeError,
        {"input": "mat_a", "dtype": "i32"},
    ),
    Refusal(
        "an unknown number of groups",
        opset17.grouped_matmul,
        [numbers(7, 8), WEIGHTS, np.array([3, 5, 7])],
        ShapeError,
        {"input": "mat_b", "problem": "the number of groups must be known"},
        shapes=[[7, 8], [-1, 5, 8], [-1]],
    ),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_refused(refusal: Refusal) -> None:
    assert_refused(refusal)
