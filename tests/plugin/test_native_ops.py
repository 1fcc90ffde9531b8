"""The native library in ONNX Runtime: results, refusals, shapes, threads and memory."""

from __future__ import annotations

import concurrent.futures
import ctypes
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import ortconv
from ortconv.opset import DOMAIN

FLOAT = np.dtype(np.float32)
OPS = {
    "ConvTranspose": "transposed_plain",
    "ConvTransposeToShape": "to_shape_fixed_begin",
    "Conv": "conv_plain",
    "ConvTransposeAdd": "add_plain",
}


def quiet(threads: int = 2) -> onnxruntime.SessionOptions:
    """Session options whose session does not log the errors that a test provokes."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = threads
    return options


def session(model: onnx.ModelProto, options: onnxruntime.SessionOptions | None = None) -> ortconv.InferenceSession:
    return ortconv.InferenceSession(model, options or quiet(), providers=["CPUExecutionProvider"])


def with_constants(model: onnx.ModelProto, feeds: dict[str, np.ndarray], *names: str) -> onnx.ModelProto:
    """Turns the named inputs into initializers, and takes them out of `feeds`."""
    for name in names:
        model.graph.initializer.append(numpy_helper.from_array(feeds.pop(name), name))
        model.graph.input.remove(next(value for value in model.graph.input if value.name == name))
    return model


def refusal(model: onnx.ModelProto, feeds: dict[str, np.ndarray] | None = None) -> str:
    """The message of the session that cannot be made, or with `feeds` of the run that fails."""
    if feeds is None:
        with pytest.raises(Exception, match=DOMAIN) as caught:
            session(model)
    else:
        made = session(model)
        with pytest.raises(Exception, match=DOMAIN) as caught:
            made.run(None, feeds)
    return str(caught.value)


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
    op: str, activation: list[float], dtype_name: str, library: str, cases: dict[str, Any]
) -> None:
    case, dtype = cases[OPS[op]], np.dtype(getattr(ml_dtypes, dtype_name, dtype_name))
    feeds = case.feeds(case.inputs(dtype))
    model = case.model(dtype)
    plain = session(model).run(None, feeds)[0].astype(np.float32)
    slope, minimum, maximum = np.float32(activation)
    expected = np.clip(np.where(plain < 0, plain * slope, plain), minimum, maximum).astype(dtype)
    model.graph.node[0].attribute.append(helper.make_attribute("activation", [float(value) for value in activation]))
    np.testing.assert_array_equal(session(model).run(None, feeds)[0], expected)


@pytest.mark.parametrize(
    ("value", "allowed"),
    [
        ([1.0, 0.0], "a finite slope"),
        ([np.inf, 0.0, 1.0], "a finite slope"),
        ([np.nan, 0.0, 1.0], "a finite slope"),
        ([1.0, 1.0, 0.0], "a maximum that is no less"),
        ([1.0, np.nan, 0.0], "a maximum that is no less"),
        ([1, 0, 6], "of another type"),
        (1, "of another type"),
        ("Relu", "of another type"),
    ],
)
def test_activation_that_makes_no_sense(value: Any, allowed: str, library: str, cases: dict[str, Any]) -> None:
    model = cases[OPS["ConvTranspose"]].model(FLOAT)
    model.graph.node[0].attribute.append(helper.make_attribute("activation", value))
    text = refusal(model)
    assert "attribute activation " in text
    assert allowed in text


@pytest.mark.parametrize("dtype_name", ["float64", "int8", "uint64"])
def test_activation_of_a_type_that_sums_in_no_float(dtype_name: str, library: str, cases: dict[str, Any]) -> None:
    model = cases[OPS["Conv"]].model(np.dtype(dtype_name))
    model.graph.node[0].attribute.append(helper.make_attribute("activation", [1.0, 0.0, float("inf")]))
    assert "allowed there: [1, -inf, inf]" in refusal(model)


# Refusals of attributes.

WRONG_VALUES: list[tuple[str, str, Any, str]] = [
    ("ConvTranspose", "strides", [0, 1], "2 ints from 1 to 2^61 - 1"),
    ("ConvTranspose", "strides", [1] * 7, "1 to 6 ints"),
    ("ConvTranspose", "dilations", [1], "2 ints from 1 to 2^61 - 1"),
    ("ConvTranspose", "dilations", [1, 2**62], "2 ints from 1 to 2^61 - 1"),
    ("ConvTranspose", "group", 0, "1 to 2^61 - 1"),
    ("ConvTranspose", "pads", [0, 0, 0, -1], "4 ints from 0 to 2^61 - 1"),
    ("ConvTranspose", "pads", [0, 0], "4 ints from 0 to 2^61 - 1"),
    ("ConvTranspose", "output_padding", [-(2**62), 0], "2 ints from -(2^61 - 1) to 2^61 - 1"),
    ("ConvTransposeToShape", "output_padding", [-1, 0], "2 ints from 0 to 2^61 - 1"),
    ("ConvTranspose", "x_perm", [0, 1, 2, 2], "a permutation of 0 to 3"),
    ("ConvTranspose", "w_perm", [1, 2, 3, 4], "a permutation of 0 to 3"),
    ("ConvTranspose", "y_perm", [0, 1, 2], "a permutation of 0 to 3"),
    ("ConvTranspose", "accumulation_type", TensorProto.DOUBLE, "1 (numbers of TensorProto.DataType)"),
    ("ConvTransposeToShape", "pads_begin", [0, 0, 0, 0], "2 ints from 0 to 2^61 - 1"),
    ("ConvTransposeToShape", "pads_begin", [-1, 0], "2 ints from 0 to 2^61 - 1"),
    ("ConvTransposeToShape", "auto_pad", "VALID", "NOTSET, SAME_UPPER, SAME_LOWER"),
    ("Conv", "auto_pad", "same_upper", "NOTSET, SAME_UPPER, SAME_LOWER"),
    ("Conv", "auto_pad", "", "NOTSET, SAME_UPPER, SAME_LOWER"),
]


@pytest.mark.parametrize(("op", "name", "value", "allowed"), WRONG_VALUES)
def test_attribute_out_of_range(
    op: str, name: str, value: Any, allowed: str, library: str, cases: dict[str, Any]
) -> None:
    model = cases[OPS[op]].model(FLOAT)
    _replace(model.graph.node[0], name, value)
    shown = repr(value)
    message = refusal(model)
    assert f"org.ortconv.{op} 'node': attribute {name}={shown} is not valid" in message
    assert f"; allowed: {allowed}" in message


@pytest.mark.parametrize("op", ["Conv", "ConvTransposeToShape"])
def test_pads_beside_auto_pad(op: str, library: str, cases: dict[str, Any]) -> None:
    name = "pads" if op == "Conv" else "pads_begin"
    model = cases[OPS[op]].model(FLOAT)
    _replace(model.graph.node[0], "auto_pad", "SAME_LOWER")
    _replace(model.graph.node[0], name, [0, 1] if op == "ConvTransposeToShape" else [0, 0, 0, 1])
    assert f"org.ortconv.{op} 'node': attribute {name}=[0" in refusal(model)


ATTRIBUTES = [
    (op, name)
    for op, own in {
        "ConvTranspose": ["pads", "output_padding"],
        "ConvTransposeAdd": ["pads", "output_padding"],
        "ConvTransposeToShape": ["pads_begin", "output_padding", "auto_pad"],
        "Conv": ["pads", "auto_pad"],
    }.items()
    for name in ["strides", "dilations", "group", "x_perm", "w_perm", "y_perm", "accumulation_type", *own]
]


@pytest.mark.parametrize(("op", "name"), ATTRIBUTES)
def test_attribute_is_missing(op: str, name: str, library: str, cases: dict[str, Any]) -> None:
    model = cases[OPS[op]].model(FLOAT)
    _replace(model.graph.node[0], name, None)
    message = refusal(model)
    assert f"org.ortconv.{op} 'node': attribute {name} is missing, empty or of another type; allowed: " in message


@pytest.mark.parametrize(("op", "name"), ATTRIBUTES)
def test_attribute_has_another_type(op: str, name: str, library: str, cases: dict[str, Any]) -> None:
    model = cases[OPS[op]].model(FLOAT)
    _replace(model.graph.node[0], name, 1.5)
    kind = {"auto_pad": "a string", "group": "an int", "accumulation_type": "an int"}.get(name, "ints")
    message = refusal(model)
    assert (
        f"org.ortconv.{op} 'node': attribute {name} is missing, empty or of another type; allowed: {kind} (" in message
    )


@pytest.mark.parametrize("value", [[], [1.5, 2.5], "1", [b"1"]])
def test_list_without_ints(value: Any, library: str, cases: dict[str, Any]) -> None:
    model = cases["conv_plain"].model(FLOAT)
    _replace(model.graph.node[0], "strides", None)
    kind = onnx.AttributeProto.INTS if value == [] else None
    model.graph.node[0].attribute.append(helper.make_attribute("strides", value, attr_type=kind))
    expected = "attribute strides is missing, empty or of another type; allowed: ints ("
    assert f"org.ortconv.Conv 'node': {expected}" in refusal(model)


@pytest.mark.parametrize("dtype_name", ["float16", "float64", "uint8", "uint64"])
def test_accumulation_type_follows_the_element_type(dtype_name: str, library: str, cases: dict[str, Any]) -> None:
    legal = {"float16": 1, "float64": 11, "uint8": 6, "uint64": 13}
    for value in legal.values():
        model = cases["conv_plain"].model(np.dtype(dtype_name))
        _replace(model.graph.node[0], "accumulation_type", value)
        if value == legal[dtype_name]:
            session(model)
        else:
            assert f"attribute accumulation_type={value} is not valid for element type " in refusal(model)


def _replace(node: onnx.NodeProto, name: str, value: Any) -> None:
    (old,) = (attribute for attribute in node.attribute if attribute.name == name)
    node.attribute.remove(old)
    if value is not None:
        node.attribute.append(helper.make_attribute(name, value))


# Refusals of shapes and types.

WRONG_SHAPES: list[tuple[str, str, tuple[int, ...], str]] = [
    ("transposed_plain", "X", (2, 3, 4), "input X has shape [2, 3, 4]; allowed: rank 4"),
    ("transposed_plain", "X", (2, 4, 4, 3), "input X has shape [2, 4, 4, 3], that is 4 channels on axis 1; allowed: 3"),
    ("transposed_plain", "W", (3, 2, 3), "input W has shape [3, 2, 3]; allowed: rank 4"),
    ("transposed_plain", "W", (3, 2, 0, 3), "input W has shape [3, 2, 0, 3], a kernel of size 0 on axis 2"),
    (
        "transposed_groups_dilation_asymmetric_pads",
        "W",
        (3, 2, 2, 3),
        "input W has shape [3, 2, 2, 3], that is 3 input channels on axis 0; allowed: a multiple of group=2",
    ),
    ("transposed_depthwise_nxc", "X", (1, 3, 3, 2), "input X has shape [1, 3, 3, 2], that is 2 channels on axis 3"),
    ("add_plain", "R", (2, 2, 6, 4), "input R has shape [2, 2, 6, 4]; allowed: [2, 2, 6, 5], as Y has"),
    ("add_plain", "R", (2, 1, 1), "input R has shape [2, 1, 1]; allowed: [2, 2, 6, 5], as Y has"),
    ("add_nxc", "R", (1, 18, 8, 9), "input R has shape [1, 18, 8, 9]; allowed: [1, 8, 9, 18], as Y has"),
    ("to_shape_fixed_begin", "B", (3,), "input B has shape [3]; allowed: [2]"),
    ("to_shape_fixed_begin", "output_shape", (3,), "input output_shape has 3 entries; allowed: 2"),
    ("to_shape_fixed_begin", "output_shape", (1, 2), "input output_shape has shape [1, 2]; allowed: rank 1"),
    (
        "conv_groups_asymmetric",
        "W",
        (5, 2, 3, 2),
        "input W has shape [5, 2, 3, 2], that is 5 output channels on axis 0; allowed: a multiple of group=2",
    ),
    ("conv_plain", "X", (2, 3, 2, 4), "spatial axis 0: kernel extent 3 exceeds the padded input of 2 + 0 + 0 elements"),
]


@pytest.mark.parametrize(("name", "tensor", "shape", "expected"), WRONG_SHAPES)
def test_shape_does_not_fit(
    name: str, tensor: str, shape: tuple[int, ...], expected: str, library: str, cases: dict[str, Any]
) -> None:
    case = cases[name]
    feeds = case.feeds(case.inputs(FLOAT))
    feeds[tensor] = np.ones(shape, feeds[tensor].dtype)
    model = case.model(FLOAT)
    for value in model.graph.input:
        value.type.tensor_type.ClearField("shape")
    message = refusal(model, feeds)
    assert f"org.ortconv.{case.op} 'node': {expected}" in message
    assert "; allowed: " in message


def test_constant_weights_that_do_not_fit_are_refused_at_load(library: str, cases: dict[str, Any]) -> None:
    case = cases["transposed_groups_dilation_asymmetric_pads"]
    feeds = case.feeds(case.inputs(FLOAT))
    feeds["W"] = feeds["W"][:3]
    assert "input W has shape [3, 2, 2, 3]" in refusal(with_constants(case.model(FLOAT), feeds, "W"))


def test_negative_output_size(library: str, make_case: Callable[..., Any]) -> None:
    case = make_case("ConvTranspose", (1, 1, 3), (1, 1, 2), pads=[3, 2])
    message = refusal(case.model(FLOAT), case.feeds(case.inputs(FLOAT)))
    assert "spatial axis 0: output size -1 = full size 4 - pads 3 - 2 + output_padding 0 is negative" in message


def test_negative_output_shape(library: str, make_case: Callable[..., Any]) -> None:
    case = make_case("ConvTransposeToShape", (1, 1, 3, 3), (1, 1, 2, 2), output_shape=(4, -1))
    message = refusal(case.model(FLOAT), case.feeds(case.inputs(FLOAT)))
    assert "input output_shape[1]=-1 is not valid; allowed: 0 to 2^61 - 1" in message


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"strides": [2**61 - 1]}, "full size .* is too large; allowed: up to 2\\^61 - 1"),
        ({"dilations": [2**61 - 1]}, "kernel extent .* is too large; allowed: up to 2\\^61 - 1"),
        ({"output_padding": [2**61 - 1]}, "output Y has shape .*; allowed: less than 2\\^60 elements in all"),
        ({"output_padding": [2**50]}, DOMAIN),  # the allocator of ONNX Runtime says no
    ],
)
def test_absurd_sizes_are_refused(
    more: dict[str, Any], expected: str, library: str, make_case: Callable[..., Any]
) -> None:
    case = make_case("ConvTranspose", (1, 2, 3), (2, 2, 3), **more)
    assert re.search(expected, refusal(case.model(FLOAT), case.feeds(case.inputs(FLOAT))))


def test_types_do_not_mix(library: str, cases: dict[str, Any]) -> None:
    model = cases["conv_plain"].model(FLOAT)
    model.graph.input[1].type.tensor_type.elem_type = TensorProto.FLOAT16
    with pytest.raises(Exception, match="Conv"):
        session(model)


def test_old_onnxruntime_is_refused(library: str) -> None:
    """A stand-in for ONNX Runtime 1.23.2: the two functions of OrtApiBase and, of OrtApi, CreateStatus."""
    messages: list[str] = []
    version = ctypes.create_string_buffer(b"1.23.2")

    def create_status(code: int, message: bytes) -> int:
        messages.append(message.decode())
        return 1

    create = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)(create_status)
    api = (ctypes.c_void_p * 1)(ctypes.cast(create, ctypes.c_void_p).value)
    get_api = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)(lambda _: ctypes.addressof(api))
    get_version = ctypes.CFUNCTYPE(ctypes.c_void_p)(lambda: ctypes.addressof(version))
    base = (ctypes.c_void_p * 2)(*(ctypes.cast(function, ctypes.c_void_p).value for function in (get_api, get_version)))
    register = ctypes.CDLL(library).RegisterCustomOps
    register.restype = ctypes.c_void_p
    assert register(None, ctypes.byref(base)) == 1
    assert messages == ["org.ortconv: ONNX Runtime 1.23.2 is too old; allowed: 1.24 or newer."]


@pytest.mark.skipif(sys.platform != "linux" or shutil.which("nm") is None, reason="needs nm, of binutils")
def test_one_symbol_is_exported(library: str) -> None:
    command = ["nm", "--dynamic", "--defined-only", "--format=just-symbols", library]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout.split() == ["RegisterCustomOps"]


# Shapes that ONNX Runtime is told.


@pytest.mark.parametrize(
    ("op", "x", "y"),
    [
        ("ConvTranspose", ["N", 3, 4, 3], ["N", 2, 6, 5]),
        ("ConvTranspose", [2, 3, 4, 3], [2, 2, 6, 5]),
        ("ConvTransposeAdd", [2, 3, 4, 3], [2, 2, 6, 5]),
        ("Conv", ["batch", 3, 5, 4], ["batch", 2, 3, 3]),
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
        case = make_case("ConvTranspose", (batch, 4, height, width), (4, 3, 3, 2), strides=[2, 3], pads=[1, 0, 0, 1])
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
    return make_case("ConvTranspose", (2, 12, 20, 21), (12, 20, 3, 4), strides=[2, 2], pads=[1, 1, 0, 1])


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
    case = make_case("ConvTranspose", (1, 8, 12, 12), (8, 16, 3, 3), strides=[2, 2])
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
