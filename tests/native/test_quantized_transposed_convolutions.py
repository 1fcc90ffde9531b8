"""Transposed convolutions of 8-bit integers in every way they can be run, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import onnx
import onnx.inliner
import onnx_ir as ir
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

import ortconv
from ortconv.opset import functions
from ortconv.opset.operator import Operator
from ortconv.opset.reference.evaluator import OP_RUNS
from ortconv.runtime import choices
from tests.operators.integer_nodes import assert_refused, zeros
from tests.operators.native import quiet
from tests.operators.quantized_transposed import CASES, KINDS, OPS, Case, assert_equal, model, tensors
from tests.running import WAYS, run

PLAIN = Case((1, 6, 5, 7), (6, 8, 4, 4), strides=(2, 2), pads=(1, 1, 1, 1), activation=(0.5, -30.0, 40.0))
KIND_NAMES = ["-".join(kind.__name__ for kind in kinds) for kinds in KINDS]
OP_NAMES = [op.name for op in OPS]
TO_FLOAT, QUANTIZED, QUANTIZED_ADD = OPS


def names(op: Operator) -> tuple[str, ...]:
    """Returns the names of all inputs but the data."""
    return tuple(each.name for each in op.inputs if each.name not in ("X", "R"))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kinds", KINDS, ids=KIND_NAMES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_result_is_the_definition(case: Case, kinds: Any, way: str, library: str) -> None:
    for turn, op in enumerate(OPS):
        given = tensors(op, case, kinds, channels=turn != KINDS.index(kinds) % 3)
        constants = (names(op), ("W", "w_zero_point"), ())[(turn + KINDS.index(kinds)) % 3]
        feeds = {name: data for name, data in given.items() if name not in constants}
        (y,) = run(model(op, case, given, constants), feeds, way)
        assert_equal(op, case, given, y, rounded_sums=way == "none" and case.w[0] * np.prod(case.w[2:]) > 250)


@pytest.mark.parametrize("implementation", ["integer_phases", "dequantized"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_implementation_gives_the_same(case: Case, implementation: str, library: str, tmp_path: Any) -> None:
    for op, kinds in zip(OPS, KINDS[2::2], strict=True):
        given = tensors(op, case, kinds)
        given["w_zero_point"][:] //= 4
        made, log = model(op, case, given, names(op)), tmp_path / f"{op.name}.txt"
        options = quiet()
        options.add_session_config_entry("ortconv.implementation", implementation)
        options.add_session_config_entry("ortconv.choices", str(log))
        session = ortconv.InferenceSession(made, options, providers=["CPUExecutionProvider"])
        (y,) = session.run(None, {name: given[name] for name in ("X", "R") if name in given})
        assert_equal(op, case, given, y)
        if y.size:
            choice = choices.read(log)[-1]
            small = 255 * np.abs(given["W"].astype(int) - int(given["w_zero_point"][0])).sum() < 1 << 24
            assert choice.implementation == implementation or not small
            assert "integer_phases" in choice.seconds
            assert ("dequantized" in choice.seconds) or not small


def test_sums_beyond_floats_are_computed_in_integers(library: str) -> None:
    case = Case((1, 700, 2), (700, 1, 1))
    given = tensors(TO_FLOAT, case, (np.uint8, np.uint8, np.uint8), channels=False)
    given |= {name: np.zeros_like(given[name]) for name in ("x_zero_point", "w_zero_point", "B")}
    given["X"][:], given["W"][:], given["X"][0, 0] = 255, 255, 254
    given |= {"x_scale": np.ones((), np.float32), "w_scale": np.ones((), np.float32)}
    options = quiet()
    options.add_session_config_entry("ortconv.implementation", "dequantized")
    session = ortconv.InferenceSession(model(TO_FLOAT, case, given), options, providers=["CPUExecutionProvider"])
    (y,) = session.run(None, given)
    assert (y == np.float32(699 * 255 * 255 + 254 * 255)).all()


@pytest.mark.parametrize("op", OPS, ids=OP_NAMES)
def test_sizes_change_from_run_to_run(op: Operator, library: str) -> None:
    first = tensors(op, PLAIN, (np.uint8, np.int8, np.uint8))
    made = model(op, PLAIN, first, names(op), open_sizes=True)
    session = ortconv.InferenceSession(made, quiet(), providers=["CPUExecutionProvider"])
    for size in (11, 1, 4, 30, 4, 64, 11, 7, 2):
        case = Case((2, 6, size, 2 * size), PLAIN.w, strides=(2, 2), pads=(1, 1, 1, 1), activation=PLAIN.activation)
        given = {
            **first,
            **{name: data for name, data in tensors(op, case, (np.uint8, np.int8, np.uint8)).items() if name in "XR"},
        }
        (y,) = session.run(None, {name: given[name] for name in ("X", "R") if name in given})
        assert_equal(op, case, given, y)


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_share_an_image(threads: int, library: str) -> None:
    for case in (
        Case((1, 32, 20, 20), (32, 40, 4, 4), strides=(2, 2)),
        Case((2, 40, 20, 20), (40, 1, 3, 3), strides=(2, 2), group=40),
        Case((1, 256, 2, 2), (256, 300, 2, 2), strides=(2, 2)),
    ):
        given = tensors(QUANTIZED, case, (np.int8, np.int8, np.int8), channels=False)
        made = model(QUANTIZED, case, given, names(QUANTIZED))
        session = ortconv.InferenceSession(made, quiet(threads), providers=["CPUExecutionProvider"])
        assert_equal(QUANTIZED, case, given, session.run(None, {"X": given["X"]})[0])


_OTHER_CPU = """
from tests.native.test_quantized_transposed_convolutions import names
from tests.operators.quantized_transposed import CASES, KINDS, OPS, assert_equal, model, tensors
from tests.running import run

