"""Levels of FakeQuantize, multiplied by weights of 8 bits, some of which OpenVINO's CPU plugin moves."""

from __future__ import annotations

import numpy as np
import openvino
import pytest
from openvino import opset1

from ortconv.api import conversion
from tests.converters.openvino.live import model_of, numbers, run_onnx, run_openvino
from tests.processor import with_dot_products

F32 = np.float32
FILTERS = numbers(4, 3, 3, 3, low=-0.4, high=0.4)
MATRIX = numbers(12, 6, low=-0.4, high=0.4)
Range = tuple[float, float, int]


def levels(x: openvino.Node, low: float, high: float, count: int) -> openvino.Node:
    return opset1.fake_quantize(x, F32(low), F32(high), F32(low), F32(high), count)


def of_levels(low: float, high: float, count: int, *shape: int) -> np.ndarray:
    """Returns data that lies near levels, so that all agree on which."""
    data = numbers(*shape, low=0, high=count - 1).round() + numbers(*shape, seed=1, low=-0.3, high=0.3)
    return (low + data.astype(np.float64) * (high - low) / (count - 1)).astype(F32)


def layer(kind: str, data: Range, weights: Range | None) -> openvino.Model:
    def product(x: openvino.Node) -> openvino.Node:
        quantized = levels(x, *data)
        constant = opset1.constant(MATRIX if kind == "matmul" else FILTERS)
        if weights is None:
            whole = np.round((MATRIX if kind == "matmul" else FILTERS) * 127 / 0.4).astype(np.int8)
            factor = opset1.multiply(opset1.convert(opset1.constant(whole), "f32"), F32(0.01))
        else:
            factor = levels(constant, *weights)
        if kind == "matmul":
            return opset1.matmul(quantized, factor, False, False)
        if kind == "grouped":
            factor = opset1.reshape(factor, np.array([1, 4, 3, 3, 3]), False)
            return opset1.group_convolution(quantized, factor, [1, 1], [1, 1], [1, 1], [1, 1])
        if kind == "backward":
            return opset1.convolution_backprop_data(quantized, factor, strides=[1, 1])
        return opset1.convolution(quantized, factor, [1, 1], [1, 1], [1, 1], [1, 1])

    return model_of(product, [[feed(kind, data)]])


def feed(kind: str, data: Range) -> np.ndarray:
    shape = {"matmul": (5, 12), "backward": (1, 4, 6, 7)}.get(kind, (1, 3, 6, 7))
    return of_levels(*data, *shape)


def error(kind: str, data: Range, weights: Range | None) -> tuple[float, tuple[str, ...]]:
    """Returns how far OpenVINO's CPU plugin is off, and what the conversion says."""
    model, x = layer(kind, data, weights), feed(kind, data)
    converted = conversion(model)
    ours, theirs = run_onnx(converted, [[x]])[0][0], run_openvino(model, [[x]])[0][0]
    return float(np.abs(ours - theirs).max() / np.abs(ours).max()), converted.warnings


@pytest.mark.parametrize(
    ("kind", "data", "weights"),
    [
        ("convolution", (-1, 1, 256), (-0.4, 0.4, 255)),
        ("convolution", (-1, 1, 16), (-0.4, 0.4, 255)),
        ("convolution", (0, 2.55, 256), (-0.4, 0.4, 256)),
        ("convolution", (0, 2.55, 255), (-0.4, 0.4, 255)),
        ("convolution", (-1, 1, 256), None),
        ("grouped", (-1, 1, 16), None),
        ("matmul", (0, 1.5, 15), (-0.4, 0.4, 255)),
        ("backward", (0, 2.55, 255), (-0.4, 0.4, 255)),
    ],
    ids=str,
)
def test_levels_that_openvino_moves(kind: str, data: Range, weights: Range | None) -> None:
    off, warnings = error(kind, data, weights)
    assert off > 1e-4
    (warning,) = warnings
    assert "moves the levels to multiply in int8" in warning


@pytest.mark.parametrize(
    ("kind", "data", "weights"),
    [
        pytest.param("convolution", (0, 2.55, 256), (-0.4, 0.4, 255), marks=with_dot_products),
        pytest.param("convolution", (-1.28, 1.27, 256), None, marks=with_dot_products),
        ("convolution", (-1, 1, 128), (-0.4, 0.4, 255)),
        ("convolution", (-1, 1, 16), (-0.4, 0.4, 15)),
        pytest.param("grouped", (-0.5, 2.05, 256), None, marks=with_dot_products),
        pytest.param("matmul", (-1, 1, 256), (-0.4, 0.4, 255), marks=with_dot_products),
        ("matmul", (-1, 1, 256), (-0.4, 0.4, 256)),
        ("backward", (-1, 1, 256), (-0.4, 0.4, 256)),
    ],
    ids=str,
)
def test_levels_that_openvino_keeps(kind: str, data: Range, weights: Range | None) -> None:
    off, warnings = error(kind, data, weights)
    assert off < 1e-6
    assert not warnings


def test_the_file_is_followed() -> None:
    data, weights = (-1, 1, 16), (-0.4, 0.4, 255)
    x = feed("matmul", data)
    places = np.clip(np.round((x.astype(np.float64) + 1) * 7.5), 0, 15)
    factors = np.round((MATRIX.astype(np.float64) + 0.4) / 0.8 * 254) / 254 * 0.8 - 0.4
    result = run_onnx(conversion(layer("matmul", data, weights)), [[x]])[0][0]
    np.testing.assert_allclose(result, (places / 7.5 - 1) @ factors, atol=1e-6)
