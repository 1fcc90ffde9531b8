"""What the native library refuses: attributes, shapes, types, sizes, and an ONNX Runtime that is too old."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from ortconv.convolution_arithmetic import AutoPad
from ortconv.opset.domain import DOMAIN
from tests.operators.native import FLOAT, OPS, refusal, session, with_constants


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
    model = cases[OPS["TransposedConvolution"]].model(FLOAT)
    model.graph.node[0].attribute.append(helper.make_attribute("activation", value))
    text = refusal(model)
    assert "attribute activation " in text
    assert allowed in text


@pytest.mark.parametrize("dtype_name", ["float64", "int8", "uint64"])
def test_activation_of_a_type_that_sums_in_no_float(dtype_name: str, library: str, cases: dict[str, Any]) -> None:
    model = cases[OPS["Convolution"]].model(np.dtype(dtype_name))
    model.graph.node[0].attribute.append(helper.make_attribute("activation", [1.0, 0.0, float("inf")]))
    assert "allowed there: [1, -inf, inf]" in refusal(model)


# Refusals of attributes.

WRONG_VALUES: list[tuple[str, str, Any, str]] = [
    ("TransposedConvolution", "strides", [0, 1], "2 ints from 1 to 2^61 - 1"),
    ("TransposedConvolution", "strides", [1] * 7, "1 to 6 ints"),
    ("TransposedConvolution", "dilations", [1], "2 ints from 1 to 2^61 - 1"),
    ("TransposedConvolution", "dilations", [1, 2**62], "2 ints from 1 to 2^61 - 1"),
    ("TransposedConvolution", "group", 0, "1 to 2^61 - 1"),
    ("TransposedConvolution", "pads", [0, 0, 0, -1], "4 ints from 0 to 2^61 - 1"),
    ("TransposedConvolution", "pads", [0, 0], "4 ints from 0 to 2^61 - 1"),
    ("TransposedConvolution", "output_padding", [-(2**62), 0], "2 ints from -(2^61 - 1) to 2^61 - 1"),
    ("TransposedConvolutionToShape", "output_padding", [-1, 0], "2 ints from 0 to 2^61 - 1"),
    ("TransposedConvolution", "x_perm", [0, 1, 2, 2], "a permutation of 0 to 3"),
    ("TransposedConvolution", "w_perm", [1, 2, 3, 4], "a permutation of 0 to 3"),
    ("TransposedConvolution", "y_perm", [0, 1, 2], "a permutation of 0 to 3"),
    ("TransposedConvolution", "accumulation_type", TensorProto.DOUBLE, "1 (numbers of TensorProto.DataType)"),
    ("TransposedConvolutionToShape", "pads_begin", [0, 0, 0, 0], "2 ints from 0 to 2^61 - 1"),
    ("TransposedConvolutionToShape", "pads_begin", [-1, 0], "2 ints from 0 to 2^61 - 1"),
    ("TransposedConvolutionToShape", "auto_pad", 3, "0 (NOTSET), 1 (SAME_UPPER), 2 (SAME_LOWER)"),
    ("Convolution", "auto_pad", -1, "0 (NOTSET), 1 (SAME_UPPER), 2 (SAME_LOWER)"),
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


@pytest.mark.parametrize("op", ["Convolution", "TransposedConvolutionToShape"])
def test_pads_beside_auto_pad(op: str, library: str, cases: dict[str, Any]) -> None:
    name = "pads" if op == "Convolution" else "pads_begin"
    model = cases[OPS[op]].model(FLOAT)
    _replace(model.graph.node[0], "auto_pad", AutoPad.SAME_LOWER)
    _replace(model.graph.node[0], name, [0, 1] if op == "TransposedConvolutionToShape" else [0, 0, 0, 1])
    assert f"org.ortconv.{op} 'node': attribute {name}=[0" in refusal(model)


ATTRIBUTES = [
    (op, name)
    for op, own in {
        "TransposedConvolution": ["pads", "output_padding"],
        "TransposedConvolutionAdd": ["pads", "output_padding"],
        "TransposedConvolutionToShape": ["pads_begin", "output_padding", "auto_pad"],
        "Convolution": ["pads", "auto_pad"],
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
    kind = {"auto_pad": "an int", "group": "an int", "accumulation_type": "an int"}.get(name, "ints")
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
    assert f"org.ortconv.Convolution 'node': {expected}" in refusal(model)


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
    case = make_case("TransposedConvolution", (1, 1, 3), (1, 1, 2), pads=[3, 2])
    message = refusal(case.model(FLOAT), case.feeds(case.inputs(FLOAT)))
    assert "spatial axis 0: output size -1 = full size 4 - pads 3 - 2 + output_padding 0 is negative" in message


def test_negative_output_shape(library: str, make_case: Callable[..., Any]) -> None:
    case = make_case("TransposedConvolutionToShape", (1, 1, 3, 3), (1, 1, 2, 2), output_shape=(4, -1))
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
    case = make_case("TransposedConvolution", (1, 2, 3), (2, 2, 3), **more)
    assert re.search(expected, refusal(case.model(FLOAT), case.feeds(case.inputs(FLOAT))))


def test_types_do_not_mix(library: str, cases: dict[str, Any]) -> None:
    model = cases["conv_plain"].model(FLOAT)
    model.graph.input[1].type.tensor_type.elem_type = TensorProto.FLOAT16
    with pytest.raises(Exception, match="Convolution"):
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
def test_exported_symbols(library: str) -> None:
    """What ONNX Runtime looks for in libraries of custom operators and of execution providers."""
    command = ["nm", "--dynamic", "--defined-only", "--format=just-symbols", library]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert sorted(found) == ["CreateEpFactories", "RegisterCustomOps", "ReleaseEpFactory"]
