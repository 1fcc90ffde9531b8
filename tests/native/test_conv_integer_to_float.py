"""ConvIntegerToFloat in every way it can be run, and what is refused."""

from __future__ import annotations

import itertools
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
from ortconv.opset.ops.conv_integer_to_float import CONV_INTEGER_TO_FLOAT
from ortconv.opset.reference.evaluator import OP_RUNS
from ortconv.runtime.saturation import saturate
from tests.operators.integer_convs import CASES, KINDS, NAMES, Case, assert_convolved, model, tensors
from tests.operators.integer_nodes import assert_refused, zeros
from tests.operators.native import quiet
from tests.running import WAYS, run

PLAIN = Case((1, 6, 9, 11), (7, 6, 3, 3), pads=(1, 1, 1, 1))
DEPTHWISE = Case((1, 6, 9, 11), (6, 1, 3, 3), pads=(1, 1, 1, 1), group=6)
KIND_NAMES = ["-".join(kind.__name__ for kind in kinds) for kinds in KINDS]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kinds", KINDS, ids=KIND_NAMES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_convolution_is_the_definition(case: Case, kinds: Any, way: str, library: str) -> None:
    variants = list(enumerate(itertools.product((True, False), repeat=3)))
    every = 2 if way == "native" else 4
    for turn, (has_zeros, channels, bias) in variants[KINDS.index(kinds) % every :: every]:
        if way == "none" and kinds[1] == np.int8 and not has_zeros and saturate():
            continue  # ONNX Runtime fails to make uint8 of weights without zero points; files of ortconv have them
        given = tensors(case, kinds, zeros=has_zeros, channels=channels, bias=bias)
        constants = (NAMES[1:], ("W",), (), NAMES[1:4])[turn % 4]
        feeds = {name: data for name, data in given.items() if name not in constants}
        (y,) = run(model(case, given, constants), feeds, way)
        assert_convolved(case, given, y, floats=way == "none")


@pytest.mark.parametrize("fill", ["least", "greatest"])
@pytest.mark.parametrize("kinds", KINDS, ids=KIND_NAMES)
def test_extremes_everywhere(fill: str, kinds: Any, library: str) -> None:
    """No partial sum saturates."""
    for case in (Case((1, 70, 9, 9), (9, 70, 3, 3), pads=(1, 1, 1, 1)), DEPTHWISE, Case((1, 512, 7), (8, 512, 1))):
        for has_zeros in (True, False):
            given = tensors(case, kinds, zeros=has_zeros, fill=fill)
            (y,) = run(model(case, given), given, "native")
            assert_convolved(case, given, y)


def test_sum_that_a_float_does_not_hold_is_rounded_once(library: str) -> None:
    case = Case((1, 700, 1), (1, 700, 1))
    given = tensors(case, (np.uint8, np.uint8), zeros=False, channels=False, bias=False, fill="greatest")
    given["X"][0, 0] = 254
    given |= {name: np.ones((), np.float32) for name in ("x_scale", "w_scale")}
    for way in ("native", "python"):
        (y,) = run(model(case, given), given, way)
        assert y.item() == np.float32(699 * 255 * 255 + 254 * 255)


@pytest.mark.parametrize("case", [PLAIN, DEPTHWISE], ids=str)
def test_sizes_change_from_run_to_run(case: Case, library: str) -> None:
    given = tensors(case, (np.uint8, np.int8))
    made = model(case, given, NAMES[1:], open_sizes=True)
    session = ortconv.InferenceSession(made, quiet(), providers=["CPUExecutionProvider"])
    for size in (11, 1, 4, 30, 4, 64, 11, 7, 2):
        mine = tensors(Case((2, 6, size, 2 * size), case.w), (np.uint8, np.int8))
        (y,) = session.run(None, {"X": mine["X"]})
        assert_convolved(case, {**given, "X": mine["X"]}, y)


@pytest.mark.parametrize("constants", [(), NAMES[1:]], ids=["of the run", "constant"])
def test_no_output_channels(constants: tuple[str, ...], library: str) -> None:
    case = Case((1, 4, 5, 5), (0, 2, 3, 3), group=2)
    given = tensors(case, (np.uint8, np.int8))
    feeds = {name: data for name, data in given.items() if name not in constants}
    (y,) = run(model(case, given, constants), feeds, "native")
    assert y.shape == (1, 0, 3, 3)


