"""DFT and STFT of ONNX through the execution provider, against NumPy's transforms in float64."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnxruntime
import pytest

from tests.ep.sessions import claims, with_provider
from tests.optimizer.models import parsed, rand

pytestmark = pytest.mark.usefixtures("library")

BOUNDS = {"float": 1e-6, "double": 1e-14, "float16": 2e-3, "bfloat16": 2e-2}
KINDS = {"float": np.float32, "double": np.float64, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def _assert_close(y: np.ndarray, right: np.ndarray, kind: str) -> None:
    expected = np.stack([right.real, right.imag] if np.iscomplexobj(right) else [right], -1)
    assert (y.dtype, y.shape) == (KINDS[kind], expected.shape)
    np.testing.assert_allclose(
        y.astype(np.float64), expected, rtol=0, atol=BOUNDS[kind] * float(np.abs(expected).max())
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("opset", [17, 20])
@pytest.mark.parametrize("form", ["real", "onesided", "complex", "inverse", "to_real", "length"])
def test_dft(form: str, opset: int, kind: str) -> None:
    if kind == "bfloat16" and opset < 20:
        return  # the schema has no such type
    if form == "to_real" and onnxruntime.__version__.startswith("1.24."):
        return  # refused by ONNX Runtime's shape inference
    parts = 2 if form in ("complex", "inverse", "to_real") else 1
    x = rand(3, 45, 4, parts).astype(KINDS[kind])
    flags = f"onesided = {int(form in ('onesided', 'to_real'))}, inverse = {int(form in ('inverse', 'to_real'))}"
    axis = "axis = 1, " if opset < 20 else ""
    inputs = f"x, {'length' if form == 'length' else ''}" + (", axis" if opset >= 20 else "")
    tensors: dict[str, Any] = {"length": np.array(64)} if form == "length" else {}
    if opset >= 20:
        tensors["axis"] = np.array(1)
    text = f"g ({kind}[3,45,4,{parts}] x) => ({kind}[a,b,c,d] y) {{ y = DFT <{axis}{flags}> ({inputs}) }}"
    model = parsed(text, opset, **tensors)
    model.graph.node[0].name = "d"
    wide = x.astype(np.float64)
    signal = wide[..., 0] + 1j * wide[..., 1] if parts == 2 else wide[..., 0]
    transform = {"onesided": np.fft.rfft, "inverse": np.fft.ifft, "to_real": np.fft.irfft}.get(form, np.fft.fft)
    right = transform(signal, 64 if form == "length" else None, axis=1)
    _assert_close(with_provider(model, {"x": x}, "d")[0], right, kind)


@pytest.mark.parametrize("kind", ["float", "double"])
@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize("form", ["window", "length", "both"])
@pytest.mark.parametrize("n", [32, 45])
def test_stft(n: int, form: str, onesided: int, kind: str) -> None:
    x = rand(2, 200, 1).astype(KINDS[kind])
    window = rand(n).astype(KINDS[kind])
    inputs = f"x, step, {'' if form == 'length' else 'window'}" + ("" if form == "window" else ", length")
    tensors = {"step": np.array(11), "window": window, "length": np.array(n)}
    used = {name: data for name, data in tensors.items() if name in inputs}
    text = f"g ({kind}[B,L,1] x) => ({kind}[a,b,c,2] y) {{ y = STFT <onesided = {onesided}> ({inputs}) }}"
    model = parsed(text, 17, **used)
    model.graph.node[0].name = "s"
    starts = range(0, 200 - n + 1, 11)
    frames = np.stack([x[:, start : start + n, 0].astype(np.float64) for start in starts], 1)
    frames *= 1 if form == "length" else window.astype(np.float64)
    right = (np.fft.rfft if onesided else np.fft.fft)(frames, axis=-1)
    _assert_close(with_provider(model, {"x": x}, "s")[0], right, kind)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(float[2,8,1] x) => (float[a,b,c] y) { y = DFT (x) }", "its length is 8, for which"),
        ("(float[2,32,p] x) => (float[a,b,c] y) { y = DFT (x) }", "its input is not known to be real or complex"),
        ("(float[2,99,2] x, int64 s, int64 n) => (float[a,b,c,d] y) { y = STFT (x, s, , n) }", "its signal is not"),
        ("(float[2,99,1] x, int32 s, int32 n) => (float[a,b,c,d] y) { y = STFT (x, s, , n) }", "its frame_step is not"),
    ],
)
def test_a_node_that_is_left_says_why(text: str, reason: str) -> None:
    model = parsed(f"g {text}", 17)
    assert [each.reason[: len(reason)] for each in claims(model)] == [reason]
