"""Elementwise ops of one and two operands against OpenVINO's CPU plugin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset1, opset5
from openvino.utils.node_factory import NodeFactory

from ortconv.api import Conversion, conversion
from tests.converters.openvino.live import (
    Row,
    assert_close,
    check,
    check_row,
    model_of,
    numbers,
    run_onnx,
    run_openvino,
)
from tests.processor import with_avx512

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


def _divided_by(name: str, divisor: np.ndarray) -> object:
    return lambda x: getattr(opset1, name)(x, divisor)


def _truncating(a: openvino.Node, c: openvino.Node) -> openvino.Node:
    node = opset1.divide(a, c)
    node.set_attribute("m_pythondiv", False)
    return node


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
    # Only infinities and a relative error of each entry tell: the tail where ONNX Runtime's Sigmoid is 0 or off.
    rows += [
        Row(
            f"log of a sigmoid {np.dtype(dtype)} at {value}",
            lambda x: opset1.log(opset1.sigmoid(x)),
            [[np.full(n, value, dtype)] for n in (2, 3)],
            8,
        )
        for dtype in (F32, np.float16, np.float64)
        for value in (-60, -20, -17.5, -12, -3, 0, 2)
    ]
    rows += [Row(f"{name} f32", getattr(opset1, name), _pair(F32, 1, 4)) for name in BINARY]
    rows += [Row(f"{name} f32", getattr(opset1, name), _pair(F32, -2, 2)) for name in COMPARISONS]
    rows += [
        Row(f"{name} {dtype}", getattr(opset1, name), _pair(dtype, -7, 7) if dtype[0] == "i" else _pair(dtype, 1, 7))
        for dtype in INTEGERS
        for name in (*BINARY, *COMPARISONS)
        if name != "squared_difference" or np.dtype(dtype).itemsize > 1  # see below
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
    rows.append(
        Row(
            "xor of the first opset",
            lambda x, y: NodeFactory("opset1").create("Xor", [x.output(0), y.output(0)], {}),
            [[numbers(n, 3, dtype=bool), numbers(3, dtype=bool, seed=1)] for n in (2, 4)],
        )
    )
    rows += [
        Row(f"logical_not {dtype}", opset1.logical_not, [[np.array([0, 1, 2, 0, 5], dtype)]])
        for dtype in ("float32", "float16", *INTEGERS)
    ]
    rows += [
        Row(
            f"select {dtype}",
            opset1.select,
            [[numbers(n, 1, dtype=bool), numbers(n, 3, dtype=dtype), numbers(3, dtype=dtype, seed=1)] for n in (2, 4)],
        )
        for dtype in ("float32", "float16", *INTEGERS)
    ]
    return rows


def _spread(dtype: str, *, divisor: bool = False) -> list[list[np.ndarray]]:
    """Two feeds of all kinds of numbers of a type, or of divisors for them, zero among these."""
    info = np.iinfo(dtype)
    low, high = (max(info.min, -300), min(info.max, 300)) if not divisor else (max(info.min, -4), 4)
    return [numbers(n, 40, dtype=np.dtype(dtype), low=low, high=high, seed=int(divisor)) for n in (2, 3)]


EIGHT_BITS = [
    Row(f"{name} {dtype} saturates", getattr(opset1, name), [[a, a[:, ::-1] // 2] for a in _spread(dtype)])
    for dtype in ("int8", "uint8")
    for name in ("add", "subtract", "multiply")
    if (name, dtype) != ("multiply", "uint8")  # beyond 32767 the plugin has 0 for some
]
EIGHT_BITS += [
    Row("multiply uint8 saturates", opset1.multiply, [[a, a[:, ::-1] // 4] for a in _spread("uint8")]),
    Row("abs int8 saturates", opset1.abs, [[np.array([-128, 127, -127, 5], np.int8)]]),
    Row("negative int8 saturates", opset1.negative, [[np.array([-128, 127, -127, 5], np.int8)]]),
    *(
        Row(
            f"power {dtype} saturates",
            opset1.power,
            [[np.array([2, 3, 5, 7, 10], dtype), np.array([7, 4, 2, 3, 0], dtype)]],
        )
        for dtype in ("int8", "uint8")
    ),
]
QUOTIENTS = [
    Row(
        f"{name} {dtype} by what may be zero",
        getattr(opset1, name),
        list(zip(_spread(dtype), _spread(dtype, divisor=True), strict=True)),
    )
    for dtype in INTEGERS
    for name in ("divide", "mod", "floor_mod")
]
QUOTIENTS += [
    Row(
        f"{name} {dtype} by {divisor}",
        _divided_by(name, np.array(divisor, dtype)),
        [[a] for a in _spread(dtype)],
    )
    for dtype in INTEGERS
    for name in ("divide", "mod", "floor_mod")
    for divisor in (7, *((-3, -1) if dtype[0] == "i" else ()))
]
QUOTIENTS += [
    Row(
        f"{name} {dtype}, the lowest by -1",
        _divided_by(name, np.array(-1, dtype)),
        [[np.array([np.iinfo(dtype).min, np.iinfo(dtype).min + 1, 0, 7], dtype)]],
    )
    for dtype in ("int8", "int16", "int32")
    for name in ("divide", "mod", "floor_mod")
]
QUOTIENTS += [
    Row("divide whose page truncates", _truncating, [[np.array([7, -7, 7, -7], np.int64), np.array([3, 3, -3, -3])]]),
    Row(
        "power of negative exponents",
        opset1.power,
        [[np.array([2, -2, 1, -1, 0, 3], np.int32), np.array([-1, 3, -5, -3, 2, -2], np.int32)]],
    ),
    Row(
        "mod of a multiple of what is no power of two",
        opset1.mod,
        [[(np.arange(-9, 9) * F32(0.1)).astype(F32), np.full(18, 0.1, F32)]],
        0,
    ),
    Row(
        "mod of floats by zero and infinity",
        opset1.mod,
        [[np.array([7, 1, -np.inf], F32), np.array([0, np.inf, 2], F32)]],
        0,
    ),
    Row("mod of floats by a power of two", lambda x: opset1.mod(x, F32(0.5)), [[numbers(20)]], 0, emits=["Mod"]),
]


@pytest.mark.parametrize("row", _rows() + EIGHT_BITS + QUOTIENTS, ids=str)
def test_matches_openvino(row: Row) -> None:
    check_row(row)


def _wide(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    info = np.iinfo(dtype)
    a = [info.max, info.min, info.max - 1, 7, info.max // 3, info.min + 1, 100, 1]
    c = [3, 2, info.max, info.max, 5, 3, 7, info.max - 2]
    if info.min < 0:
        a, c = [*a, -7, 7, -7, info.min], [*c, 3, -3, -3, 7]
    return np.array(a, dtype), np.array(c, dtype)


@pytest.mark.parametrize("dtype", [dtype for dtype in INTEGERS if np.dtype(dtype).itemsize > 1])
@pytest.mark.parametrize(
    ("name", "oracle"),
    [
        ("add", np.add),
        ("subtract", np.subtract),
        ("multiply", np.multiply),
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


def test_order_of_wide_integers() -> None:
    """ONNX Runtime's Min, Max, Clip and Sign take the lower halves of int64 for signed numbers."""
    x = np.array([0, 1, -1, 2**31, 2**31 + 1, 2**32 - 1, 2**32, -(2**31) - 1, 2**40, 2**40 + 2**31, 2**62])
    feed = [x.reshape(-1, 1), x]
    for pair, oracle in ((opset1.maximum, np.maximum), (opset1.minimum, np.minimum)):
        assert_close(run_onnx(conversion(model_of(pair, [feed])), [feed])[0][0], oracle(*feed), 0)
    low, high = 5, 2**31 + 2**20
    for single, expected in (
        (opset1.sign, np.sign(x)),
        (opset1.relu, np.maximum(x, 0)),
        (lambda x: opset1.clamp(x, low, high), np.clip(x, low, high)),
    ):
        assert_close(run_onnx(conversion(model_of(single, [[x]])), [[x]])[0][0], expected, 0)


