"""TransposedConvolutionAdd in every way it can be run: the sum, the activation after it, residuals that do not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import helper

import ortconv
from ortconv.opset import functions
from ortconv.opset.schemas import register_schemas
from tests.operators.convolutions import CASES, DTYPES, Case
from tests.running import WAYS, run

ADD = {name: case for name, case in CASES.items() if case.op == "TransposedConvolutionAdd"}
FLOAT32 = np.dtype(np.float32)
ACTIVATION = (-2.0, -1.5, 0.75)


def with_body(model: onnx.ModelProto) -> onnx.ModelProto:
    made = ir.from_proto(model)
    functions.attach(made)
    return ir.to_proto(made)


def plain(case: Case, dtype: np.dtype[Any]) -> onnx.ModelProto:
    """The case without its residual."""
    model = case.model(dtype)
    (node,) = model.graph.node
    node.op_type = "TransposedConvolution"
    del node.input[2]
    del model.graph.input[2]
    return model


def activated(model: onnx.ModelProto) -> onnx.ModelProto:
    model.graph.node[0].attribute.append(helper.make_attribute("activation", ACTIVATION))
    return model


def rounded_sum(y: np.ndarray, residual: np.ndarray, activation: bool) -> np.ndarray:
    """Returns Y + R as numpy adds them in their type, and then what the activation makes of it."""
    wide = np.float64 if y.dtype == np.float64 else y.dtype if y.dtype.kind in "iu" else np.float32
    with np.errstate(over="ignore"):
        total = (y.astype(wide) + residual.astype(wide)).astype(y.dtype)
    if not activation:
        return total
    slope, minimum, maximum = np.float32(ACTIVATION)
    values = total.astype(np.float32)
    return np.clip(np.where(values < 0, values * slope, values), minimum, maximum).astype(y.dtype)


@pytest.mark.parametrize("name", ADD)
def test_body_matches_the_definition(name: str, dtype: np.dtype[Any], define: Callable[..., Any]) -> None:
    case = ADD[name]
    inputs = case.inputs(dtype)
    (y,) = run(with_body(case.model(dtype)), case.feeds(inputs), "none")
    assert y.dtype == dtype
    define(case, inputs).check(y)


@pytest.mark.parametrize("opset", [13, 14, 15, 17, 18, 25])
def test_body_in_other_opsets(opset: int, define: Callable[..., Any]) -> None:
    case = ADD["add_groups_dilation_asymmetric_pads"]
    inputs = case.inputs(FLOAT32)
    (y,) = run(with_body(case.model(FLOAT32, opset)), case.feeds(inputs), "none")
    define(case, inputs).check(y)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("type_name", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", ["add_plain", "add_nxc", "add_depthwise"])
def test_activation_comes_after_the_sum(name: str, type_name: str, way: str, library: str) -> None:
    case, dtype = ADD[name], DTYPES[type_name]
    feeds = case.feeds(case.inputs(dtype))
    without = {key: value for key, value in feeds.items() if key != "R"}
    # Implementations round the sums differently, and an activation can change which one is chosen.
    (y,) = run(with_body(plain(case, dtype)), without, way, implementation="phases")
    (found,) = run(with_body(activated(case.model(dtype))), feeds, way, implementation="phases")
    np.testing.assert_array_equal(found, rounded_sum(y, feeds["R"], activation=True))


LAYERS = {
    "kernel_is_stride": ((2, 16, 40, 37), (16, 20, 2, 2), {"strides": [2, 2]}),
    "kernel_is_stride_and_past_the_caches": ((1, 8, 128, 128), (8, 16, 2, 2), {"strides": [2, 2]}),
    "phases_past_the_caches": ((1, 9, 61, 59), (9, 37, 3, 3), {"strides": [2, 2], "pads": [1, 1, 0, 1]}),
    "minimal_filtering": ((2, 64, 24, 23), (64, 48, 4, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "tap_by_tap": ((3, 256, 4, 5), (256, 64, 4, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "columns": ((2, 128, 1, 1), (128, 31, 4, 4), {}),
    "image_head": ((2, 33, 31, 29), (33, 3, 4, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "depthwise": ((2, 21, 33, 34), (21, 1, 16, 16), {"strides": [8, 8], "pads": [4] * 4, "group": 21}),
    "one_axis": ((2, 40, 301), (40, 24, 16), {"strides": [8], "pads": [4, 4]}),
    "three_axes": ((1, 12, 9, 10, 11), (12, 14, 3, 3, 3), {"strides": [2, 2, 2], "pads": [1, 1, 1, 0, 1, 1]}),
    "channels_last": (
        (1, 33, 20, 21),
        (33, 50, 3, 3),
        {"strides": [2, 2], "x_perm": [0, 3, 1, 2], "y_perm": [0, 2, 3, 1]},
    ),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("activation", [False, True], ids=["plain", "activated"])
@pytest.mark.parametrize("layer", LAYERS)
def test_sum_is_that_of_an_add_behind_the_layer(
    layer: str, activation: bool, threads: int, dtype: np.dtype[Any], library: str, make_case: Callable[..., Any]
) -> None:
    """Bit for bit, on layers that are computed in different ways, with constant weights."""
    if activation and (dtype.kind in "iu" or dtype == np.float64):
        return
    if dtype.kind in "iu" and dtype != np.int8:
        return  # computed as int8 is
    x, w, attributes = LAYERS[layer]
    case = make_case("TransposedConvolutionAdd", x, w, **attributes)
    feeds = case.feeds(case.inputs(dtype))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    weights, residual = feeds.pop("W"), feeds.pop("R")

    def result(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> np.ndarray:
        model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "W"))
        model.graph.input.remove(next(value for value in model.graph.input if value.name == "W"))
        found: np.ndarray = ortconv.InferenceSession(model, options).run(None, feeds)[0]
        return found

    y = result(plain(case, dtype), feeds)
    fused = case.model(dtype)
    found = result(activated(fused) if activation else fused, feeds | {"R": residual})
    np.testing.assert_array_equal(found, rounded_sum(y, residual, activation))


@pytest.mark.parametrize("type_name", ["float16", "bfloat16"])
@pytest.mark.parametrize("way", WAYS)
def test_result_is_rounded_before_the_sum(
    type_name: str, way: str, library: str, make_case: Callable[..., Any]
) -> None:
    """One step above a power of two less that power: what is left of a sum that is rounded to its type first."""
    dtype = DTYPES[type_name]
    case = make_case("TransposedConvolutionAdd", (1, 2, 1), (2, 1, 1), bias=False)
    step = float(ml_dtypes.finfo(dtype).eps)
    feeds = case.feeds(case.inputs(dtype))
    feeds["X"] = np.array([[[1], [1]]], dtype)
    feeds["W"] = np.array([[[1]], [[0.75 * step]]], dtype)
    feeds["R"] = np.array([[[-1]]], dtype)
    (y,) = run(with_body(case.model(dtype)), feeds, way)
    assert float(y[0, 0, 0]) == step


@pytest.mark.parametrize("shape", [(2, 2, 6, 4), (2, 2, 1, 1), (1, 2, 6, 5), (2, 2, 5, 6)])
@pytest.mark.parametrize("way", WAYS)
def test_residual_of_another_shape_is_refused(shape: tuple[int, ...], way: str, library: str) -> None:
    case = ADD["add_plain"]
    feeds = case.feeds(case.inputs(FLOAT32)) | {"R": np.ones(shape, np.float32)}
    with pytest.raises(
        Exception, match="Reshape" if way != "native" else r"input R has shape .*allowed: \[2, 2, 6, 5\]"
    ):
        run(with_body(case.model(FLOAT32)), feeds, way)


@pytest.mark.parametrize("way", ["native", "python"])
def test_residual_of_another_type_is_refused(way: str, library: str) -> None:
    case = ADD["add_plain"]
    model = case.model(FLOAT32)
    model.graph.input[2].type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    register_schemas()
    with pytest.raises(onnx.shape_inference.InferenceError, match="R has inconsistent type"):
        onnx.checker.check_model(model, full_check=True)
    feeds = case.feeds(case.inputs(FLOAT32))
    with pytest.raises(Exception, match=r"(?i)type"):
        run(model, feeds | {"R": feeds["R"].astype(np.float64)}, way)


def test_both_ops_in_one_model(library: str) -> None:
    """Each has a body of its own, so that a node without a residual needs none."""
    case = ADD["add_plain"]
    model = case.model(FLOAT32)
    second = onnx.NodeProto()
    second.CopyFrom(model.graph.node[0])
    second.op_type, second.name, second.output[0] = "TransposedConvolution", "second", "Z"
    del second.input[2]
    model.graph.node.append(second)
    model.graph.output.append(helper.make_tensor_value_info("Z", onnx.TensorProto.FLOAT, [None] * 4))
    feeds = case.feeds(case.inputs(FLOAT32))
    for way in WAYS:
        y, z = run(with_body(model), feeds, way)
        np.testing.assert_allclose(y, z + feeds["R"], rtol=1e-6, atol=1e-6)
