"""Products by compressed weights, and rows of compressed tables: as in OpenVINO's CPU plugin, however they are run."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset1, opset8

from ortconv.api import Conversion, conversion
from ortconv.options import Target
from tests.converters.openvino.live import Feed, assert_close, check, model_of, numbers, run_onnx, run_openvino
from tests.running import WAYS, run

RANGES = {
    "i8": (openvino.Type.i8, -128, 127),
    "u8": (openvino.Type.u8, 0, 255),
    "i4": (openvino.Type.i4, -8, 7),
    "u4": (openvino.Type.u4, 0, 15),
}
OURS = "MatMulCompressed"


def nodes(converted: Conversion) -> list[str]:
    return [node.op_type for node in converted.model.graph]


def integers(element: str, *shape: int, seed: int = 0) -> tuple[Any, np.ndarray]:
    """Returns a constant of random numbers, and the numbers."""
    kind, low, high = RANGES[element]
    values = np.random.default_rng(seed).integers(low, high, shape, endpoint=True)
    return openvino.op.Constant(kind, openvino.Shape(list(shape)), values.ravel().tolist()), values


def compressed(
    element: str, stored: tuple[int, ...], scaled: tuple[int, ...], dtype: str, *, points: bool
) -> tuple[Any, np.ndarray]:
    """Returns weights as NNCF writes them, and the numbers they stand for."""
    constant, values = integers(element, *stored)
    value = opset1.convert(constant, dtype)
    if points:
        point, shifts = integers(element, *scaled, seed=1)
        value = opset1.subtract(value, opset1.convert(point, dtype))
        values = values - shifts
    scale = np.abs(numbers(*scaled, seed=3, low=0.01, high=0.1)).astype({"f16": np.float16, "f32": np.float32}[dtype])
    return opset1.multiply(value, opset1.constant(scale)), values * scale.astype(np.float64)


def single(value: Any, dtype: str) -> Any:
    return opset1.convert(value, "f32") if dtype == "f16" else value


def assert_ours(
    source: openvino.Model, feeds: list[Feed], count: int = 1, bound: float = 64, ours: str = OURS
) -> Conversion:
    """Asserts that our op is emitted and agrees with OpenVINO in every way that it is run; and that it may be avoided.

    Its function body comes once.
    """
    converted, expected = conversion(source), run_openvino(source, feeds)
    assert nodes(converted).count(ours) == count
    assert [function.name for function in converted.model.functions.values()] == [ours]
    model = converted.to_proto()
    for feed, outputs in zip(feeds, expected, strict=True):
        named = {value.name: array for value, array in zip(model.graph.input, feed, strict=True)}
        for way in WAYS:
            for mine, theirs in zip(run(model, named, way), outputs, strict=True):
                assert_close(mine, theirs, bound, way)
    assert ours not in nodes(check(source, *feeds, bound=bound, target="onnx"))
    return converted


FORMS = {
    "channels": ((24, 128), (24, 1), (24, 128)),
    "one scale": ((24, 128), (1, 1), (24, 128)),
    "groups of 32": ((24, 4, 32), (24, 4, 1), (24, 128)),
    "groups of 64": ((24, 2, 64), (24, 2, 1), (24, 128)),
    "a group of 128": ((24, 1, 128), (24, 1, 1), (24, 128)),
    "groups in one axis": ((96, 32), (96, 1), (24, 128)),
}


@pytest.mark.parametrize("element", RANGES)
@pytest.mark.parametrize("dtype", ["f16", "f32"])
@pytest.mark.parametrize("points", [False, True], ids=["symmetric", "asymmetric"])
@pytest.mark.parametrize("form", FORMS)
def test_weights_in_rows(element: str, dtype: str, points: bool, form: str) -> None:
    stored, scaled, matrix = FORMS[form]
    value, _ = compressed(element, stored, scaled, dtype, points=points)
    if stored != matrix:
        value = opset1.reshape(value, np.array(matrix), False)
    feeds = [[numbers(2, rows, 128)] for rows in (1, 5)]
    built = model_of(lambda x: opset1.matmul(x, single(value, dtype), False, True), feeds)
    converted = assert_ours(built, feeds)
    shapes = {tuple(each.shape.numpy()) for each in converted.model.graph.initializers.values()}  # type: ignore[union-attr]
    blocks = math.prod(scaled[1:]) if form != "groups in one axis" else 4
    assert shapes == {matrix, (24, blocks)}


@pytest.mark.parametrize("element", RANGES)
@pytest.mark.parametrize("points", [False, True], ids=["symmetric", "asymmetric"])
def test_data_of_float16(element: str, points: bool) -> None:
    value, weights = compressed(element, (24, 4, 32), (24, 4, 1), "f16", points=points)
    matrix = opset1.reshape(value, np.array((24, 128)), False)
    feeds = [[numbers(2, rows, 128).astype(np.float16)] for rows in (1, 5)]
    converted = assert_ours(model_of(lambda x: opset1.matmul(x, matrix, False, True), feeds), feeds, bound=4)
    for (x,), (y,) in zip(feeds, run_onnx(converted, feeds), strict=True):
        exact = x.astype(np.float64) @ weights.reshape(24, 128).T
        assert np.abs(y - exact).max() <= float(np.finfo(np.float16).eps) * np.abs(exact).max()


@pytest.mark.parametrize("element", RANGES)
@pytest.mark.parametrize(
    ("stored", "scaled", "matrix"),
    [
        ((128, 24), (1, 24), (128, 24)),
        ((4, 32, 24), (4, 1, 24), (128, 24)),
        ((1, 128, 24), (1, 1, 24), (128, 24)),
    ],
)
def test_weights_in_columns(
    element: str, stored: tuple[int, ...], scaled: tuple[int, ...], matrix: tuple[int, ...]
) -> None:
    value, _ = compressed(element, stored, scaled, "f32", points=True)
    if stored != matrix:
        value = opset1.reshape(value, np.array(matrix), False)
    feeds = [[numbers(rows, 128)] for rows in (1, 40)]
    assert_ours(model_of(lambda x: opset1.matmul(x, value, False, False), feeds), feeds)


@pytest.mark.parametrize("element", ["u8", "i4"])
def test_weights_that_are_transposed_first(element: str) -> None:
    value, _ = compressed(element, (32, 32), (32, 1), "f32", points=True)
    turned = opset1.transpose(value, np.array([1, 0]))
    feeds = [[numbers(2, 3, 4, 32)]]
    assert_ours(model_of(lambda x: opset1.matmul(x, turned, False, False), feeds), feeds)


@pytest.mark.parametrize("element", ["u8", "i4"])
def test_weights_that_are_transposed_twice(element: str) -> None:
    """Here every row that meets the data has a scale, and OpenVINO's CPU plugin ends the process."""
    value, expected = compressed(element, (32, 32), (32, 1), "f32", points=True)
    turned = opset1.transpose(value, np.array([1, 0]))
    feed = [numbers(2, 3, 32)]
    converted = conversion(model_of(lambda x: opset1.matmul(x, turned, False, True), [feed]))
    assert OURS not in nodes(converted)
    assert_close(run_onnx(converted, [feed])[0][0], (feed[0] @ expected).astype(np.float32), 64)


