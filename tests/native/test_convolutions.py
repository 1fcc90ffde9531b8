"""The native library in ONNX Runtime: results, shapes, threads and memory."""

from __future__ import annotations

import concurrent.futures
import pathlib
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import ortconv
from ortconv.opset.domain import DOMAIN
from ortconv.runtime.choices import CHOICES_ENTRY, IMPLEMENTATION_ENTRY, read
from tests.operators.native import FLOAT, OPS, quiet, session, with_constants


@pytest.mark.parametrize("constant", [True, False], ids=["constant_weights", "runtime_weights"])
def test_matches_the_definition(
    op_case: Any, dtype: np.dtype[Any], constant: bool, library: str, define: Callable[..., Any]
) -> None:
    inputs = op_case.inputs(dtype)
    feeds = op_case.feeds(inputs)
    model = op_case.model(dtype)
    if constant:
        model = with_constants(model, feeds, "W")
    y = session(model).run(None, feeds)[0]
    assert y.dtype == dtype
    define(op_case, inputs).check(y)


@pytest.mark.parametrize("op", OPS)
def test_bias_of_no_name_is_no_bias(op: str, library: str, cases: dict[str, Any]) -> None:
    case = cases[OPS[op]]
    inputs = [*case.inputs(FLOAT)[:-1], np.zeros(case.channels, np.float32)]
    feeds = case.feeds(inputs)
    with_zeros = session(_with_bias(case, "B")).run(None, feeds)[0]
    del feeds["B"]
    np.testing.assert_array_equal(session(_with_bias(case, "")).run(None, feeds)[0], with_zeros)


def _with_bias(case: Any, name: str) -> onnx.ModelProto:
    model: onnx.ModelProto = case.model(FLOAT)
    (node,) = model.graph.node
    if not case.bias:
        node.input.append("")
    if not case.bias and name:
        model.graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, [None]))
    if case.bias and not name:
        model.graph.input.pop()
    node.input[-1] = name
    return model