@pytest.mark.parametrize("channels", [3, 1], ids=["plain", "depthwise"])
@pytest.mark.parametrize("far", [1 << 28, 1 << 40, 1 << 59])
def test_taps_that_reach_padding_only_change_nothing(far: int, channels: int, library: str) -> None:
    wide = Case((2, 3, 4, 5), (6, channels, 3, 3), (), (far,) * 4, (far, far), 3 // channels)
    given = tensors(wide, (np.uint8, np.int8))
    (y,) = run(model(wide, given), given, "native")
    middle = given["W"][:, :, 1:2, 1:2]
    assert_convolved(Case(wide.x, middle.shape, group=wide.group), {**given, "W": middle}, y)


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_share_an_image(threads: int, library: str) -> None:
    for case in (
        Case((1, 32, 40, 40), (40, 32, 3, 3), pads=(1, 1, 1, 1)),
        Case((2, 40, 40, 40), (40, 1, 3, 3), pads=(1, 1, 1, 1), group=40),
        Case((1, 256, 4, 4), (300, 256, 1, 1)),
    ):
        given = tensors(case, (np.int8, np.uint8))
        made = model(case, given, NAMES[1:])
        session = ortconv.InferenceSession(made, quiet(threads), providers=["CPUExecutionProvider"])
        assert_convolved(case, given, session.run(None, {"X": given["X"]})[0])


_OTHER_CPU = """
from tests.operators.integer_convs import CASES, KINDS, NAMES, assert_convolved, model, tensors
from tests.running import run

for case in CASES:
    for kinds in KINDS:
        given = tensors(case, kinds)
        assert_convolved(case, given, run(model(case, given, NAMES[1:]), {"X": given["X"]}, "native")[0])
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


@pytest.mark.parametrize("kinds", KINDS, ids=KIND_NAMES)
def test_reference_evaluator(kinds: Any) -> None:
    given = tensors(PLAIN, kinds)
    (y,) = ReferenceEvaluator(model(PLAIN, given, bodies=False), new_ops=OP_RUNS).run(None, given)
    assert_convolved(PLAIN, given, y)


@pytest.mark.parametrize("opset", [13, 18, 19, 21, 23, 25])
def test_body_in_every_opset(opset: int) -> None:
    given = tensors(PLAIN, (np.uint8, np.int8))
    made = model(PLAIN, given, NAMES[1:], opset=opset)
    onnx.checker.check_model(made, full_check=True)
    for level in ("ORT_DISABLE_ALL", "ORT_ENABLE_ALL"):
        options = quiet()
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
        session = onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
        assert_convolved(PLAIN, given, session.run(None, {"X": given["X"]})[0], floats=True)


def test_no_body_before_opset_13() -> None:
    with pytest.raises(ValueError, match="opset 12"):
        CONV_INTEGER_TO_FLOAT.body(12)


def test_body_is_attached_and_inlined() -> None:
    given = tensors(PLAIN, (np.uint8, np.int8))
    made = ir.from_proto(model(PLAIN, given, bodies=False))
    functions.attach(made)
    assert [function.name for function in made.functions.values()] == [CONV_INTEGER_TO_FLOAT.name]
    inlined = onnx.inliner.inline_local_functions(ir.to_proto(made))
    assert {node.op_type for node in inlined.graph.node} == {"DequantizeLinear", "Conv"}
    (y,) = run(inlined, given, "none")
    assert_convolved(PLAIN, given, y, floats=True)


def test_kernel_runs_and_not_the_body(library: str, tmp_path: Any) -> None:
    given = tensors(PLAIN, (np.uint8, np.int8))
    options = quiet()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    ortconv.InferenceSession(model(PLAIN, given, NAMES[1:]), options, providers=["CPUExecutionProvider"])
    assert [node.op_type for node in onnx.load(tmp_path / "optimized.onnx").graph.node] == [CONV_INTEGER_TO_FLOAT.name]


def test_shapes_are_inferred(library: str) -> None:
    given = tensors(PLAIN, (np.uint8, np.int8))
    made = model(PLAIN, given, NAMES[1:])
    made.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    graph = onnx.shape_inference.infer_shapes(made, strict_mode=True).graph
    assert [dim.dim_param or dim.dim_value for dim in graph.output[0].type.tensor_type.shape.dim] == ["N", 7, 9, 11]
    session = ortconv.InferenceSession(made, quiet(), providers=["CPUExecutionProvider"])
    assert session.get_outputs()[0].shape == ["N", 7, 9, 11]


BAD_TENSORS = {
    "channels of X": {"X": zeros((1, 5, 9, 11), np.uint8)},
    "rank of X": {"X": zeros((1, 6, 9), np.uint8)},
    "rank of W": {"W": zeros((7, 6, 3), np.int8)},
    "kernel that does not fit": {"W": zeros((7, 6, 12, 3), np.int8)},
    "kernel of nothing": {"W": zeros((7, 6, 0, 3), np.int8)},
    "two scales of X": {"x_scale": zeros((2,))},
    "scale of X of two axes": {"x_scale": zeros((1, 1))},
    "two zero points of X": {"x_zero_point": zeros((2,), np.uint8)},
    "too few scales of W": {"w_scale": zeros((6,))},
    "scales of W of two axes": {"w_scale": zeros((7, 1))},
    "too many zero points of W": {"w_zero_point": zeros((8,), np.int8)},
    "one zero point of W for scales of each": {"w_zero_point": zeros((), np.int8)},
    "scale of W for zero points of each": {"w_scale": zeros(())},
    "bias of another size": {"B": zeros((6,))},
    "bias of no axes": {"B": zeros(())},
    "bias of two axes": {"B": zeros((7, 1))},
}
BAD_TYPES = {
    "X of floats": {"X": zeros((1, 6, 9, 11))},
    "W of 16 bits": {"W": zeros((7, 6, 3, 3), np.int16)},
    "zero point of another type than X": {"x_zero_point": zeros((), np.int8)},
    "zero points of another type than W": {"w_zero_point": zeros((7,), np.uint8)},
    "scale of doubles": {"x_scale": zeros((), np.float64)},
    "bias of integers": {"B": zeros((7,), np.int32)},
}
BAD_ATTRIBUTES: dict[str, dict[str, Any]] = {
    "group that does not divide": {"group": 2},
    "no group": {"group": 0},
    "strides of another rank": {"strides": [1]},
    "stride of 0": {"strides": [1, 0]},
    "too few pads": {"pads": [1, 1]},
    "negative pad": {"pads": [1, 1, 1, -1]},
    "dilation of 0": {"dilations": [0, 1]},
    "group missing": {"group": None},
    "strides missing": {"strides": None},
    "group of floats": {"group": 1.0},
}


@pytest.mark.parametrize("constants", [(), NAMES[1:]], ids=["of the run", "constant"])
@pytest.mark.parametrize("changes", [*BAD_TENSORS.values(), *BAD_TYPES.values()], ids=[*BAD_TENSORS, *BAD_TYPES])
def test_bad_inputs_are_refused(changes: dict[str, np.ndarray], constants: tuple[str, ...], library: str) -> None:
    given = {**tensors(PLAIN, (np.uint8, np.int8)), **changes}
    assert_refused(CONV_INTEGER_TO_FLOAT, model(PLAIN, given, constants, bodies=False), given, constants)


@pytest.mark.parametrize("changes", BAD_ATTRIBUTES.values(), ids=BAD_ATTRIBUTES)
def test_bad_attributes_are_refused(changes: dict[str, Any], library: str) -> None:
    given = tensors(PLAIN, (np.uint8, np.int8))
    assert_refused(CONV_INTEGER_TO_FLOAT, model(PLAIN, given, NAMES[1:], bodies=False, **changes), given, NAMES[1:])


@pytest.mark.parametrize("name", NAMES[:4])
def test_required_inputs(name: str, library: str) -> None:
    given = tensors(PLAIN, (np.uint8, np.int8))
    del given[name]
    assert_refused(CONV_INTEGER_TO_FLOAT, model(PLAIN, given, bodies=False), given, ())


def test_messages_name_the_node(library: str) -> None:
    for name, data, message in (
        ("w_scale", zeros((6,)), r"'c': input w_scale has shape \[6\]; allowed: one number, or \[7\]"),
        ("x_scale", zeros((2,)), r"'c': input x_scale has shape \[2\]; allowed: one number\."),
        ("X", zeros((1, 5, 9, 11), np.uint8), r"'c': input X has shape \[1, 5, 9, 11\]"),
    ):
        given = {**tensors(PLAIN, (np.uint8, np.int8)), name: data}
        with pytest.raises(Exception, match="ConvIntegerToFloat " + message):
            run(model(PLAIN, given, bodies=False), given, "native")
