"""Data for the tensors that a file names but does not hold."""

from __future__ import annotations

import pathlib

import ml_dtypes
import numpy as np
import onnx
import pytest

import ortconv
from ortconv import onednn
from ortconv.converters.onednn_graph import FRONTEND
from ortconv.errors import ModelFormatError
from ortconv.frontend.source_graph import SourceGraph
from tests.command_line import run_cli
from tests.running import run

ONES = np.ones((2, 3), np.float32)


def added(dtype: str = "f32", shape: list[int | None] | None = None) -> onednn.Graph:
    g = onednn.Graph("sum")
    x = g.tensor("x", dtype, [2, 3] if shape is None else shape)
    g.op("Add", [x, g.tensor("w", dtype, [2, 3] if shape is None else shape, constant=True)], name="y")
    return g


def read(graph: onednn.Graph, **tensors: np.ndarray) -> SourceGraph:
    return FRONTEND.read(graph, tensors)


@pytest.mark.parametrize("key", ["w", "1"])
def test_a_tensor_given_by_name_or_id_becomes_a_constant(key: str) -> None:
    source = read(added(), **{key: ONES})
    assert [value.name for value in source.inputs] == ["x"]
    constant = source.nodes[0].inputs[1]
    assert constant is not None
    assert constant.constant is not None
    np.testing.assert_array_equal(constant.constant.numpy(), ONES)


@pytest.mark.parametrize("data", [np.array(2, np.float32), np.float32(2), np.array(2, ">f4")])
def test_a_scalar_stays_one(data: np.ndarray) -> None:
    model = ortconv.convert(added(shape=[]), tensors={"w": data})
    (result,) = run(model, {"x": np.array(1, np.float32)}, "none")
    assert result.shape == ()
    assert result == 3


@pytest.mark.parametrize("data", [np.array(2, ml_dtypes.bfloat16), np.array(2, np.float32), np.array(b"\0@", "V2")])
def test_a_scalar_of_a_narrow_type_stays_one(data: np.ndarray) -> None:
    constant = read(added("bf16", []), w=data).nodes[0].inputs[1]
    assert constant is not None
    assert constant.constant is not None
    assert constant.constant.numpy().shape == ()
    assert constant.constant.numpy() == 2


def test_any_input_may_be_given_whatever_the_file_calls_it() -> None:
    assert [value.name for value in read(added(), x=ONES).inputs] == ["w"]


def test_the_result_uses_the_data() -> None:
    model = ortconv.convert(added(), tensors={"w": 2 * ONES})
    (result,) = run(model, {"x": ONES}, "none")
    np.testing.assert_array_equal(result, 3 * ONES)


def test_unknown_dimensions_take_those_of_the_data() -> None:
    constant = read(added(shape=[None, 3]), w=ONES).nodes[0].inputs[1]
    assert constant is not None
    assert constant.shape == (2, 3)


@pytest.mark.parametrize(
    ("dtype", "given", "expected"),
    [
        ("bf16", np.array([1.5, -0.0, np.inf, np.nan], np.float32), ml_dtypes.bfloat16),
        ("bf16", np.array([1.5, 2, 3, 4], ml_dtypes.bfloat16), ml_dtypes.bfloat16),
        ("f16", np.array([1.5, 2, 3, 65504], np.float32), np.float16),
        ("f16", np.array([1.5, 2, 3, 4], np.float16), np.float16),
        ("f8_e4m3", np.array([1.5, 2, 448, -0.0], np.float32), ml_dtypes.float8_e4m3fn),
        ("f8_e5m2", np.array([1.5, 2, np.inf, 4], np.float32), ml_dtypes.float8_e5m2),
        ("s4", np.array([-8, 7, 0, 1], np.int8), ml_dtypes.int4),
        ("u4", np.array([15, 7, 0, 1], np.uint8), ml_dtypes.uint4),
        ("f32", np.array([1, 2, 3, 4], ">f4"), np.float32),
        ("s64", np.array([1, 2, 3, 2**62]), np.int64),
        ("boolean", np.array([True, False, True, True]), np.bool_),
    ],
    ids=lambda value: str(getattr(value, "dtype", value)),
)
def test_data_is_taken_where_no_value_changes(dtype: str, given: np.ndarray, expected: type) -> None:
    constant = read(added(dtype, [4]), w=given).nodes[0].inputs[1]
    assert constant is not None
    assert constant.constant is not None
    result = constant.constant.numpy()
    assert result.dtype == np.dtype(expected)
    np.testing.assert_array_equal(result.astype(np.float64), given.astype(np.float64))


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4])
def test_types_that_a_file_of_arrays_forgets_are_recovered(tmp_path: pathlib.Path, dtype: type) -> None:
    name = {ml_dtypes.bfloat16: "bf16", ml_dtypes.float8_e4m3fn: "f8_e4m3", ml_dtypes.int4: "s4"}[dtype]
    data = np.array([1, -2, 3, 4]).astype(dtype)
    np.savez(tmp_path / "data.npz", w=data)
    with np.load(tmp_path / "data.npz") as stored:
        constant = read(added(name, [4]), **stored).nodes[0].inputs[1]
    assert constant is not None
    assert constant.constant is not None
    np.testing.assert_array_equal(constant.constant.numpy().astype(np.float32), data.astype(np.float32))


