"""Compressed weights: they stay compressed in the ONNX file, and come out as in OpenVINO's CPU plugin."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset1, opset8

from ortconv.api import Conversion, conversion
from ortconv.builder import Target
from ortconv.errors import ConversionErrors, UnsupportedTypeError
from tests.openvino.live import assert_close, check, model_of, numbers, run_onnx, run_openvino

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


def nodes(converted: Conversion) -> list[str]:
    return [node.op_type for node in converted.model.graph]


def stored(converted: Conversion) -> dict[str, list[tuple[int, ...]]]:
    """Returns the shapes of the constants by type."""
    shapes: dict[str, list[tuple[int, ...]]] = {}
    for value in converted.model.graph.initializers.values():
        assert value.dtype is not None
        assert value.shape is not None
        shapes.setdefault(value.dtype.short_name(), []).append(tuple(value.shape.numpy()))
    return shapes


@pytest.mark.parametrize("element", TYPES)
@pytest.mark.parametrize("dtype", ["f16", "f32"])
@pytest.mark.parametrize("zero_point", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_integer_weights(element: str, dtype: str, zero_point: bool, grouped: bool) -> None:
    source = model(TYPES[element], dtype, zero_point=zero_point, grouped=grouped)
    converted = check(source, *FEEDS, bound=32, target="onnx")
    assert "DequantizeLinear" in nodes(converted)
    shape, scales = ((6, 2, 4), (6, 2, 1)) if grouped else (ROWS_AND_COLUMNS, (6,))
    assert stored(converted)[element] == [shape, *[scales] * zero_point]
    assert stored(converted)["f32"] == [scales]


def constant(element: openvino.Type, *shape: int, low: int = 0, high: int = 15) -> Any:
    return weights(element, low=low, high=high, shape=shape)


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


@pytest.mark.parametrize("element", ["i8", "u8", "u4"])
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("along", ["data", "results"])
def test_scales_of_columns(element: str, transpose: bool, along: str) -> None:
    """OpenVINO's CPU plugin takes scales along the data for those of the results, and may die of them."""
    depth, outputs, rows = 16, 24, 3
    integers = np.random.default_rng(0).integers(0, 8, (depth, outputs))
    shape = (depth, 1) if along == "data" else (1, outputs)
    scale = np.abs(numbers(*shape, seed=3, low=0.01, high=0.1)).astype(np.float32)
    feeds = [[numbers(rows, depth)]]

    def build(x: Any) -> Any:
        matrix = integers.T if transpose else integers
        held = openvino.op.Constant(TYPES[element], openvino.Shape(list(matrix.shape)), matrix.ravel().tolist())
        scales = opset1.constant(np.ascontiguousarray(scale.T if transpose else scale))
        return opset1.matmul(x, opset1.multiply(opset1.convert(held, "f32"), scales), False, transpose)

    source = model_of(build, feeds)
    converted = conversion(source)
    assert any("a scale of its own" in text for text in converted.warnings) == (along == "data")
    expected = (feeds[0][0].astype(np.float64) @ (integers * scale.astype(np.float64))).astype(np.float32)
    assert_close(run_onnx(converted, feeds)[0][0], expected, 64)
    if along == "results":
        assert_close(run_openvino(source, feeds)[0][0], expected, 64)


UNEVEN = [
    ("i8", 7, True),
    ("u8", 6, True),
    ("u8", 8, False),
    ("u8", 3, False),
    ("u4", 7, True),
    ("i4", 40, True),
    ("u4", 6, False),
    ("i4", 64, False),
]


