"""Our operators in Python, inside ONNX Runtime sessions: same numbers, whatever the model and the session options."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from ortconv.errors import PluginError
from ortconv.opset.domain import DOMAIN
from ortconv.opset.reference import convolutions
from ortconv.runtime import python_ops
from ortconv.runtime.session import InferenceSession
from tests.operators.python_ops import FLOAT32, bad_weights, expected, run

pytest.importorskip("onnxruntime_extensions")

FLOAT16 = np.dtype(np.float16)
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def test_matches_nested_loops(op_case: Any, dtype: np.dtype[Any], define: Any) -> None:
    inputs = op_case.inputs(dtype)
    (y,) = run(op_case.model(dtype), op_case.feeds(inputs))
    assert y.dtype == dtype
    define(op_case, inputs).check(y)
    np.testing.assert_array_equal(y, expected(op_case, inputs))


@pytest.mark.parametrize("half", [FLOAT16, BFLOAT16], ids=str)
def test_sums_are_rounded_once_per_node(half: np.dtype[Any], make_case: Callable[..., Any]) -> None:
    """Two nodes in a row round twice: the conversions between them do not cancel."""
    case = make_case("Convolution", (1, 8, 40), (8, 8, 3), pads=[1, 1])
    inputs = case.inputs(half)
    model = case.model(half)
    second = onnx.NodeProto()
    second.CopyFrom(model.graph.node[0])
    second.name, second.input[0], second.output[0] = "second", "Y", "Z"
    model.graph.node.append(second)
    model.graph.output.append(helper.make_tensor_value_info("Z", helper.np_dtype_to_tensor_dtype(half), None))
    y, z = run(model, case.feeds(inputs))
    np.testing.assert_array_equal(y, expected(case, inputs))
    np.testing.assert_array_equal(z, expected(case, [y, *inputs[1:]]))
    del model.graph.output[0]
    (alone,) = run(model, case.feeds(inputs))
    np.testing.assert_array_equal(alone, z)


def test_special_values_and_overflow(make_case: Callable[..., Any]) -> None:
    case = make_case("TransposedConvolution", (1, 1, 5), (1, 1, 1), bias=False)
    x = np.array([60000, -np.inf, np.nan, 6e-8, 2049], np.float16).reshape(1, 1, 5)
    inputs = [x, np.full((1, 1, 1), 2, np.float16), None]
    (y,) = run(case.model(FLOAT16), case.feeds(inputs))
    np.testing.assert_array_equal(y, expected(case, inputs))


@pytest.mark.parametrize("level", ["ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_EXTENDED", "ORT_ENABLE_ALL"])
def test_optimization_levels(level: str, cases: dict[str, Any]) -> None:
    case = cases["to_shape_same_lower_nxc"]
    inputs = case.inputs(FLOAT16)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    (y,) = run(case.model(FLOAT16), case.feeds(inputs), sess_options=options)
    np.testing.assert_array_equal(y, expected(case, inputs))


def test_inputs_and_outputs_stay(cases: dict[str, Any]) -> None:
    case = cases["conv_plain"]
    model = case.model(FLOAT16)
    for value, shape in ((model.graph.input[0], ["n", 3, "h", 4]), (model.graph.output[0], ["n", 2, "y", 3])):
        value.CopyFrom(helper.make_tensor_value_info(value.name, TensorProto.FLOAT16, shape))
    before = model.SerializeToString()
    python, plain = InferenceSession(model, backend="python"), model.graph
    assert model.SerializeToString() == before
    found = [(value.name, value.type, value.shape) for value in (*python.get_inputs(), *python.get_outputs())]
    assert [name for name, _, _ in found] == [value.name for value in (*plain.input, *plain.output)]
    assert {kind for _, kind, _ in found} == {"tensor(float16)"}
    assert found[0][2] == ["n", 3, "h", 4]
    assert found[-1][2] == ["n", 2, "y", 3]


def test_nodes_in_both_branches_of_an_if(cases: dict[str, Any]) -> None:
    case = cases["conv_plain"]
    inputs = case.inputs(FLOAT32)
    model = case.model(FLOAT32)
    branches = {}
    for name, stride in (("then_branch", 1), ("else_branch", 2)):
        node = onnx.NodeProto()
        node.CopyFrom(model.graph.node[0])
        node.name = node.output[0] = name
        (strides,) = (attribute for attribute in node.attribute if attribute.name == "strides")
        strides.ints[:] = [stride, stride]
        output = helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
        branches[name] = helper.make_graph([node], name, [], [output])
    model.graph.node[0].CopyFrom(helper.make_node("If", ["c"], ["Y"], **branches))
    model.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    for condition, stride in ((True, 1), (False, 2)):
        (y,) = run(model, case.feeds(inputs) | {"c": np.array(condition)})
        attributes = case.attributes | {"strides": [stride, stride]}
        np.testing.assert_array_equal(y, convolutions.conv(*inputs, **attributes))


def test_node_in_a_loop(cases: dict[str, Any]) -> None:
    case = cases["transposed_plain"]
    inputs = case.inputs(FLOAT32)
    model = case.model(FLOAT32)
    body = helper.make_graph(
        [model.graph.node[0], helper.make_node("Identity", ["c"], ["d"])],
        "body",
        [helper.make_tensor_value_info("i", TensorProto.INT64, []), helper.make_tensor_value_info("c", 9, [])],
        [helper.make_tensor_value_info("d", 9, []), helper.make_tensor_value_info("Y", 1, None)],
    )
    del model.graph.node[:]
    model.graph.node.append(helper.make_node("Loop", ["count", ""], ["all"], body=body))
    model.graph.input.append(helper.make_tensor_value_info("count", TensorProto.INT64, []))
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("all", TensorProto.FLOAT, None))
    (stacked,) = run(model, case.feeds(inputs) | {"count": np.array(3)})
    assert len(stacked) == 3
    for y in stacked:
        np.testing.assert_array_equal(y, expected(case, inputs))


def test_function_bodies_of_our_ops_are_not_used(cases: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ortconv.model_io.loading.check_own_functions", lambda model, name: None)  # for the one below
    case = cases["conv_plain"]
    model = case.model(FLOAT32)
    wrong = helper.make_node("Identity", ["X"], ["Y"])
    names = [attribute.name for attribute in model.graph.node[0].attribute]
    formal = ["X", "W", "B"]
    model.functions.append(
        helper.make_function(DOMAIN, "Convolution", formal, ["Y"], [wrong], model.opset_import, names)
    )
    inputs = case.inputs(FLOAT32)
    (y,) = run(model, case.feeds(inputs))
    np.testing.assert_array_equal(y, expected(case, inputs))


def test_nodes_in_nested_functions(cases: dict[str, Any]) -> None:
    case = cases["conv_plain"]
    inputs = case.inputs(FLOAT32)
    model = case.model(FLOAT32)
    ours = onnx.NodeProto()
    ours.CopyFrom(model.graph.node[0])
    for attribute in ours.attribute:
        if attribute.name == "strides":
            attribute.ClearField("ints")
            attribute.ref_attr_name = "steps"
    call = helper.make_node("inner", ["X", "W"], ["Y"], domain="local", steps=[2, 1])
    imports = [*model.opset_import, helper.make_opsetid("local", 1)]
    negate = helper.make_function("local", "negate", ["X"], ["Y"], [helper.make_node("Neg", ["X"], ["Y"])], imports)
    model.functions.extend(
        [
            helper.make_function("local", "inner", ["X", "W"], ["Y"], [ours], imports, ["steps"]),
            helper.make_function("local", "outer", ["X", "W"], ["Y"], [call], imports),
            negate,
        ]
    )
    model.opset_import.append(helper.make_opsetid("local", 1))
    model.graph.node[0].CopyFrom(helper.make_node("outer", ["X", "W"], ["t"], domain="local"))
    model.graph.node.append(helper.make_node("negate", ["t"], ["Y"], domain="local"))
    (y,) = run(model, case.feeds(inputs))
    np.testing.assert_array_equal(y, -convolutions.conv(*inputs, **(case.attributes | {"strides": [2, 1]})))


def test_model_without_our_nodes() -> None:
    value = helper.make_tensor_value_info
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", [value("x", 1, [2])], [value("y", 1, [2])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=8)
    assert run(model, {"x": np.array([1, -2], np.float32)})[0].tolist() == [-1, 2]


# Session options.


def test_options_serve_many_sessions(cases: dict[str, Any]) -> None:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    for name in ("conv_plain", "transposed_plain", "to_shape_fixed_begin"):
        case = cases[name]
        inputs = case.inputs(FLOAT32)
        (y,) = run(case.model(FLOAT32), case.feeds(inputs), sess_options=options)
        np.testing.assert_array_equal(y, expected(case, inputs))


def test_optimized_model_is_not_written(cases: dict[str, Any], tmp_path: Any) -> None:
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    with pytest.raises(PluginError) as caught:
        InferenceSession(cases["conv_plain"].model(FLOAT32), options, backend="python")
    assert caught.value.problem == "optimized_model_filepath cannot be used with backend='python'."
    assert not list(tmp_path.iterdir())


def test_nodes_that_run_in_other_threads(cases: dict[str, Any]) -> None:
    case = cases["conv_plain"]
    model = case.model(FLOAT32)
    for index in range(3):
        twin = onnx.NodeProto()
        twin.CopyFrom(model.graph.node[0])
        twin.name = twin.output[0] = f"Y{index}"
        model.graph.node.append(twin)
        model.graph.output.append(helper.make_tensor_value_info(f"Y{index}", TensorProto.FLOAT, None))
    options = onnxruntime.SessionOptions()
    options.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
    options.inter_op_num_threads = 2
    session = InferenceSession(model, options, backend="python")
    inputs = case.inputs(FLOAT32)
    for y in session.run(None, case.feeds(inputs)):
        np.testing.assert_array_equal(y, expected(case, inputs))
    for _ in range(20):
        with pytest.raises(PluginError, match="X has 3 channels"):
            session.run(None, bad_weights(case))


def test_options_that_have_the_native_library_too(library: str, cases: dict[str, Any]) -> None:
    case = cases["conv_plain"]
    inputs = case.inputs(FLOAT32)
    options = onnxruntime.SessionOptions()
    native = InferenceSession(case.model(FLOAT32), options)
    python = InferenceSession(case.model(FLOAT32), options, backend="python")
    np.testing.assert_allclose(native.run(None, case.feeds(inputs)), python.run(None, case.feeds(inputs)), 1e-5, 1e-5)


def test_other_failures_of_creation_are_onnxruntimes_own(cases: dict[str, Any]) -> None:
    model = cases["conv_plain"].model(FLOAT32)
    model.graph.node.append(helper.make_node("NoSuchOp", ["Y"], ["Z"]))
    with pytest.raises(Exception, match="NoSuchOp"):
        InferenceSession(model, onnxruntime.SessionOptions(), backend="python")


def test_options_without_extensions_are_not_copied() -> None:
    options = onnxruntime.SessionOptions()
    assert python_ops.copy_if_extended(options) is None


def test_copy_of_options_keeps_what_was_set(tmp_path: Any) -> None:
    extensions = python_ops.import_extensions()
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(extensions.get_library_path())
    options.intra_op_num_threads = 1
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "profile")
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    copy = python_ops.copy_if_extended(options)
    assert copy is not None
    for found in (options, copy):
        assert found.intra_op_num_threads == 1
        assert found.enable_profiling
        assert found.optimized_model_filepath == str(tmp_path / "optimized.onnx")
    assert not list(tmp_path.iterdir())


def test_options_that_had_extensions_before_our_ops_existed(cases: dict[str, Any], tmp_path: Any) -> None:
    """A process of its own, since ops are declared once per process."""
    case = cases["conv_plain"]
    inputs = case.inputs(FLOAT32)
    onnx.save(case.model(FLOAT32), tmp_path / "model.onnx")
    np.savez(tmp_path / "feeds.npz", **case.feeds(inputs))
    np.save(tmp_path / "y.npy", expected(case, inputs))
    code = (
        "import numpy, onnxruntime, onnxruntime_extensions, ortconv\n"
        "options = onnxruntime.SessionOptions()\n"
        "options.register_custom_ops_library(onnxruntime_extensions.get_library_path())\n"
        "session = ortconv.InferenceSession('model.onnx', options, backend='python')\n"
        "(y,) = session.run(None, dict(numpy.load('feeds.npz')))\n"
        "numpy.testing.assert_array_equal(y, numpy.load('y.npy'))\n"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
