"""Convert to and from types of four and eight bits, f64 and boolean, against OpenVINO's CPU plugin."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import openvino
import pytest
from openvino import opset1, opset16

from ortconv.api import conversion
from ortconv.errors import UnsupportedTypeError
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
    run_openvino,
)
from tests.processor import with_avx512

F32 = np.float32
HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
with np.errstate(over="ignore", invalid="ignore"):
    SINGLES = np.concatenate(
        [
            HALVES.astype(np.float32),
            np.nextafter(HALVES.astype(np.float32), np.copysign(np.float32(np.inf), HALVES)),  # away from zero
            np.random.default_rng(0).integers(0, 1 << 32, 50_000, np.uint64).astype(np.uint32).view(np.float32),
        ]
    )
    SINGLES = SINGLES[~np.isnan(SINGLES)]  # of which there are many
SPECIAL = [np.inf, -np.inf, np.nan, 0.0, -0.0, 1.5, -2.7]


def to(element: str) -> object:
    return lambda x: opset1.convert(x, element)


ROWS = [
    Row(f"{data.dtype} to {element}", to(element), [[data]], 0)
    for element in ("f8e4m3", "f8e5m2", "i4", "u4")
    for data in (HALVES, SINGLES, *(np.arange(-100, 101).astype(kind) for kind in ("int8", "uint8", "int32", "int64")))
]
ROWS += [
    Row(f"{np.dtype(kind)} to {element}", to(element), [[np.arange(256, dtype=np.uint8).view(kind)]], 0)
    for kind in (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)
    for element in ("f32", "f16")
]
ROWS += [
    Row(f"{np.dtype(kind)} to {element}", to(element), [[np.arange(low, low + 16).astype(kind)]], 0)
    for kind, low in ((ml_dtypes.int4, -8), (ml_dtypes.uint4, 0))
    for element in ("f32", "i32", "u8")
]
ROWS += [
    Row(f"{kind} to boolean", to("boolean"), [[np.array(SPECIAL, kind)]]) for kind in ("float32", "float16", "float64")
]
ROWS += [
    Row(f"{source} to {element}", to(element), [[np.array(SPECIAL, source)]], 0)
    for source, element in itertools.product(("float32", "float16", "float64"), ("f32", "f16", "f64"))
    if source == "float64" or element == "f64"
    if (source, element) != ("float64", "f64")
]
ROWS += [
    Row(f"f64 beyond the bounds of {element}", to(element), [[np.array([1e30, -1e30, 300, -300, 3e9, -3e9, 1.9])]])
    for element in ("i8", "u8", "i16", "u16", "i32", "i4", "u4")
]
ROWS += [
    Row(
        f"{element} in another shape",
        lambda x, e=element: opset1.reshape(opset1.convert(x, e), np.array([2, -1]), False),
        [[np.arange(8, dtype=F32).reshape(4, 2)]],
        0,
    )
    for element in ("i4", "u4")
]
ROWS += [
    Row(f"{np.dtype(kind)} {how}", build, [[np.arange(8).reshape(4, 2).astype(kind)]], 0)
    for kind in (ml_dtypes.int4, ml_dtypes.uint4)
    for how, build in {
        "returned as it is": lambda x: x,
        "returned as it is and as f32": lambda x: [x, opset1.convert(x, "f32")],
        "through an Identity": opset16.identity,
    }.items()
]
FRACTIONS = np.array([-3e9, -200, -3.7, -1, -0.5, 0.5, 3.7, 127.9, 128, 255.5, 256, 300, 7e4, 3e9])
ROWS += [
    Row(f"{kind} to {element}, of dynamic sizes too", to(element), [[data], [data[:5]]], 0)
    for kind in ("float32", "float16", ml_dtypes.bfloat16)
    for element in ("i8", "u8", "i16", "i32")
    for data in [FRACTIONS[abs(FRACTIONS) < 6e4].astype(kind) if kind == "float16" else FRACTIONS.astype(kind)]
]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_matches_openvino(row: Row) -> None:
    check_row(row)


def test_what_4_bits_lack_is_refused() -> None:
    def build(x: openvino.Node) -> openvino.Node:
        nibbles = opset1.convert(x, "i4")
        return opset1.concat([nibbles, nibbles], 0)

    assert_refused(Refusal("4 bits", build, [numbers(4)], UnsupportedTypeError, {"dtype": "i4"}))


def test_infinities_inside_a_model_stay() -> None:
    """OpenVINO's CPU plugin has f32 there, whatever the model says."""

    def build(x: openvino.Node) -> openvino.Node:
        return opset1.softmax(opset1.convert(x, "f64"), 1)

    feed = [np.array([[-np.inf, 1, 2], [0, -np.inf, 0]], np.float32)]
    check(model_of(lambda x: opset1.convert(build(x), "f32"), [feed]), feed)


