"""Whole networks against OpenVINO's CPU plugin: static and dynamic sizes, f32 and f16-compressed files."""

from __future__ import annotations

import pathlib

import numpy as np
import openvino
import pytest
from openvino import opset1

from ortconv.api import conversion
from tests.converters.openvino.live import assert_close, check, model_of, numbers, run_onnx, run_openvino
from tests.converters.openvino.networks import NETWORKS, Network
from tests.processor import with_dot_products


@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_static(network: Network) -> None:
    check(model_of(network.build, network.feeds[:1]), network.feeds[0], bound=network.bound)


@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_dynamic(network: Network) -> None:
    check(model_of(network.build, network.feeds), *network.feeds, bound=network.bound)


@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_compressed_file(network: Network, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "model.xml"
    openvino.save_model(model_of(network.build, network.feeds), path, compress_to_fp16=True)
    expected = run_openvino(openvino.Core().read_model(path), network.feeds)
    for number, (ours, theirs) in enumerate(zip(run_onnx(conversion(path), network.feeds), expected, strict=True)):
        for index, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            assert_close(mine, other, network.bound, f"feed {number}, output {index}")


@with_dot_products
def test_eight_bit_network() -> None:
    """The plugin computes it in integers: what it returns is within one of 256 steps of the page's numbers."""
    random = np.random.default_rng(0)

    def quantized(value: object, low: object, high: object, levels: int) -> openvino.Node:
        bounds = [np.asarray(bound, np.float32) for bound in (low, high, low, high)]
        return opset1.fake_quantize(value, *bounds, levels)

    def build(x: openvino.Node) -> openvino.Node:
        channels = 3
        for layer, filters in enumerate((8, 8, 16)):
            weight = random.normal(size=(filters, channels, 3, 3)).astype(np.float32) * np.float32(0.3)
            largest = np.abs(weight).max((1, 2, 3), keepdims=True)
            x = quantized(x, 0 if layer else -2, 2, 256)
            kernel = quantized(opset1.constant(weight), -largest, largest, 255)
            x = opset1.relu(opset1.convolution(x, kernel, [1, 1], [1, 1], [1, 1], [1, 1]))
            channels = filters
        return opset1.reduce_mean(quantized(x, 0, 3, 256), np.array([2, 3]), False)

    feed = [numbers(2, 3, 8, 8)]
    model = model_of(build, [feed])
    (mine,), (other,) = run_onnx(conversion(model), [feed])[0], run_openvino(model, [feed])[0]
    assert np.abs(mine - other).max() < 3 / 255
