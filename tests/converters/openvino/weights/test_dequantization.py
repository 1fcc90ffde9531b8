"""Compressed weights: they stay compressed in the ONNX file, and come out as in OpenVINO's CPU plugin."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset1

from ortconv.api import conversion
from ortconv.options import Target
from tests.converters.openvino.live import check, model_of, numbers
from tests.converters.openvino.weights.weight_models import (
    FEEDS,
    ROWS_AND_COLUMNS,
    TYPES,
    constant,
    model,
    nodes,
    stored,
    weights,
)


@pytest.mark.parametrize("element", TYPES)
@pytest.mark.parametrize("dtype", ["f16", "f32"])
@pytest.mark.parametrize("zero_point", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_integer_weights(element: str, dtype: str, zero_point: bool, grouped: bool) -> None:
    source = model(TYPES[element], dtype, zero_point=zero_point, grouped=grouped)
    converted = check(source, *FEEDS, bound=32, target="onnx")
    assert "DequantizeLinear" in nodes(converted)
    shape, scales = ((6, 2, 4), (6, 2, 1)) if grouped else (ROWS_AND_COLUMNS, (6,))
    stated = zero_point or element == "i8" or (element == "i4" and not grouped)
    assert stored(converted)[element] == [shape, *[scales] * stated]
    assert stored(converted)["f32"] == [scales]


@pytest.mark.parametrize("bits", [openvino.Type.u4, openvino.Type.u8])
def test_groups_are_not_multiplied_in_eight_bits(bits: openvino.Type) -> None:
    """ONNX Runtime's MatMulNBits would round the data, off by a hundredth."""

    def build(x: Any) -> Any:
        shifted = opset1.subtract(opset1.convert(constant(bits, 8, 2, 32), "f32"), np.float32(8))
        scaled = opset1.multiply(shifted, np.abs(numbers(8, 2, 1, seed=3)))
        return opset1.matmul(x, opset1.reshape(scaled, np.array((8, 64)), False), False, True)

    feeds = [[numbers(2, n, 64)] for n in (3, 4)]
    converted = check(model_of(build, feeds), *feeds, bound=64, target="onnx")
    assert "DequantizeLinear" in nodes(converted)


@pytest.mark.parametrize("element", TYPES)
@pytest.mark.parametrize("zero_point", [False, True])
@pytest.mark.parametrize("opset", [None, 23])
@pytest.mark.parametrize("how", ["rows", "columns", "transposed columns", "one scale"])
def test_matrices_are_not_multiplied_in_eight_bits(element: str, zero_point: bool, opset: int | None, how: str) -> None:
    """ONNX Runtime's MatMulNBits would round the data, off by some thousandths."""
    inputs, outputs = 64, 32
    by_rows = how in ("rows", "one scale")
    scales = (1, 1) if how == "one scale" else (1, outputs) if by_rows else (outputs, 1)

    def build(x: Any) -> Any:
        value = opset1.convert(
            constant(TYPES[element], *((inputs, outputs) if by_rows else (outputs, inputs)), high=7), "f32"
        )
        if zero_point:
            value = opset1.subtract(value, np.full(scales, 3, np.float32))
        value = opset1.multiply(value, np.abs(numbers(*scales, seed=3)))
        if how == "transposed columns":
            value = opset1.transpose(value, np.array([1, 0]))
        return opset1.matmul(x, value, False, how == "columns")

    feeds = [[numbers(2, n, inputs)] for n in (3, 4)]
    converted = check(model_of(build, feeds), *feeds, bound=64, opset=opset, target="onnx")
    assert nodes(converted) == ["DequantizeLinear", "Reshape", "MatMul"]


