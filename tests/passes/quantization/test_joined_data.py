"""A convolution of a Concat whose operands have different scales becomes a sum of convolutions of integers."""

from __future__ import annotations

import numpy as np
import pytest
from openvino import opset1

from ortconv.api import conversion
from tests.converters.openvino.live import model_of, numbers
from tests.passes.quantization.quantized_layers import (
    IMAGE,
    ODD,
    SIGNED,
    STEP,
    UNSIGNED,
    Build,
    by_openvino,
    convolved,
    explained,
    int8_weights,
    rounded,
    types,
)
from tests.running import run

OURS = "ConvIntegerToFloat"
WIDE = (-300.5 * STEP, 209.5 * STEP)
"""Twice as wide as the others; zero lies between two levels."""
W16, W24 = int8_weights(8, 16, 3, 3), int8_weights(8, 24, 3, 3, axis=None)


SPLIT: dict[str, tuple[Build, int, int]] = {
    "two parts": (lambda x: convolved(opset1.concat([rounded(x), rounded(x, WIDE)], 1), W16), 2, 0),
    "three parts, one scale of weights": (
        lambda x: convolved(opset1.concat([rounded(x, ODD), rounded(x, WIDE), rounded(x, UNSIGNED)], 1), W24),
        3,
        0,
    ),
    "parts of other sizes": (
        lambda x: convolved(
            opset1.concat([rounded(opset1.concat([x, x], 1), WIDE), rounded(x)], 1), W24, bias=False, strides=2
        ),
        2,
        1,
    ),
}
"""What is built, how many convolutions it becomes, and how many Concat stay."""


@pytest.mark.parametrize(("build", "parts", "joined"), SPLIT.values(), ids=SPLIT)
def test_each_part_is_computed_in_integers(build: Build, parts: int, joined: int) -> None:
    x = numbers(*IMAGE, low=-2.2, high=2.2, seed=3)
    model = model_of(build, [[x]])
    converted = conversion(model)
    kinds = types(converted.to_proto())
    assert (kinds.count(OURS), kinds.count("Concat")) == (parts, joined)
    assert "is a sum of convolutions" in explained(converted)
    want = by_openvino(model, x)
    for way in ("native", "python", "none"):
        (found,) = run(converted.to_proto(), {converted.to_proto().graph.input[0].name: x}, way)
        np.testing.assert_allclose(found, want, atol=3e-5)


WHOLE: dict[str, Build] = {
    "parts of one scale": lambda x: convolved(opset1.concat([rounded(x), rounded(opset1.negative(x))], 1), W16),
    "a part that is not quantized": lambda x: convolved(opset1.concat([rounded(x), x], 1), W16),
    "joined rows": lambda x: convolved(opset1.concat([rounded(x), rounded(x, WIDE)], 2), int8_weights(8, 8, 3, 3)),
    "many parts": lambda x: convolved(
        opset1.concat([rounded(x, (low * STEP, SIGNED[1])) for low in (-128, -64, -32, -16, -8)], 1),
        int8_weights(8, 40, 3, 3),
    ),
}


@pytest.mark.parametrize("build", WHOLE.values(), ids=WHOLE)
def test_other_data_stay_whole(build: Build) -> None:
    x = numbers(*IMAGE, low=-2.2, high=2.2, seed=3)
    converted = conversion(model_of(build, [[x]]))
    assert types(converted.to_proto()).count("Concat") == 1
    assert "is a sum of convolutions" not in explained(converted)


def test_standard_operators_alone() -> None:
    x = numbers(*IMAGE, low=-2.2, high=2.2, seed=3)
    converted = conversion(model_of(SPLIT["two parts"][0], [[x]]), target="onnx")
    assert types(converted.to_proto()).count("Concat") == 1
