"""Models as public issues of ONNX Runtime describe them, through the execution provider, against float64.

Sizes are smaller than in the issues where those take long.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnxruntime import quantization
from onnxruntime.quantization import CalibrationDataReader, QuantType

from tests.ep.sessions import claims, session, with_provider
from tests.ep.test_conv_transpose import defined, node_model
from tests.optimizer.bases import filters, hann, inverse_gains
from tests.optimizer.models import parsed, rand

pytestmark = pytest.mark.usefixtures("library")

F32 = np.float32


class Data(CalibrationDataReader):  # type: ignore[misc]
    """Gives inputs to `quantize_static`, one after the other."""

    def __init__(self, inputs: list[np.ndarray]) -> None:
        self._left: Iterator[np.ndarray] = iter(inputs)

    def get_next(self) -> dict[str, np.ndarray] | None:
        found = next(self._left, None)
        return None if found is None else {"x": found}


def _quantized(model: onnx.ModelProto, folder: pathlib.Path, x: np.ndarray, **options: Any) -> onnx.ModelProto:
    onnx.save(model, folder / "float.onnx")
    quantization.quantize_static(folder / "float.onnx", folder / "qdq.onnx", Data([x, 0.5 * x]), **options)
    return onnx.load(folder / "qdq.onnx")


def _evaluated(model: onnx.ModelProto, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the result of a model of one quantized layer in float64, and where it lies half-way between integers."""
    values = {each.name: numpy_helper.to_array(each).astype(np.float64) for each in model.graph.initializer}
    limits = {each.name: np.iinfo(numpy_helper.to_array(each).dtype) for each in model.graph.initializer
              if each.data_type in (onnx.TensorProto.INT8, onnx.TensorProto.UINT8)}  # fmt: skip
    values["x"] = x.astype(np.float64)
    near: Any = np.zeros((), bool)
    for node in model.graph.node:
        attributes = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
        a, b, *rest = (*(values[name] for name in node.input), np.zeros(()))
        if node.op_type == "ConvTranspose":
            result = defined(a, b, rest[0] if len(node.input) > 2 else None, strides=attributes["strides"])
        elif node.op_type == "Relu":
            result = np.maximum(a, 0)
        else:
            column = [-1 if i == attributes.get("axis", 1) else 1 for i in range(a.ndim)]
            scale, zero = (each.reshape(column) if each.ndim else each for each in (b, rest[0]))
            if node.op_type == "DequantizeLinear":
                result = (a - zero) * scale
            else:
                steps = a / scale
                near = np.abs(steps - np.floor(steps) - 0.5) < 1e-3
                result = np.clip(np.rint(steps) + zero, limits[node.input[2]].min, limits[node.input[2]].max)
        values[node.output[0]] = result
    return values[model.graph.output[0].name], near


@pytest.mark.parametrize("per_channel", [False, True], ids=["per_tensor", "per_channel"])
@pytest.mark.parametrize("kind", [QuantType.QInt8, QuantType.QUInt8], ids=["int8", "uint8"])
def test_8988_quantized_conv_transpose(kind: QuantType, per_channel: bool, tmp_path: pathlib.Path) -> None:
    """ONNX Runtime quantizes the model, and has no integer kernel for it: it convolves floats."""
    model = parsed(
        """g (float[1,8,9,7] x) => (float[1,6,h,w] y) {
            c = ConvTranspose <strides = [2, 2]> (x, weights, bias)
            y = Relu (c)
        }""",
        weights=rand(8, 6, 2, 2),
        bias=rand(6),
        opset=17,
        ir=9,
    )
    model.graph.node[0].name = "up"
    x = rand(1, 8, 9, 7)
    qdq = _quantized(model, tmp_path, x, activation_type=kind, weight_type=QuantType.QInt8, per_channel=per_channel)
    (found,) = claims(qdq)
    fused = [each.split()[0] for each in found.fused]
    assert (found.node, found.reason, fused[:3], fused[-1]) == ("up", "", ["DequantizeLinear"] * 3, "QuantizeLinear")
    (got,) = session(qdq).run(None, {"x": x})
    expected, near = _evaluated(qdq, x)
    np.testing.assert_allclose(got[~near], expected[~near], rtol=1e-6)
    step = np.diff(np.unique(expected)).min()
    np.testing.assert_allclose(got, expected, atol=1.01 * step)


