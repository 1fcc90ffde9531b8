"""Elementwise ops of one and two operands against OpenVINO's CPU plugin."""

from __future__ import annotations

import numpy as np
import openvino
import pytest
from openvino import opset1, opset5

from ortconv.api import conversion
from tests.openvino.live import Row, assert_close, check, check_row, model_of, numbers, run_onnx

F32 = np.float32
BFLOAT16_UNITS = 4 * 2.0**16
"""Four units in the last place of bfloat16, in those of float32: the plugin rounds neither operands nor result."""
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
UNARY = ("abs", "negative", "sign", "floor", "ceiling")
FLOAT_UNARY = ("exp", "sigmoid", "tanh", "erf")
BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "mod", "floor_mod", "squared_difference")
COMPARISONS = ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal")


def _pair(dtype: object, low: float, high: float) -> list[list[np.ndarray]]:
    """Two feeds of operands that broadcast; the second operand has no zeros."""
    return [
        [
            numbers(n, 3, 1, dtype=dtype, low=low, high=high),
            _nonzero(numbers(4, dtype=dtype, low=low, high=high, seed=1)),
        ]
        for n in (2, 3)
    ]


def _nonzero(array: np.ndarray) -> np.ndarray:
    return np.where(array == 0, array.dtype.type(3), array)


def _bfloat16(name: str) -> object:
    """Runs an op in bfloat16 between float32 Parameters and Results."""

    def build(*parameters: openvino.Node) -> openvino.Node:
        inner = [opset1.convert(parameter, "bf16") for parameter in parameters]
        return opset1.convert(getattr(opset1, name)(*inner), "f32")

    return build


def _rows() -> list[Row]:
    halves = np.array([-4.5, -2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.2, -0.0], F32)
    rows = [Row(f"{name} f32", getattr(opset1, name), [[numbers(n, 5)] for n in (2, 3)]) for name in UNARY]
    rows += [Row(f"{name} f32", getattr(opset1, name), [[numbers(n, 5)] for n in (2, 3)], 8) for name in FLOAT_UNARY]
    rows += [
        Row(f"{name} f32", getattr(opset1, name), [[numbers(n, 5, low=0.1)] for n in (2, 3)])
        for name in ("log", "sqrt")
    ]
    rows += [Row(f"{name} f32", getattr(opset1, name), _pair(F32, 1, 4)) for name in BINARY]
    rows += [Row(f"{name} f32", getattr(opset1, name), _pair(F32, -2, 2)) for name in COMPARISONS]
    rows += [
        Row(f"{name} {dtype}", getattr(opset1, name), _pair(dtype, -7, 7) if dtype[0] == "i" else _pair(dtype, 1, 7))
        for dtype in INTEGERS
        for name in (*BINARY, *COMPARISONS)
        if not _unreliable(name, dtype)
    ]
    rows += [
        Row(f"{name} {dtype}", getattr(opset1, name), [[numbers(3, 4, dtype=dtype)]])
        for dtype in INTEGERS
        for name in UNARY
        if not (name == "negative" and dtype[0] == "u")
    ]
    rows += [
        row
        for name in ("add", "divide", "maximum", "squared_difference")
        for row in (
            Row(f"{name} float16", getattr(opset1, name), _pair(np.float16, 1, 4)),
            Row(f"{name} bf16", _bfloat16(name), _pair(F32, 1, 4), BFLOAT16_UNITS),
        )
    ]
    rows += [
        Row("round half to even", lambda x: opset5.round(x, "half_to_even"), [[halves]], 0),
        Row("round half away from zero", lambda x: opset5.round(x, "half_away_from_zero"), [[halves]], 0),
        Row("round i32", lambda x: opset5.round(x, "half_to_even"), [[numbers(4, dtype=np.int32)]]),
        Row("mod of negative floats", opset1.mod, [[np.array([7, -7, 7, -7], F32), np.array([3, 3, -3, -3], F32)]]),
        Row("floor_mod of negative floats", opset1.floor_mod, [[np.array([7, -7], F32), np.array([-3, 3], F32)]]),
        Row("power f32", opset1.power, [[numbers(n, 3, low=0.1), numbers(3)] for n in (2, 4)], 16),
        Row("power i32", opset1.power, [[numbers(4, dtype=np.int32), np.array([0, 1, 2, 3], np.int32)]]),
        Row("power i64", lambda x: opset1.power(x, np.array([5], np.int64)), [[numbers(4, dtype=np.int64)]]),
        Row("power i64 of the run", opset1.power, [[numbers(4, dtype=np.int64), np.array([0, 1, 2, 3])]]),
        Row("power u64 of the run", opset1.power, [[np.arange(4, dtype=np.uint64), np.arange(4, dtype=np.uint64)]]),
        Row("pdpd add", lambda x, y: opset1.add(x, y, "PDPD"), [[numbers(n, 3, 4), numbers(n, 1)] for n in (2, 3)]),
        Row("add without broadcasting", lambda x, y: opset1.add(x, y, "NONE"), [[numbers(2, 3), numbers(2, 3)]]),
    ]
    rows += [
        Row(name, getattr(opset1, name), [[numbers(n, 3, dtype=bool), numbers(3, dtype=bool, seed=1)] for n in (2, 4)])
        for name in ("logical_and", "logical_or", "logical_xor")
    ]
    rows.append(Row("logical_not", opset1.logical_not, [[numbers(5, dtype=bool)]]))
    rows += [
        Row(
            f"select {dtype}",
            opset1.select,
            [[numbers(n, 1, dtype=bool), numbers(n, 3, dtype=dtype), numbers(3, dtype=dtype, seed=1)] for n in (2, 4)],
        )
        for dtype in ("float32", "float16", *INTEGERS)
    ]
    return rows


