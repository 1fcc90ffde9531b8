"""Products by codes of 4 bits that choose numbers from a table, and rows of them: as in OpenVINO's CPU plugin."""

from __future__ import annotations

import math

import numpy as np
import openvino
import pytest
from openvino import opset1, opset8

from ortconv.api import conversion
from tests.converters.openvino.live import assert_close, check, model_of, numbers, run_onnx, run_openvino
from tests.converters.openvino.weights.test_compressed_matmul import assert_ours, nodes, single
from tests.converters.openvino.weights.weight_models import CODED, coded
from tests.running import WAYS, run

OURS = "MatMulCodebook"
FORMS = {
    "channels": ((24, 128), (24, 1), (24, 128)),
    "one scale": ((24, 128), (1, 1), (24, 128)),
    "a scale of no axes": ((24, 128), (), (24, 128)),
    "groups of 32": ((24, 4, 32), (24, 4, 1), (24, 128)),
    "groups of 64": ((24, 2, 64), (24, 2, 1), (24, 128)),
    "groups in one axis": ((96, 32), (96, 1), (24, 128)),
}


@pytest.mark.parametrize("element", CODED)
@pytest.mark.parametrize(
    ("form", "dtype"), [*((form, "f32") for form in FORMS), ("channels", "f16"), ("groups of 32", "f16")]
)
def test_weights_in_rows(element: str, dtype: str, form: str) -> None:
    stored, scaled, matrix = FORMS[form]
    value, _ = coded(element, stored, scaled, dtype)
    if stored != matrix:
        value = opset1.reshape(value, np.array(matrix), False)
    feeds = [[numbers(2, rows, 128)] for rows in (1, 5)]
    built = model_of(lambda x: opset1.matmul(x, single(value, dtype), False, True), feeds)
    converted = assert_ours(built, feeds, ours=OURS)
    shapes = {tuple(each.shape.numpy()) for each in converted.model.graph.initializers.values()}  # type: ignore[union-attr]
    blocks = math.prod(scaled[1:]) if form != "groups in one axis" else 4
    assert shapes == {matrix, (24, blocks), (16,)}


@pytest.mark.parametrize("element", CODED)
@pytest.mark.parametrize(
    ("stored", "scaled"), [((128, 24), (1, 24)), ((4, 32, 24), (4, 1, 24))], ids=["channels", "groups"]
)
def test_weights_in_columns(element: str, stored: tuple[int, ...], scaled: tuple[int, ...]) -> None:
    value, _ = coded(element, stored, scaled, "f32")
    if len(stored) == 3:
        value = opset1.reshape(value, np.array([128, 24]), False)
    feeds = [[numbers(rows, 128)] for rows in (1, 40)]
    assert_ours(model_of(lambda x: opset1.matmul(x, value, False, False), feeds), feeds, ours=OURS)


@pytest.mark.parametrize("element", CODED)
def test_weights_that_are_transposed_first(element: str) -> None:
    value, _ = coded(element, (32, 64), (32, 1), "f32")
    turned = opset1.transpose(value, np.array([1, 0]))
    feeds = [[numbers(2, 3, 4, 64)]]
    assert_ours(model_of(lambda x: opset1.matmul(x, turned, False, False), feeds), feeds, ours=OURS)


@pytest.mark.parametrize("element", CODED)
def test_data_of_float16(element: str) -> None:
    """Numbers of nf4 are rounded to f16 with the rest of the model, and so are products."""
    value, stands_for = coded(element, (24, 4, 32), (24, 4, 1), "f16")
    matrix = opset1.reshape(value, np.array((24, 128)), False)
    feeds = [[numbers(2, rows, 128).astype(np.float16)] for rows in (1, 5)]
    source = model_of(lambda x: opset1.matmul(x, matrix, False, True), feeds)
    converted = conversion(source)
    assert OURS in nodes(converted)
    model = converted.to_proto()
    for feed in feeds:
        exact = feed[0].astype(np.float64) @ stands_for.reshape(24, 128).T
        magnitude = np.abs(feed[0].astype(np.float64)) @ np.abs(stands_for.reshape(24, 128)).T
        for way in WAYS:
            (y,) = run(model, {model.graph.input[0].name: feed[0]}, way)
            assert y.dtype == np.float16
            assert (np.abs(y - exact) <= float(np.finfo(np.float16).eps) * magnitude).all()


