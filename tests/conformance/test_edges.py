"""Sizes at the edge, in every way of running a model: empty results, and sizes that cannot be, which are errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, RuntimeException

import ortconv
from ortconv import onednn
from ortconv.errors import PluginError
from tests.running import EXACT, WAYS, assert_matches, run

pytest.importorskip("openvino", reason="the sources are built with OpenVINO")

from tests.conformance import openvino_sources
from tests.conformance.grids import Problem

TARGETS: Sequence[ortconv.Target] = ("auto", "onnx", "plugin")
TYPES = [np.dtype(np.float32), np.dtype(np.int32)]
"""One that the bodies hand to ai.onnx convolutions, one for which they gather and multiply."""


def window(stride: int, begin: int = 0, end: int = 0, auto_pad: str = "explicit") -> dict[str, Any]:
    return {"strides": [stride], "pads_begin": [begin], "pads_end": [end], "dilations": [1], "auto_pad": auto_pad}


def source_of(drawn: Problem) -> object:
    return openvino_sources.model(
        drawn.op,
        drawn.attributes,
        drawn.data,
        drawn.filter,
        drawn.output_shape,
        shape=[-1] * drawn.data.ndim if drawn.dynamic else None,
        runtime_shape=drawn.runtime_shape,
    )


def ways(target: ortconv.Target) -> Sequence[str]:
    return WAYS if target != "onnx" else ("none",)


def check(drawn: Problem) -> None:
    for target in TARGETS:
        model = ortconv.conversion(source_of(drawn), target=target).to_proto()
        for way in ways(target):
            (result,) = run(model, drawn.feeds, way)
            assert_matches(result, drawn.expected("spec"), EXACT, f"{drawn.op} {target} {way}")


def check_refused(drawn: Problem) -> None:
    for target in TARGETS:
        model = ortconv.conversion(source_of(drawn), target=target).to_proto()
        for way in ways(target):
            with pytest.raises((PluginError, RuntimeException, Fail, InvalidArgument)):
                run(model, drawn.feeds, way)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_kernel_that_does_not_fit_at_run_time_is_an_error(dtype: np.dtype) -> None:
    data, weights = np.ones((1, 1, 4), dtype), np.ones((1, 1, 5), dtype)
    check_refused(Problem("Convolution", window(3), data, weights, dynamic=True))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_negative_output_size_at_run_time_is_an_error(dtype: np.dtype) -> None:
    data, weights = np.ones((1, 1, 1), dtype), np.ones((1, 1, 1), dtype)
    check_refused(Problem("ConvolutionBackpropData", window(2, 4, 2), data, weights, dynamic=True))
    sizes = np.array([-1], np.int64)
    check_refused(Problem("ConvolutionBackpropData", window(2), data, weights, sizes, runtime_shape=True, dynamic=True))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_padding_that_consumes_a_size_at_run_time_gives_an_empty_result(dtype: np.dtype) -> None:
    data, weights = np.ones((2, 1, 2), dtype), np.ones((1, 3, 2), dtype)
    check(Problem("ConvolutionBackpropData", window(2, 3, 1), data, weights, dynamic=True))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_begin_padding_beyond_the_full_size_gives_zeros(dtype: np.dtype) -> None:
    data, weights = np.ones((2, 1, 3), dtype), np.ones((1, 3, 1), dtype)
    padding = {**window(1, 5), "output_padding": [4]}
    check(Problem("ConvolutionBackpropData", padding, data, weights))


def test_padding_beyond_31_bits_gives_zeros() -> None:
    """Two axes, since ONNX Runtime's Max is right about one number."""
    data, weights = np.ones((1, 1, 2, 4), np.float32), np.ones((1, 1 << 16, 1, 3), np.float32)
    attributes = {name: 2 * value for name, value in window(1).items() if name != "auto_pad"}
    attributes |= {"auto_pad": "same_upper", "output_padding": [0, 2**31 - 1]}
    sizes = np.array([2, 3], np.int64)
    drawn = Problem("ConvolutionBackpropData", attributes, data, weights, sizes, runtime_shape=True, dynamic=True)
    model = ortconv.conversion(source_of(drawn)).to_proto()
    for way in WAYS:
        assert not run(model, drawn.feeds, way)[0].any()


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("dynamic", [False, True])
def test_empty_batch_of_groups_gives_an_empty_result(dtype: np.dtype, dynamic: bool) -> None:
    data, weights = np.ones((0, 6, 5), dtype), np.ones((3, 2, 2, 3), dtype)
    for op in ("GroupConvolution", "GroupConvolutionBackpropData"):
        check(Problem(op, window(2, 1, 1), data, weights, dynamic=dynamic))


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
def test_weights_gradient_of_an_empty_batch_is_zero(dtype: str) -> None:
    graph = onednn.Graph("g")
    big, small = graph.tensor("big", dtype, [0, 5, 2]), graph.tensor("small", dtype, [0, 3, 4])
    rest: dict[str, Any] = {"strides": [1], "pads_begin": [0], "pads_end": [0], "dilations": [1]}
    graph.op("ConvolutionBackwardWeights", [big, small], weights_shape=[3, 2, 4], **rest)
    model = ortconv.conversion(graph).to_proto()
    numpy = {"f32": np.dtype(np.float32), "bf16": np.dtype(ml_dtypes.bfloat16), "f16": np.dtype(np.float16)}[dtype]
    feeds = {"big": np.zeros((0, 5, 2), numpy), "small": np.zeros((0, 3, 4), numpy)}
    (result,) = run(model, feeds, "none")
    assert_matches(result, np.zeros((3, 2, 4), numpy), EXACT, dtype)
