"""MatMulCodebook and GatherMatMulCodebook in every way they can be run, and what is refused."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, numpy_helper
from onnx.helper import tensor_dtype_to_np_dtype
from onnx.reference import ReferenceEvaluator

import ortconv
from ortconv.opset.reference.evaluator import OP_RUNS
from ortconv.runtime import library
from tests.operators.codebooks import NUMBERS, assert_product, model
from tests.operators.gather_products import indices
from tests.operators.native import quiet
from tests.operators.products import SIZES
from tests.running import WAYS, run

MATMUL, GATHER = "MatMulCodebook", "GatherMatMulCodebook"
BF16, F16, FLOAT, DOUBLE, INT32, INT4, UINT8 = (
    TensorProto.DataType.Value(n) for n in ("BFLOAT16", "FLOAT16", "FLOAT", "DOUBLE", "INT32", "INT4", "UINT8")
)
KINDS = {"float": FLOAT, "float16": F16, "bfloat16": BF16}


def numbers(*shape: int, kind: int = FLOAT) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(tensor_dtype_to_np_dtype(kind))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("kind", "sizes"),
    [
        *(("float", each) for each in (*SIZES, (33, 384, 16), (20, 224, 32), (9, 192, 64), (2, 257, 257))),
        *((kind, each) for kind in ("float16", "bfloat16") for each in ((5, 7, 7), (33, 300, 100), (70, 256, 32))),
    ],
    ids=str,
)
def test_product_is_the_definition(way: str, kind: str, sizes: tuple[int, int, int], library: str) -> None:
    rows, depth, block = sizes
    for lead in ((1,), (2, 3), (1, 1, 40), (0,)):
        made = model(x=[*lead[:-1], "N", depth], data=(rows, depth), block=block, x_type=KINDS[kind])
        x = numbers(*lead, depth, kind=KINDS[kind])
        assert_product(made, x, run(made, {"X": x}, way)[0], block)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (3, 5, 7, 7), (2, 17, 96, 32), (5, 33, 300, 100)], ids=str)
def test_products_by_named_matrices_are_the_definition(
    way: str, kind: str, sizes: tuple[int, int, int, int], library: str
) -> None:
    matrices, rows, depth, block = sizes
    made = model(data=(matrices, rows, depth), block=block, x_type=KINDS[kind])
    for count, slots in ((1, 2), (5, 3), (150, 2), (0, 2), (4, 0)):
        index = indices(count, slots, matrices)
        for of_each in {1, slots}:
            x = numbers(count, of_each, depth, kind=KINDS[kind])
            assert_product(made, x, run(made, {"X": x, "I": index}, way)[0], block, index)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("data", [(9, 64), (3, 9, 64)], ids=["one matrix", "many"])
def test_weights_of_the_run(way: str, data: tuple[int, ...], library: str) -> None:
    constant, made = model(data=data, block=32), model(data=data, block=32, constant=False)
    feeds = {each.name: numpy_helper.to_array(each) for each in constant.graph.initializer}
    index = indices(3, 2, 3) if len(data) == 3 else None
    x = numbers(3, 64) if index is None else numbers(3, 2, 64)
    feeds |= {"X": x} if index is None else {"X": x, "I": index}
    assert_product(constant, x, run(made, feeds, way)[0], 32, index)


@pytest.mark.parametrize("rows", [1, 5, 40])
def test_every_code_stands_for_its_number(rows: int, library: str) -> None:
    """Exactly, also for numbers next to each other, and whatever the sign of a zero."""
    codebook = np.nextafter(np.float32(1), np.float32(2), dtype=np.float32) ** np.arange(16, dtype=np.float32)
    codebook[:4] = 0, -0.0, np.float32(1e-45), -np.finfo(np.float32).max
    made = model(data=(16, 32), block=32, codebook=codebook)
    codes = np.zeros((16, 32), np.int64)
    codes[:, 5] = np.arange(16)
    for each in made.graph.initializer:
        if each.name == "D":
            each.CopyFrom(onnx.helper.make_tensor("D", TensorProto.UINT4, [16, 32], codes.ravel().tolist()))
        if each.name == "S":
            each.CopyFrom(numpy_helper.from_array(np.ones((16, 1), np.float32), "S"))
    x = np.zeros((rows, 32), np.float32)
    x[:, 5] = 1
    for way in WAYS:
        (y,) = run(made, {"X": x}, way)
        np.testing.assert_array_equal(y, np.broadcast_to(codebook, (rows, 16)))


@pytest.mark.parametrize("rows", [1, 5, 40])
def test_infinities_and_nan_reach_what_they_do_in_the_body(rows: int, library: str) -> None:
    codebook = NUMBERS.copy()
    codebook[9], codebook[4] = np.inf, np.nan
    made = model(data=(33, 256), block=32, codebook=codebook)
    (codes,) = (each for each in made.graph.initializer if each.name == "D")
    rare = numpy_helper.to_array(codes).astype(np.int64)
    rare[(rare == 9) | (rare == 4)] = 0
    rare[3, 70], rare[4, 200] = 9, 4
    codes.CopyFrom(onnx.helper.make_tensor("D", TensorProto.UINT4, rare.shape, rare.ravel().tolist()))
    x = numbers(rows, 256)
    x[-1, 5] = np.inf
    native, plain = (run(made, {"X": x}, way)[0] for way in ("native", "none"))
    for found in (np.isnan, np.isposinf, np.isneginf):
        np.testing.assert_array_equal(found(native), found(plain))
    assert np.isinf(native[0, 3])
    assert np.isnan(native[0, 4])


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_share_a_large_product(threads: int, library: str) -> None:
    made = model(data=(700, 1024), block=32)
    session = ortconv.InferenceSession(made, quiet(threads), providers=["CPUExecutionProvider"])
    for rows in (1, 3, 65):
        x = numbers(rows, 1024)
        assert_product(made, x, session.run(None, {"X": x})[0], 32)


def test_reference_evaluator() -> None:
    for data in ((9, 64), (3, 9, 64)):
        made = model(data=data, block=32, bodies=False)
        index = indices(4, 2, 3) if len(data) == 3 else None
        feeds = {"X": numbers(4, 64)} if index is None else {"X": numbers(4, 2, 64), "I": index}
        (y,) = ReferenceEvaluator(made, new_ops=OP_RUNS).run(None, feeds)
        assert_product(made, feeds["X"], y, 32, index)


@pytest.mark.parametrize("opset", [21, 22, 23, 24, 25])
def test_bodies_in_every_opset(opset: int) -> None:
    for data in ((9, 64), (3, 9, 64)):
        made = model(data=data, block=32, opset=opset)
        onnx.checker.check_model(made, full_check=True)
        index = indices(4, 2, 3) if len(data) == 3 else None
        feeds = {"X": numbers(4, 64)} if index is None else {"X": numbers(4, 2, 64), "I": index}
        assert_product(made, feeds["X"], run(made, feeds, "none")[0], 32, index)


def optimized(made: onnx.ModelProto, folder: pathlib.Path, *, entry: str | None = None) -> onnx.GraphProto:
    """Returns what ONNX Runtime runs, with our library only where there is an entry."""
    options = quiet()
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    if entry is not None:
        options.add_session_config_entry(library.MATMUL_COMPRESSED_ENTRY, entry)
        ortconv.register(options)
    onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return onnx.load(folder / "optimized.onnx").graph


@pytest.mark.parametrize("data", [(64, 64), (4, 64, 64)], ids=["one matrix", "many"])
def test_bodies_look_constants_up_once(data: tuple[int, ...], tmp_path: pathlib.Path) -> None:
    """When ONNX Runtime loads the model, which then has the weights as floats."""
    graph = optimized(model(data=data, block=32), tmp_path)
    assert not {"Gather", "Mul", "Transpose"} & {node.op_type for node in graph.node}
    assert [each.data_type for each in graph.initializer if np.prod(each.dims) == np.prod(data)] == [FLOAT]


@pytest.mark.parametrize(("entry", "ours"), [("1", True), ("0", False)])
def test_entry_leaves_the_op_to_its_body(entry: str, ours: bool, tmp_path: pathlib.Path, library: str) -> None:
    types = {node.op_type for node in optimized(model(), tmp_path, entry=entry).node}
    assert (MATMUL in types) == ours


def test_good_nodes_pass() -> None:
    for data in ((6, 8), (3, 6, 8)):
        for constant in (True, False):
            for bodies in (True, False):
                onnx.checker.check_model(model(data=data, constant=constant, bodies=bodies), full_check=True)


BAD: dict[str, dict[str, Any]] = {
    "columns of X": {"x": ["N", 7]},
    "a vector": {"x": [8]},
    "data of one axis": {"data": (8,), "scale": (2,)},
    "no columns": {"data": (6, 0), "scale": (6, 0)},
    "too few scales": {"scale": (6, 1)},
    "scales the other way": {"scale": (2, 6)},
    "block that does not divide": {"block": 3, "scale": (6, 2)},
    "block of nothing": {"block": 0, "scale": (6, 2)},
    "no block": {"block": None, "scale": (6, 2)},
    "too few numbers": {"codebook": NUMBERS[:15]},
    "too many numbers": {"codebook": np.zeros(256, np.float32)},
    "numbers in two axes": {"codebook": NUMBERS.reshape(2, 8)},
    "a number": {"codebook": NUMBERS[0].reshape(())},
    "numbers of f16": {"codebook": NUMBERS.astype(np.float16)},
    "no codebook": {"codebook": None},
    "zero points beside the codebook": {"more": ["D"]},
    "codes of 8 bits": {"code_type": UINT8},
    "codes with a sign": {"code_type": INT4},
    "X of f64": {"x_type": DOUBLE},
    "scales of f16": {"scale_type": F16},
    "many matrices, columns of X": {"data": (3, 6, 8), "x": ["T", 2, 7]},
    "many matrices, rows of X": {"data": (3, 6, 8), "x": [3, 1, 8], "index": [2, 2]},
    "many matrices, index of 32 bits": {"data": (3, 6, 8), "index_type": INT32},
    "many matrices, too few scales": {"data": (3, 6, 8), "scale": (3, 6, 1)},
    "many matrices, too few numbers": {"data": (3, 6, 8), "codebook": NUMBERS[:8]},
    "many matrices, no codebook": {"data": (3, 6, 8), "codebook": None},
    "many matrices, codes with a sign": {"data": (3, 6, 8), "code_type": INT4},
    "many matrices, data of two axes": {"data": (6, 8), "index": ["T", "J"]},
}


@pytest.mark.parametrize("constant", [True, False], ids=["constant", "of the run"])
@pytest.mark.parametrize("case", BAD)
def test_bad_node_is_refused(case: str, constant: bool, library: str) -> None:
    """By the checker, by ONNX Runtime with our library, and by the Python ops; the message names the op."""
    settings = BAD[case]
    bad, whole = model(**settings, constant=constant, bodies=False), model(**settings, bodies=False)
    with pytest.raises((onnx.checker.ValidationError, onnx.shape_inference.InferenceError)):
        onnx.checker.check_model(bad, full_check=True)
    feeds = {}
    for value in bad.graph.input:
        sizes = [dim.dim_value if dim.HasField("dim_value") else 2 for dim in value.type.tensor_type.shape.dim]
        feeds[value.name] = np.zeros(sizes, tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))
    if not constant:
        feeds |= {each.name: numpy_helper.to_array(each) for each in whole.graph.initializer}
    for way in ("native", "python"):
        with pytest.raises(Exception, match=GATHER if bad.graph.node[0].op_type == GATHER else MATMUL):
            run(bad, feeds, way)


def test_messages_name_the_node(library: str) -> None:
    with pytest.raises(Exception, match=rf"org.ortconv.{MATMUL} 'p': input codebook has shape \[15\]; allowed: \[16\]"):
        run(model(codebook=NUMBERS[:15]), {"X": np.ones((2, 8), np.float32)}, "native")
    feeds = {"X": np.ones((2, 1, 8), np.float32), "I": np.zeros((2, 2), np.int64)}
    with pytest.raises(Exception, match=rf"org.ortconv.{GATHER} 'p': input scale has shape \[3, 6, 1\]; allowed"):
        run(model(data=(3, 6, 8), scale=(3, 6, 1)), feeds, "native")


def test_shapes_are_inferred(library: str) -> None:
    for made, sizes in ((model(x=["B", 3, 8]), ["B", 3, 6]), (model(data=(3, 6, 8)), ["T", "J", 6])):
        graph = onnx.shape_inference.infer_shapes(made, strict_mode=True).graph
        assert [dim.dim_param or dim.dim_value for dim in graph.output[0].type.tensor_type.shape.dim] == sizes
        session = ortconv.InferenceSession(made, quiet(), providers=["CPUExecutionProvider"])
        assert session.get_outputs()[0].shape == sizes