@pytest.mark.parametrize(
    ("element", "size", "warned", "how"),
    [(*case, how) for case in UNEVEN for how in ("rows", "columns", "rows in opset 20")],
)
def test_groups_of_uneven_sizes(element: str, size: int, warned: bool, how: str) -> None:
    """OpenVINO's CPU plugin reads past the end of some of them."""
    by_rows, opset = how != "columns", 20 if how == "rows in opset 20" else None
    outputs, groups = 6, 3
    if by_rows:
        shape, one_each, matrix = (outputs, groups, size), (outputs, groups, 1), (outputs, groups * size)
    else:
        shape, one_each, matrix = (groups, size, outputs), (groups, 1, outputs), (groups * size, outputs)
    integers = np.random.default_rng(0).integers(0, 8, shape)
    constants = openvino.op.Constant(TYPES[element], openvino.Shape(list(shape)), integers.ravel().tolist())
    scale = np.abs(numbers(*one_each, seed=3, low=0.01, high=0.1)).astype(np.float32)
    feeds = [[numbers(2, groups * size)]]

    def build(x: Any) -> Any:
        value = opset1.multiply(opset1.convert(constants, "f32"), opset1.constant(scale))
        return opset1.matmul(x, opset1.reshape(value, np.array(matrix), False), False, by_rows)

    source = model_of(build, feeds)
    converted = conversion(source) if opset is None else conversion(source, opset=opset)
    assert any("in groups of a size" in text for text in converted.warnings) == warned
    product = (integers * scale.astype(np.float64)).reshape(matrix)
    expected = feeds[0][0].astype(np.float64) @ (product.T if by_rows else product)
    assert_close(run_onnx(converted, feeds)[0][0], expected.astype(np.float32), 64)
    if not warned:
        assert_close(run_openvino(source, feeds)[0][0], expected.astype(np.float32), 64)


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
    assert stored(converted)["i8"] == [shape]


def test_weights_of_a_convolution() -> None:
    def build(x: Any) -> Any:
        kernel = opset1.convert(constant(openvino.Type.i8, 6, 4, 3, 3, low=-127, high=127), "f32")
        scaled = opset1.multiply(kernel, np.abs(numbers(6, 1, 1, 1, seed=3)))
        return opset1.convolution(x, scaled, [1, 1], [1, 1], [1, 1], [1, 1])

    feeds = [[numbers(2, 4, n, 5)] for n in (5, 6)]
    converted = check(model_of(build, feeds), *feeds, bound=64)
    assert nodes(converted) == ["DequantizeLinear", "Conv"]
    assert stored(converted) == {"i8": [(6, 4, 3, 3)], "f32": [(6,)]}


def test_weights_of_a_grouped_convolution() -> None:
    def build(x: Any) -> Any:
        kernel = opset1.convert(constant(openvino.Type.i8, 2, 3, 2, 3, 3, low=-127, high=127), "f32")
        scaled = opset1.multiply(kernel, np.abs(numbers(2, 3, 1, 1, 1, seed=3)))
        return opset1.group_convolution(x, scaled, [1, 1], [1, 1], [1, 1], [1, 1])

    feeds = [[numbers(2, 4, n, 5)] for n in (5, 6)]
    converted = check(model_of(build, feeds), *feeds, bound=64)
    assert "DequantizeLinear" in nodes(converted)
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


def test_halves_are_stored_as_they_are_computed_with() -> None:
    half = opset1.constant(numbers(*LARGE, dtype=np.float16))
    data = opset1.parameter([-1, LARGE[1]], dtype=openvino.Type.f32)
    source = openvino.Model([opset1.matmul(data, opset1.convert(half, "f32"), False, True).output(0)], [data])
    converted = check(source, [numbers(2, LARGE[1])], [numbers(3, LARGE[1])], bound=64)
    assert stored(converted) == {"f32": [LARGE]}


def test_f16_compression_by_openvino(tmp_path: Any) -> None:
    weight = numbers(*LARGE)
    data = opset1.parameter([-1, LARGE[1]], dtype=openvino.Type.f32)
    source = openvino.Model([opset1.matmul(data, opset1.constant(weight), False, True).output(0)], [data])
    path = tmp_path / "half.xml"
    openvino.save_model(source, path, compress_to_fp16=True)
    (value,) = conversion(path).model.graph.initializers.values()
    assert value.const_value is not None
    np.testing.assert_array_equal(value.const_value.numpy(), weight.astype(np.float16).astype(np.float32))


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
        assert stored(converted)["u4"] == [shape]


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


@pytest.mark.parametrize("element", ["f32", "f16", "i8"])
@pytest.mark.parametrize("first", [False, True])
def test_a_square_that_two_products_share_is_warned_about(element: str, first: bool) -> None:
    square = np.arange(36).reshape(6, 6) % 7 - 3
    scales = np.array([[1], [2], [4], [0.5], [0.25], [8]], np.float32)

    def build(x: Any, ways: tuple[bool, ...]) -> Any:
        whole = opset1.constant(square.astype({"f32": np.float32, "f16": np.float16, "i8": np.int8}[element]))
        weights = whole if element == "f32" else opset1.convert(whole, "f32")
        weights = opset1.multiply(weights, scales) if element == "i8" else weights
        return [opset1.matmul(x, weights, False, way) for way in ways]

    feed = [numbers(3, 6).round()]
    converted = conversion(model_of(lambda x: build(x, (first, not first)), [feed]))
    assert len([text for text in converted.warnings if "square constant" in text]) == 1
    matrix = square * scales if element == "i8" else square
    for way, result in zip((first, not first), run_onnx(converted, [feed])[0], strict=True):
        np.testing.assert_array_equal(result, feed[0] @ (matrix.T if way else matrix))
    alone = conversion(model_of(lambda x: build(x, (first, first)), [feed]))
    assert not any("square constant" in text for text in alone.warnings)