@pytest.mark.parametrize("dtype_name", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("activation", [[1, 0, np.inf], [0.25, -np.inf, np.inf], [-2, -1.5, 0.75]], ids=str)
@pytest.mark.parametrize("op", OPS)
def test_activation_of_the_result_in_its_type(
    op: str,
    activation: list[float],
    dtype_name: str,
    library: str,
    cases: dict[str, Any],
    tmp_path: pathlib.Path,
) -> None:
    case, dtype = cases[OPS[op]], np.dtype(getattr(ml_dtypes, dtype_name, dtype_name))
    feeds = case.feeds(case.inputs(dtype))
    plain, activated = case.model(dtype), case.model(dtype)
    activated.graph.node[0].attribute.append(
        helper.make_attribute("activation", [float(value) for value in activation])
    )
    slope, minimum, maximum = np.float32(activation)
    options = quiet()
    options.add_session_config_entry(CHOICES_ENTRY, str(tmp_path / "choices"))
    session(activated, options).run(None, feeds)
    # Implementations round the sums differently, and an activation can change which one is chosen.
    for implementation in read(tmp_path / "choices")[0].seconds:
        options = quiet()
        options.add_session_config_entry(IMPLEMENTATION_ENTRY, implementation)
        sums = session(plain, options).run(None, feeds)[0].astype(np.float32)
        expected = np.clip(np.where(sums < 0, sums * slope, sums), minimum, maximum).astype(dtype)
        found = session(activated, options).run(None, feeds)[0]
        np.testing.assert_array_equal(found, expected, err_msg=implementation)


# Shapes that ONNX Runtime is told.


@pytest.mark.parametrize(
    ("op", "x", "y"),
    [
        ("TransposedConvolution", ["N", 3, 4, 3], ["N", 2, 6, 5]),
        ("TransposedConvolution", [2, 3, 4, 3], [2, 2, 6, 5]),
        ("TransposedConvolutionAdd", [2, 3, 4, 3], [2, 2, 6, 5]),
        ("Convolution", ["batch", 3, 5, 4], ["batch", 2, 3, 3]),
    ],
)
def test_static_shapes_flow(op: str, x: list[Any], y: list[Any], library: str, cases: dict[str, Any]) -> None:
    case = cases[OPS[op]]
    feeds = case.feeds(case.inputs(FLOAT))
    model = with_constants(case.model(FLOAT), feeds, "W")
    model.graph.input[0].CopyFrom(helper.make_tensor_value_info("X", TensorProto.FLOAT, x))
    model.graph.output[0].type.tensor_type.ClearField("shape")
    assert session(model).get_outputs()[0].shape == y


@pytest.mark.parametrize("x", [["N", 3, "H", 4], [None, 3, 5, 4], [2, 3, None, 4], None])
def test_unknown_shapes_stay_open(x: list[Any] | None, library: str, cases: dict[str, Any]) -> None:
    case = cases["conv_plain"]
    feeds = case.feeds(case.inputs(FLOAT))
    model = with_constants(case.model(FLOAT), feeds, "W")
    model.graph.input[0].CopyFrom(helper.make_tensor_value_info("X", TensorProto.FLOAT, x))
    model.graph.output[0].type.tensor_type.ClearField("shape")
    made = session(model)
    assert not any(isinstance(dim, int) for dim in made.get_outputs()[0].shape)
    assert made.run(None, feeds)[0].shape == (2, 2, 3, 3)


@pytest.mark.parametrize("constant", [True, False])
def test_one_session_takes_any_sizes(
    constant: bool, library: str, make_case: Callable[..., Any], define: Callable[..., Any]
) -> None:
    made = None
    for batch, height, width in [(1, 5, 4), (3, 1, 9), (2, 7, 2), (0, 2, 2), (1, 5, 4)]:
        case = make_case(
            "TransposedConvolution", (batch, 4, height, width), (4, 3, 3, 2), strides=[2, 3], pads=[1, 0, 0, 1]
        )
        inputs = case.inputs(FLOAT)
        inputs[1] = np.linspace(-1, 1, 72, dtype=np.float32).reshape(4, 3, 3, 2)
        feeds = case.feeds(inputs)
        model = with_constants(case.model(FLOAT), feeds, "W") if constant else case.model(FLOAT)
        made = made or session(model)
        define(case, inputs).check(made.run(None, feeds)[0])


# Sessions, threads, memory.


def test_sessions_share_options_and_outlive_them(library: str, cases: dict[str, Any]) -> None:
    case = cases["transposed_1d_stride_and_padding"]
    feeds = case.feeds(case.inputs(FLOAT))
    options = quiet()
    model = case.model(FLOAT).SerializeToString()
    first = ortconv.InferenceSession(model, options)
    second = ortconv.InferenceSession(model, options)
    third = ortconv.InferenceSession(model, quiet())
    expected = first.run(None, feeds)[0]
    del options, first
    for made in (second, third):
        np.testing.assert_array_equal(made.run(None, feeds)[0], expected)


def _large(make_case: Callable[..., Any]) -> Any:
    """Large enough to be cut into pieces for several threads."""
    return make_case("TransposedConvolution", (2, 12, 20, 21), (12, 20, 3, 4), strides=[2, 2], pads=[1, 1, 0, 1])


@pytest.mark.parametrize("dtype_name", ["float32", "float16", "int8"])
def test_results_do_not_depend_on_threads(dtype_name: str, library: str, make_case: Callable[..., Any]) -> None:
    case = _large(make_case)
    dtype = np.dtype(dtype_name)
    feeds = case.feeds(case.inputs(dtype))
    one, many = (session(case.model(dtype), quiet(threads)).run(None, feeds)[0] for threads in (1, 4))
    np.testing.assert_array_equal(one, many)


@pytest.mark.parametrize("dtype_name", ["float32", "float16"])
@pytest.mark.parametrize("constant", [True, False])
def test_concurrent_runs_of_one_session(
    constant: bool, dtype_name: str, library: str, make_case: Callable[..., Any]
) -> None:
    case = _large(make_case)
    dtype = np.dtype(dtype_name)
    feeds = case.feeds(case.inputs(dtype))
    model = case.model(dtype)
    if constant:
        model = with_constants(model, feeds, "W")
    made = session(model)
    inputs = [{**feeds, "X": feeds["X"] * dtype.type(factor)} for factor in (1, 2, -1, 0.5)]
    expected = [made.run(None, one)[0] for one in inputs]

    def repeat(index: int) -> bool:
        return all(np.array_equal(made.run(None, inputs[index])[0], expected[index]) for _ in range(25))

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert all(pool.map(repeat, range(4)))


@pytest.mark.parametrize("dtype_name", ["float32", "int16"])
def test_a_thousand_runs_do_not_grow_the_process(dtype_name: str, library: str, make_case: Callable[..., Any]) -> None:
    statm = pathlib.Path("/proc/self/statm")
    if not statm.exists():
        pytest.skip("no /proc to read the size of the process from")
    case = make_case("TransposedConvolution", (1, 8, 12, 12), (8, 16, 3, 3), strides=[2, 2])
    dtype = np.dtype(dtype_name)
    feeds = case.feeds(case.inputs(dtype))
    made = session(case.model(dtype))

    def resident_pages() -> int:
        return int(statm.read_text().split()[1])

    for _ in range(200):
        made.run(None, feeds)
    before = resident_pages()
    for _ in range(1000):
        made.run(None, feeds)
    # A leak of one scratch buffer a run, the smallest there is, would be over a thousand pages.
    assert resident_pages() - before < 256


def test_inside_a_branch(library: str, cases: dict[str, Any], define: Callable[..., Any]) -> None:
    case = cases["conv_groups_asymmetric"]
    inputs = case.inputs(FLOAT)
    inner = case.model(FLOAT)
    node, (output,) = inner.graph.node[0], inner.graph.output
    negated = helper.make_node("Neg", ["plain"], ["Z"])
    plain = helper.make_node(node.op_type, list(node.input), ["plain"], name="inner", domain=DOMAIN)
    plain.attribute.extend(node.attribute)
    then_branch = helper.make_graph([node], "then", [], [output])
    else_output = helper.make_tensor_value_info("Z", TensorProto.FLOAT, [None] * 4)
    else_branch = helper.make_graph([plain, negated], "else", [], [else_output])
    branch = helper.make_node("If", ["condition"], ["R"], then_branch=then_branch, else_branch=else_branch)
    condition = helper.make_tensor_value_info("condition", TensorProto.BOOL, [])
    result = helper.make_tensor_value_info("R", TensorProto.FLOAT, [None] * 4)
    graph = helper.make_graph([branch], "outer", [condition, *inner.graph.input], [result])
    model = helper.make_model(graph, opset_imports=list(inner.opset_import), ir_version=10)
    made = session(model)
    feeds = case.feeds(inputs)
    expected = define(case, inputs)
    expected.check(made.run(None, {**feeds, "condition": np.array(True)})[0])
    expected.check(-made.run(None, {**feeds, "condition": np.array(False)})[0])
