"""Quantized layers, and how ONNX Runtime and OpenVINO compute them."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import openvino
from openvino import opset1

from ortconv.api import Conversion, conversion
from ortconv.runtime.saturation import make_products_exact
from tests.converters.openvino.live import model_of, numbers

__all__ = [
    "F32",
    "IMAGE",
    "ODD",
    "SIGNED",
    "STEP",
    "UNSIGNED",
    "W1",
    "W2",
    "Build",
    "agree",
    "all_by_openvino",
    "by_openvino",
    "convolved",
    "depthwise",
    "explained",
    "int8_weights",
    "rounded",
    "runs",
    "types",
]

F32 = np.float32
Build = Callable[[Any], Any]
IMAGE = (1, 8, 9, 10)
STEP = 2.0**-6
SIGNED = (-128 * STEP, 127 * STEP)
UNSIGNED = (0.0, 255 * STEP)
ODD = (-37 * STEP, 218 * STEP)


def rounded(x: Any, bounds: tuple[Any, Any] = SIGNED, levels: int = 256, to: tuple[Any, Any] | None = None) -> Any:
    numbers_of = [opset1.constant(np.asarray(each, F32)) for each in (*bounds, *(bounds if to is None else to))]
    return opset1.fake_quantize(x, *numbers_of, levels)


def int8_weights(*shape: int, seed: int = 0, axis: int | None = 0, dtype: type = np.int8) -> Any:
    """Returns weights as compressed constants have them, with a scale for each entry of an axis."""
    rng = np.random.default_rng([seed, *shape])
    info = np.iinfo(dtype)
    codes = rng.integers(info.min + 1, info.max + 1, shape).astype(dtype)
    sizes = [size if index == axis else 1 for index, size in enumerate(shape)]
    value = opset1.convert(opset1.constant(codes), "f32")
    if dtype == np.uint8:
        value = opset1.subtract(value, F32(119))
    return opset1.multiply(value, opset1.constant(rng.uniform(0.001, 0.004, sizes).astype(F32)))


def convolved(x: Any, weights: Any, *, bias: bool = True, strides: int = 1) -> Any:
    channels, *_, size = weights.shape
    pads = [size // 2] * 2
    y = opset1.convolution(x, weights, [strides] * 2, pads, pads, [1, 1])
    return opset1.add(y, opset1.constant(numbers(1, channels, 1, 1, low=-0.3, high=0.3))) if bias else y


def depthwise(x: Any, weights: Any) -> Any:
    return opset1.group_convolution(x, weights, [1, 1], [1, 1], [1, 1], [1, 1])


def runs(
    model: onnx.ModelProto, folder: pathlib.Path, *, integers: bool = True, unsigned: bool = False
) -> Callable[[np.ndarray], np.ndarray]:
    """Loads a model in ONNX Runtime, which leaves in the folder what it makes of it.

    Args:
        model: The model.
        folder: The folder.
        integers: Whether it may multiply in integers.
        unsigned: Whether it has to make uint8 of int8, as it does on CPUs where products of both saturate.
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    if not integers:
        options.add_session_config_entry("session.disable_quant_qdq", "1")
    if unsigned:
        options.add_session_config_entry("session.x64quantprecision", "1")
    make_products_exact(options)
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    (name,) = (each.name for each in session.get_inputs())
    return lambda x: np.asarray(session.run(None, {name: x})[0])


def all_by_openvino(model: openvino.Model, x: np.ndarray) -> list[np.ndarray]:
    """Returns what OpenVINO computes in floats, as the file says."""
    config = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1, "LP_TRANSFORMS_MODE": "NO"}
    request = openvino.Core().compile_model(model, "CPU", config).create_infer_request()
    request.infer([x])
    return [np.array(tensor.data) for tensor in request.output_tensors]


def by_openvino(model: openvino.Model, x: np.ndarray) -> np.ndarray:
    return all_by_openvino(model, x)[0]


def types(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def agree(build: Build, folder: pathlib.Path, shape: Sequence[int] = IMAGE, step: float = STEP) -> list[str]:
    """Asserts that a quantised layer gives the levels that OpenVINO gives; returns what ONNX Runtime computes.

    A sum in the middle between two levels may go to either, which is rare.
    """
    x = numbers(*shape, low=-2.2, high=2.2, seed=3)
    model = model_of(build, [[x]])
    converted = conversion(model, target="onnx").to_proto()
    expected = by_openvino(model, x)
    unsigned = runs(converted, folder, unsigned=True)(x)
    for integers in (False, True):
        actual = runs(converted, folder, integers=integers)(x)
        off = np.abs(actual - expected)
        assert off.max() < 1.01 * step
        assert np.mean(off > 0.01 * step) < 0.01
        assert len(np.unique(expected)) > 20
    np.testing.assert_array_equal(unsigned, actual)
    return types(onnx.load(folder / "optimized.onnx"))


def explained(converted: Conversion) -> str:
    return "\n".join(note for step in converted.steps for note in step.notes)


W1, W2 = int8_weights(8, 8, 3, 3), int8_weights(8, 8, 1, 1, seed=1)
