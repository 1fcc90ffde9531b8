"""Compressed weights that OpenVINO's CPU plugin takes for others: they are as their file says."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset1, opset8

from ortconv.api import conversion
from tests.converters.openvino.live import assert_close, model_of, numbers, run_onnx, run_openvino
from tests.converters.openvino.weights.weight_models import CODED, TYPES, coded, weights
from tests.processor import with_avx512


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
    assert any("one scale for each column" in text for text in converted.warnings) == (along == "data")
    expected = (feeds[0][0].astype(np.float64) @ (integers * scale.astype(np.float64))).astype(np.float32)
    assert_close(run_onnx(converted, feeds)[0][0], expected, 64)
    if along == "results":
        assert_close(run_openvino(source, feeds)[0][0], expected, 64)


@pytest.mark.parametrize(("depth", "outputs"), [(1, 24), (16, 1)])
def test_one_scale_for_each_result_is_no_scale_of_columns(depth: int, outputs: int) -> None:
    integers = np.random.default_rng(0).integers(0, 8, (depth, outputs)).astype(np.int8)
    scale = np.abs(numbers(depth, 1, seed=3, low=0.01, high=0.1)).astype(np.float32)
    feed = [numbers(3, depth)]

    def build(x: Any) -> Any:
        held = opset1.convert(opset1.constant(integers), "f32")
        return opset1.matmul(x, opset1.multiply(held, opset1.constant(scale)), False, False)

    assert not conversion(model_of(build, [feed])).warnings
    (actual,) = run_openvino(model_of(build, [feed]), [feed])[0]
    assert_close(actual, feed[0] @ (integers * scale), 64)


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
    by_rows, opset = how.startswith("rows"), 20 if how.endswith("opset 20") else None
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
    assert any("with a block size that" in text for text in converted.warnings) == warned
    product = (integers * scale.astype(np.float64)).reshape(matrix)
    expected = feeds[0][0].astype(np.float64) @ (product.T if by_rows else product)
    assert_close(run_onnx(converted, feeds)[0][0], expected.astype(np.float32), 64)
    if not warned:
        assert_close(run_openvino(source, feeds)[0][0], expected.astype(np.float32), 64)


@pytest.mark.parametrize("element", CODED)
@pytest.mark.parametrize(("size", "warned"), [(7, True), (40, True), (6, False), (3, False), (64, False)])
@pytest.mark.parametrize("by_rows", [False, True])
def test_coded_groups_of_uneven_sizes(element: str, size: int, warned: bool, by_rows: bool) -> None:
    """A codebook is no type of OpenVINO's, which then has no compressed weights."""
    shape, one_each = ((6, 2, size), (6, 2, 1)) if by_rows else ((2, size, 6), (2, 1, 6))
    value, stands_for = coded(element, shape, one_each, "f32")
    matrix = (6, 2 * size) if by_rows else (2 * size, 6)
    feeds = [[numbers(2, 2 * size)]]
    source = model_of(lambda x: opset1.matmul(x, opset1.reshape(value, np.array(matrix), False), False, by_rows), feeds)
    converted = conversion(source)
    assert any("with a block size that" in text for text in converted.warnings) == (warned and element != "codebook")
    product = stands_for.reshape(matrix)
    expected = feeds[0][0].astype(np.float64) @ (product.T if by_rows else product)
    assert_close(run_onnx(converted, feeds)[0][0], expected.astype(np.float32), 64)
    if not warned or element == "codebook":
        assert_close(run_openvino(source, feeds)[0][0], expected.astype(np.float32), 64)


@pytest.mark.parametrize("element", CODED)
@pytest.mark.parametrize("transpose", [False, True])
def test_coded_scales_of_columns(element: str, transpose: bool) -> None:
    """OpenVINO's CPU plugin may die of them."""
    value, stands_for = coded(element, (24, 16) if transpose else (16, 24), (1, 16) if transpose else (16, 1), "f32")
    feeds = [[numbers(3, 16)]]
    source = model_of(lambda x: opset1.matmul(x, value, False, transpose), feeds)
    converted = conversion(source)
    assert any("one scale for each column" in text for text in converted.warnings) == (element != "codebook")
    expected = feeds[0][0].astype(np.float64) @ (stands_for.T if transpose else stands_for)
    assert_close(run_onnx(converted, feeds)[0][0], expected.astype(np.float32), 64)


@pytest.mark.parametrize("element", ["u4", "i4", "u8", *CODED])
@pytest.mark.parametrize(
    ("depth", "outputs", "rows", "transpose", "is_right"),
    [
        (17, 24, 5, True, False),
        (33, 6, 40, False, False),
        (17, 24, 4, True, True),
        pytest.param(15, 24, 5, True, True, marks=with_avx512),
        (17, 1, 5, False, True),
        (18, 24, 5, True, True),
    ],
)
def test_rows_of_an_odd_length(
    element: str, depth: int, outputs: int, rows: int, is_right: bool, transpose: bool
) -> None:
    """OpenVINO's CPU plugin takes them for others where 4 bits a number are a type of its own."""
    is_right = is_right or element in ("codebook", "u8")
    shape, one_each = ((outputs, depth), (outputs, 1)) if transpose else ((depth, outputs), (1, outputs))
    if element in CODED:
        value, stands_for = coded(element, shape, one_each, "f32")
    else:
        scale = numbers(*one_each, low=0.1, high=0.2).astype(np.float32)
        held = weights(TYPES[element], low=0, high=7, shape=shape)
        value = opset1.multiply(opset1.convert(held, "f32"), opset1.constant(scale))
        stands_for = np.random.default_rng(0).integers(0, 7, shape, endpoint=True) * scale.astype(np.float64)
    feeds = [[numbers(rows, depth)]]
    source = model_of(lambda x: opset1.matmul(x, value, False, transpose), feeds)
    static = conversion(source)
    expected = (feeds[0][0].astype(np.float64) @ (stands_for.T if transpose else stands_for)).astype(np.float32)
    assert any("with an odd number of columns" in text for text in static.warnings) != is_right
    assert_close(run_onnx(static, feeds)[0][0], expected, 64)
    if is_right:
        assert_close(run_openvino(source, feeds)[0][0], expected, 64)


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
    assert len([text for text in converted.warnings if "share a square constant" in text]) == 1
    matrix = square * scales if element == "i8" else square
    for way, result in zip((first, not first), run_onnx(converted, [feed])[0], strict=True):
        np.testing.assert_array_equal(result, feed[0] @ (matrix.T if way else matrix))
    alone = conversion(model_of(lambda x: build(x, (first, first)), [feed]))
    assert not any("share a square constant" in text for text in alone.warnings)


def test_equal_squares_of_a_file_are_one(tmp_path: pathlib.Path) -> None:
    """OpenVINO stores equal constants once, and its CPU plugin then takes them for one."""
    square = (np.arange(36).reshape(6, 6) % 7 - 3).astype(np.float32)
    data = opset1.parameter([3, 6], dtype=openvino.Type.f32)
    products = [opset1.matmul(data, opset1.constant(square.copy()), False, way) for way in (False, True)]
    path = tmp_path / "squares.xml"
    openvino.save_model(openvino.Model([each.output(0) for each in products], [data]), path, compress_to_fp16=False)
    converted = conversion(path)
    assert any("share a square constant" in text for text in converted.warnings)
    feed = [numbers(3, 6).round()]
    for matrix, result in zip((square, square.T), run_onnx(converted, [feed])[0], strict=True):
        np.testing.assert_array_equal(result, feed[0] @ matrix)


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
    assert any("gathers other rows" in warning for warning in converted.warnings) != is_right