@pytest.mark.parametrize(("target", "shape"), [("auto", (96, 64)), ("onnx", (1, 64, 96))])
def test_weights_of_two_products_are_stored_once(target: Target, shape: tuple[int, ...]) -> None:
    def build(x: Any, y: Any) -> Any:
        value = opset1.multiply(
            opset1.convert(constant(openvino.Type.i8, 64, 96), "f32"), np.abs(numbers(1, 96, seed=3))
        )
        return [opset1.matmul(each, value, False, False) for each in (x, y)]

    feed = [numbers(2, 3, 64), numbers(1, 4, 64)]
    converted = check(model_of(build, [feed]), feed, bound=64, target=target)
    # ONNX Runtime may have to turn weights of int8 into uint8, and does not where nodes share them.
    assert stored(converted)["u8"] == [shape, *([(96, 1)] * 2 if target == "auto" else [(96,)])]
    assert "i8" not in stored(converted)


def test_weights_of_a_convolution() -> None:
    def build(x: Any) -> Any:
        kernel = opset1.convert(constant(openvino.Type.i8, 6, 4, 3, 3, low=-127, high=127), "f32")
        scaled = opset1.multiply(kernel, np.abs(numbers(6, 1, 1, 1, seed=3)))
        return opset1.convolution(x, scaled, [1, 1], [1, 1], [1, 1], [1, 1])

    feeds = [[numbers(2, 4, n, 5)] for n in (5, 6)]
    converted = check(model_of(build, feeds), *feeds, bound=64)
    assert nodes(converted) == ["Cast", "Mul", "Conv"]  # which ONNX Runtime computes once, and no DequantizeLinear
    assert stored(converted) == {"i8": [(6, 4, 3, 3)], "f32": [(6, 1, 1, 1)]}


def test_weights_of_a_grouped_convolution() -> None:
    def build(x: Any) -> Any:
        kernel = opset1.convert(constant(openvino.Type.i8, 2, 3, 2, 3, 3, low=-127, high=127), "f32")
        scaled = opset1.multiply(kernel, np.abs(numbers(2, 3, 1, 1, 1, seed=3)))
        return opset1.group_convolution(x, scaled, [1, 1], [1, 1], [1, 1], [1, 1])

    feeds = [[numbers(2, 4, n, 5)] for n in (5, 6)]
    converted = check(model_of(build, feeds), *feeds, bound=64)
    assert nodes(converted) == ["Cast", "Mul", "Conv"]
    assert stored(converted)["i8"] == [(6, 2, 3, 3)]


@pytest.mark.parametrize("shape", [(6, 8), (1, 8), (6, 1), (1, 1), ()])
def test_one_scale_for_all_or_one_per_row_or_column(shape: tuple[int, ...]) -> None:
    def build(x: Any) -> Any:
        scaled = opset1.multiply(opset1.convert(constant(openvino.Type.i8, 6, 8), "f32"), np.abs(numbers(*shape)))
        return opset1.add(x, scaled)

    converted = check(model_of(build, [[numbers(6, 8)]]), [numbers(6, 8)], bound=1)
    assert ("DequantizeLinear" in nodes(converted)) == (shape != (6, 8))


def test_points_that_are_not_whole_stay_a_subtraction() -> None:
    def build(x: Any) -> Any:
        shifted = opset1.subtract(opset1.convert(constant(openvino.Type.u8, 6, 8), "f32"), np.float32(7.5))
        return opset1.add(x, opset1.multiply(shifted, np.float32(0.1)))

    converted = check(model_of(build, [[numbers(6, 8)]]), [numbers(6, 8)], bound=1)
    assert "DequantizeLinear" not in nodes(converted)


@pytest.mark.parametrize("element", TYPES)
def test_points_of_f16_that_are_not_whole_are_subtracted_in_f32(element: str) -> None:
    def build(x: Any) -> Any:
        integers = constant(TYPES[element], 6, 8, low=0, high=7)
        shifted = opset1.subtract(opset1.convert(integers, "f16"), np.float16(0.3))
        scaled = opset1.multiply(shifted, np.abs(numbers(6, 1, dtype=np.float16)))
        return opset1.add(x, opset1.convert(opset1.reshape(scaled, np.array([8, 6]), False), "f32"))

    converted = check(model_of(build, [[numbers(8, 6)]]), [numbers(8, 6)], bound=1)
    assert "f16" not in stored(converted)