@pytest.mark.parametrize("dtype", ["f16", "f32"])
@pytest.mark.parametrize("groups", [2, 1024], ids=["few", "many"])
def test_scales_that_are_powers_of_two(dtype: str, groups: int) -> None:
    """As mxfp4 has them; many of them are not looked up when the model is converted, but by our op's inputs."""
    rng = np.random.default_rng(0)
    exponents = rng.integers(120, 131, (64, groups, 1)).astype(np.uint8)
    tensor = openvino.Tensor(exponents, openvino.Shape([64, groups, 1]), openvino.Type.f8e8m0)
    pairs = rng.integers(0, 255, 64 * groups * 16, endpoint=True).astype(np.uint8)
    codes = openvino.Tensor(pairs, openvino.Shape([64, groups, 32]), openvino.Type.f4e2m1)
    held = [openvino.op.Constant(each, shared_memory=False) for each in (codes, tensor)]
    scaled = opset1.multiply(*(opset1.convert(each, dtype) for each in held))
    matrix = single(opset1.reshape(scaled, np.array([64, 32 * groups]), False), dtype)
    feeds = [[numbers(rows, 32 * groups)] for rows in (1, 6)]
    assert_ours(model_of(lambda x: opset1.matmul(x, matrix, False, True), feeds), feeds, ours=OURS)


@pytest.mark.parametrize("dtype", ["f16", "f32"])
def test_scales_at_the_ends_of_their_range(dtype: str) -> None:
    """What f16 does not hold is zero or infinite there. Of the least one, which is left out, OpenVINO makes 0."""
    exponents = np.array([[1], [20], [102], [103], [110], [127], [141], [142], [143], [200], [250], [255]], np.uint8)
    tensor = openvino.Tensor(exponents, openvino.Shape([12, 1]), openvino.Type.f8e8m0)
    pairs = openvino.Tensor(np.full(12 * 16, 0x22, np.uint8), openvino.Shape([12, 32]), openvino.Type.f4e2m1)
    held = [openvino.op.Constant(each, shared_memory=False) for each in (pairs, tensor)]
    matrix = single(opset1.multiply(*(opset1.convert(each, dtype) for each in held)), dtype)
    feeds = [[np.full((rows, 32), 0.125, np.float32)] for rows in (1, 6)]
    source = model_of(lambda x: opset1.matmul(x, matrix, False, True), feeds)
    model = conversion(source).to_proto()
    assert [node.op_type for node in model.graph.node] == [OURS]
    for feed, (theirs,) in zip(feeds, run_openvino(source, feeds), strict=True):
        for way in WAYS:
            (mine,) = run(model, {model.graph.input[0].name: feed[0]}, way)
            np.testing.assert_array_equal(mine, theirs)
    assert np.isnan(theirs[0, -1])
    assert np.isinf(theirs[0, 8]) == (dtype == "f16")


def test_products_of_integers_beside_those_of_codes() -> None:
    codes, _ = coded("nf4", (24, 64), (24, 1), "f32")
    integers = np.random.default_rng(0).integers(-8, 7, (24, 64))
    held = openvino.op.Constant(openvino.Type.i4, openvino.Shape([24, 64]), integers.ravel().tolist())
    whole = opset1.multiply(opset1.convert(held, "f32"), numbers(24, 1, low=0.1, high=0.2))
    feeds = [[numbers(2, 64)]]
    source = model_of(lambda x: [opset1.matmul(x, each, False, True) for each in (codes, whole)], feeds)
    converted = check(source, *feeds, bound=64)
    assert {function.name for function in converted.model.functions.values()} == {OURS, "MatMulCompressed"}