def test_14270_batch_normalization_behind_it() -> None:
    tensors = {
        "w": rand(5, 4, 3, 3),
        "b": rand(4),
        "scale": rand(4),
        "shift": rand(4),
        "mean": rand(4),
        "variance": np.abs(rand(4)) + F32(0.3),
    }
    model = parsed(
        """g (float[2,5,6,7] x) => (float[N,C,H,W] y) {
            c = ConvTranspose <strides = [2, 2], pads = [1, 1, 1, 1]> (x, w, b)
            n = BatchNormalization <epsilon = 0.001> (c, scale, shift, mean, variance)
            y = Relu (n)
        }""",
        **tensors,
    )
    model.graph.node[0].name = "c"
    (found,) = claims(model)
    # ONNX Runtime folds the BatchNormalization itself from version 1.31 on.
    assert [each.split()[0] for each in found.fused] in (["BatchNormalization", "Relu"], ["Relu"])
    x = rand(2, 5, 6, 7)
    column = (-1, 1, 1)
    scale, shift, mean, variance = (
        tensors[name].astype(np.float64).reshape(column) for name in ("scale", "shift", "mean", "variance")
    )
    conv = defined(x, tensors["w"], tensors["b"], strides=[2, 2], pads=[1, 1, 1, 1])
    expected = np.maximum((conv - mean) / np.sqrt(variance + 0.001) * scale + shift, 0)
    np.testing.assert_allclose(session(model).run(None, {"x": x})[0], expected, atol=2e-5)


@pytest.mark.parametrize("pads", [[0, 0, 1, 1], [1, 0, 0, 2], [0, 3, 2, 0]], ids=str)
def test_11312_asymmetric_pads(pads: list[int]) -> None:
    """As converted from TensorFlow: SAME padding, with the channels last."""
    w, x = rand(6, 4, 3, 4), rand(2, 7, 5, 6)
    model = parsed(
        f"""g (float[2,7,5,6] x) => (float[N,H,W,C] y) {{
            t = Transpose <perm = [0, 3, 1, 2]> (x)
            c = ConvTranspose <strides = [2, 2], pads = {pads}> (t, w)
            y = Transpose <perm = [0, 2, 3, 1]> (c)
        }}""",
        w=w,
    )
    model.graph.node[1].name = "c"
    (got,) = with_provider(model, {"x": x}, "c Transpose Transpose")
    expected = defined(x.transpose(0, 3, 1, 2), w, None, strides=[2, 2], pads=pads).transpose(0, 2, 3, 1)
    np.testing.assert_allclose(got, expected, atol=1e-5)


@pytest.mark.parametrize("weights", ["any", "inverse"])
def test_23273_inverse_stft(weights: str) -> None:
    """One output channel, many inputs, a kernel of four strides: [8, 4098, 435] with 4096 taps in the issue."""
    n_fft, rows = 512, 514
    basis = (
        filters(n_fft, window=hann(n_fft), gains=inverse_gains(n_fft)) if weights == "inverse" else rand(rows, n_fft)
    )
    w, x = basis.astype(F32)[:, np.newaxis], rand(2, rows, 43)
    model = node_model(F32, [2, rows, 43], w, None, strides=[n_fft // 4])
    (got,) = with_provider(model, {"x": x}, "c", claim_all="0")
    expected = defined(x, w, None, strides=[n_fft // 4])
    np.testing.assert_allclose(got, expected, atol=1e-6 * np.abs(basis).max() * rows * 4)
