"""Reshape, Squeeze, Transpose, Convert and the like against OpenVINO's CPU plugin."""

from __future__ import annotations

import pathlib

import numpy as np
import openvino
import pytest
from openvino import opset1, opset3, opset15, opset16

from ortconv.api import conversion
from ortconv.errors import ConversionError, ConversionErrors, ShapeError
from tests.converters.openvino.live import (
    NUMPY_TYPES,
    Refusal,
    Row,
    assert_close,
    assert_refused,
    check_row,
    ints,
    model_of,
    numbers,
    run_onnx,
)

I32, I64 = np.int32, np.int64


SHAPE = [
    Row(
        "reshape with a zero and a rest",
        lambda x: opset1.reshape(x, ints(0, -1), True),
        [[numbers(2, n, 4)] for n in (3, 5)],
    ),
    Row(
        "reshape of data that turns out to be nothing with a zero and a rest",
        lambda x: opset1.reshape(x, ints(0, -1), True),
        [[numbers(n, 3, 4)] for n in (2, 0)],
    ),
    Row(
        "reshape of nothing with a zero and a rest",
        lambda x: opset1.reshape(x, ints(0, -1), True),
        [[numbers(0, 3, 4)]],
    ),
    Row("reshape with a zero that is a size", lambda x: opset1.reshape(x, ints(0, 4), False), [[numbers(2, 0, 3)]]),
    Row(
        "reshape by an i32 shape",
        lambda x: opset1.reshape(x, ints(-1, 2, dtype=I32), False),
        [[numbers(n, 4)] for n in (2, 3)],
    ),
    Row("reshape by a shape of the run", lambda x, s: opset1.reshape(x, s, True), [[numbers(2, 6), ints(0, 3, 2)]]),
    Row("squeeze", lambda x: opset1.squeeze(x, ints(0, -1)), [[numbers(1, n, 1)] for n in (3, 4)]),
    Row("squeeze of every axis of size 1", opset15.squeeze, [[numbers(1, 3, 1, 2)]]),
    Row("squeeze by a scalar axis", lambda x: opset1.squeeze(x, np.array(1)), [[numbers(2, 1, 3)]]),
    Row("squeeze of an axis that is not of size 1", lambda x: opset1.squeeze(x, ints(0, 1)), [[numbers(1, 3)]]),
    *(
        Row(f"squeeze of a scalar along {axis}", lambda x, axis=axis: opset1.squeeze(x, ints(axis)), [[numbers()]])
        for axis in (0, -1)
    ),
    Row("squeeze-15", lambda x: opset15.squeeze(x, ints(1)), [[numbers(2, 1, n)] for n in (3, 4)]),
    Row("squeeze-15 with allow_axis_skip", lambda x: opset15.squeeze(x, ints(0, 1), True), [[numbers(2, 1, 3)]]),
    Row("unsqueeze", lambda x: opset1.unsqueeze(x, ints(0, -1)), [[numbers(n, 3)] for n in (2, 4)]),
    Row("unsqueeze by a scalar axis", lambda x: opset1.unsqueeze(x, np.array(1)), [[numbers(2, 3)]]),
    Row("unsqueeze by an axis named twice", lambda x: opset1.unsqueeze(x, ints(0, 0, -1)), [[numbers(2, 3)]]),
    Row("transpose", lambda x: opset1.transpose(x, ints(2, 0, 1)), [[numbers(2, n, 4)] for n in (3, 5)]),
    Row("transpose by an empty order", lambda x: opset1.transpose(x, np.zeros(0, I64)), [[numbers(2, 3, 4)]]),
    Row("shape_of-1", opset1.shape_of, [[numbers(2, n)] for n in (3, 4)]),
    Row("shape_of-3 i64", lambda x: opset3.shape_of(x, "i64"), [[numbers(2, n)] for n in (3, 4)]),
    Row("shape_of-3 i32", lambda x: opset3.shape_of(x, "i32"), [[numbers(2, n)] for n in (3, 4)]),
    Row("identity", opset16.identity, [[numbers(2, 3)]], emits=["Identity"]),
    Row("convert_like", opset1.convert_like, [[numbers(2, 3), numbers(2, dtype=np.int32)]]),
]
SHAPE += [
    Row(
        f"convert {source} to {target}",
        lambda x, t=target: opset1.convert(x, t),
        [[numbers(3, 4, dtype=source, low=0)]],
    )
    for source in NUMPY_TYPES
    for target in ("f32", "f16", "i64", "i32", "i16", "i8", "u8", "u32", "boolean")
]
SHAPE += [
    Row("convert keeps low bits", lambda x: opset1.convert(x, "u8"), [[ints(300, -1, 256, 65535, dtype=I32)]]),
    Row("convert truncates", lambda x: opset1.convert(x, "i32"), [[np.array([2.7, -2.7, 0.5, -0.5], np.float32)]]),
    Row("convert of a half is true", lambda x: opset1.convert(x, "boolean"), [[np.array([0.5, -0.5, 0], np.float32)]]),
]


@pytest.mark.parametrize("row", SHAPE, ids=str)
def test_matches_openvino(row: Row) -> None:
    check_row(row)


def test_axes_of_the_run() -> None:
    """OpenVINO's CPU plugin refuses ranks that its shape inference does not know."""
    x, flat, axes = numbers(2, 3, 4), numbers(2, 1, 3, 1), ints(1, 3)
    for build, feed, expected in (
        (opset1.unsqueeze, [x, axes], x[:, None, :, None]),
        (opset1.squeeze, [flat, axes], flat[:, 0, :, 0]),
        (opset1.reduce_max, [flat, axes], flat[:, 0, :, 0]),
    ):
        converted = conversion(model_of(build, [feed]))
        assert_close(run_onnx(converted, [feed])[0][0], expected, 0)


REFUSALS = [
    Refusal(
        "squeeze-15 with allow_axis_skip of a dynamic axis",
        lambda x: opset15.squeeze(x, ints(0), True),
        [numbers(1, 3)],
        ShapeError,
        {"input": "data"},
        shapes=[[-1, 3]],
    ),
    Refusal(
        "unsqueeze by two names of an axis",
        lambda x: opset1.unsqueeze(x, ints(-1, 3)),
        [numbers(2, 3)],
        ConversionError,
        {"problem": "axes = [-1, 3]"},
    ),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_refused(refusal: Refusal) -> None:
    assert_refused(refusal)


def test_squeeze_of_an_axis_that_a_scalar_does_not_have(tmp_path: pathlib.Path) -> None:
    openvino.save_model(model_of(lambda x: opset1.squeeze(x, ints(0)), [[numbers()]]), tmp_path / "model.xml")
    assert (tmp_path / "model.bin").read_bytes() == ints(0).tobytes()
    (tmp_path / "model.bin").write_bytes(ints(1).tobytes())
    with pytest.raises(ConversionErrors) as caught:
        conversion(tmp_path / "model.xml")
    (error,) = caught.value.exceptions
    assert "input axes = [1] is out of range" in str(error)