for turn, case in enumerate(CASES):
    for op in OPS:
        given = tensors(op, case, KINDS[turn % 8])
        feeds = {name: given[name] for name in ("X", "R") if name in given}
        assert_equal(op, case, given, run(model(op, case, given, names(op)), feeds, "native")[0])
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


@pytest.mark.parametrize("op", OPS, ids=OP_NAMES)
def test_reference_evaluator(op: Operator) -> None:
    given = tensors(op, PLAIN, (np.int8, np.int8, np.int8))
    (y,) = ReferenceEvaluator(model(op, PLAIN, given, bodies=False), new_ops=OP_RUNS).run(None, given)
    assert_equal(op, PLAIN, given, y)


@pytest.mark.parametrize("opset", [13, 14, 15, 18, 21, 25])
@pytest.mark.parametrize("op", OPS, ids=OP_NAMES)
def test_body_in_every_opset(op: Operator, opset: int) -> None:
    given = tensors(op, PLAIN, (np.uint8, np.int8, np.uint8))
    made = model(op, PLAIN, given, names(op), opset=opset)
    onnx.checker.check_model(made, full_check=True)
    for level in ("ORT_DISABLE_ALL", "ORT_ENABLE_ALL"):
        options = quiet()
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
        session = onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
        (y,) = session.run(None, {name: given[name] for name in ("X", "R") if name in given})
        assert_equal(op, PLAIN, given, y)


@pytest.mark.parametrize("op", OPS, ids=OP_NAMES)
def test_no_body_before_opset_13(op: Operator) -> None:
    with pytest.raises(ValueError, match="opset 12"):
        op.body(12)


def test_body_is_attached_and_inlined() -> None:
    given = tensors(QUANTIZED, PLAIN, (np.uint8, np.int8, np.uint8))
    made = ir.from_proto(model(QUANTIZED, PLAIN, given, bodies=False))
    functions.attach(made)
    assert [function.name for function in made.functions.values()] == [QUANTIZED.name]
    inlined = onnx.inliner.inline_local_functions(ir.to_proto(made))
    (y,) = run(inlined, given, "none")
    assert_equal(QUANTIZED, PLAIN, given, y)


@pytest.mark.parametrize("op", OPS, ids=OP_NAMES)
def test_kernel_runs_and_not_the_body(op: Operator, library: str, tmp_path: Any) -> None:
    given = tensors(op, PLAIN, (np.uint8, np.int8, np.uint8))
    options = quiet()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    ortconv.InferenceSession(model(op, PLAIN, given, names(op)), options, providers=["CPUExecutionProvider"])
    assert [node.op_type for node in onnx.load(tmp_path / "optimized.onnx").graph.node] == [op.name]


@pytest.mark.parametrize("op", OPS, ids=OP_NAMES)
def test_shapes_are_inferred(op: Operator, library: str) -> None:
    given = tensors(op, PLAIN, (np.int8, np.int8, np.int8))
    made = model(op, PLAIN, given, names(op))
    made.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    if op is QUANTIZED_ADD:
        made.graph.input[1].type.tensor_type.shape.dim[0].dim_param = "N"
    graph = onnx.shape_inference.infer_shapes(made, strict_mode=True).graph
    assert [dim.dim_param or dim.dim_value for dim in graph.output[0].type.tensor_type.shape.dim] == ["N", 8, 10, 14]
    session = ortconv.InferenceSession(made, quiet(), providers=["CPUExecutionProvider"])
    assert session.get_outputs()[0].shape == ["N", 8, 10, 14]


