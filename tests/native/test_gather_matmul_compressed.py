"""GatherMatMulCompressed in every way it can be run, and what is refused."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, numpy_helper
from onnx.helper import tensor_dtype_to_np_dtype
from onnx.reference import ReferenceEvaluator

import ortconv
from ortconv.opset.ops.compressed_weights import QUANTIZED_TYPES
from ortconv.opset.ops.gather_matmul_compressed import GATHER_MATMUL_COMPRESSED
from ortconv.opset.reference.evaluator import OP_RUNS
from ortconv.runtime import library
from tests.operators.gather_products import assert_products, indices, model
from tests.operators.native import quiet
from tests.running import WAYS, run

NAME = GATHER_MATMUL_COMPRESSED.name
SIZES = [(1, 1, 1, 1), (3, 5, 7, 7), (4, 4, 6, 1), (2, 17, 96, 32), (5, 33, 300, 100), (3, 70, 256, 128)]
"""How many matrices, rows and columns of each, and block_size."""
BF16, F16, FLOAT, DOUBLE, INT32 = (
    TensorProto.DataType.Value(n) for n in ("BFLOAT16", "FLOAT16", "FLOAT", "DOUBLE", "INT32")
)


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("code", QUANTIZED_TYPES, ids=TensorProto.DataType.Name)
@pytest.mark.parametrize("points", [False, True], ids=["symmetric", "asymmetric"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_products_are_the_definition(
    way: str, code: int, points: bool, sizes: tuple[int, int, int, int], library: str
) -> None:
    matrices, rows, depth, block = sizes
    made = model(
        code, data=(matrices, rows, depth), block=block, point=(matrices, rows, depth // block) if points else None
    )
    for count, slots in ((1, 2), (5, 3), (150, 2), (0, 2), (4, 0)):
        index = indices(count, slots, matrices)
        for of_each in {1, slots}:
            x = numbers(count, of_each, depth)
            (y,) = run(made, {"X": x, "I": index}, way)
            assert_products(made, x, index, y, block)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", [F16, BF16], ids=TensorProto.DataType.Name)
@pytest.mark.parametrize("code", QUANTIZED_TYPES, ids=TensorProto.DataType.Name)
@pytest.mark.parametrize("constant", [True, False], ids=["constant", "of the run"])
def test_floats_of_16_bits(way: str, kind: int, code: int, constant: bool, library: str) -> None:
    for matrices, rows, depth, block in ((3, 5, 7, 7), (2, 33, 300, 100), (4, 70, 256, 32)):
        settings: dict[str, Any] = {
            "data": (matrices, rows, depth), "block": block, "point": (matrices, rows, depth // block), "x_type": kind,
            "x": ["T", 1, depth], "index": ["T", 2],
        }  # fmt: skip
        made = model(code, **settings)
        for count in (1, 40):
            x, index = numbers(count, 1, depth).astype(tensor_dtype_to_np_dtype(kind)), indices(count, 2, matrices)
            feeds = {"X": x, "I": index}
            if not constant:
                feeds |= {each.name: numpy_helper.to_array(each) for each in made.graph.initializer}
            (y,) = run(made if constant else model(code, **settings, constant=False), feeds, way)
            assert_products(made, x, index, y, block)


@pytest.mark.parametrize("code", QUANTIZED_TYPES, ids=TensorProto.DataType.Name)
def test_body_without_optimizations(code: int) -> None:
    """Shape of 4-bit integers has no kernel: ONNX Runtime otherwise evaluates it when it loads a model."""
    made = model(code, data=(3, 5, 8), block=4, point=(3, 5, 2))
    options = quiet()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    x, index = numbers(4, 1, 8), indices(4, 2, 3)
    (y,) = session.run(None, {"X": x, "I": index})
    assert_products(made, x, index, y, 4)


@given(st.data())
def test_any_sizes(library: str, data: st.DataObject) -> None:
    """The native kernels, and now and then the body."""
    integers = lambda least, most: data.draw(st.integers(least, most))  # noqa: E731
    code, block = data.draw(st.sampled_from(QUANTIZED_TYPES)), integers(1, 70)
    matrices, rows, depth = integers(1, 6), integers(1, 70), block * integers(1, 5)
    count, slots = integers(0, 60), integers(1, 4)
    point = (matrices, rows, depth // block) if data.draw(st.booleans()) else None
    made = model(code, data=(matrices, rows, depth), block=block, point=point)
    x = numbers(count, data.draw(st.sampled_from([1, slots])), depth, seed=count)
    index = indices(count, slots, matrices, seed=integers(0, 99))
    (y,) = run(made, {"X": x, "I": index}, data.draw(st.sampled_from(["native", "native", "native", "none"])))
    assert_products(made, x, index, y, block)


@pytest.mark.parametrize("way", WAYS)
def test_an_index_that_names_no_matrix_gives_zeros(way: str, library: str) -> None:
    index = np.array([[-1, 0, 3], [2, np.iinfo(np.int64).max, np.iinfo(np.int64).min]])
    x = np.full((2, 1, 8), np.inf, np.float32)
    (y,) = run(model(), {"X": x, "I": index}, way)
    is_named = (index >= 0) & (index < 3)
    assert (y[~is_named] == 0).all()
    assert not np.isfinite(y[is_named]).any()
    (y,) = run(model(), {"X": x, "I": np.full((2, 3), -1)}, way)
    assert (y == 0).all()


@pytest.mark.parametrize("way", WAYS)
def test_many_matrices_that_have_no_rows(way: str, library: str) -> None:
    made = model(data=(1 << 40, 0, 8))
    (y,) = run(made, {"X": np.ones((2, 1, 8), np.float32), "I": np.array([[0, -1], [5, 1 << 39]])}, way)
    assert y.shape == (2, 2, 0)


@pytest.mark.parametrize("code", QUANTIZED_TYPES, ids=TensorProto.DataType.Name)
@pytest.mark.parametrize("count", [2, 90])
def test_infinities_and_nan_reach_what_they_do_in_the_body(code: int, count: int, library: str) -> None:
    made = model(code, data=(3, 33, 256), block=32, point=(3, 33, 8))
    x, index = numbers(count, 1, 256), indices(count, 2, 3)
    x[0, 0, 5], x[-1, 0, 200], x[count // 2, 0, 7] = np.inf, -np.inf, np.nan
    native, plain = (run(made, {"X": x, "I": index}, way)[0] for way in ("native", "none"))
    for found in (np.isnan, np.isposinf, np.isneginf):
        np.testing.assert_array_equal(found(native), found(plain))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("code", QUANTIZED_TYPES, ids=TensorProto.DataType.Name)
def test_threads_share_large_products(code: int, threads: int, library: str) -> None:
    """Also where the rows of the data are taken in several waves."""
    made = model(code, data=(6, 300, 1024), block=128, point=(6, 300, 8))
    session = ortconv.InferenceSession(made, quiet(threads), providers=["CPUExecutionProvider"])
    for count, slots in ((1, 4), (3, 2), (65, 3), (700, 3)):
        x, index = numbers(count, 1, 1024), indices(count, slots, 6)
        (y,) = session.run(None, {"X": x, "I": index})
        assert_products(made, x, index, y, 128)


@pytest.mark.parametrize("code", QUANTIZED_TYPES, ids=TensorProto.DataType.Name)
def test_weights_of_the_run(code: int, library: str) -> None:
    settings: dict[str, Any] = {"data": (3, 9, 64), "block": 32, "point": (3, 9, 2)}
    constant = model(code, **settings)
    x, index = numbers(3, 2, 64), indices(3, 2, 3)
    weights = {each.name: numpy_helper.to_array(each) for each in constant.graph.initializer}
    for way in WAYS:
        (y,) = run(model(code, **settings, constant=False), {"X": x, "I": index, **weights}, way)
        assert_products(constant, x, index, y, 32)


@pytest.mark.parametrize("code", QUANTIZED_TYPES, ids=TensorProto.DataType.Name)
def test_reference_evaluator(code: int) -> None:
    made = model(code, data=(3, 9, 64), block=32, point=(3, 9, 2), bodies=False)
    x, index = numbers(2, 3, 64), indices(2, 3, 3)
    (y,) = ReferenceEvaluator(made, new_ops=OP_RUNS).run(None, {"X": x, "I": index})
    assert_products(made, x, index, y, 32)


@pytest.mark.parametrize("opset", [21, 22, 23, 24, 25])
@pytest.mark.parametrize("code", QUANTIZED_TYPES, ids=TensorProto.DataType.Name)
def test_body_in_every_opset(opset: int, code: int) -> None:
    for point in (None, (3, 9, 2)):
        made = model(code, data=(3, 9, 64), block=32, point=point, opset=opset)
        onnx.checker.check_model(made, full_check=True)
        x, index = numbers(2, 1, 64), indices(2, 3, 3)
        (y,) = run(made, {"X": x, "I": index}, "none")
        assert_products(made, x, index, y, 32)


def test_no_body_before_opset_21() -> None:
    with pytest.raises(ValueError, match="opset 20"):
        GATHER_MATMUL_COMPRESSED.body(20)


def optimized(made: onnx.ModelProto, folder: pathlib.Path, *, entry: str | None = None) -> onnx.GraphProto:
    """Returns what ONNX Runtime runs, with our library only where there is an entry."""
    options = quiet()
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    if entry is not None:
        options.add_session_config_entry(library.MATMUL_COMPRESSED_ENTRY, entry)
        ortconv.register(options)
    onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return onnx.load(folder / "optimized.onnx").graph


@pytest.mark.parametrize("code", QUANTIZED_TYPES, ids=TensorProto.DataType.Name)
def test_body_has_one_matrix_at_a_time(code: int, tmp_path: pathlib.Path) -> None:
    """As floats; all of them are integers of a byte, and ONNX Runtime makes those once. It rounds no data."""
    graph = optimized(model(code, data=(4, 64, 64), block=32, point=(4, 64, 2)), tmp_path)
    (loop,) = (node for node in graph.node if node.op_type == "Loop")
    inner = {node.op_type for node in loop.attribute[0].g.node}
    assert "DequantizeLinear" in inner
    assert "MatMulNBits" not in inner
    assert not {"BitwiseXor", "DequantizeLinear", "QuantizeLinear"} & {node.op_type for node in graph.node}
    kept = [each for each in graph.initializer if list(each.dims) == [4, 64, 64]]
    assert [each.data_type for each in kept] == [TensorProto.UINT8]


@pytest.mark.parametrize(("entry", "ours"), [("1", True), ("0", False)])
def test_entry_leaves_the_op_to_its_body(entry: str, ours: bool, tmp_path: pathlib.Path, library: str) -> None:
    types = {node.op_type for node in optimized(model(), tmp_path, entry=entry).node}
    assert (NAME in types) == ours
    assert ("Loop" in types) != ours


@pytest.mark.parametrize("code", QUANTIZED_TYPES, ids=TensorProto.DataType.Name)
def test_good_node_passes(code: int) -> None:
    for constant in (True, False):
        for point in (None, (3, 6, 2)):
            for bodies in (True, False):
                onnx.checker.check_model(model(code, point=point, constant=constant, bodies=bodies), full_check=True)


@pytest.mark.parametrize("constant", [True, False], ids=["constant", "of the run"])
@pytest.mark.parametrize("made", [
    pytest.param({"x": ["T", 2, 7]}, id="columns of X"),
    pytest.param({"x": ["T", 8]}, id="X of two axes"),
    pytest.param({"x": [2, 3, 8], "index": [2, 2]}, id="rows of X for each index"),
    pytest.param({"x": [3, 1, 8], "index": [2, 2]}, id="rows of X"),
    pytest.param({"index": [2]}, id="index of one axis"),
    pytest.param({"index": [2, 2, 1]}, id="index of three axes"),
    pytest.param({"index_type": INT32}, id="index of 32 bits"),
    pytest.param({"index_type": FLOAT}, id="index of floats"),
    pytest.param({"data": (6, 8), "scale": (6, 2)}, id="data of two axes"),
    pytest.param({"data": (3, 6, 0), "scale": (3, 6, 0)}, id="no columns"),
    pytest.param({"scale": (3, 6, 1)}, id="too few scales"),
    pytest.param({"scale": (6, 2)}, id="scales of one matrix"),
    pytest.param({"scale": (3, 2, 6)}, id="scales the other way"),
    pytest.param({"point": (3, 6, 1)}, id="too few points"),
    pytest.param({"point": (1,)}, id="one point"),
    pytest.param({"block": 3, "scale": (3, 6, 2)}, id="block that does not divide"),
    pytest.param({"block": 16, "scale": (3, 6, 1)}, id="block larger than a row"),
    pytest.param({"block": 0, "scale": (3, 6, 2)}, id="block of nothing"),
    pytest.param({"block": None, "scale": (3, 6, 2)}, id="no block"),
    pytest.param({"block": 4.0, "scale": (3, 6, 2)}, id="block that is no integer"),
    pytest.param({"x_type": F16, "scale_type": FLOAT}, id="X of f16 and scales of float"),
    pytest.param({"x_type": DOUBLE}, id="X of f64"),
    pytest.param({"code": INT32}, id="integers of 32 bits"),
    pytest.param({"point": (3, 6, 2), "point_type": TensorProto.INT8}, id="points of another type"),
    pytest.param({"drop": 1}, id="no index"),
    pytest.param({"drop": 2}, id="no scales"),
])  # fmt: skip
def test_bad_node_is_refused(made: dict[str, Any], constant: bool, library: str) -> None:
    """By the checker, by ONNX Runtime with our library, and by the Python ops; the message names the op."""
    settings: dict[str, Any] = {"code": TensorProto.UINT4, **made}
    bad = model(**settings, constant=constant, bodies=False)
    with pytest.raises((onnx.checker.ValidationError, onnx.shape_inference.InferenceError)):
        onnx.checker.check_model(bad, full_check=True)
    types = {DOUBLE: np.float64, F16: np.float16, INT32: np.int32, FLOAT: np.float32}
    sizes = made.get("x", ["T", 1, made.get("data", (3, 6, 8))[-1]])
    index = made.get("index", [2, 2])
    feeds = {
        "X": np.ones([2 if size == "T" else size for size in sizes], types[made.get("x_type", FLOAT)]),
        "I": np.zeros(index, types.get(made.get("index_type"), np.int64)),
    }
    if not constant:
        feeds |= {each.name: numpy_helper.to_array(each) for each in model(**settings, bodies=False).graph.initializer}
    for way in ("native", "python"):
        with pytest.raises(Exception, match=NAME):
            run(bad, feeds, way)


def test_messages_name_the_node(library: str) -> None:
    x = np.ones((2, 1, 8), np.float32)
    for settings, index, message in (
        ({"block": 0, "scale": (3, 6, 2)}, (2, 2), r"attribute block_size = 0 is not allowed"),
        ({"scale": (3, 6, 1)}, (2, 2), r"input scale has shape \[3, 6, 1\]; allowed: \[3, 6, 2\]"),
        ({}, (3, 2), r"input X has shape \[2, 1, 8\]; allowed: \[3, 2, 8\], or 1 in the second place"),
        ({"index": ["T"]}, (2,), r"input index has shape \[2\]; allowed: rank 2"),
    ):
        with pytest.raises(Exception, match=rf"org.ortconv.{NAME} 'p': {message}"):
            run(model(**settings), {"X": x, "I": np.zeros(index, np.int64)}, "native")


def test_shapes_are_inferred(library: str) -> None:
    made = model()
    graph = onnx.shape_inference.infer_shapes(made, strict_mode=True).graph
    assert [dim.dim_param or dim.dim_value for dim in graph.output[0].type.tensor_type.shape.dim] == ["T", "J", 6]
    session = ortconv.InferenceSession(made, quiet(), providers=["CPUExecutionProvider"])
    assert session.get_outputs()[0].shape == ["T", "J", 6]


@pytest.mark.parametrize(
    ("x", "index", "data", "expected"),
    [
        ([2, 1, 8], [2, 3], True, [2, 3, 6]),
        ([2, 3, 8], [2, 3], True, [2, 3, 6]),
        (None, ["T", 3], True, ["T", 3, 6]),
        (["T", 1, None], None, True, ["T", 0, 6]),
        (None, None, True, [0, 0, 6]),
        ([2, "A", None], [None, None], False, [0, 0, 0]),
    ],
)
def test_what_is_known_of_shapes_is_inferred(
    x: list[Any] | None, index: list[Any] | None, data: bool, expected: list[Any]
) -> None:
    """0 stands for what is not known, for which inference makes up names."""
    made = model(x=x, index=index, constant=False, bodies=False)
    unknown = {name for name, known in (("X", x), ("I", index), ("D", data)) if not known}
    for each in made.graph.input:
        if each.name in unknown:
            each.type.tensor_type.ClearField("shape")
    (result,) = onnx.shape_inference.infer_shapes(made, strict_mode=True).graph.output
    dims = result.type.tensor_type.shape.dim
    assert [0 if dim.dim_param.startswith("unk__") else dim.dim_param or dim.dim_value for dim in dims] == expected