def _unreliable(name: str, dtype: str) -> bool:
    """Tells where the plugin saturates, truncates or rounds; `test_wide_integers` covers that."""
    if name == "divide":
        return dtype[0] == "i" or dtype == "uint8"
    return dtype in ("int8", "uint8") and name in ("add", "subtract", "multiply", "squared_difference")


@pytest.mark.parametrize("row", _rows(), ids=str)
def test_matches_openvino(row: Row) -> None:
    check_row(row)


@pytest.mark.parametrize(
    "row",
    [
        Row(
            f"{name} {dtype} saturates",
            getattr(opset1, name),
            [[np.array([100, -100, 90, 3], dtype), np.array([100, 100, -2, 5], dtype)]],
            semantics="runtime",
        )
        for name in ("add", "subtract", "multiply")
        for dtype in ("int8",)
    ]
    + [
        Row(
            f"divide {dtype} truncates",
            opset1.divide,
            [[np.array([7, -7, 7, -7, 6, -6], dtype), np.array([3, 3, -3, -3, 3, -3], dtype)]],
            semantics="runtime",
        )
        for dtype in ("int8", "int16", "int32", "int64")
    ],
    ids=str,
)
def test_runtime_semantics_match_openvino(row: Row) -> None:
    check_row(row)


def _wide(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    info = np.iinfo(dtype)
    a = [info.max, info.min, info.max - 1, 7, info.max // 3, info.min + 1, 100, 1]
    c = [3, 2, info.max, info.max, 5, 3, 7, info.max - 2]
    if info.min < 0:
        a, c = [*a, -7, 7, -7, info.min], [*c, 3, -3, -3, 7]
    return np.array(a, dtype), np.array(c, dtype)


def _truncated_rest(a: np.ndarray, c: np.ndarray) -> np.ndarray:
    return np.fmod(a, c)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize(
    ("name", "oracle"),
    [
        ("add", np.add),
        ("subtract", np.subtract),
        ("multiply", np.multiply),
        ("divide", np.floor_divide),
        ("mod", _truncated_rest),
        ("floor_mod", np.mod),
        ("maximum", np.maximum),
        ("minimum", np.minimum),
        ("less", np.less),
        ("squared_difference", lambda a, c: (a - c) * (a - c)),
    ],
)
def test_wide_integers(name: str, oracle: np.ufunc, dtype: str) -> None:
    """Integers are computed in their own type and wrap; the plugin computes most in float32 or int32."""
    feed = _wide(dtype)
    with np.errstate(over="ignore"):
        expected = oracle(*feed)
    converted = conversion(model_of(getattr(opset1, name), [feed]))
    assert_close(run_onnx(converted, [feed])[0][0], expected, 0)


def test_truncating_division_without_pythondiv() -> None:
    feed = _wide("int64")

    def divide(a: openvino.Node, c: openvino.Node) -> openvino.Node:
        node = opset1.divide(a, c)
        node.set_attribute("m_pythondiv", False)
        return node

    expected = [int(x) // int(y) if (x < 0) == (y < 0) else -(-int(x) // int(y)) for x, y in zip(*feed, strict=True)]
    converted = conversion(model_of(divide, [feed]))
    assert_close(run_onnx(converted, [feed])[0][0], np.array(expected, np.int64), 0)


def test_power_of_wide_integers() -> None:
    feed = [np.array([3, -3, 2**31, 12345678901], np.int64)]
    converted = conversion(model_of(lambda x: opset1.power(x, np.array(5, np.int64)), [feed]))
    with np.errstate(over="ignore"):
        assert_close(run_onnx(converted, [feed])[0][0], feed[0] ** 5, 0)


def test_round_half_away_is_exact_where_openvino_is_not() -> None:
    feed = [np.array([0.49999997, -0.49999997, 8388609.0, -8388611.0, 1.5, -2.5], F32)]
    converted = conversion(model_of(lambda x: opset5.round(x, "half_away_from_zero"), [feed]))
    expected = np.array([0, -0.0, 8388609.0, -8388611.0, 2, -3], F32)
    assert_close(run_onnx(converted, [feed])[0][0], expected, 0)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_squared_difference_of_8_bits_saturates(dtype: str) -> None:
    """With dynamic sizes; the plugin has other numbers for static ones."""
    limits = np.iinfo(dtype)
    feeds = [
        [numbers(n, dtype=np.dtype(dtype), seed=seed, low=limits.min, high=limits.max) for seed in (1, 2)]
        for n in (64, 65)
    ]
    check(model_of(opset1.squared_difference, feeds), *feeds, semantics="runtime")


@pytest.mark.parametrize(
    ("name", "dtype", "text"),
    [
        ("add", "int8", "saturates"),
        ("squared_difference", "uint8", "saturates"),
        ("multiply", "uint8", "saturates"),
        ("divide", "int32", "truncates"),
    ],
)
def test_differences_are_warned_about(name: str, dtype: str, text: str) -> None:
    (warning,) = conversion(model_of(getattr(opset1, name), [_wide(dtype)])).warnings
    assert text in warning