BAD_TENSORS = {
    "channels of X": {"X": zeros((1, 5, 5, 7), np.uint8)},
    "rank of X": {"X": zeros((1, 6, 5), np.uint8)},
    "rank of W": {"W": zeros((6, 8, 4), np.int8)},
    "kernel of nothing": {"W": zeros((6, 8, 0, 4), np.int8)},
    "two scales of X": {"x_scale": zeros((2,))},
    "scale of X of two axes": {"x_scale": zeros((1, 1))},
    "two zero points of X": {"x_zero_point": zeros((2,), np.uint8)},
    "too few scales of W": {"w_scale": zeros((6,))},
    "scales of W of two axes": {"w_scale": zeros((8, 1))},
    "several zero points of W": {"w_zero_point": zeros((8,), np.int8)},
    "several scales of Y": {"y_scale": zeros((8,))},
    "several zero points of Y": {"y_zero_point": zeros((8,), np.uint8)},
    "bias of another size": {"B": zeros((6,))},
    "bias of no axes": {"B": zeros(())},
    "residual of another size": {"R": zeros((1, 8, 10, 13), np.uint8)},
    "residual of another rank": {"R": zeros((8, 10, 14), np.uint8)},
    "several scales of R": {"r_scale": zeros((8,))},
    "several zero points of R": {"r_zero_point": zeros((2,), np.uint8)},
}
BAD_TYPES = {
    "X of floats": {"X": zeros((1, 6, 5, 7))},
    "W of 16 bits": {"W": zeros((6, 8, 4, 4), np.int16)},
    "zero point of another type than X": {"x_zero_point": zeros((), np.int8)},
    "zero point of another type than W": {"w_zero_point": zeros((), np.uint8)},
    "scale of doubles": {"x_scale": zeros((), np.float64)},
    "bias of integers": {"B": zeros((8,), np.int32)},
    "residual of another type than Y": {"R": zeros((1, 8, 10, 14), np.int8)},
    "zero point of another type than R": {"r_zero_point": zeros((), np.int8)},
}
BAD_ATTRIBUTES: dict[str, dict[str, Any]] = {
    "group that does not divide": {"group": 4},
    "no group": {"group": 0},
    "strides of another rank": {"strides": [1]},
    "stride of 0": {"strides": [1, 0]},
    "too few pads": {"pads": [1, 1]},
    "negative pad": {"pads": [1, 1, 1, -1]},
    "pads that leave less than nothing": {"pads": [9, 9, 9, 9]},
    "dilation of 0": {"dilations": [0, 1]},
    "output padding of another rank": {"output_padding": [0]},
    "activation of two numbers": {"activation": [1.0, 0.0]},
    "activation without a range": {"activation": [1.0, 1.0, 0.0]},
    "slope that is no number": {"activation": [np.nan, 0.0, 1.0]},
    "group missing": {"group": None},
    "activation missing": {"activation": None},
    "group of floats": {"group": 1.0},
}


@pytest.mark.parametrize("is_constant", [False, True], ids=["of the run", "constant"])
@pytest.mark.parametrize("changes", [*BAD_TENSORS.values(), *BAD_TYPES.values()], ids=[*BAD_TENSORS, *BAD_TYPES])
def test_bad_inputs_are_refused(changes: dict[str, np.ndarray], is_constant: bool, library: str) -> None:
    for op in OPS:
        if changes.keys() <= {each.name for each in op.inputs}:
            given = {**tensors(op, PLAIN, (np.uint8, np.int8, np.uint8)), **changes}
            constants = names(op) if is_constant else ()
            assert_refused(op, model(op, PLAIN, given, constants, bodies=False), given, constants)


@pytest.mark.parametrize("changes", BAD_ATTRIBUTES.values(), ids=BAD_ATTRIBUTES)
def test_bad_attributes_are_refused(changes: dict[str, Any], library: str) -> None:
    given = tensors(QUANTIZED, PLAIN, (np.uint8, np.int8, np.uint8))
    bad = model(QUANTIZED, PLAIN, given, names(QUANTIZED), bodies=False, **changes)
    assert_refused(QUANTIZED, bad, given, names(QUANTIZED))


@pytest.mark.parametrize("op", OPS, ids=OP_NAMES)
def test_every_input_is_required(op: Operator, library: str) -> None:
    for formal in op.inputs[1:]:
        given = tensors(op, PLAIN, (np.uint8, np.int8, np.uint8))
        del given[formal.name]
        assert_refused(op, model(op, PLAIN, given, bodies=False), given, ())


def test_messages_name_the_node(library: str) -> None:
    for name, data, message in (
        ("w_scale", zeros((6,)), r"'c': input w_scale has shape \[6\]; allowed: one number, or \[8\]"),
        ("r_scale", zeros((2,)), r"'c': input r_scale has shape \[2\]; allowed: one number\."),
        ("R", zeros((1, 8, 10, 13), np.uint8), r"'c': input R has shape \[1, 8, 10, 13\]; allowed: \[1, 8, 10, 14\]"),
        ("X", zeros((1, 5, 5, 7), np.uint8), r"'c': input X has shape \[1, 5, 5, 7\]"),
    ):
        given = {**tensors(QUANTIZED_ADD, PLAIN, (np.uint8, np.int8, np.uint8)), name: data}
        with pytest.raises(Exception, match=f"{QUANTIZED_ADD.name} {message}"):
            run(model(QUANTIZED_ADD, PLAIN, given, bodies=False), given, "native")