def test_equal_squares_of_a_file_are_one(tmp_path: pathlib.Path) -> None:
    """OpenVINO stores equal constants once, and its CPU plugin then takes them for one."""
    square = (np.arange(36).reshape(6, 6) % 7 - 3).astype(np.float32)
    data = opset1.parameter([3, 6], dtype=openvino.Type.f32)
    products = [opset1.matmul(data, opset1.constant(square.copy()), False, way) for way in (False, True)]
    path = tmp_path / "squares.xml"
    openvino.save_model(openvino.Model([each.output(0) for each in products], [data]), path, compress_to_fp16=False)
    converted = conversion(path)
    assert any("square constant" in text for text in converted.warnings)
    feed = [numbers(3, 6).round()]
    for matrix, result in zip((square, square.T), run_onnx(converted, [feed])[0], strict=True):
        np.testing.assert_array_equal(result, feed[0] @ matrix)


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
    assert nodes(converted) == ["DequantizeLinear", "Conv"]
    assert stored(converted)["i8"] == [(6, 1, 3, 2)]


def test_scales_of_an_axis_that_a_reshape_divides() -> None:
    """No axis of the new shape has them, so that the weights are dequantized in the old one."""
    value = opset1.convert(weights(openvino.Type.i8, low=-128, high=127, shape=(6, 8)), "f32")
    value = opset1.multiply(value, opset1.constant(numbers(6, 1, low=0.01, high=0.1)))
    value = opset1.transpose(opset1.reshape(value, np.array([2, 3, 8]), False), np.array([0, 2, 1]))
    feed = [numbers(2, 4, 8)]
    converted = check(model_of(lambda x: opset1.matmul(x, value, False, False), [feed]), feed, bound=32)
    assert nodes(converted) == ["DequantizeLinear", "Reshape", "Transpose", "MatMul"]


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


@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize("element", ["i8", "u8", "u4"])
@pytest.mark.parametrize(
    ("stored_as", "scaled_by", "rows", "is_right"),
    [
        ((6, 2, 4), (6, 2, 1), 6, True),
        ((6, 2, 4), (6, 1, 1), 6, True),
        ((6, 2, 4), (6, 1, 4), 6, False),
        ((2, 3, 8), (2, 3, 1), 6, False),
        ((2, 3, 8), (2, 1, 8), 6, False),
        ((2, 3, 8), (2, 1, 1), 6, False),
        ((6, 2, 4), (6, 2, 1), 12, False),
    ],
)
def test_rows_gathered_from_weights_in_groups(
    stored_as: tuple[int, ...], scaled_by: tuple[int, ...], rows: int, is_right: bool, element: str, dtype: str
) -> None:
    """OpenVINO's CPU plugin takes the first axis for the rows, and has a scale for each group along the last one."""
    kind = {"f32": np.float32, "f16": np.float16}[dtype]
    table = weights(TYPES[element], low=0, high=7, shape=stored_as)
    scale = numbers(*scaled_by, low=0.1, high=0.2).astype(kind)
    scaled = opset1.multiply(opset1.convert(table, kind), opset1.constant(scale))
    matrix = opset1.convert(opset1.reshape(scaled, np.array([rows, -1]), False), np.float32)
    indices = np.array([0, 5, 1])
    built = model_of(lambda x: opset8.gather(matrix, x, np.array(0)), [[indices]])
    converted = conversion(built)
    whole = np.random.default_rng(0).integers(0, 7, stored_as, endpoint=True).astype(np.float32)
    expected = (whole * scale.astype(np.float32)).reshape(rows, -1)[indices]
    (actual,) = run_onnx(converted, [[indices]])[0]
    np.testing.assert_allclose(actual, expected, rtol=1e-3 if dtype == "f16" else 1e-6)
    (theirs,) = run_openvino(built, [[indices]])[0]
    assert (theirs.shape == expected.shape and np.allclose(theirs, expected, rtol=1e-3)) == is_right
    assert any("gathers wrongly" in warning for warning in converted.warnings) != is_right


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
