"""Transposed convolutions of quantized networks become integer operators, with OpenVINO's levels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from openvino import opset1

from ortconv.api import conversion
from tests.converters.openvino.live import model_of, numbers
from tests.passes.quantization.quantized_layers import (
    F32,
    IMAGE,
    STEP,
    UNSIGNED,
    Build,
    by_openvino,
    explained,
    int8_weights,
    rounded,
    types,
)
from tests.running import run

QLINEAR, QLINEAR_ADD, TO_FLOAT = (
    "QLinearTransposedConvolution",
    "QLinearTransposedConvolutionAdd",
    "TransposedConvolutionIntegerToFloat",
)


def spread(x: Any, *, groups: int = 0, bias: bool = True) -> Any:
    """Returns a transposed convolution with stride 2 of eight channels to eight."""
    if groups:
        w = int8_weights(groups, 8 // groups, 8 // groups, 4, 4, axis=None)
        y = opset1.group_convolution_backprop_data(x, w, [2, 2], pads_begin=[1, 1], pads_end=[1, 1])
    else:
        w = int8_weights(8, 8, 4, 4, axis=1)
        y = opset1.convolution_backprop_data(x, w, [2, 2], pads_begin=[1, 1], pads_end=[1, 1])
    return opset1.add(y, opset1.constant(numbers(1, 8, 1, 1, low=-0.3, high=0.3))) if bias else y


LAYERS: dict[str, tuple[Build, list[str]]] = {
    "quantized": (lambda x: rounded(spread(rounded(x))), ["QuantizeLinear", QLINEAR, "DequantizeLinear"]),
    "no bias": (lambda x: rounded(spread(rounded(x), bias=False)), ["QuantizeLinear", QLINEAR, "DequantizeLinear"]),
    "relu": (
        lambda x: rounded(opset1.relu(spread(rounded(x))), UNSIGNED),
        ["QuantizeLinear", QLINEAR, "DequantizeLinear"],
    ),
    "leaky relu": (
        lambda x: rounded(opset1.prelu(spread(rounded(x)), opset1.constant(F32([0.25])))),
        ["QuantizeLinear", QLINEAR, "DequantizeLinear"],
    ),
    "groups": (lambda x: rounded(spread(rounded(x), groups=2)), ["QuantizeLinear", QLINEAR, "DequantizeLinear"]),
    "depthwise": (lambda x: rounded(spread(rounded(x), groups=8)), ["QuantizeLinear", QLINEAR, "DequantizeLinear"]),
    "two in a row": (
        lambda x: rounded(spread(rounded(spread(rounded(x))))),
        ["QuantizeLinear", QLINEAR, QLINEAR, "DequantizeLinear"],
    ),
    "to float": (lambda x: spread(rounded(x)), ["QuantizeLinear", TO_FLOAT]),
    "residual": (
        lambda x: rounded(opset1.add(spread(rounded(x)), rounded(opset1.tile(x, np.int64([1, 1, 2, 2]))))),
        ["Tile", "QuantizeLinear", "QuantizeLinear", QLINEAR_ADD, "DequantizeLinear"],
    ),
}


@pytest.mark.parametrize(("build", "expected"), LAYERS.values(), ids=LAYERS)
def test_layer_runs_in_integers(build: Build, expected: list[str]) -> None:
    x = numbers(*IMAGE, low=-2.2, high=2.2, seed=3)
    model = model_of(build, [[x]])
    converted = conversion(model)
    assert sorted(types(converted.to_proto())) == sorted(expected)
    assert "is computed in integers" in explained(converted)
    want = by_openvino(model, x)
    for way in ("native", "none"):
        (found,) = run(converted.to_proto(), {converted.to_proto().graph.input[0].name: x}, way)
        off = np.abs(found - want)
        # A sum in the middle between two levels may go to either, which is rare.
        assert off.max() < 1.01 * STEP
        assert np.mean(off > 0.01 * STEP) < 0.01


def test_standard_operators_are_float() -> None:
    x = numbers(*IMAGE, low=-2.2, high=2.2)
    kinds = types(conversion(model_of(LAYERS["quantized"][0], [[x]]), target="onnx").to_proto())
    assert "ConvTranspose" in kinds
    assert not {QLINEAR, TO_FLOAT} & set(kinds)
