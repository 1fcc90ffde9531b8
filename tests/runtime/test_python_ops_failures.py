"""Failures of Python ops, none of which ends the process, and models that they refuse."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from ortconv.errors import PluginError
from ortconv.opset.convolution_terms import ACCUMULATION
from ortconv.opset.ops import BY_NAME
from ortconv.opset.ops.convolution import CONVOLUTION
from ortconv.runtime import python_ops
from ortconv.runtime.python_ops import Calls
from ortconv.runtime.session import InferenceSession
from tests.operators.python_ops import FLOAT32, bad_weights, expected, run

pytest.importorskip("onnxruntime_extensions")

FLOAT16 = np.dtype(np.float16)


PROBLEM = "org.ortconv.Convolution 'node': X has 3 channels; allowed: 9, as W and group = 1 say"


def test_failure_is_raised_and_the_session_goes_on(cases: dict[str, Any]) -> None:
    case = cases["conv_plain"]
    session = InferenceSession(case.model(FLOAT32), backend="python")
    inputs = case.inputs(FLOAT32)
    for _ in range(2):
        with pytest.raises(PluginError) as caught:
            session.run(None, bad_weights(case))
        assert caught.value.problem == PROBLEM
        assert isinstance(caught.value.__cause__, ValueError)
        np.testing.assert_array_equal(session.run(None, case.feeds(inputs))[0], expected(case, inputs))


@pytest.mark.parametrize("name", ["Reshape", "Conv", "ours"])
def test_first_failure_is_raised_when_a_later_node_fails_too(name: str, cases: dict[str, Any]) -> None:
    case = cases["conv_plain"]
    model = case.model(FLOAT32)
    if name == "ours":
        later = onnx.NodeProto()
        later.CopyFrom(model.graph.node[0])
        later.name, later.input[0], later.output[0] = "later", "Y", "Z"
    else:
        later = helper.make_node(name, ["Y", "s" if name == "Reshape" else "W"], ["Z"])
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([7, 7, 7]), "s"))
    model.graph.node.append(later)
    model.graph.output.append(helper.make_tensor_value_info("Z", TensorProto.FLOAT, None))
    with pytest.raises(PluginError) as caught:
        run(model, bad_weights(case))
    assert caught.value.problem == PROBLEM


def test_memory_that_runs_out_is_an_error_before_it_ends_the_process(
    cases: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    case = cases["conv_plain"]
    monkeypatch.setattr(python_ops, "_ARRAYS_OF_RESULT", 1 << 50)
    with pytest.raises(PluginError, match="Unable to allocate"):
        run(case.model(FLOAT32), case.feeds(case.inputs(FLOAT32)))


def test_failure_of_every_way_to_run(cases: dict[str, Any]) -> None:
    case = cases["conv_plain"]
    session = InferenceSession(case.model(FLOAT32), backend="python")
    values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(data) for name, data in bad_weights(case).items()}
    with pytest.raises(PluginError, match="X has 3 channels"):
        session.run_with_ort_values(None, values)
    binding = session.io_binding()
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    binding.bind_output("Y")
    with pytest.raises(PluginError, match="X has 3 channels"):
        session.run_with_iobinding(binding)
    with pytest.raises(PluginError, match="run_async is not available with backend='python'") as caught:
        session.run_async(None, bad_weights(case), lambda *_: None, None)
    assert caught.value.hint == "Use run."


def test_failure_does_not_become_a_constant(cases: dict[str, Any]) -> None:
    """Whether ONNX Runtime runs nodes with constant inputs when the session is made or later."""
    case = cases["conv_plain"]
    inputs = case.inputs(FLOAT32)
    for feeds in (case.feeds(inputs), bad_weights(case)):
        model = case.model(FLOAT32)
        del model.graph.input[:]
        model.graph.initializer.extend(onnx.numpy_helper.from_array(data, name) for name, data in feeds.items())
        if feeds["W"].shape[1] == 9:
            with pytest.raises(PluginError) as caught:
                run(model, {})
            assert caught.value.problem == PROBLEM
        else:
            np.testing.assert_array_equal(run(model, {})[0], expected(case, inputs))


@pytest.mark.parametrize("tail", [[], ["Identity"], ["Cast"]], ids=["node", "identity", "cast"])
def test_output_that_does_not_fit_its_buffer_is_an_error(tail: list[str], cases: dict[str, Any]) -> None:
    case = cases["conv_plain"]
    model = case.model(FLOAT32)
    for op_type in tail:
        model.graph.node[0].output[0] = "t"
        model.graph.node.append(helper.make_node(op_type, ["t"], ["Y"], **({"to": 1} if op_type == "Cast" else {})))
    session = InferenceSession(model, backend="python")
    binding = session.io_binding()
    inputs = case.inputs(FLOAT32)
    y = expected(case, inputs)
    for name, data in case.feeds(inputs).items():
        binding.bind_cpu_input(name, data)
    fitting = onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros_like(y))
    binding.bind_ortvalue_output("Y", fitting)
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(fitting.numpy(), y)
    binding.bind_ortvalue_output("Y", onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros((1, 1, 1, 5), np.float32)))
    with pytest.raises(Exception, match="shape"):
        session.run_with_iobinding(binding)


def test_interrupt_leaves_the_session_as_an_interrupt(cases: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    case = cases["conv_plain"]

    def interrupted(*inputs: Any, **attributes: Any) -> Any:
        raise KeyboardInterrupt

    changed = dataclasses.replace(CONVOLUTION, reference=interrupted, epilogue=None)
    monkeypatch.setitem(BY_NAME, "Convolution", changed)  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):
        run(case.model(FLOAT32), case.feeds(case.inputs(FLOAT32)))


def test_failure_that_an_interrupt_overtakes_is_not_raised_by_the_next_run() -> None:
    calls = Calls()

    def interrupted() -> None:
        with calls.collect():
            calls.fail(PluginError("a node failed"))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with calls.collect():
        assert not calls.failed


def test_failures_stay_with_their_thread_and_session(cases: dict[str, Any]) -> None:
    case = cases["transposed_groups_dilation_asymmetric_pads"]
    shared = InferenceSession(case.model(FLOAT32), backend="python")
    inputs = case.inputs(FLOAT32)
    good, bad = case.feeds(inputs), case.feeds(inputs) | {"B": np.zeros(1, np.float32)}
    y = expected(case, inputs)

    def work(index: int) -> int:
        session = shared if index % 2 else InferenceSession(case.model(FLOAT32), backend="python")
        for turn in range(25):
            if (turn + index) % 3:
                np.testing.assert_array_equal(session.run(None, good)[0], y)
            else:
                with pytest.raises(PluginError, match=r"B has shape \[1\]; allowed: \[4\]"):
                    session.run(None, bad)
        return index

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [0, 1, 2, 3]


# Models that are refused.


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda node: node.attribute.pop(0), "attribute accumulation_type is missing."),
        (
            lambda node: node.attribute.append(helper.make_attribute("kernel_shape", [3, 3])),
            "attribute kernel_shape is unknown; allowed: accumulation_type, activation, auto_pad, dilations, group, "
            "pads, strides, w_perm, x_perm, y_perm.",
        ),
        (
            lambda node: [node.attribute.append(helper.make_attribute(name, 1)) for name in ("zero", "more")],
            "attribute more is unknown; allowed: accumulation_type, activation, auto_pad, dilations, group, pads, "
            "strides, w_perm, x_perm, y_perm.",
        ),
        (lambda node: node.input.pop(), "has the inputs ['X', '', '']; allowed: X, W, optionally B."),
        (
            lambda node: node.input.extend(["", "W"]),
            "has the inputs ['X', 'W', '', 'W']; allowed: X, W, optionally B.",
        ),
        (
            lambda node: setattr(node.attribute[0], "i", TensorProto.DOUBLE),
            "attribute accumulation_type = 11 is not allowed; allowed for X of type float: 1.",
        ),
    ],
    ids=[
        "attribute missing",
        "attribute unknown",
        "attributes unknown",
        "input missing",
        "input unknown",
        "accumulation_type",
    ],
)
def test_node_that_contradicts_its_schema(change: Callable[[Any], None], problem: str, cases: dict[str, Any]) -> None:
    model = cases["conv_plain"].model(FLOAT32)
    change(model.graph.node[0])
    with pytest.raises(PluginError) as caught:
        InferenceSession(model, backend="python")
    assert caught.value.problem == f"org.ortconv.Convolution 'node': {problem}"


def test_types_must_agree(cases: dict[str, Any]) -> None:
    model = cases["conv_plain"].model(FLOAT32)
    model.graph.input[1].type.tensor_type.elem_type = TensorProto.FLOAT16
    with pytest.raises(PluginError) as caught:
        InferenceSession(model, backend="python")
    assert caught.value.problem == "org.ortconv.Convolution 'node': W has type float16; allowed: float."


def test_accumulation_type_of_a_value_of_unknown_type(cases: dict[str, Any]) -> None:
    model = cases["conv_plain"].model(FLOAT32)
    model.graph.node[0].input[0] = "computed"
    model.graph.node.insert(0, helper.make_node("Identity", ["X"], ["computed"]))
    case = cases["conv_plain"]
    inputs = case.inputs(FLOAT32)
    np.testing.assert_array_equal(run(model, case.feeds(inputs))[0], expected(case, inputs))
    model.graph.node[1].attribute[0].i = TensorProto.STRING
    with pytest.raises(PluginError) as caught:
        InferenceSession(model, backend="python")
    assert caught.value.problem.endswith(
        f"= 8 is not allowed; allowed for X of type unknown: {', '.join(map(str, sorted({*ACCUMULATION.values()})))}."
    )


def test_opset_too_old(cases: dict[str, Any]) -> None:
    with pytest.raises(PluginError) as caught:
        InferenceSession(cases["conv_plain"].model(FLOAT32, opset=13), backend="python")
    assert caught.value.problem == "the model imports opset 13 of ai.onnx; allowed for Python ops: 15 or newer."


@pytest.mark.parametrize("opset", [15, 19, 25])
def test_opsets(opset: int, cases: dict[str, Any]) -> None:
    case = cases["transposed_pads_leave_nothing"]
    inputs = case.inputs(FLOAT32)
    np.testing.assert_array_equal(run(case.model(FLOAT32, opset), case.feeds(inputs))[0], expected(case, inputs))


def test_extensions_are_missing(cases: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime_extensions", None)
    with pytest.raises(PluginError) as caught:
        InferenceSession(cases["conv_plain"].model(FLOAT32), backend="python")
    assert caught.value.problem.startswith("onnxruntime-extensions cannot be imported")
    assert "ortconv[pyops]" in caught.value.hint
