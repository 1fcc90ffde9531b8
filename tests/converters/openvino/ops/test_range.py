"""Range against OpenVINO's CPU plugin."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset1, opset3, opset4, opset8, opset13

from ortconv.api import conversion
from tests.converters.openvino.live import Row, assert_close, check_row, model_of, numbers, run_onnx

F32, F16, F64, I32, I64 = np.float32, np.float16, np.float64, np.int32, np.int64
BOUNDS = [
    (-300.5, 400, 77.25),
    (-2.5, 3, 0.5),
    (0.1, 100, 0.1),
    (0.9, 5.9, 1),
    (1, 2, 0.1),
    (1, 0, -0.1),
    (0, 100, 3),
    (0.5, 0.5, 1),
    (7, 0, -2),
]
"""Start, stop and step; of some the quotient is an integer in float32 only."""
TYPES = ["f32", "f16", "f64", "bf16", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"]


def scalars(values: tuple[float, ...], *dtypes: Any) -> list[np.ndarray]:
    return [np.array(value).astype(dtypes[place % len(dtypes)]) for place, value in enumerate(values)]


def _up_to_a_size(x: openvino.Node) -> openvino.Node:
    size = opset1.squeeze(
        opset8.slice(opset3.shape_of(x, "i32"), np.array([1]), np.array([2]), np.array([1])), np.array([0])
    )
    return opset13.range(np.array(0, I32), size, np.array(1, I32), "i32")


def leads_on(feed: list[np.ndarray]) -> bool:
    """Tells whether a step leads from the start to the stop."""
    start, stop, step = (float(each) for each in feed)
    return step != 0 and (stop - start) / step >= 0


ROWS = [
    Row(
        f"of {', '.join(np.dtype(dtype).name for dtype in dtypes)} as {to}",
        lambda a, b, c, to=to: opset13.range(a, b, c, to),
        [feed for values in BOUNDS if leads_on(feed := scalars(values, *dtypes))],
        bound=0,
        avx512=to == "bf16",
    )
    for to in TYPES
    for dtypes in ((F32,), (F16,), (F64,), (I64,), (I32,), (I32, F32, I64), (F32, I32, I64))
]
ROWS += [
    Row(
        f"by {step} from {start} as {to}",
        lambda stop, start=start, step=step, to=to: opset13.range(np.array(start, F32), stop, np.array(step, F32), to),
        [[np.array(np.copysign(stop, step), F32)] for stop in (5, 5.3, 7.1, 3.05)],
        bound=0,
    )
    for to in ("f32", "i64")
    for start in (0, 0.1)
    for step in (1, 0.5, 0.1, 3, -1)
]
ROWS += [
    Row(
        f"of constants as {to}",
        lambda x, to=to: [opset13.range(*scalars((1.7, 9.2, 2.6), F32), to), opset1.relu(x)],
        [[numbers(2)]],
    )
    for to in ("i32", "i64", "u8", "f32")
]
ROWS += [
    Row(
        f"of opset 1, {np.dtype(dtype).name}",
        opset1.range,
        [feed for values in BOUNDS if leads_on(feed := scalars(values, dtype))],
        bound=0,
    )
    for dtype in (F32, F16, F64, I32, I64)
]
ROWS += [
    Row(f"range-4 {dtype}", lambda a, z, s, t=target: opset13.range(a, z, s, t), [[np.array(v, dtype) for v in bounds]])
    for dtype, target, bounds in (
        ("float32", "f32", (1, 3.2, 0.5)),
        ("float32", "f16", (1, 3, 0.5)),
        ("int32", "i32", (23, 2, -3)),
        ("int64", "i64", (2, 23, 3)),
        ("int64", "f32", (2, 23, 3)),
        ("int32", "u8", (2, 23, 3)),
    )
]
ROWS.append(Row("range-1", lambda z: opset1.range(np.array(0), z, np.array(2)), [[np.array(n)] for n in (5, 8)]))
ROWS.append(
    Row("range u64", lambda a, z, s: opset4.range(a, z, s, "u64"), [[np.array(n, np.uint64) for n in (1, 9, 2)]])
)
ROWS.append(Row("up to a size", _up_to_a_size, [[numbers(2, n)] for n in (3, 4)]))


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_range_matches_openvino(row: Row) -> None:
    check_row(row)


@pytest.mark.parametrize("to", ["f32", "i32"])
def test_range_that_steps_away_from_its_end_is_empty(to: str) -> None:
    """As the page has it; OpenVINO's CPU plugin steps on."""
    feed = scalars((5, 1, 1), F32)
    converted = conversion(model_of(lambda a, b, c: opset13.range(a, b, c, to), [feed]))
    assert_close(run_onnx(converted, [feed])[0][0], np.zeros(0, {"f32": F32, "i32": I32}[to]), 0)


def test_range_over_a_size_gives_no_warning() -> None:
    def graph(x: Any) -> Any:
        size = opset1.gather(opset1.shape_of(x), np.array(0), np.array(0))
        return opset13.range(np.array(0), opset1.add(size, np.array(1)), np.array(1), "i64")

    feed = [numbers(3, 2)]
    converted = conversion(model_of(graph, [feed, [numbers(5, 2)]]))
    assert converted.warnings == ()
    assert_close(run_onnx(converted, [feed])[0][0], np.arange(4), 0)