def test_clamped_infinities_are_warned_about() -> None:
    (warning,) = conversion(model_of(to("f64"), [[numbers(3)]])).warnings
    assert "infinities" in warning


@pytest.mark.parametrize(("sizes", "element", "warned"), [(-1, "f32", True), (3, "f32", False), (-1, "f16", False)])
def test_data_returned_as_given_are_warned_about(sizes: int, element: str, warned: bool) -> None:
    """Given a shorter input than before, the plugin returns a part of the longer one, or crashes."""
    feed = [numbers(3)]
    converted = conversion(model_of(lambda x: opset1.convert(x, element), [feed], [[sizes]]))
    assert ["data of an earlier run" in warning for warning in converted.warnings] == [True] * warned
    assert_close(run_onnx(converted, [feed])[0][0], feed[0].astype(element.replace("f", "float")), 0)


def test_half_precision_between_wider_floats() -> None:
    """OpenVINO's CPU plugin computes in f32 what the model has in f16, and so does not round there; f16 does."""

    def narrowed(x: openvino.Node) -> openvino.Node:
        half = opset1.convert(x, "f16")
        return opset1.convert(opset1.transpose(half, np.array([1, 0])), "f32")

    feed = [numbers(3, 4)]
    model = model_of(lambda x: opset1.relu(narrowed(x)), [feed])
    assert not check(model, feed, bound=0).warnings
    converted = conversion(model, compute="f16")
    np.testing.assert_array_equal(
        run_onnx(converted, [feed])[0][0], np.maximum(feed[0].astype(np.float16).astype(np.float32).T, 0)
    )
    (warning,) = converted.warnings
    assert "does not round to f16" in warning
    half = [feed[0].astype(np.float16)]
    for build in (lambda x: opset1.convert(x, "f32"), lambda x: opset1.convert(opset1.relu(x), "f32")):
        assert not check(model_of(build, [half]), half).warnings


@pytest.mark.parametrize(
    "dtype",
    [
        pytest.param(np.float32, marks=with_avx512),
        pytest.param(np.float16, marks=with_avx512),
        *(np.float64, np.int32, np.int8),
    ],
)
@pytest.mark.parametrize("dynamic", [False, True])
def test_what_becomes_bfloat16(dtype: Any, dynamic: bool) -> None:
    """OpenVINO's CPU plugin rounds to the nearest in static sizes of f32 and f16; ours always does."""
    most = 90000 if dtype is np.int32 else 100
    feed = [numbers(4, 32, low=-most, high=most, seed=2).astype(dtype)]
    shapes = [[-1, 32]] if dynamic else None
    model = model_of(lambda x: opset1.convert(opset1.convert(x, "bf16"), "f32"), [feed], shapes)
    converted = conversion(model)
    expected = feed[0].astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float32)
    np.testing.assert_array_equal(run_onnx(converted, [feed])[0][0], expected)
    is_same = np.array_equal(run_openvino(model, [feed])[0][0], expected)
    assert any("truncates half" in text for text in converted.warnings) != is_same


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64, np.int32, np.int8])
@pytest.mark.parametrize("digits", [8, 12])
def test_constants_that_become_bfloat16(dtype: Any, digits: int) -> None:
    """OpenVINO cuts the digits of some of them, too, where there are more than eight."""
    most = 127 if dtype is np.int8 else (1 << digits) - 1
    constant = numbers(4, 32, low=-most, high=most, seed=2, dtype=np.int32).astype(dtype)
    feed = [np.zeros((4, 32), np.float32)]
    model = model_of(lambda x: opset1.add(opset1.convert(opset1.convert(constant, "bf16"), "f32"), x), [feed])
    converted = conversion(model)
    expected = constant.astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float32)
    np.testing.assert_array_equal(run_onnx(converted, [feed])[0][0], expected)
    is_same = np.array_equal(run_openvino(model, [feed])[0][0], expected)
    assert is_same == (digits == 8 or dtype is np.int8)
    assert any("truncates half" in text for text in converted.warnings) != is_same


def test_what_follows_the_library_is_a_note_where_that_is_asked_for() -> None:
    feed = [numbers(3, 4)]
    model = model_of(lambda x: opset1.convert(x, "i8"), [feed], [[-1, 4]])
    (warning,) = conversion(model).warnings
    followed = conversion(model, semantics="runtime")
    assert not followed.warnings
    assert any(note in warning for step in followed.steps for note in step.notes)
