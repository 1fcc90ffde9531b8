"""What OpenVINO's CPU plugin computes otherwise in a model that quantizes: the page is followed, with a warning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset1, opset2, opset6, opset12

from ortconv.api import conversion
from tests.converters.openvino.live import assert_close, model_of, numbers, run_onnx, run_openvino

F32 = np.float32
Build = Callable[[Any], Any]
X = numbers(2, 3, 6, 6, low=-1, high=1)
CHANNELS = numbers(3, 1, 1, low=0.5, high=2)


def quantized(x: Any, low: float, high: float) -> Any:
    return opset1.fake_quantize(x, F32(low), F32(high), F32(low), F32(high), 256)


def model(front: Build, op: Build, *, quantizes: bool = True) -> openvino.Model:
    """Returns a model of an op behind others, which quantizes a second input."""

    def build(x: Any, y: Any) -> list[Any]:
        return [op(front(x)), quantized(y, 0, 1) if quantizes else opset1.relu(y)]

    return model_of(build, [[X, X]])


FRONTS: dict[str, tuple[Build, bool, bool]] = {
    "nothing": (opset1.abs, False, False),
    "sum": (lambda x: opset1.add(x, CHANNELS), False, False),
    "product": (lambda x: opset1.multiply(x, F32(0.05)), True, False),
    "quotient": (lambda x: opset1.divide(x, F32(20)), True, False),
    "product, relu and transpose": (
        lambda x: opset1.transpose(opset1.relu(opset1.multiply(x, F32(0.05))), np.array([0, 1, 3, 2])),
        True,
        False,
    ),
    "product and tanh": (lambda x: opset1.tanh(opset1.multiply(x, F32(0.05))), False, False),
    "product and sum": (lambda x: opset1.add(opset1.multiply(x, F32(0.05)), F32(0.3)), True, True),
    "quantized": (lambda x: quantized(x, -3, 2), True, True),
    "group normalization": (
        lambda x: opset12.group_normalization(x, CHANNELS.ravel(), CHANNELS.ravel(), 3, 1e-3),
        True,
        True,
    ),
}
"""What is in front of an op, and whether it scales and shifts."""

NORMALIZATIONS: dict[str, Build] = {
    "MVN": lambda x: opset6.mvn(x, np.array([2, 3]), True, 0.1, "inside_sqrt"),
    "GroupNormalization": lambda x: opset12.group_normalization(x, CHANNELS.ravel(), CHANNELS.ravel(), 1, 0.1),
    "NormalizeL2": lambda x: opset1.normalize_l2(x, np.array([1]), 0.1, "add"),
}
PADDED: dict[str, Build] = {
    "AvgPool": lambda x: opset1.avg_pool(x, [1, 1], [1, 1], [1, 1], [3, 3], False),
    "SpaceToBatch": lambda x: opset2.space_to_batch(
        x, np.array([1, 1, 2, 2]), np.array([0, 0, 1, 1]), np.array([0, 0, 1, 1])
    ),
}
NOT_MOVED = {
    ("MVN", "product and sum"),
    ("MVN", "quantized"),
    ("MVN", "group normalization"),
    ("GroupNormalization", "product and sum"),
    ("GroupNormalization", "quantized"),
    ("GroupNormalization", "group normalization"),
    ("NormalizeL2", "product and sum"),
    ("NormalizeL2", "quantized"),
    ("NormalizeL2", "group normalization"),
    ("SpaceToBatch", "group normalization"),
}
"""Where the plugin of today leaves the scale, for the sake of a shift behind it."""


def differ(one: np.ndarray, other: np.ndarray) -> bool:
    return bool(np.abs(one - other).max() > 1e-3 * np.abs(one).max())


@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("op", NORMALIZATIONS | PADDED)
def test_the_page_is_followed(op: str, front: str) -> None:
    before, scales, shifts = FRONTS[front]
    build = (NORMALIZATIONS | PADDED)[op]
    moved = scales if op in NORMALIZATIONS else shifts
    quantizing = model(before, build)
    (theirs, _) = run_openvino(quantizing, [[X, X]])[0]
    (given,) = run_openvino(model_of(before, [[X]]), [[X]])[0]
    (right,) = run_openvino(model_of(build, [[given]]), [[given]])[0]
    assert differ(right, theirs) == (moved and (op, front) not in NOT_MOVED)
    converted = conversion(quantizing)
    (ours, _) = run_onnx(converted, [[X, X]])[0]
    assert_close(ours, right, 64)
    assert any("in a model with FakeQuantize" in text for text in converted.warnings) == moved


@pytest.mark.parametrize("op", NORMALIZATIONS | PADDED)
def test_a_model_that_does_not_quantize(op: str) -> None:
    before, _, _ = FRONTS["group normalization"]
    plain = model(before, (NORMALIZATIONS | PADDED)[op], quantizes=False)
    converted = conversion(plain)
    assert not converted.warnings
    assert_close(run_onnx(converted, [[X, X]])[0][0], run_openvino(plain, [[X, X]])[0][0], 64)


@pytest.mark.parametrize(
    "op",
    [
        lambda x: opset1.avg_pool(x, [1, 1], [1, 1], [1, 1], [3, 3], True),
        lambda x: opset1.avg_pool(x, [1, 1], [0, 0], [0, 0], [3, 3], False, "floor", "valid"),
    ],
)
def test_pools_that_count_no_padding(op: Build) -> None:
    padded = model(FRONTS["product and sum"][0], op)
    converted = conversion(padded)
    assert not converted.warnings
    for ours, theirs in zip(run_onnx(converted, [[X, X]])[0], run_openvino(padded, [[X, X]])[0], strict=True):
        assert_close(ours, theirs, 16)


def test_a_constant_that_is_compressed_scales_too() -> None:
    half = CHANNELS.astype(np.float16)
    scaled = model(lambda x: opset1.multiply(x, opset1.convert(opset1.constant(half), "f32")), NORMALIZATIONS["MVN"])
    assert any("in a model with FakeQuantize" in text for text in conversion(scaled).warnings)


def test_weights_that_are_quantized_scale() -> None:
    for weights, moved in (
        (lambda: opset1.constant(numbers(2, 3, 1, 1)), False),
        (lambda: quantized(opset1.constant(numbers(2, 3, 1, 1)), -4, 4), True),
    ):
        converted = conversion(
            model(
                lambda x, make=weights: opset1.convolution(quantized(x, 0, 1), make(), [1, 1], [0, 0], [0, 0], [1, 1]),
                NORMALIZATIONS["MVN"],
            )
        )
        assert any("in a model with FakeQuantize" in text for text in converted.warnings) == moved


def test_an_eps_of_usual_size_does_not_show() -> None:
    quantizing = model(FRONTS["quantized"][0], lambda x: opset6.mvn(x, np.array([2, 3]), True, 1e-5, "inside_sqrt"))
    converted = conversion(quantizing)
    assert not converted.warnings
    (ours, _), (theirs, _) = run_onnx(converted, [[X, X]])[0], run_openvino(quantizing, [[X, X]])[0]
    assert not differ(ours, theirs)