def test_four_bit_weights_become_eight_bit_ones_before_opset_21() -> None:
    source = model(TYPES["u4"], "f32", zero_point=True, grouped=False)
    converted = check(source, *FEEDS, bound=32, opset=19)
    assert nodes(converted) == ["DequantizeLinear", "Gemm"]
    assert stored(converted) == {"i8": [ROWS_AND_COLUMNS, (6,)], "f32": [(6,)]}


LARGE = (256, 192)


def test_halves_are_stored_as_they_are() -> None:
    half = opset1.constant(numbers(*LARGE, dtype=np.float16))
    data = opset1.parameter([-1, LARGE[1]], dtype=openvino.Type.f32)
    source = openvino.Model([opset1.matmul(data, opset1.convert(half, "f32"), False, True).output(0)], [data])
    converted = check(source, [numbers(2, LARGE[1])], [numbers(3, LARGE[1])], bound=64)
    assert stored(converted) == {"f16": [LARGE]}
    assert stored(conversion(source, weights="f32")) == {"f32": [LARGE]}


def test_f16_compression_by_openvino(tmp_path: Any) -> None:
    weight = numbers(*LARGE)
    data = opset1.parameter([-1, LARGE[1]], dtype=openvino.Type.f32)
    source = openvino.Model([opset1.matmul(data, opset1.constant(weight), False, True).output(0)], [data])
    path = tmp_path / "half.xml"
    openvino.save_model(source, path, compress_to_fp16=True)
    (value,) = conversion(path).model.graph.initializers.values()
    assert value.const_value is not None
    np.testing.assert_array_equal(value.const_value.numpy(), weight.astype(np.float16).astype(np.float32))


def test_weights_of_a_depthwise_convolution_are_moved_before_they_are_dequantized() -> None:
    """As TensorFlow Lite has them: channels last, with one scale each."""
    kernel = opset1.convert(weights(openvino.Type.i8, low=-128, high=127, shape=(1, 3, 2, 6)), "f32")
    kernel = opset1.multiply(kernel, opset1.constant(numbers(6, low=0.01, high=0.1)))
    kernel = opset1.reshape(kernel, np.array([3, 2, 6]), False)
    kernel = opset1.unsqueeze(kernel, np.array([3]))
    kernel = opset1.transpose(kernel, np.array([2, 3, 0, 1]))
    kernel = opset1.reshape(kernel, np.array([6, 1, 1, 3, 2]), False)

    def build(x: openvino.Node) -> openvino.Node:
        return opset1.group_convolution(x, kernel, [1, 1], [1, 0], [1, 0], [1, 1])

    feeds = [[numbers(n, 6, 7, 5)] for n in (2, 3)]
    converted = check(model_of(build, feeds), *feeds, bound=32)
    assert nodes(converted) == ["Cast", "Mul", "Conv"]
    assert stored(converted)["i8"] == [(6, 1, 3, 2)]


def test_scales_of_an_axis_that_a_reshape_divides() -> None:
    """No axis of the new shape has them, so that the weights are dequantized in the old one."""
    value = opset1.convert(weights(openvino.Type.i8, low=-128, high=127, shape=(6, 8)), "f32")
    value = opset1.multiply(value, opset1.constant(numbers(6, 1, low=0.01, high=0.1)))
    value = opset1.transpose(opset1.reshape(value, np.array([2, 3, 8]), False), np.array([0, 2, 1]))
    feed = [numbers(2, 4, 8)]
    converted = check(model_of(lambda x: opset1.matmul(x, value, False, False), [feed]), feed, bound=32)
    assert nodes(converted) == ["DequantizeLinear", "Reshape", "Transpose", "MatMul"]