@pytest.mark.parametrize(
    ("dtype", "tensors", "where", "problem"),
    [
        ("f32", {"v": ONES}, "tensors['v']", "is not an input of the graph; allowed, by name or id: w, x."),
        ("f32", {"2": ONES}, "tensors['2']", "is not an input of the graph"),
        ("f32", {"y": ONES}, "tensors['y']", "is not an input of the graph"),
        ("f32", {"w": ONES, "1": ONES}, "tensors['1']", "is tensor 1, which another key gives already."),
        ("f32", {"w": ONES.T}, "tensors['w']", "has shape [3, 2], the graph declares [2, 3]."),
        ("f32", {"w": ONES[0]}, "tensors['w']", "has shape [3], the graph declares [2, 3]."),
        (
            "f32",
            {"w": ONES.astype(np.float64)},
            "tensors['w']",
            "has type float64, the graph declares f32; allowed: float32.",
        ),
        (
            "f32",
            {"w": ONES.astype(object)},
            "tensors['w']",
            "has type object, the graph declares f32; allowed: float32.",
        ),
        ("bf16", {"w": ONES * 1.001}, "tensors['w']", "which bf16 cannot hold; round the data to bf16 first."),
        (
            "bf16",
            {"w": ONES.astype(np.float16)},
            "tensors['w']",
            "has type float16, the graph declares bf16; allowed: bfloat16 or",
        ),
        ("f16", {"w": ONES * 1e6}, "tensors['w']", "has the value 1000000.0, which f16 cannot hold"),
        ("f8_e4m3", {"w": ONES * np.float32(np.inf)}, "tensors['w']", "has the value inf, which f8_e4m3 cannot hold"),
        ("s4", {"w": (ONES * 8).astype(np.int8)}, "tensors['w']", "has the value 8.0, which s4 cannot hold"),
    ],
)
def test_data_that_does_not_fit_is_refused(
    dtype: str, tensors: dict[str, np.ndarray], where: str, problem: str
) -> None:
    with pytest.raises(ModelFormatError) as caught:
        read(added(dtype), **tensors)
    assert (caught.value.path, caught.value.where) == ("<onednn.Graph 'sum'>", where)
    assert problem in caught.value.problem


def quantized() -> onednn.Graph:
    g = onednn.Graph("quantized")
    x, w = g.tensor("x", "f32", [4, 8]), g.tensor("w", "s8", [8, 6], constant=True)
    s, z = g.tensor("s", "f32", [6], constant=True), g.tensor("z", "s8", [6], constant=True)
    g.op("MatMul", [x, g.op("DynamicDequantize", [w, s, z], qtype="per_channel", axis=1)], name="y")
    return g


def test_constants_may_be_random() -> None:
    model = ortconv.convert(quantized(), random_constants=3)
    assert [value.name for value in model.graph.input] == ["x"]
    x = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    (found,) = run(model, {"x": x}, "none")
    assert np.isfinite(found).all()
    assert found.std() > 0
    (again,) = run(ortconv.convert(quantized(), random_constants=3), {"x": x}, "none")
    np.testing.assert_array_equal(found, again)
    (other,) = run(ortconv.convert(quantized(), random_constants=4), {"x": x}, "none")
    assert not np.array_equal(found, other)


@pytest.mark.parametrize("key", ["s", "2"])
def test_what_is_given_is_not_random_and_scales_are_positive(key: str) -> None:
    given = FRONTEND.random_constants
    assert given is not None
    tensors = given(quantized(), 0, {key: np.ones(6, np.float32)})
    assert set(tensors) == {key, "w", "z"}
    scales = given(quantized(), 0, {})["s"]
    assert ((scales > 0) & (scales < 0.1)).all()


def test_a_constant_of_unknown_size_cannot_be_random() -> None:
    g = onednn.Graph()
    g.op("Add", [g.tensor("x", "f32", [2]), g.tensor("w", "f32", [None, 2], constant=True)])
    with pytest.raises(ModelFormatError) as caught:
        ortconv.convert(g, random_constants=0)
    assert caught.value.problem == "constant w has an unknown size; no random data can be made for it."


def test_the_command_line_makes_constants_random_too(tmp_path: pathlib.Path) -> None:
    quantized().save(tmp_path / "q.json")
    target = tmp_path / "q.onnx"
    done = run_cli("convert", tmp_path / "q.json", "-o", target, "--random-constants", 7)
    assert done.exit_code == 0, done.output
    assert [value.name for value in onnx.load(target).graph.input] == ["x"]


@pytest.mark.parametrize("shape", [(), (5,), (3, 3), (0,), (2, 4)])
@pytest.mark.parametrize("dtype", [ml_dtypes.int4, ml_dtypes.uint4])
def test_four_bit_data_travels_packed(dtype: type, shape: tuple[int, ...]) -> None:
    low, high = (-8, 7) if dtype == ml_dtypes.int4 else (0, 15)
    data = np.random.default_rng(0).integers(low, high, shape, endpoint=True).astype(dtype)
    element = onnx.TensorProto.INT4 if dtype == ml_dtypes.int4 else onnx.TensorProto.UINT4
    x = onnx.helper.make_tensor_value_info("x", element, shape)
    y, z = (onnx.helper.make_tensor_value_info(name, kind, shape) for name, kind in (("y", 1), ("z", element)))
    nodes = [onnx.helper.make_node("Cast", ["x"], ["y"], to=1), onnx.helper.make_node("Cast", ["y"], ["z"], to=element)]
    graph = onnx.helper.make_graph(nodes, "g", [x], [y, z])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)
    wide, same = run(model, {"x": data}, "none")
    np.testing.assert_array_equal(wide, data.astype(np.float32))
    assert same.dtype == data.dtype
    np.testing.assert_array_equal(same.astype(np.int8), data.astype(np.int8))