@pytest.mark.parametrize(("pair", "oracle"), [(opset1.maximum, np.maximum), (opset1.minimum, np.minimum)])
def test_order_of_sizes_and_wide_integers(pair: Callable[..., Any], oracle: np.ufunc) -> None:
    feed = [numbers(5, 3)]

    def of_sizes(factor: int, other: int, offset: int = 0) -> Conversion:
        def build(x: Any) -> Any:
            scaled = opset1.multiply(opset1.shape_of(x), np.array(factor))
            return pair(opset1.add(scaled, np.array(offset)), np.array([other, 4]))

        return conversion(model_of(build, [feed], [[-1, -1]]))

    wide = ((1, 2**31), (1, 2**33 + 2**31), (1, -(2**32) - 1), (2**31, 4), (-(2**32) + 1, 4), (1, 4, 2**31))
    for factor, other, *offset in wide:
        expected = oracle(np.array([5, 3]) * factor + sum(offset), [other, 4])
        assert_close(run_onnx(of_sizes(factor, other, *offset), [feed])[0][0], expected, 0)
    assert of_sizes(2, 9).model.graph[-1].op_type == {"maximum": "Max", "minimum": "Min"}[pair.__name__]


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


@pytest.mark.parametrize("dtype", ["int8", pytest.param("uint8", marks=with_avx512)])
def test_squared_difference_of_8_bits_saturates(dtype: str) -> None:
    """With dynamic sizes; the plugin has other numbers for static ones."""
    limits = np.iinfo(dtype)
    feeds = [
        [numbers(n, dtype=np.dtype(dtype), seed=seed, low=limits.min, high=limits.max) for seed in (1, 2)]
        for n in (64, 65)
    ]
    check(model_of(opset1.squared_difference, feeds), *feeds)


