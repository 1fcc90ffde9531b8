"""Convolutions too long, too deep or too far-reaching for most kernels: as exact as ONNX Runtime's own, at least."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest

import ortconv
from ortconv.opset.domain import DOMAIN
from tests.native.single_layers import Layer, data, definition, error, model, run

LAYERS = {
    "inverse STFT": Layer("ConvTranspose", [2, 1026, 20], [1026, 1, 4096], [1024]),
    "inverse STFT of a long window": Layer("ConvTranspose", [1, 500, 9], [500, 1, 8192], [2048]),
    "stride beyond the kernel": Layer("ConvTranspose", [1, 64, 7], [64, 2, 4500], [9000], group=2),
    "image kernel": Layer("ConvTranspose", [1, 20, 4, 5], [20, 2, 70, 66], [30, 20]),
    "STFT of a long window": Layer("Conv", [2, 1, 20000], [20, 1, 8192], [2048]),
    "long filter": Layer("Conv", [1, 2, 9000], [2, 2, 6000], [1], pads=[3000, 2999]),
    "whole image": Layer("Conv", [2, 3, 90, 90], [8, 3, 90, 90], [1, 1]),
    "far dilation": Layer("Conv", [1, 16, 9000], [16, 16, 3], [1], dilations=[4000]),
    "many channels": Layer("Conv", [1, 30000, 4], [4, 30000, 3], [1], pads=[1, 1]),
}


@pytest.mark.parametrize("constant", [True, False], ids=["constant", "run-time"])
@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS.keys())
def test_the_error_is_not_above_that_of_onnx_runtime(layer: Layer, constant: bool) -> None:
    feeds = data(layer, np.float32)
    weights = feeds["w"] if constant else None
    expected = definition(layer, feeds["x"], feeds["w"])
    own = model(layer, weights, True, onnx.TensorProto.FLOAT)
    ours = run(ortconv.InferenceSession(own, backend="native"), feeds)
    stock = run(
        onnxruntime.InferenceSession(model(layer, weights, False, onnx.TensorProto.FLOAT).SerializeToString()), feeds
    )
    assert ours.shape == expected.shape
    assert error(ours, expected) <= 1.02 * error(stock, expected)


@pytest.mark.parametrize(("element_type", "element", "most"), [(np.float16, 10, 3e-4), (np.float64, 11, 1e-14)])
@pytest.mark.parametrize("name", ["inverse STFT of a long window", "long filter", "whole image"])
def test_other_types(name: str, element_type: npt.DTypeLike, element: int, most: float) -> None:
    layer = LAYERS[name]
    feeds = data(layer, element_type)
    ours = run(ortconv.InferenceSession(model(layer, feeds["w"], True, element), backend="native"), feeds)
    assert error(ours, definition(layer, feeds["x"], feeds["w"])) <= most


def test_optimize_takes_them() -> None:
    layer = LAYERS["inverse STFT"]
    feeds = data(layer, np.float32)
    optimized = ortconv.optimize(model(layer, feeds["w"], False, onnx.TensorProto.FLOAT))
    assert [node.domain for node in optimized.graph.node] == [DOMAIN]
    ours = run(ortconv.InferenceSession(optimized, backend="native"), feeds)
    assert error(ours, definition(layer, feeds["x"], feeds["w"])) < 3e-7
