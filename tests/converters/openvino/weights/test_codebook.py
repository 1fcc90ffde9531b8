"""Weights of 2 and 3 bits, floats of 8 and 4, and numbers of a codebook."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset1, opset8

from ortconv.api import conversion
from ortconv.errors import ConversionErrors, UnsupportedTypeError
from tests.converters.openvino.live import check, model_of, numbers, run_onnx
from tests.converters.openvino.weights.weight_models import FEEDS, model, stored


@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize("element", [openvino.Type.f8e4m3, openvino.Type.f8e5m2], ids=str)
def test_every_float_of_eight_bits(element: openvino.Type, dtype: str) -> None:
    codes = openvino.Tensor(element, openvino.Shape([16, 16]))
    codes.data.view(np.uint8)[:] = np.arange(256, dtype=np.uint8).reshape(16, 16)
    value = opset1.convert(opset1.convert(openvino.op.Constant(codes), dtype), "f32")
    converted = check(openvino.Model([value.output(0)], []), [], bound=0)
    kept = [each.dtype for each in converted.model.graph.initializers.values()]
    assert [dtype.itemsize for dtype in kept] == [1]


def codes(element: openvino.Type, *shape: int) -> openvino.Node:
    """Returns a constant of a type whose elements stand for numbers in a table."""
    count = int(np.prod(shape)) * element.bitwidth // 8
    low, high = (110, 140) if element == openvino.Type.f8e8m0 else (0, 255)
    packed = np.random.default_rng(0).integers(low, high, count, endpoint=True).astype(np.uint8)
    return openvino.op.Constant(openvino.Tensor(packed, openvino.Shape(list(shape)), element), shared_memory=False)


@pytest.mark.parametrize("element", [openvino.Type.u2, openvino.Type.u3], ids=["u2", "u3"])
@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize("zero_point", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_weights_of_two_and_three_bits(element: openvino.Type, dtype: str, zero_point: bool, grouped: bool) -> None:
    converted = check(model(element, dtype, zero_point=zero_point, grouped=grouped), *FEEDS, bound=64)
    assert "u4" in stored(converted)


@pytest.mark.parametrize("opset", [19, 21])
@pytest.mark.parametrize("count", [1, 5, 8, 11])
@pytest.mark.parametrize("bits", [2, 3])
def test_constants_of_two_and_three_bits(bits: int, count: int, opset: int) -> None:
    numbers_ = np.random.default_rng(bits).integers(0, 2**bits, count)
    element = {2: openvino.Type.u2, 3: openvino.Type.u3}[bits]
    constant = openvino.op.Constant(element, openvino.Shape([count]), numbers_.tolist())
    feed = [numbers(count)]
    built = model_of(lambda x: opset1.add(x, opset1.convert(constant, "f32")), [feed])
    converted = check(built, feed, opset=opset)
    np.testing.assert_array_equal(run_onnx(converted, [feed])[0][0], feed[0] + numbers_.astype(np.float32))


CODED = {"nf4": openvino.Type.nf4, "f4e2m1": openvino.Type.f4e2m1, "f8e8m0": openvino.Type.f8e8m0}


@pytest.mark.parametrize("element", CODED)
@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize("grouped", [False, True])
def test_coded_weights(element: str, dtype: str, grouped: bool) -> None:
    shape, one_each = ((16, 2, 16), (16, 2, 1)) if grouped else ((16, 32), (16, 1))

    def build(x: Any) -> Any:
        scale = np.abs(numbers(*one_each, seed=3)).astype("float16" if dtype == "f16" else "float32")
        value = opset1.multiply(opset1.convert(codes(CODED[element], *shape), dtype), opset1.constant(scale))
        if grouped:
            value = opset1.reshape(value, np.array([16, 32]), False)
        return opset1.matmul(x, opset1.convert(value, "f32"), False, True)

    feeds = [[numbers(n, 32)] for n in (2, 3)]
    converted = check(model_of(build, feeds), *feeds, bound=64)
    if element != "f8e8m0":
        assert stored(converted)["u4"] == [(16, 32)]


@pytest.mark.parametrize("element", CODED)
@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_coded_constants_are_rounded_to_their_type(element: str, dtype: str) -> None:
    feed = [numbers(4, 6)]

    def build(x: Any) -> Any:
        return opset1.add(x, opset1.convert(opset1.convert(codes(CODED[element], 4, 6), dtype), "f32"))

    check(model_of(build, [feed]), feed)


def test_coded_constants_that_are_not_converted_are_refused() -> None:
    def build(x: Any) -> Any:
        moved = opset1.reshape(codes(openvino.Type.nf4, 4, 6), np.array([6, 4]), False)
        return opset1.add(x, opset1.convert(moved, "f32"))

    with pytest.raises(UnsupportedTypeError) as caught:
        conversion(model_of(build, [[numbers(6, 4)]]))
    assert caught.value.dtype == "nf4"


def test_coded_constants_of_4_bits_need_opset_21() -> None:
    model = model_of(lambda x: opset1.add(x, opset1.convert(codes(openvino.Type.nf4, 4, 6), "f32")), [[numbers(4, 6)]])
    with pytest.raises(ConversionErrors) as caught:
        conversion(model, opset=19)
    assert "need opset 21" in str(caught.value.exceptions[0])


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("element", [openvino.Type.f8e4m3, openvino.Type.f8e5m2], ids=str)
def test_floats_of_eight_bits_by_scales_of_sixteen_are_not_rounded_to_sixteen(
    element: openvino.Type, grouped: bool
) -> None:
    shape, one_each = ((64, 2, 16), (64, 2, 1)) if grouped else ((64, 32), (64, 1))
    kernel = np.arange(64 * 32) % 120  # codes of finite numbers
    tensor = openvino.Tensor(kernel.astype(np.uint8), openvino.Shape(list(shape)), element)
    scale = numbers(*one_each, low=0.01, high=0.1).astype(np.float16)
    value = opset1.multiply(opset1.convert(openvino.op.Constant(tensor), "f16"), opset1.constant(scale))
    if grouped:
        value = opset1.reshape(value, np.array([64, 32]), False)
    feeds = [[numbers(n, 32)] for n in (2, 3)]
    check(model_of(lambda x: opset1.matmul(x, opset1.convert(value, "f32"), False, True), feeds), *feeds, bound=32)


@pytest.mark.parametrize("element", ["f8e4m3", "f16"])
def test_codes_of_a_table_with_scales(element: str) -> None:
    """As nncf's codebooks are written: OpenVINO's CPU plugin does not round the products to f16."""
    codes = np.random.default_rng(0).integers(0, 16, (24, 2, 32))
    numbers_of_table = np.linspace(-3.5, 4, 16).astype(np.float16)
    if element == "f16":
        table = opset1.constant(numbers_of_table)
    else:
        table = opset1.convert(
            openvino.op.Constant(openvino.Type.f8e4m3, openvino.Shape([16]), numbers_of_table.tolist()), "f16"
        )
    stored = openvino.op.Constant(openvino.Type.u4, openvino.Shape([24, 2, 32]), codes.ravel().tolist())
    chosen = opset8.gather(table, opset1.convert(stored, "u8"), np.int64(0))
    scaled = opset1.multiply(chosen, numbers(24, 2, 1, dtype=np.float16, low=0.1, high=0.2))
    matrix = opset1.convert(opset1.reshape(scaled, np.array([24, 64]), False), "f32")
    feeds = [[numbers(rows, 64)] for rows in (3, 1)]
    check(model_of(lambda x: opset1.matmul(x, matrix, False, True), feeds), *feeds, bound=64)
