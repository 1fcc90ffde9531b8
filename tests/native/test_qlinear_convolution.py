"""QLinearConvolution in every way it can be run, and what is refused."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

import ortconv
from ortconv.opset.ops.qlinear_convolution import QLINEAR_CONVOLUTION
from ortconv.opset.reference.evaluator import OP_RUNS
from ortconv.runtime import choices
from tests.operators.integer_convs import KINDS
from tests.operators.integer_nodes import assert_refused, zeros
from tests.operators.native import quiet
from tests.operators.qlinear_convolution import CASES, NAMES, Case, assert_equal, model, tensors
from tests.processor import HAS_AVX2, HAS_AVX512_VNNI, HAS_DOT_PRODUCTS
from tests.running import WAYS, run

PLAIN = Case((1, 6, 9, 7), (8, 6, 3, 3), strides=(2, 1), pads=(1, 1, 0, 1), activation=(0.5, -30.0, 40.0))
PLAIN_KINDS = (np.uint8, np.int8, np.uint8)
CONSTANTS = NAMES[1:]
DEPTHWISE = [
    Case((2, 3, 9, 37), (3, 1, 3, 3), pads=(1, 1, 1, 1), group=3, activation=(1.0, 0.0, np.inf)),
    Case((1, 4, 8, 41), (8, 1, 5, 2), strides=(1, 2), pads=(0, 2, 3, 1), dilations=(2, 1), group=4),
    Case((1, 5, 70), (5, 1, 4), pads=(2, 1), dilations=(2,), group=5),
    Case((1, 20, 7, 7), (20, 1, 5, 5), pads=(2, 2, 2, 2), group=20, hard_sigmoid=(1 / 6, 0.5)),
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("turn", range(4))
@pytest.mark.parametrize("case", CASES, ids=str)
def test_result_is_the_definition(case: Case, turn: int, way: str, library: str) -> None:
    kinds = (*KINDS[turn], KINDS[(turn + 1) % 4][0])
    given = tensors(case, kinds, biases=turn % 2 == 0, channels=turn != 3)
    constants = (CONSTANTS, ("W", "w_zero_point"), ())[turn % 3]
    feeds = {name: data for name, data in given.items() if name not in constants}
    (y,) = run(model(case, given, constants), feeds, way)
    assert_equal(case, given, y, rounded_sums=way == "none" and np.prod(case.w[1:]) > 250)


def has_rows(case: Case) -> bool:
    """Tells whether a depthwise convolution can be computed row by row, on CPUs with AVX2."""
    is_depthwise = case.group == case.x[1] and case.w[0] <= 4 * case.group
    return is_depthwise and len(case.x) <= 4 and case.attributes["strides"][-1] <= 2


def has_channels(case: Case) -> bool:
    """Tells whether it can be computed by channels, on CPUs with AVX-512 and VNNI."""
    return case.group == case.x[1] == case.w[0] and len(case.x) <= 4


HAS_ROWS = HAS_AVX2 and (HAS_AVX512_VNNI or not HAS_DOT_PRODUCTS)
ALL_CASES = [*CASES, *DEPTHWISE]
BY_ROWS = [(case, "integer_rows") for case in ALL_CASES if has_rows(case)]
BY_CHANNELS = [(case, "integer_channels") for case in ALL_CASES if has_channels(case)]


@pytest.mark.parametrize(
    ("case", "implementation"),
    [*itertools.product(ALL_CASES, ["integer_tiles", "dequantized"]), *BY_ROWS, *BY_CHANNELS],
    ids=str,
)
def test_every_implementation_gives_the_same(case: Case, implementation: str, library: str, tmp_path: Any) -> None:
    if implementation == "integer_rows" and not HAS_ROWS:
        pytest.skip("rows are for CPUs with AVX2, but not for those with AVX-VNNI alone")
    if implementation == "integer_channels" and not HAS_AVX512_VNNI:
        pytest.skip("channels are for CPUs with AVX-512 and VNNI")
    given = tensors(case, PLAIN_KINDS, biases=len(case.x) == 4)
    given["w_zero_point"][:] //= 4
    if implementation == "integer_channels":
        given["W"][:] //= 2  # less their zero point, weights are bytes
    options, log = quiet(), tmp_path / "choices.txt"
    options.add_session_config_entry("ortconv.implementation", implementation)
    options.add_session_config_entry("ortconv.choices", str(log))
    session = ortconv.InferenceSession(model(case, given, CONSTANTS), options, providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {"X": given["X"]})
    assert_equal(case, given, y)
    if y.size and case.w[1]:
        choice = choices.read(log)[-1]
        assert choice.implementation == implementation
        assert {implementation, "dequantized"} <= set(choice.seconds)


def test_sums_beyond_floats_are_computed_in_integers(library: str) -> None:
    case = Case((1, 700, 2), (1, 700, 1))
    given = tensors(case, (np.uint8, np.uint8, np.uint8), channels=False)
    given |= {name: np.zeros_like(given[name]) for name in ("x_zero_point", "w_zero_point", "B", "addend")}
    given["X"][:], given["W"][:], given["X"][0, 0] = 255, 255, 254
    given |= {name: np.ones_like(given[name]) for name in ("x_scale", "w_scale", "factor")}
    total = 699 * 255 * 255 + 254 * 255
    # What floats would round away decides between two levels.
    given |= {"y_scale": np.array(2, np.float32), "y_zero_point": np.zeros((1,), np.uint8)}
    given["B"][:] = np.float32(-total + 21)
    options = quiet()
    options.add_session_config_entry("ortconv.implementation", "dequantized")
    session = ortconv.InferenceSession(model(case, given), options, providers=["CPUExecutionProvider"])
    assert_equal(case, given, session.run(None, given)[0])


def test_sizes_change_from_run_to_run(library: str) -> None:
    first = tensors(PLAIN, PLAIN_KINDS, biases=False)
    session = ortconv.InferenceSession(
        model(PLAIN, first, CONSTANTS, open_sizes=True), quiet(), providers=["CPUExecutionProvider"]
    )
    for size in (11, 2, 4, 30, 4, 64, 11, 7, 3):
        case = Case((2, 6, size, 2 * size), PLAIN.w, PLAIN.strides, PLAIN.pads, activation=PLAIN.activation)
        given = {**first, "X": tensors(case, PLAIN_KINDS)["X"]}
        assert_equal(case, given, session.run(None, {"X": given["X"]})[0])


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_share_an_image(threads: int, library: str) -> None:
    for case in (
        Case((1, 32, 40, 40), (40, 32, 3, 3), pads=(1, 1, 1, 1)),
        Case((2, 40, 50, 50), (40, 1, 3, 3), strides=(2, 2), group=40),
        Case((1, 256, 2, 2), (300, 256, 2, 2)),
    ):
        given = tensors(case, (np.int8, np.int8, np.int8), channels=False)
        session = ortconv.InferenceSession(
            model(case, given, CONSTANTS), quiet(threads), providers=["CPUExecutionProvider"]
        )
        assert_equal(case, given, session.run(None, {"X": given["X"]})[0])


_OTHER_CPU = """
from tests.native.test_qlinear_convolution import CONSTANTS, KINDS
from tests.operators.qlinear_convolution import CASES, assert_equal, model, tensors
from tests.running import run

