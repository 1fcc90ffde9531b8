"""Compressed weights: they stay compressed in the ONNX file, and come out as in OpenVINO's CPU plugin."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import openvino
import pytest
from openvino import opset1

from ortconv.api import conversion
from tests.openvino.live import check, numbers

ROWS_AND_COLUMNS = (6, 8)


def weights(element: openvino.Type, *, low: int, high: int, shape: tuple[int, ...] = ROWS_AND_COLUMNS) -> Any:
    """Returns a constant of random numbers."""
    values = np.random.default_rng(0).integers(low, high, shape, endpoint=True)
    return openvino.op.Constant(element, openvino.Shape(list(shape)), values.ravel().tolist())


def model(element: openvino.Type, dtype: str, *, zero_point: bool, grouped: bool) -> openvino.Model:
    """Returns a MatMul by integer weights that are converted, shifted, scaled and reshaped."""
    signed = element.is_signed()
    bits = element.bitwidth
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    shape = (6, 2, 4) if grouped else ROWS_AND_COLUMNS
    one_each = (6, 2, 1) if grouped else (6, 1)
    value = opset1.convert(weights(element, low=low, high=high, shape=shape), dtype)
    if zero_point:
        point = opset1.convert(weights(element, low=low, high=high, shape=one_each), dtype)
        value = opset1.subtract(value, point)
    scale = np.abs(numbers(*one_each, seed=3, low=0.01, high=0.1)).astype("float16" if dtype == "f16" else "float32")
    value = opset1.multiply(value, opset1.constant(scale))
    if grouped:
        value = opset1.reshape(value, np.array(ROWS_AND_COLUMNS), False)
    if dtype == "f16":
        value = opset1.convert(value, "f32")
    data = opset1.parameter([-1, 8], dtype=openvino.Type.f32)
    return openvino.Model([opset1.matmul(data, value, False, True).output(0)], [data])


TYPES = {"i8": openvino.Type.i8, "u8": openvino.Type.u8, "i4": openvino.Type.i4, "u4": openvino.Type.u4}
FEEDS = [[numbers(n, 8)] for n in (2, 3)]
HALF = 2.0**13
"""A unit in the last place of float16 in those of float32: the plugin multiplies in float32."""


@pytest.mark.parametrize("element", TYPES)
@pytest.mark.parametrize("dtype", ["f16", "f32"])
@pytest.mark.parametrize("zero_point", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_integer_weights(element: str, dtype: str, zero_point: bool, grouped: bool) -> None:
    source = model(TYPES[element], dtype, zero_point=zero_point, grouped=grouped)
    converted = check(source, *FEEDS, bound=HALF if dtype == "f16" else 32)
    stored = [value.dtype.short_name() for value in converted.model.graph.initializers.values() if value.dtype]
    assert stored.count(element) == 1 + zero_point


def test_four_bit_weights_become_eight_bit_ones_before_opset_21() -> None:
    source = model(TYPES["u4"], "f32", zero_point=True, grouped=False)
    converted = check(source, *FEEDS, bound=32, opset=19)
    stored = [value.dtype for value in converted.model.graph.initializers.values()]
    assert ir.DataType.UINT4 not in stored
    assert stored.count(ir.DataType.INT8) == 2


def test_half_precision_weights_stay_half() -> None:
    half = opset1.constant(numbers(6, 8, dtype=np.float16))
    data = opset1.parameter([-1, 8], dtype=openvino.Type.f32)
    source = openvino.Model([opset1.matmul(data, opset1.convert(half, "f32"), False, True).output(0)], [data])
    converted = check(source, *FEEDS, bound=32)
    (stored,) = converted.model.graph.initializers.values()
    assert stored.dtype == ir.DataType.FLOAT16


def test_f16_compression_by_openvino(tmp_path: Any) -> None:
    weight = numbers(6, 8)
    data = opset1.parameter([-1, 8], dtype=openvino.Type.f32)
    source = openvino.Model([opset1.matmul(data, opset1.constant(weight), False, True).output(0)], [data])
    path = tmp_path / "half.xml"
    openvino.save_model(source, path, compress_to_fp16=True)
    (stored,) = conversion(path).model.graph.initializers.values()
    assert stored.dtype == ir.DataType.FLOAT16
    assert stored.const_value is not None
    np.testing.assert_array_equal(stored.const_value.numpy(), weight.astype(np.float16))
