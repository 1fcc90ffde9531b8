"""Reductions and MatMul against OpenVINO's CPU plugin."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import numpy as np
import openvino
import pytest
from openvino import opset1, opset4

from ortconv.api import conversion
from ortconv.errors import ConversionErrors
from tests.converters.openvino.live import Row, assert_close, check_row, model_of, numbers, run_onnx

REDUCTIONS = {
    "reduce_sum": opset1.reduce_sum,
    "reduce_mean": opset1.reduce_mean,
    "reduce_max": opset1.reduce_max,
    "reduce_min": opset1.reduce_min,
    "reduce_prod": opset1.reduce_prod,
    "reduce_l1": opset4.reduce_l1,
    "reduce_l2": opset4.reduce_l2,
}
LOGICAL = {"reduce_logical_and": opset1.reduce_logical_and, "reduce_logical_or": opset1.reduce_logical_or}
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
# ONNX Runtime has no kernel for these, so they are refused.
EMPTY = np.zeros(0, np.int64)


def axes(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


ROWS = [
    Row(
        f"{name} along {along.tolist()}, keep_dims {keep}",
        lambda x, op=op, along=along, keep=keep: op(x, along, keep),
        [[numbers(2, n, 3, 4, dtype=bool if name in LOGICAL else np.float32)] for n in (5, 6)],
        16,
    )
    for name, op in (REDUCTIONS | LOGICAL).items()
    for along, keep in ((axes(2, 3), True), (axes(-1), False), (axes(0, 1, 2, 3), False), (np.array(1, np.int32), True))
]
ROWS += [
    Row(f"{name} {dtype}", lambda x, op=op: op(x, axes(1)), [[numbers(2, 4, 3, dtype=dtype, low=low, high=3)]])
    for dtype in INTEGERS
    for name, op in REDUCTIONS.items()
    for low in ([1] if dtype[0] == "u" else [-3])
]
ROWS += [
    Row(f"{name} {dtype}", lambda x, op=op: op(x, axes(1)), [[numbers(2, 4, 3, dtype=dtype)]], 16)
    for dtype in ("float16", "float64")
    for name, op in REDUCTIONS.items()
]
ROWS += [
    Row(
        f"reduce_{end} of infinities {dtype} inside a model",
        lambda x, op=op: opset1.subtract(x, op(x, np.array([1]), True)),
        [[np.array([[number, number], [1, number]], dtype)]],
        0,
    )
    for end, op, number in (("max", opset1.reduce_max, -np.inf), ("min", opset1.reduce_min, np.inf))
    for dtype in ("float16", "float32")
]
ROWS += [
    Row(
        "reduce_sum along axes of the run",
        lambda x, a: opset1.reduce_sum(x, a, True),
        [[numbers(2, 3, 4), axes(0, 2)]],
        16,
    ),
    *(
        Row(
            f"{name} of no elements, keep_dims {keep}",
            lambda x, op=op, keep=keep: op(x, axes(-1), keep),
            [[np.zeros((n, 3, 4), bool if name in LOGICAL else np.float32)] for n in (0, 2)],
        )
        for name, op in (REDUCTIONS | LOGICAL).items()
        for keep in (False, True)
    ),
    *(
        Row(
            f"{name} of a scalar {np.dtype(dtype)} along {along}",
            lambda x, op=op, along=along: op(x, np.array(along)),
            [[np.array(-100, np.float32).astype(dtype)]],
        )
        for name, op in (REDUCTIONS | LOGICAL).items()
        for dtype in ((bool,) if name in LOGICAL else (np.float32, np.float16, np.int8, np.int64))
        for along in ([-1], 0)
    ),
    Row("reduce_sum along nothing", lambda x: opset1.reduce_sum(x, EMPTY, True), [[numbers(2, 3)]], emits=["Identity"]),
    *(
        Row(
            f"reduce_{end} of infinities {dtype}",
            lambda x, op=op: op(x, axes(1), True),
            [[np.array([[number, number], [number, 1], [-number, number]], dtype)]],
        )
        for end, op, number in (("max", opset1.reduce_max, -np.inf), ("min", opset1.reduce_min, np.inf))
        for dtype in (np.float32, np.float16)
    ),
    *(
        Row(
            f"{op.__name__} of infinities along axes of the run",
            lambda x, a, op=op: op(x, a, True),
            [[np.full((2, 3), number, np.float32), axes(1)]],
        )
        for op, number in ((opset1.reduce_max, -np.inf), (opset1.reduce_min, np.inf))
    ),
    *(
        Row(
            f"{op.__name__} {dtype} of dynamic sizes",
            lambda x, op=op: op(x, axes(1)),
            [[numbers(2, n, dtype=dtype)] for n in (3, 5)],
        )
        for op in (opset1.reduce_prod, opset1.reduce_sum)
        for dtype in (np.int64, np.uint64)
    ),
    *(
        Row(
            f"{op.__name__} i64 along axes of the run",
            lambda x, a, op=op: op(x, a, True),
            [[numbers(2, 3, dtype=np.int64), axes(1)]],
        )
        for op in (opset1.reduce_prod, opset1.reduce_sum, opset1.reduce_mean)
    ),
    Row("reduce_max of nothing", lambda x: opset1.reduce_max(x, axes(1), True), [[np.zeros((2, 0, 3), np.float32)]]),
    *(
        Row(f"{name} of nothing, {dtype}", lambda x, op=op: op(x, axes(1), False), [[np.zeros((2, 0, 3), dtype)]])
        for name, op in {"sum": opset1.reduce_sum, "mean": opset1.reduce_mean, "prod": opset1.reduce_prod}.items()
        for dtype in ("int8", "int32", "int64", "uint64")
    ),
    Row(
        "reduce_mean of integers of which there may be none",
        lambda x: opset1.reduce_mean(x, axes(1), False),
        [[numbers(2, 3, dtype=np.int32)], [numbers(2, 4, dtype=np.int32)]],
    ),
    Row("reduce_l1 along nothing", lambda x: opset4.reduce_l1(x, EMPTY, True), [[numbers(2, 3)]]),
    *(
        Row(
            f"{name} {dtype} saturates",
            lambda x, op=op: op(x, axes(1)),
            [[np.array([[100, 100, 3], [90, 37, 1], [1, 2, 3]], dtype)]],
        )
        for name, op in REDUCTIONS.items()
        for dtype in ("int8", "uint8")
        if (name, dtype) != ("reduce_prod", "int8")  # of which the plugin has several numbers
    ),
    Row(
        "reduce_sum i8 saturates below",
        lambda x: opset1.reduce_sum(x, axes(1)),
        [[np.array([[-100, -100, -3], [-100, -20, -1]], np.int8)]],
    ),
]
ROWS += [
    Row(
        f"matmul {a} by {c}, transposed {ta} {tb}",
        lambda x, y, ta=ta, tb=tb: opset1.matmul(x, y, ta, tb),
        [[numbers(*a), numbers(*c, seed=1)]],
        32,
    )
    for a, c, ta, tb in (
        ((2, 3), (3, 4), False, False),
        ((3, 2), (3, 4), True, False),
        ((2, 3), (4, 3), False, True),
        ((5, 3, 2), (4, 3), True, True),
        ((2, 1, 4, 3), (5, 3, 2), False, False),
        ((3,), (3,), True, True),
        ((3,), (2, 3, 4), True, False),
        ((2, 4, 3), (3,), False, True),
    )
]
ROWS += [
    Row(
        "matmul of dynamic sizes",
        lambda x, y: opset1.matmul(x, y, False, True),
        [[numbers(2, n, 3), numbers(4, 3)] for n in (5, 6)],
        32,
    ),
    *(
        Row(
            f"matmul of a matrix that is turned by a vector, {what}", build, [[numbers(*shape), numbers(3, seed=1)]], 32
        )
        for what, shape, build in (
            ("by the product", (3, 2), lambda x, y: opset1.matmul(x, y, True, False)),
            ("by the product, in batches", (4, 3, 2), lambda x, y: opset1.matmul(x, y, True, False)),
            ("before", (3, 2), lambda x, y: opset1.matmul(opset1.transpose(x, [1, 0]), y, False, False)),
            (
                "before, in batches",
                (4, 3, 2),
                lambda x, y: opset1.matmul(opset1.transpose(x, [0, 2, 1]), y, False, False),
            ),
        )
    ),
    Row(
        "matmul of a vector by a matrix that is turned",
        lambda x, y: opset1.matmul(y, x, False, True),
        [[numbers(4, 2, 3), numbers(3, seed=1)]],
        32,
    ),
    Row(
        "matmul i32",
        lambda x, y: opset1.matmul(x, y, False, False),
        [[numbers(2, 3, dtype=np.int32), numbers(3, 4, dtype=np.int32)]],
    ),
    *(
        Row(
            f"matmul {dtype} saturates, {np.shape(right)}",
            lambda x, right=right: opset1.matmul(x, right, False, False),
            [[numbers(n, 2, 5, dtype=dtype, low=-20, high=30)] for n in (3, 4)],
        )
        for dtype in ("int8", "uint8")
        for right in (numbers(5, 4, dtype=dtype, low=-20, high=30), numbers(5, dtype=dtype, low=-20, high=30))
    ),
    Row(
        "matmul f16",
        lambda x, y: opset1.matmul(x, y, False, True),
        [[numbers(2, 3, dtype=np.float16), numbers(4, 3, dtype=np.float16)]],
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_matches_openvino(row: Row) -> None:
    check_row(row)


def _truncated_mean(x: np.ndarray) -> np.ndarray:
    means = [abs(total) // 3 * (-1 if total < 0 else 1) for total in (sum(map(int, row)) for row in x)]
    return np.array(means, x.dtype)


WIDE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "reduce_sum": lambda x: np.sum(x, axis=1, dtype=x.dtype),
    "reduce_l1": lambda x: np.sum(np.abs(x), axis=1, dtype=x.dtype),
    "reduce_prod": lambda x: np.prod(x, axis=1, dtype=x.dtype),
    "reduce_mean": _truncated_mean,
    "reduce_max": lambda x: np.max(x, axis=1),
    "reduce_min": lambda x: np.min(x, axis=1),
}


@pytest.mark.parametrize(
    ("name", "dtype"), [(name, dtype) for name in WIDE for dtype in INTEGERS if np.dtype(dtype).itemsize > 1]
)
@pytest.mark.parametrize("keep", [True, False])
def test_wide_integers(name: str, dtype: str, keep: bool) -> None:
    """Integers are reduced in their own type; OpenVINO's CPU plugin reduces in float32, ONNX Runtime in double."""
    oracle = WIDE[name]
    info = np.iinfo(dtype)
    rows = [[info.max // 3, info.max // 3 - 1, 3], [info.max // 2 + 1, 1, 1], [info.min // 3, info.min // 2, 2]]
    if name == "reduce_prod" and dtype[-2:] != "64":
        rows = [[info.max // 4, 2, 1], [5, 7, 2], [info.min // 2, 1, 2]]
    feed = [np.array(rows, dtype)]
    with np.errstate(over="ignore"):
        expected = oracle(feed[0])
    converted = conversion(model_of(lambda x: REDUCTIONS[name](x, axes(1), keep), [feed]))
    assert_close(run_onnx(converted, [feed])[0][0], expected[:, None] if keep else expected, 0)


HALVES = np.array([0, 1, -1, 2**31, 2**31 + 1, 2**32 - 1, 2**32, -(2**31) - 1, 2**40, 2**40 + 2**31, 2**62])
"""Numbers whose lower halves are in another order if they are taken for signed ones."""


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
@pytest.mark.parametrize("along", [(0,), (1,), (0, 2)])
def test_extremes_of_wide_integers(dtype: str, along: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).choice(HALVES, (6, 5, 7)).astype(dtype)
    for name, oracle in (("reduce_max", np.max), ("reduce_min", np.min)):
        for keep in (False, True):
            build = lambda x, name=name, keep=keep: REDUCTIONS[name](x, axes(*along), keep)  # noqa: E731
            for shapes in (None, [[-1, -1, -1]]):
                converted = conversion(model_of(build, [[x]], shapes))
                assert_close(run_onnx(converted, [[x]])[0][0], oracle(x, axis=along, keepdims=keep), 0)


@pytest.mark.parametrize("name", ["reduce_l1", "reduce_max", "reduce_mean", "reduce_min", "reduce_sum"])
@pytest.mark.parametrize("dtype", ["int64", "uint64", "uint32"])
def test_nothing_along_an_axis(name: str, dtype: str) -> None:
    """Maxima and minima of nothing are the bounds of the type, where OpenVINO's CPU plugin has those of int32."""
    bound = {"reduce_max": np.iinfo(dtype).min, "reduce_min": np.iinfo(dtype).max}.get(name, 0)
    for along in ((0,), (0, 2)):
        for keep in (False, True):
            build = lambda x, along=along, keep=keep: REDUCTIONS[name](x, axes(*along), keep)  # noqa: E731
            for shape in ((0, 3, 2), (0, 0, 2)):
                x = np.zeros(shape, dtype)
                expected = np.full_like(x.sum(along, keepdims=keep), bound, dtype)
                for shapes in ([[-1, -1, 2]], None):
                    assert_close(run_onnx(conversion(model_of(build, [[x]], shapes)), [[x]])[0][0], expected, 0)


@pytest.mark.parametrize(("attribute", "axis"), [("true", 0), ("false", 1), ("false", -2)])
def test_axes_that_a_scalar_does_not_have(tmp_path: pathlib.Path, attribute: str, axis: int) -> None:
    source = model_of(lambda x: opset1.reduce_sum(x, axes(0), False), [[np.float32(3).reshape(())]])
    openvino.save_model(source, tmp_path / "model.xml")
    text = (tmp_path / "model.xml").read_text()
    (tmp_path / "model.xml").write_text(text.replace('keep_dims="false"', f'keep_dims="{attribute}"'))
    assert (tmp_path / "model.bin").read_bytes() == axes(0).tobytes()
    (tmp_path / "model.bin").write_bytes(axes(axis).tobytes())
    with pytest.raises(ConversionErrors) as caught:
        conversion(tmp_path / "model.xml")
    (error,) = caught.value.exceptions
    assert f"input axes = [{axis}] is out of range" in str(error)


def test_extremes_of_sizes_stay_reductions() -> None:
    feed = [numbers(2, 3)]
    for factors, op_type in (([1, 1], "ReduceMax"), ([2**31, 2**30], "TopK")):
        build = lambda x, by=factors: opset1.reduce_max(opset1.multiply(opset1.shape_of(x), np.array(by)), axes(0))  # noqa: E731
        converted = conversion(model_of(build, [feed], [[-1, -1]]))
        assert op_type in [node.op_type for node in converted.model.graph]
        assert run_onnx(converted, [feed])[0][0] == max(2 * factors[0], 3 * factors[1])


def test_extremes_of_wide_integers_along_axes_of_the_run_are_warned_about() -> None:
    converted = conversion(model_of(lambda x, a: opset1.reduce_max(x, a, True), [[HALVES.reshape(1, -1), axes(1)]]))
    assert "beyond 2^31" in converted.warnings[-1]


def test_matmul_of_wide_integers() -> None:
    feed = [np.array([[2**40 + 1, 3]], np.int64), np.array([[5], [2**62]], np.int64)]
    converted = conversion(model_of(lambda x, y: opset1.matmul(x, y, False, False), [feed]))
    with np.errstate(over="ignore"):
        assert_close(run_onnx(converted, [feed])[0][0], feed[0] @ feed[1], 0)


def test_difference_of_norms_along_nothing_is_warned_about() -> None:
    feed = [numbers(2, 3)]
    converted = conversion(model_of(lambda x: opset4.reduce_l2(x, EMPTY, True), [feed]))
    assert "identity" in converted.warnings[0]
    assert_close(run_onnx(converted, [feed])[0][0], np.abs(feed[0]), 0)