def test_two_products_share_weights_and_the_body() -> None:
    value, _ = compressed("u4", (24, 2, 32), (24, 2, 1), "f16", points=True)
    matrix = opset1.convert(opset1.reshape(value, np.array([24, 64]), False), "f32")
    feeds = [[numbers(3, 64), numbers(2, 2, 64)]]
    built = model_of(lambda x, y: [opset1.matmul(each, matrix, False, True) for each in (x, y)], feeds)
    converted = assert_ours(built, feeds, count=2)
    assert len(converted.model.graph.initializers) == 3


def test_a_product_in_a_branch() -> None:
    value, _ = compressed("u4", (24, 2, 12), (24, 2, 1), "f16", points=True)
    matrix = opset1.convert(opset1.reshape(value, np.array([24, 24]), False), "f32")
    inner = [opset1.parameter([-1, 24], dtype=openvino.Type.f32) for _ in range(2)]
    yes = openvino.Model([opset1.result(opset1.matmul(inner[0], matrix, False, True))], [inner[0]])
    no = openvino.Model([opset1.result(opset1.relu(inner[1]))], [inner[1]])
    data, condition = opset1.parameter([-1, 24], dtype=openvino.Type.f32), opset1.parameter([], dtype=bool)
    branches = opset8.if_op(condition)
    branches.set_then_body(yes)
    branches.set_else_body(no)
    branches.set_input(data.output(0), *inner)
    output = branches.set_output(yes.results[0], no.results[0])
    source = openvino.Model([output], [data, condition])
    model = conversion(source).to_proto()
    assert [function.name for function in model.functions] == [OURS]
    feeds = [[numbers(3, 24), np.array(chosen)] for chosen in (True, False)]
    for feed, (expected,) in zip(feeds, run_openvino(source, feeds), strict=True):
        named = {value.name: array for value, array in zip(model.graph.input, feed, strict=True)}
        for way in WAYS:
            assert_close(run(model, named, way)[0], expected, 64, way)


def test_no_rows_of_data() -> None:
    value, _ = compressed("u4", (24, 2, 32), (24, 2, 1), "f32", points=True)
    matrix = opset1.reshape(value, np.array([24, 64]), False)
    source = model_of(lambda x: opset1.matmul(x, matrix, False, True), [[numbers(2, n, 64)] for n in (1, 2)])
    model = conversion(source).to_proto()
    for way in WAYS:
        (y,) = run(model, {model.graph.input[0].name: np.zeros((2, 0, 64), np.float32)}, way)
        assert y.shape == (2, 0, 24)