for turn, case in enumerate(CASES):
    given = tensors(case, (*KINDS[turn % 4], KINDS[turn // 4 % 4][0]), biases=turn % 2 == 0)
    assert_equal(case, given, run(model(case, given, CONSTANTS), {"X": given["X"]}, "native")[0])
"""


@pytest.mark.parametrize("isa", ["portable", "avx2", "avx512"])
def test_cpus_that_this_one_is_not(isa: str, library: str) -> None:
    """The variable is read once in a process."""
    done = subprocess.run(
        [sys.executable, "-c", _OTHER_CPU],
        env={**os.environ, "ORTCONV_MAX_ISA": isa},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_reference_evaluator() -> None:
    given = tensors(PLAIN, (np.int8, np.int8, np.int8))
    (y,) = ReferenceEvaluator(model(PLAIN, given, bodies=False), new_ops=OP_RUNS).run(None, given)
    assert_equal(PLAIN, given, y)


@pytest.mark.parametrize("opset", [13, 14, 15, 18, 21, 25])
def test_body_in_every_opset(opset: int) -> None:
    given = tensors(PLAIN, PLAIN_KINDS)
    made = model(PLAIN, given, CONSTANTS, opset=opset)
    onnx.checker.check_model(made, full_check=True)
    for level in ("ORT_DISABLE_ALL", "ORT_ENABLE_ALL"):
        options = quiet()
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
        session = onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
        assert_equal(PLAIN, given, session.run(None, {"X": given["X"]})[0])


def test_no_body_before_opset_13() -> None:
    with pytest.raises(ValueError, match="opset 12"):
        QLINEAR_CONVOLUTION.body(12)


def test_kernel_runs_and_not_the_body(library: str, tmp_path: Any) -> None:
    given, options = tensors(PLAIN, PLAIN_KINDS), quiet()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    ortconv.InferenceSession(model(PLAIN, given, CONSTANTS), options, providers=["CPUExecutionProvider"])
    nodes = onnx.load(tmp_path / "optimized.onnx").graph.node
    assert [node.op_type for node in nodes] == [QLINEAR_CONVOLUTION.name]


def test_shapes_are_inferred(library: str) -> None:
    given = tensors(PLAIN, (np.int8, np.int8, np.int8))
    made = model(PLAIN, given, CONSTANTS)
    made.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    graph = onnx.shape_inference.infer_shapes(made, strict_mode=True).graph
    assert [dim.dim_param or dim.dim_value for dim in graph.output[0].type.tensor_type.shape.dim] == ["N", 8, 4, 7]
    session = ortconv.InferenceSession(made, quiet(), providers=["CPUExecutionProvider"])
    assert session.get_outputs()[0].shape == ["N", 8, 4, 7]


BAD_TENSORS = {
    "channels of X": {"X": zeros((1, 5, 9, 7), np.uint8)},
    "rank of X": {"X": zeros((1, 6, 9), np.uint8)},
    "rank of W": {"W": zeros((8, 6, 3), np.int8)},
    "kernel of nothing": {"W": zeros((8, 6, 0, 3), np.int8)},
    "two scales of X": {"x_scale": zeros((2,))},
    "two zero points of X": {"x_zero_point": zeros((2,), np.uint8)},
    "too few scales of W": {"w_scale": zeros((6,))},
    "several zero points of W": {"w_zero_point": zeros((8,), np.int8)},
    "several scales of Y": {"y_scale": zeros((8,))},
    "several zero points of Y": {"y_zero_point": zeros((8,), np.uint8)},
    "bias of another size": {"B": zeros((6, 1, 1))},
    "bias of one axis": {"B": zeros((8,))},
    "bias of rows": {"B": zeros((8, 1, 7))},
    "bias of another image": {"B": zeros((8, 4, 6))},
    "factor of one number": {"factor": zeros(())},
    "factor of another size": {"factor": zeros((6,))},
    "addend of two axes": {"addend": zeros((8, 1))},
}
BAD_TYPES = {
    "X of floats": {"X": zeros((1, 6, 9, 7))},
    "W of 16 bits": {"W": zeros((8, 6, 3, 3), np.int16)},
    "zero point of another type than X": {"x_zero_point": zeros((), np.int8)},
    "zero point of another type than W": {"w_zero_point": zeros((), np.uint8)},
    "scale of doubles": {"x_scale": zeros((), np.float64)},
    "bias of integers": {"B": zeros((8, 1, 1), np.int32)},
    "factor of doubles": {"factor": zeros((8,), np.float64)},
}
BAD_ATTRIBUTES: dict[str, dict[str, Any]] = {
    "group that does not divide": {"group": 4},
    "no group": {"group": 0},
    "strides of another rank": {"strides": [1]},
    "stride of 0": {"strides": [1, 0]},
    "too few pads": {"pads": [1, 1]},
    "negative pad": {"pads": [1, 1, 1, -1]},
    "kernel beyond the data": {"dilations": [9, 9]},
    "dilation of 0": {"dilations": [0, 1]},
    "activation of two numbers": {"activation": [1.0, 0.0]},
    "activation without a range": {"activation": [1.0, 1.0, 0.0]},
    "HardSigmoid of one number": {"hard_sigmoid": [0.5]},
    "HardSigmoid without end": {"hard_sigmoid": [np.inf, 0.5]},
    "group missing": {"group": None},
    "activation missing": {"activation": None},
}


@pytest.mark.parametrize("is_constant", [False, True], ids=["of the run", "constant"])
@pytest.mark.parametrize("changes", [*BAD_TENSORS.values(), *BAD_TYPES.values()], ids=[*BAD_TENSORS, *BAD_TYPES])
def test_bad_inputs_are_refused(changes: dict[str, np.ndarray], is_constant: bool, library: str) -> None:
    given = {**tensors(PLAIN, PLAIN_KINDS), **changes}
    constants = CONSTANTS if is_constant else ()
    assert_refused(QLINEAR_CONVOLUTION, model(PLAIN, given, constants, bodies=False), given, constants)


@pytest.mark.parametrize("changes", BAD_ATTRIBUTES.values(), ids=BAD_ATTRIBUTES)
def test_bad_attributes_are_refused(changes: dict[str, Any], library: str) -> None:
    given = tensors(PLAIN, PLAIN_KINDS)
    assert_refused(QLINEAR_CONVOLUTION, model(PLAIN, given, CONSTANTS, bodies=False, **changes), given, CONSTANTS)


def test_every_input_is_required(library: str) -> None:
    for name in NAMES[1:]:
        given = tensors(PLAIN, PLAIN_KINDS)
        del given[name]
        assert_refused(QLINEAR_CONVOLUTION, model(PLAIN, given, bodies=False), given, ())


def test_messages_name_the_node(library: str) -> None:
    for name, data, message in (
        ("w_scale", zeros((6,)), r"'c': input w_scale has shape \[6\]; allowed: one number, or \[8\]"),
        ("factor", zeros((6,)), r"'c': input factor has shape \[6\]; allowed: \[8\]\."),
        ("B", zeros((8, 1, 7)), r"'c': input B has shape \[8, 1, 7\]; allowed: \[8, 1, 1\], or \[8, 4, 7\]\."),
        ("X", zeros((1, 5, 9, 7), np.uint8), r"'c': input X has shape \[1, 5, 9, 7\]"),
    ):
        given = {**tensors(PLAIN, PLAIN_KINDS), name: data}
        with pytest.raises(Exception, match=f"{QLINEAR_CONVOLUTION.name} {message}"):
            run(model(PLAIN, given, bodies=False), given, "native")
