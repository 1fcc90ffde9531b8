"""MatMulCompressed in every way it can be run, and what is refused."""

from __future__ import annotations

import pathlib
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, numpy_helper
from onnx.helper import tensor_dtype_to_np_dtype
from onnx.reference import ReferenceEvaluator

import ortconv
from ortconv.errors import PluginError
from ortconv.opset.ops.compressed_weights import QUANTIZED_TYPES
from ortconv.opset.ops.matmul_compressed import MATMUL_COMPRESSED
from ortconv.opset.reference.evaluator import OP_RUNS
from ortconv.runtime.library import MATMUL_COMPRESSED_ENTRY
from tests.operators.native import quiet
from tests.operators.products import SIZES, assert_product, model
from tests.running import WAYS, run


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("code", QUANTIZED_TYPES, ids=TensorProto.DataType.Name)
@pytest.mark.parametrize("points", [False, True], ids=["symmetric", "asymmetric"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_product_is_the_definition(
    way: str, code: int, points: bool, sizes: tuple[int, int, int], library: str
) -> None:
    rows, depth, block = sizes
    for lead in ((1,), (2, 3), (1, 1, 40), (0,)):
        made = model(
            code, x=[*lead[:-1], "N", depth], data=(rows, depth), block=block,
            point=(rows, depth // block) if points else None,
        )  # fmt: skip
        x = np.random.default_rng(0).standard_normal((*lead, depth)).astype(np.float32)
        (y,) = run(made, {"X": x}, way)
        assert_product(made, x, y, block)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.BFLOAT16], ids=TensorProto.DataType.Name)
@pytest.mark.parametrize("code", QUANTIZED_TYPES, ids=TensorProto.DataType.Name)
@pytest.mark.parametrize("constant", [True, False], ids=["constant", "of the run"])
def test_floats_of_16_bits(way: str, kind: int, code: int, constant: bool, library: str) -> None:
    for rows, depth, block in ((5, 7, 7), (33, 300, 100), (70, 256, 32)):
        for lead in ((1,), (2, 3), (40,), (0,)):
            settings = {
                "x": [*lead[:-1], "N", depth], "data": (rows, depth), "block": block, "point": (rows, depth // block),
                "x_type": kind,
            }  # fmt: skip
            made = model(code, **settings)
            x = np.random.default_rng(0).standard_normal((*lead, depth)).astype(tensor_dtype_to_np_dtype(kind))
            feeds = {"X": x}
            if not constant:
                feeds |= {each.name: numpy_helper.to_array(each) for each in made.graph.initializer}
            (y,) = run(made if constant else model(code, **settings, constant=False), feeds, way)
            assert_product(made, x, y, block)


def test_results_are_rounded_once(library: str) -> None:
    """Neither terms nor their sum so far."""
    made = model(TensorProto.INT8, data=(1, 4), block=4, x_type=TensorProto.FLOAT16)
    for each, values in zip(
        made.graph.initializer, (np.array([[64, 64, 1, 1]], np.int8), np.ones((1, 1), np.float16)), strict=True
    ):
        each.CopyFrom(numpy_helper.from_array(values, each.name))
    x = np.array([[1024, -1023.5, 0.25, 0.25], [32, 0, 1, 0.5], [2048, 0, 64, 1]], np.float16)
    for way in WAYS:
        (y,) = run(made, {"X": x}, way)
        np.testing.assert_array_equal(y, np.array([[32.5], [2050], [np.inf]], np.float16))


@pytest.mark.parametrize("rows", [1, 5, 40])
@pytest.mark.parametrize("code", QUANTIZED_TYPES, ids=TensorProto.DataType.Name)
def test_infinities_and_nan_reach_what_they_do_in_the_body(code: int, rows: int, library: str) -> None:
    made = model(code, data=(33, 256), block=32, point=(33, 8))
    x = np.random.default_rng(0).standard_normal((rows, 256)).astype(np.float32)
    x[0, 5], x[-1, 200] = np.inf, -np.inf
    if rows > 2:
        x[1, 7] = np.nan
    native, plain = (run(made, {"X": x}, way)[0] for way in ("native", "none"))
    for found in (np.isnan, np.isposinf, np.isneginf):
        np.testing.assert_array_equal(found(native), found(plain))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("code", QUANTIZED_TYPES, ids=TensorProto.DataType.Name)
def test_threads_share_a_large_product(code: int, threads: int, library: str) -> None:
    made = model(code, data=(700, 1024), block=128, point=(700, 8))
    session = ortconv.InferenceSession(made, quiet(threads), providers=["CPUExecutionProvider"])
    for rows in (1, 3, 65):
        x = np.random.default_rng(0).standard_normal((rows, 1024)).astype(np.float32)
        assert_product(made, x, session.run(None, {"X": x})[0], 128)


@pytest.mark.parametrize("code", QUANTIZED_TYPES, ids=TensorProto.DataType.Name)
def test_weights_of_the_run(code: int, library: str) -> None:
    constant = model(code, data=(9, 64), block=32, point=(9, 2))
    made = model(code, data=(9, 64), block=32, point=(9, 2), constant=False)
    x = np.random.default_rng(0).standard_normal((3, 64)).astype(np.float32)
    weights = {each.name: numpy_helper.to_array(each) for each in constant.graph.initializer}
    for way in WAYS:
        (y,) = run(made, {"X": x, **weights}, way)
        assert_product(constant, x, y, 32)


@pytest.mark.parametrize("code", QUANTIZED_TYPES, ids=TensorProto.DataType.Name)
def test_reference_evaluator(code: int) -> None:
    made = model(code, data=(9, 64), block=32, point=(9, 2), bodies=False)
    x = np.random.default_rng(0).standard_normal((2, 3, 64)).astype(np.float32)
    (y,) = ReferenceEvaluator(made, new_ops=OP_RUNS).run(None, {"X": x})
    assert_product(made, x, y, 32)


@pytest.mark.parametrize("opset", [21, 22, 23, 24, 25])
def test_body_in_every_opset(opset: int) -> None:
    made = model(TensorProto.UINT4, data=(9, 64), block=32, point=(9, 2), opset=opset)
    onnx.checker.check_model(made, full_check=True)
    x = np.random.default_rng(0).standard_normal((2, 64)).astype(np.float32)
    (y,) = run(made, {"X": x}, "none")
    assert_product(made, x, y, 32)


def test_no_body_before_opset_21() -> None:
    with pytest.raises(ValueError, match="opset 20"):
        MATMUL_COMPRESSED.body(20)


def optimized(made: onnx.ModelProto, folder: pathlib.Path, *, register: bool, entry: str | None = None) -> set[str]:
    """Returns the op types that ONNX Runtime runs."""
    options = quiet()
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    if entry is not None:
        options.add_session_config_entry(MATMUL_COMPRESSED_ENTRY, entry)
    if register:
        ortconv.register(options)
    onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return {node.op_type for node in onnx.load(folder / "optimized.onnx").graph.node}


@pytest.mark.parametrize("code", QUANTIZED_TYPES, ids=TensorProto.DataType.Name)
@pytest.mark.parametrize("block", [32, 64])
def test_body_does_not_round_the_data(code: int, block: int, tmp_path: pathlib.Path) -> None:
    """ONNX Runtime's MatMulNBits would."""
    made = model(code, data=(64, 64), block=block, point=(64, 64 // block))
    types = optimized(made, tmp_path, register=False)
    assert "DequantizeLinear" in types
    assert "MatMulNBits" not in types


@pytest.mark.parametrize("code", QUANTIZED_TYPES, ids=TensorProto.DataType.Name)
@pytest.mark.parametrize("points", [False, True], ids=["symmetric", "asymmetric"])
def test_body_runs_where_int8_becomes_uint8(code: int, points: bool) -> None:
    """ONNX Runtime does so on any x86-64 CPU, if it is told, and fails where no zero points are given."""
    made = model(code, data=(64, 64), block=32, point=(64, 2) if points else None)
    options = quiet()
    options.add_session_config_entry("session.x64quantprecision", "1")
    x = np.random.default_rng(0).standard_normal((3, 64)).astype(np.float32)
    session = onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    assert_product(made, x, session.run(None, {"X": x})[0], 32)


@pytest.mark.parametrize(("entry", "ours"), [(None, True), ("1", True), ("0", False)])
def test_entry_leaves_the_op_to_its_body(entry: str | None, ours: bool, tmp_path: pathlib.Path, library: str) -> None:
    types = optimized(model(), tmp_path, register=True, entry=entry)
    assert (MATMUL_COMPRESSED.name in types) == ours
    assert ("DequantizeLinear" in types) != ours


def test_entry_is_checked(library: str) -> None:
    options = quiet()
    options.add_session_config_entry(MATMUL_COMPRESSED_ENTRY, "no")
    with pytest.raises(PluginError, match="matmul_compressed = 'no' is not supported; allowed: 0, 1"):
        ortconv.register(options)


def test_entry_has_to_be_set_before(library: str) -> None:
    options = quiet()
    ortconv.register(options)
    options.add_session_config_entry(MATMUL_COMPRESSED_ENTRY, "0")
    with pytest.raises(PluginError, match="matmul_compressed was changed after the ops were registered"):
        ortconv.register(options)
    options.add_session_config_entry("ortconv.cuda.use_tf32", "1")
    with pytest.raises(PluginError, match="was changed after the ops were registered"):
        ortconv.register(options)


FLOAT, F16, DOUBLE, INT32 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.INT32
BF16 = TensorProto.BFLOAT16


@pytest.mark.parametrize("code", QUANTIZED_TYPES, ids=TensorProto.DataType.Name)
def test_good_node_passes(code: int) -> None:
    for constant in (True, False):
        for point in (None, (6, 2)):
            for bodies in (True, False):
                onnx.checker.check_model(model(code, point=point, constant=constant, bodies=bodies), full_check=True)


@pytest.mark.parametrize("constant", [True, False], ids=["constant", "of the run"])
@pytest.mark.parametrize("made", [
    pytest.param({"x": ["N", 7]}, id="columns of X"),
    pytest.param({"x": [8]}, id="a vector"),
    pytest.param({"data": (6, 2, 4)}, id="data of three axes"),
    pytest.param({"data": (8,), "scale": (2,)}, id="data of one axis"),
    pytest.param({"data": (6, 0), "scale": (6, 0)}, id="no columns"),
    pytest.param({"scale": (6, 1)}, id="too few scales"),
    pytest.param({"scale": (6, 2, 1)}, id="scales of three axes"),
    pytest.param({"scale": (12,)}, id="scales of one axis"),
    pytest.param({"scale": (2, 6)}, id="scales the other way"),
    pytest.param({"point": (6, 1)}, id="too few points"),
    pytest.param({"point": (1,)}, id="one point"),
    pytest.param({"block": 3, "scale": (6, 2)}, id="block that does not divide"),
    pytest.param({"block": 16, "scale": (6, 1)}, id="block larger than a row"),
    pytest.param({"block": 0, "scale": (6, 2)}, id="block of nothing"),
    pytest.param({"block": -4, "scale": (6, 2)}, id="negative block"),
    pytest.param({"block": None, "scale": (6, 2)}, id="no block"),
    pytest.param({"block": 4.0, "scale": (6, 2)}, id="block that is no integer"),
    pytest.param({"block": [4], "scale": (6, 2)}, id="list of blocks"),
    pytest.param({"x_type": F16, "scale_type": FLOAT}, id="X of f16 and scales of float"),
    pytest.param({"x_type": BF16, "scale_type": F16}, id="X of bf16 and scales of f16"),
    pytest.param({"x_type": DOUBLE}, id="X of f64"),
    pytest.param({"scale_type": F16}, id="scales of f16"),
    pytest.param({"code": INT32}, id="integers of 32 bits"),
    pytest.param({"point": (6, 2), "point_type": TensorProto.INT8}, id="points of another type"),
    pytest.param({"drop": 1}, id="no scales"),
    pytest.param({"drop": 2}, id="no data"),
])  # fmt: skip
def test_bad_node_is_refused(made: dict[str, Any], constant: bool, library: str) -> None:
    """By the checker, by ONNX Runtime with our library, and by the Python ops; the message names the op."""
    for code in (TensorProto.UINT8, TensorProto.UINT4) if "code" not in made else (None,):
        bad = model(**({"code": code} if code else {}), **made, constant=constant, bodies=False)
        with pytest.raises((onnx.checker.ValidationError, onnx.shape_inference.InferenceError)):
            onnx.checker.check_model(bad, full_check=True)
        types = {TensorProto.DOUBLE: np.float64, F16: np.float16, BF16: ml_dtypes.bfloat16}
        kind = types.get(made.get("x_type", TensorProto.FLOAT), np.float32)
        sizes = made.get("x", ["N", made.get("data", (6, 8))[-1]])
        feeds = {"X": np.ones([2 if size == "N" else size for size in sizes], kind)}
        whole = model(**({"code": code} if code else {}), **made, bodies=False)
        if not constant:
            feeds |= {each.name: numpy_helper.to_array(each) for each in whole.graph.initializer}
        for way in ("native", "python"):
            with pytest.raises(Exception, match=MATMUL_COMPRESSED.name):
                run(bad, feeds, way)


def test_messages_name_the_node(library: str) -> None:
    with pytest.raises(Exception, match=r"org.ortconv.MatMulCompressed 'p': attribute block_size = 0 is not allowed"):
        run(model(block=0, scale=(6, 2)), {"X": np.ones((2, 8), np.float32)}, "native")
    with pytest.raises(Exception, match=r"MatMulCompressed 'p': input scale has shape \[6, 1\]; allowed: \[6, 2\]"):
        run(model(scale=(6, 1)), {"X": np.ones((2, 8), np.float32)}, "native")


def test_shapes_are_inferred(library: str) -> None:
    made = model(x=["B", 3, 8])
    graph = onnx.shape_inference.infer_shapes(made, strict_mode=True).graph
    assert [dim.dim_param or dim.dim_value for dim in graph.output[0].type.tensor_type.shape.dim] == ["B", 3, 6]
    session = ortconv.InferenceSession(made, quiet(), providers=["CPUExecutionProvider"])
    assert session.get_outputs()[0].shape == ["B", 3, 6]