@pytest.mark.parametrize(
    ("name", "dtype", "text"),
    [
        ("add", "int8", "saturates"),
        ("multiply", "uint8", "saturates"),
        ("squared_difference", "int8", "saturates"),
        ("divide", "int32", "truncated"),
    ],
)
def test_differences_are_told(name: str, dtype: str, text: str) -> None:
    """With a warning where the page says what the plugin does not do; where it leaves that open, in the report."""
    converted = conversion(model_of(getattr(opset1, name), [_wide(dtype)], [[-1], [-1]]))
    told = [note for step in converted.steps for note in (*step.warnings, *step.notes) if text in note]
    assert len(told) == 1
    assert any(text in warning for warning in converted.warnings) == (name == "divide")


@pytest.mark.parametrize("op", [pytest.param(opset1.multiply, marks=with_avx512), opset1.power])
def test_products_that_the_plugin_loses_are_warned_about(op: Callable[..., Any]) -> None:
    feed = [np.array([200, 3], np.uint8), np.array([200, 2], np.uint8)]
    for shapes in ([[-1], [-1]], [[-1], [2]], [[2], [-1]]):
        converted = conversion(model_of(op, [feed], shapes))
        assert "2^15" in converted.warnings[-1]
    assert not any("2^15" in text for text in conversion(model_of(op, [feed])).warnings)
    ((actual,),), ((expected,),) = run_onnx(converted, [feed]), run_openvino(model_of(op, [feed]), [feed])
    assert_close(actual, expected, 0)


def test_what_the_plugin_makes_of_squared_differences_is_warned_about() -> None:
    (wrong,) = conversion(model_of(opset1.squared_difference, [_wide("uint8")])).warnings
    assert "static shape" in wrong


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
@pytest.mark.parametrize("op", [opset1.divide, opset1.add, opset1.subtract, opset1.multiply])
def test_of_two_constants_is_what_openvino_folds(op: Callable[..., Any], dtype: type) -> None:
    left = np.array([-7, -100, 7, 100, 0, 127], dtype)
    right = np.array([2, 100, -2, -1, 5, 127], dtype)
    check_row(Row("constants", lambda x: opset1.concat([op(left, right), x], 0), [[np.array([1], dtype)]]))