@pytest.mark.parametrize(
    ("stored", "scaled", "data", "ways", "opset"),
    [
        pytest.param((24, 64), (24, 1), (64,), (False, True), None, id="a vector"),
        pytest.param((24, 64), (24, 1), (64, 3), (True, True), None, id="transposed data"),
        pytest.param((24, 64), (24, 1), (2, 64), (False, True), 20, id="no blocks in the opset"),
        pytest.param((24, 64), (24, 64), (2, 64), (False, True), None, id="a scale for each"),
        pytest.param((24, 64), (1, 64), (2, 64), (False, True), None, id="a scale for each column"),
        pytest.param((24, 2, 32), (24, 1, 32), (2, 64), (False, True), None, id="scales within a group"),
        pytest.param((3, 24, 64), (3, 24, 1), (3, 2, 64), (False, True), None, id="several matrices"),
    ],
)
def test_what_our_op_does_not_compute(
    stored: tuple[int, ...], scaled: tuple[int, ...], data: tuple[int, ...], ways: tuple[bool, bool], opset: int | None
) -> None:
    """Compared with the definition: of some, OpenVINO's CPU plugin takes other scales."""
    value, expected = compressed("i8", stored, scaled, "f32", points=False)
    if stored == (24, 2, 32):
        value, expected = opset1.reshape(value, np.array([24, 64]), False), expected.reshape(24, 64)
    feed = [numbers(*data)]
    converted = conversion(model_of(lambda x: opset1.matmul(x, value, *ways), [feed]), opset=opset)
    assert OURS not in nodes(converted)
    left = feed[0].T if ways[0] else feed[0]
    product = left.astype(np.float64) @ np.swapaxes(expected, -1, -2)
    assert_close(run_onnx(converted, [feed])[0][0], product.astype(np.float32), 64)


def test_data_that_is_multiplied_from_the_right() -> None:
    value, _ = compressed("i8", (24, 64), (24, 1), "f32", points=False)
    feed = [numbers(64, 3)]
    converted = check(model_of(lambda x: opset1.matmul(value, x, False, False), [feed]), feed, bound=64)
    assert OURS not in nodes(converted)


@pytest.mark.parametrize("target", ["auto", "onnx", "plugin"])
@pytest.mark.parametrize("element", RANGES)
@pytest.mark.parametrize("points", [False, True])
@pytest.mark.parametrize("form", ["channels", "groups of 32", "one scale"])
def test_a_table_of_embeddings(element: str, points: bool, form: str, target: Target) -> None:
    """Rows are gathered before they are dequantized."""
    stored, scaled, matrix = FORMS[form]
    value, _ = compressed(element, stored, scaled, "f16", points=points)
    if stored != matrix:
        value = opset1.reshape(value, np.array(matrix), False)
    feeds = [[np.array(rows)] for rows in ([[1, 23, 0]], [[5], [5]])]
    source = model_of(lambda x: opset8.gather(single(value, "f16"), x, np.array(0)), feeds)
    converted = check(source, *feeds, bound=0, target=target)
    kinds = nodes(converted)
    assert kinds.index("Gather") < kinds.index("DequantizeLinear") == len(kinds) - 1


@pytest.mark.parametrize("element", ["i4", "u4"])
@pytest.mark.parametrize("points", [False, True])
@pytest.mark.parametrize("shape", [(), (1,), (0,), (2, 0), (2, 2, 2)])
def test_rows_of_four_bits(element: str, points: bool, shape: tuple[int, ...]) -> None:
    value, expected = compressed(element, (16, 10), (16, 1), "f32", points=points)
    indices = np.random.default_rng(0).integers(0, 16, shape)
    source = model_of(lambda x: opset8.gather(value, x, np.array(0)), [[indices]])
    model = conversion(source).to_proto()
    (rows,) = run(model, {model.graph.input[0].name: indices}, "none")
    np.testing.assert_array_equal(rows, expected[indices].astype(np.float32))


def test_rows_of_an_odd_length() -> None:
    value, _ = compressed("u4", (16, 9), (16, 1), "f32", points=True)
    feeds = [[np.array([3, 15])]]
    converted = check(model_of(lambda x: opset8.gather(value, x, np.array(0)), feeds), *feeds, bound=0)
    assert nodes(converted) == ["DequantizeLinear", "Gather"]


def test_columns_of_a_table() -> None:
    value, _ = compressed("u8", (16, 8), (16, 1), "f32", points=True)
    feeds = [[np.array([3, 7])]]
    converted = check(model_of(lambda x: opset8.gather(value, x, np.array(1)), feeds), *feeds, bound=0)
    assert nodes(converted) == ["DequantizeLinear", "Gather"]


def test_rows_before_opset_21() -> None:
    value, _ = compressed("u8", (16, 8), (16, 1), "f32", points=True)
    feeds = [[np.array([3, 15])]]
    converted = check(model_of(lambda x: opset8.gather(value, x, np.array(0)), feeds), *feeds, bound=0, opset=20)
    assert nodes(converted) == ["DequantizeLinear", "Gather"]
