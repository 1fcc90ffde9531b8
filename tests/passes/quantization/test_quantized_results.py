"""Convolutions whose results are activated, scaled and quantized become QLinearConvolution, with OpenVINO's levels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from openvino import opset1, opset4

from ortconv.api import conversion
from tests.converters.openvino.live import model_of, numbers
from tests.passes.quantization.quantized_layers import (
    F32,
    IMAGE,
    SIGNED,
    STEP,
    UNSIGNED,
    W1,
    W2,
    Build,
    by_openvino,
    convolved,
    explained,
    int8_weights,
    rounded,
    types,
)
from tests.running import run

OURS = "QLinearConvolution"
BETWEEN = (-100.375 * STEP, 154.625 * STEP)
"""Zero is no level of this range."""


def of_channels(low: float, high: float, seed: int) -> Any:
    return opset1.constant(numbers(1, 8, 1, 1, low=low, high=high, seed=seed))


def normalized(x: Any) -> Any:
    """Returns data times a number for each channel, negative ones among them, plus another."""
    return opset1.add(opset1.multiply(x, of_channels(-1, 1, 4)), of_channels(-0.4, 0.4, 5))


def grouped(x: Any) -> Any:
    weights = int8_weights(2, 4, 4, 3, 3, axis=None)
    return opset1.group_convolution(x, weights, [1, 1], [1, 1], [1, 1], [1, 1])


def depthwise(x: Any) -> Any:
    weights = int8_weights(8, 1, 1, 3, 3, axis=None)
    return opset1.group_convolution(x, weights, [1, 1], [1, 1], [1, 1], [1, 1])


LAYERS: dict[str, tuple[Build, list[str]]] = {
    "zero between two levels": (
        lambda x: rounded(convolved(rounded(x, BETWEEN), W1)),
        ["Conv", "Expand", "Squeeze", "Add"],
    ),
    "of a kernel without padding": (lambda x: rounded(normalized(opset1.relu(convolved(rounded(x, BETWEEN), W2)))), []),
    "relu and normalization": (
        lambda x: rounded(normalized(opset1.relu(convolved(rounded(x, BETWEEN), W1))), BETWEEN),
        ["Conv", "Expand", "Squeeze", "Add"],
    ),
    "normalization in front of the activation": (
        lambda x: rounded(opset1.clamp(normalized(convolved(rounded(x, BETWEEN), W1)), -0.5, 1.0)),
        ["Conv", "Expand", "Squeeze", "Mul", "Add"],
    ),
    "leaky relu": (
        lambda x: rounded(opset1.prelu(grouped(rounded(x)), opset1.constant(F32([0.25])))),
        [],
    ),
    "a positive scale behind the activation": (
        lambda x: rounded(opset1.multiply(opset1.relu(grouped(rounded(x))), of_channels(0.5, 2, 7))),
        [],
    ),
    "hard swish": (lambda x: rounded(opset4.hswish(grouped(rounded(x)))), []),
    "hard swish of a depthwise layer, scaled and shifted": (
        lambda x: rounded(normalized(opset4.hswish(depthwise(rounded(x))))),
        [],
    ),
    "groups": (lambda x: rounded(opset1.relu(grouped(rounded(x))), UNSIGNED), []),
    "a quotient and a difference": (
        lambda x: rounded(opset1.subtract(opset1.divide(grouped(rounded(x)), F32(1.5)), of_channels(-1, 1, 6))),
        [],
    ),
}


@pytest.mark.parametrize(("build", "image"), LAYERS.values(), ids=LAYERS)
def test_result_is_quantized_by_the_kernel(build: Build, image: list[str]) -> None:
    x = numbers(*IMAGE, low=-2.2, high=2.2, seed=3)
    model = model_of(build, [[x]])
    converted = conversion(model)
    kinds = types(converted.to_proto())
    assert kinds.count(OURS) == 1
    assert "ConvIntegerToFloat" not in kinds
    expected = {"QuantizeLinear", "DequantizeLinear", OURS, *image}
    assert set(kinds) - {"Sub", "Add"} == expected - {"Sub", "Add"}
    assert "becomes one with the quantizer of its result" in explained(converted)
    want = by_openvino(model, x)
    assert len(np.unique(want)) > 20
    for way in ("native", "python", "none"):
        (found,) = run(converted.to_proto(), {converted.to_proto().graph.input[0].name: x}, way)
        off = np.abs(found - want)
        # A sum in the middle between two levels may go to either, which is rare.
        assert off.max() < 1.01 * STEP
        assert np.mean(off > 0.01 * STEP) < 0.01


UNFUSED: dict[str, Build] = {
    "an activation of another kind": lambda x: rounded(opset4.swish(grouped(rounded(x)))),
    "a second consumer": lambda x: [rounded(y := grouped(rounded(x))), opset1.negative(y)],
    "data in front of a quotient": lambda x: rounded(opset1.divide(F32(0.1), opset1.abs(grouped(rounded(x))))),
    "an operand of the run": lambda x: rounded(opset1.add(grouped(rounded(x)), x)),
    "an operand of positions": lambda x: rounded(
        opset1.add(grouped(rounded(x)), opset1.constant(numbers(1, 1, 9, 1, low=-1, high=1)))
    ),
    "two activations": lambda x: rounded(
        opset4.swish(opset1.prelu(opset1.relu(normalized(grouped(rounded(x)))), F32([0.5])))
    ),
    "no quantizer": lambda x: opset1.relu(grouped(rounded(x))),
}


@pytest.mark.parametrize("build", UNFUSED.values(), ids=UNFUSED)
def test_other_results_stay_floats(build: Build) -> None:
    x = numbers(*IMAGE, low=-2.2, high=2.2, seed=3)
    model = model_of(build, [[x]])
    converted = conversion(model).to_proto()
    assert OURS not in types(converted)
    assert "ConvIntegerToFloat" in types(converted)
    found = run(converted, {converted.graph.input[0].name: x}, "native")[0]
    off = np.abs(found - by_openvino(model, x))
    assert off.max() < 1.01 * STEP
    assert np.mean(off > 0.01 * STEP) < 0.01


def test_standard_operators_alone() -> None:
    x = numbers(*IMAGE, low=-2.2, high=2.2, seed=3)
    model = model_of(LAYERS["relu and normalization"][0], [[x]])
    assert OURS not in types(conversion(model, target="onnx").to_proto())


def test_ranges_per_channel_have_one_scale(tmp_path: Any) -> None:
    """The scales of the result move into the weights, in front of it and behind it."""
    scales = numbers(1, 8, 1, 1, low=0.4, high=1) * F32(STEP)

    def build(x: Any) -> Any:
        hidden = rounded(opset1.relu(grouped(rounded(x))), (scales * 0, scales * 255))
        return rounded(convolved(hidden, W1), SIGNED)

    x = numbers(*IMAGE, low=-2.2, high=2.2, seed=3)
    model = model_of(build, [[x]])
    converted = conversion(model).to_proto()
    (found,) = run(converted, {converted.graph.input[0].name: x}, "native")
    off = np.abs(found - by_openvino(model, x))
    assert off.max() < 1.01 * STEP
    assert np.mean(off > 0.01 * STEP) < 0.02
