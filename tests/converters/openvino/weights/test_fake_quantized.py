"""Constants behind FakeQuantize: weights of old files, which are stored as bytes and multiplied in integers."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import openvino
import pytest
from onnx import TensorProto
from openvino import opset1

from ortconv.api import conversion
from tests.converters.openvino.live import model_of
from tests.passes.quantization.quantized_layers import UNSIGNED, agree, convolved, depthwise, rounded, runs

F32 = np.float32
FORMS = ("floats", "halves", "bytes")


def weights(*shape: int, form: str, levels: int) -> Any:
    """Returns rounded weights with a range for each entry of the first axis: stored as floats, or less."""
    rng = np.random.default_rng(list(shape))
    sizes = [shape[0]] + [1] * (len(shape) - 1)
    scale = rng.uniform(0.001, 0.004, sizes).astype(F32)
    least = -127 if levels == 255 else -128
    low, high = (opset1.constant(F32(bound) * scale) for bound in (least, 127))
    codes = rng.integers(least, 128, shape)
    if form == "bytes":
        stored, source = opset1.constant(codes.astype(np.int8)), (F32(least), F32(127))
        return opset1.fake_quantize(opset1.convert(stored, "f32"), *map(opset1.constant, source), low, high, levels)
    data = (codes + rng.uniform(-0.4, 0.4, shape)) * scale
    if form == "halves":
        return opset1.fake_quantize(
            opset1.convert(opset1.constant(data.astype(np.float16)), "f32"), *[low, high] * 2, levels
        )
    return opset1.fake_quantize(opset1.constant(data.astype(F32)), low, high, low, high, levels)


@pytest.mark.parametrize("levels", [255, 256])
@pytest.mark.parametrize("form", FORMS)
def test_layers_are_computed_in_integers(form: str, levels: int, tmp_path: pathlib.Path) -> None:
    def filters(*shape: int) -> Any:
        return weights(*shape, form=form, levels=levels)

    assert "QLinearConv" in agree(lambda x: rounded(convolved(rounded(x), filters(8, 8, 3, 3))), tmp_path)
    made = agree(lambda x: rounded(depthwise(rounded(x), filters(8, 1, 1, 3, 3)), UNSIGNED), tmp_path)
    assert "QLinearConv" in made
    made = agree(lambda x: rounded(opset1.matmul(rounded(x), filters(12, 10), False, True)), tmp_path)
    assert "MatMulInteger" in made or "MatMulIntegerToFloat" in made


@pytest.mark.parametrize("form", FORMS)
def test_bytes_are_stored(form: str) -> None:
    x = np.zeros((1, 8, 9, 10), F32)
    model = model_of(lambda x: convolved(x, weights(8, 8, 3, 3, form=form, levels=255)), [[x]])
    stored = {
        each.data_type for each in conversion(model).to_proto().graph.initializer if list(each.dims)[1:] == [8, 3, 3]
    }
    assert stored == {TensorProto.INT8}


def ranges(kind: str, levels: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    high = rng.uniform(0.1, 4, (1, 1) if kind == "one range" else (5, 1)).astype(F32)
    below = {"signed": -((levels - 1) // 2 + (levels + 1) % 2), "unsigned": 0}.get(kind, -(levels // 3))
    low = high * F32(below / (levels - 1 + below))
    if kind == "zero between levels":
        low = high * F32(-0.3701)
    if kind == "ranges of two axes":
        high = high * np.linspace(1, 2, 6, dtype=F32)
        low = low * np.linspace(1, 2, 6, dtype=F32)
    if kind == "zero points of channels":
        low = low * np.linspace(0, 1, 5, dtype=F32)[:, np.newaxis]
    if kind == "an empty range":
        low, high = low.copy(), high.copy()
        low[2] = high[2] = 0
    return np.asarray(low, F32), np.asarray(high, F32)


@pytest.mark.parametrize("levels", [15, 16, 255, 256])
@pytest.mark.parametrize(
    ("kind", "is_stored"),
    [
        ("signed", True),
        ("unsigned", True),
        ("some zero point", True),
        ("one range", True),
        ("another range", True),
        ("zero between levels", False),
        ("zero points of channels", False),
        ("ranges of two axes", False),
        ("an empty range", False),
    ],
)
def test_numbers_between_levels(kind: str, is_stored: bool, levels: int, tmp_path: pathlib.Path) -> None:
    rng = np.random.default_rng(levels)
    low, high = ranges(kind, levels, rng)
    step = (high - low) / F32(levels - 1)
    data = (low + rng.integers(-3, 2 * levels + 3, (5, 6)) * step / 2).astype(F32)  # half of them, but for rounding
    to = (low * F32(3), high * F32(3)) if kind == "another range" else (low, high)

    def build(x: Any) -> Any:
        bounds = [opset1.constant(np.asarray(each, F32)) for each in (low, high, *to)]
        return opset1.add(x, opset1.fake_quantize(opset1.constant(data), *bounds, levels))

    x = np.zeros((5, 6), F32)
    model = model_of(build, [[x]])
    converted = conversion(model, target="onnx").to_proto()
    assert ("DequantizeLinear" in [node.op_type for node in converted.graph.node]) == is_stored
    config = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
    expected = np.array(openvino.Core().compile_model(model, "CPU", config)(x)[0])
    np.testing.assert_allclose(runs(converted, tmp_path)(x), expected, atol=3e-6 * np.abs(expected).max(), rtol=0)


def test_vectors_stay_floats() -> None:
    bounds = [opset1.constant(F32(each)) for each in (-1, 1, -1, 1)]
    model = model_of(
        lambda x: opset1.add(x, opset1.fake_quantize(opset1.constant(np.linspace(-1, 1, 6, dtype=F32)), *bounds, 255)),
        [[np.zeros((5, 6), F32)]],
    )
    assert "DequantizeLinear" not in [node.op_type for node in conversion(model).to_proto().graph.node]


@pytest.mark.parametrize("data", [np.array([[np.nan, 0.5]], F32), np.zeros((0, 3), F32)], ids=["NaN", "nothing"])
def test_what_no_byte_holds(data: np.ndarray) -> None:
    bounds = [opset1.constant(F32(each)) for each in (-1, 1, -1, 1)]
    model = model_of(
        lambda x: opset1.add(x, opset1.fake_quantize(openvino.op.Constant(openvino.Tensor(data)), *bounds, 255)),
        [[np.zeros(data.shape, F32)]],
    )
    assert "DequantizeLinear" not in [node.op_type for node in conversion(model).to_proto().graph.node]