@pytest.mark.parametrize(
    ("stored", "scaled", "data", "transposes_data", "opset"),
    [
        pytest.param((24, 64), (24, 1), (64,), False, None, id="a vector"),
        pytest.param((24, 64), (24, 1), (64, 3), True, None, id="transposed data"),
        pytest.param((24, 64), (24, 64), (2, 64), False, None, id="a scale for each"),
        pytest.param((24, 2, 32), (24, 1, 32), (2, 64), False, None, id="scales within a group"),
    ],
)
def test_what_the_op_does_not_compute_is_floats(
    stored: tuple[int, ...], scaled: tuple[int, ...], data: tuple[int, ...], transposes_data: bool, opset: int | None
) -> None:
    value, expected = coded("codebook", stored, scaled, "f32")
    matrix = opset1.reshape(value, np.array([24, 64]), False)
    feed = [numbers(*data)]
    converted = check(
        model_of(lambda x: opset1.matmul(x, matrix, transposes_data, True), [feed]), feed, bound=64, opset=opset
    )
    assert OURS not in nodes(converted)
    left = feed[0].T if transposes_data else feed[0]
    exact = (left.astype(np.float64) @ expected.reshape(24, 64).T).astype(np.float32)
    assert_close(run_onnx(converted, [feed])[0][0], exact, 64)


def test_a_table_of_another_size_is_floats() -> None:
    codes = np.random.default_rng(0).integers(0, 8, (24, 64))
    table = np.linspace(-1, 1, 8).astype(np.float32)
    held = openvino.op.Constant(openvino.Type.u4, openvino.Shape([24, 64]), codes.ravel().tolist())
    chosen = opset8.gather(opset1.constant(table), opset1.convert(held, "u8"), np.int64(0))
    matrix = opset1.multiply(chosen, numbers(24, 1))
    feed = [numbers(3, 64)]
    converted = check(model_of(lambda x: opset1.matmul(x, matrix, False, True), [feed]), feed, bound=64)
    assert OURS not in nodes(converted)


@pytest.mark.parametrize("element", CODED)
@pytest.mark.parametrize("dtype", ["f16", "f32"])
@pytest.mark.parametrize(
    ("stored", "scaled", "is_unpacked"),
    [((12, 8), (12, 1), True), ((12, 2, 16), (12, 2, 1), True), ((12, 9), (12, 1), False), ((12, 8), (1, 8), False)],
)
def test_rows_of_tables(
    element: str, dtype: str, stored: tuple[int, ...], scaled: tuple[int, ...], is_unpacked: bool
) -> None:
    """Gathered before they are looked up. OpenVINO rounds numbers of nf4 to f16 here, unlike those of products."""
    value, expected = coded(element, stored, scaled, dtype)
    matrix = opset1.reshape(value, np.array([12, -1]), False)
    feeds = [[np.array(rows)] for rows in ([[0, 3], [11, 3]], [[5, 6, 7]])]
    source = model_of(lambda x: opset8.gather(single(matrix, dtype), x, np.array(0)), feeds)
    converted = check(source, *feeds, bound=1)
    rows = {tuple(each.shape.numpy()) for each in converted.model.graph.initializers.values()}  # type: ignore[union-attr]
    assert ((12, math.prod(stored) // 24) in rows) == is_unpacked
    tolerance = 1e-3 if (element, dtype) == ("nf4", "f16") else 1e-6
    for feed, (mine,) in zip(feeds, run_onnx(converted, feeds), strict=True):
        np.testing.assert_allclose(mine, expected.reshape(12, -1)[feed[0]], rtol=tolerance)


@pytest.mark.parametrize("way", WAYS)
def test_rows_and_products_share_codes(way: str) -> None:
    value, _ = coded("codebook", (12, 2, 16), (12, 2, 1), "f32")
    matrix = opset1.reshape(value, np.array([12, 32]), False)
    feed = [np.array([[3, 11, 0]])]
    source = model_of(lambda x: opset1.matmul(opset8.gather(matrix, x, np.array(0)), matrix, False, True), [feed])
    model = conversion(source).to_proto()
    (mine,) = run(model, {model.graph.input[0].name: feed[0]}, way)
    assert_close(mine, run_openvino(source, [feed])[0][0], 64)
