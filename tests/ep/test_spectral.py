"""Conv and ConvTranspose with filters of Fourier transforms through the execution provider."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from tests.ep.sessions import claims, plain, session
from tests.optimizer.bases import filters, hann, inverse_gains, padded, tacotron
from tests.optimizer.models import parsed, rand

pytestmark = pytest.mark.usefixtures("library")

TACOTRON, TACOTRON_INVERSE = tacotron(64, 16, hann(64))
BASES: dict[str, np.ndarray] = {
    "onesided": filters(64, window=hann(64)),
    "cosines": filters(48, parts=1, window=hann(48)),
    "sines": filters(48, parts=2, window=hann(48)),
    "whole": filters(40, bins=40),
    "few_bins": filters(64, bins=9, window=padded(hann(32), 64)),
    "short_window": filters(128, taps=50, window=hann(50)),
    "odd": filters(45, window=hann(45)),
    "gains": filters(32, gains=inverse_gains(32), window=hann(32)),
    "any_window": filters(96, window=np.random.default_rng(3).uniform(0.2, 1, 96)),
    "far_gains": filters(64, gains=2.0 ** np.resize(np.arange(-3, 4), 66), window=hann(64)),
    "zero_gains": filters(64, gains=np.resize([1.0, 0.0, 2.0], 66), window=hann(64)),
    "tacotron": TACOTRON,
    "tacotron_inverse": TACOTRON_INVERSE,
}


def _model(op_type: str, basis: np.ndarray, attributes: str, kind: Any = np.float32) -> tuple[onnx.ModelProto, Any]:
    """Returns a model of one node and its input."""
    w = basis.astype(kind)[:, np.newaxis]
    x = rand(2, 1, 500, dtype=kind) if op_type == "Conv" else rand(2, len(basis), 12, dtype=kind)
    element = "float16" if kind is np.float16 else "float"
    text = f"g ({element}[N,{x.shape[1]},L] x) => ({element}[N,C,T] y) {{ y = {op_type} <{attributes}> (x, w) }}"
    model = parsed(text, w=w)
    model.graph.node[0].name = "layer"
    return model, x


def _is_transform(model: onnx.ModelProto) -> bool:
    """Returns whether the node does not go through the choice between implementations of convolutions."""
    return [each.reason for each in claims(model, claim_all="0")] == [""]


@pytest.mark.parametrize("half", [False, True], ids=["float32", "float16"])
@pytest.mark.parametrize("op_type", ["Conv", "ConvTranspose"])
@pytest.mark.parametrize("name", BASES)
def test_filters_of_a_transform(name: str, op_type: str, half: bool) -> None:
    model, x = _model(op_type, BASES[name], "strides = [16], pads = [5, 9]", np.float16 if half else np.float32)
    assert _is_transform(model)
    (right,), (y,) = plain(model, {"x": x}), session(model).run(None, {"x": x})
    assert (y.dtype, y.shape) == (right.dtype, right.shape)
    scale = max(1.0, float(np.abs(right.astype(np.float64)).max()))
    np.testing.assert_allclose(y.astype(np.float64), right.astype(np.float64), atol=(4e-3 if half else 3e-5) * scale)


def test_frames_are_added_up() -> None:
    model, x = _model("ConvTranspose", np.diag(hann(32)), "strides = [8], pads = [3, 0], output_padding = [1]")
    np.testing.assert_allclose(session(model).run(None, {"x": x})[0], plain(model, {"x": x})[0], atol=1e-6)


def test_nodes_without_names() -> None:
    text = """g (float[N,1,L] x) => (float[N,C,T] a, float[N,D,U] b, float[N,E,V] c) {
        a = Conv <strides = [16]> (x, v)
        b = Conv <strides = [8]> (x, w)
        c = Conv <strides = [8]> (x, u)
    }"""
    tensors = {
        name: BASES[basis].astype(np.float32)[:, np.newaxis]
        for name, basis in {"v": "onesided", "w": "odd", "u": "tacotron"}.items()
    }
    x = rand(1, 1, 300)
    model = parsed(text, **tensors)
    for got, right in zip(session(model).run(None, {"x": x}), plain(model, {"x": x}), strict=True):
        np.testing.assert_allclose(got, right, atol=1e-3)


def test_filters_that_are_none_are_left() -> None:
    wrong = BASES["onesided"].copy()
    wrong[2, 3] *= 1.001
    model, x = _model("Conv", wrong, "strides = [16]")
    (found,) = claims(model)
    assert found.reason.startswith(
        "its filters resemble those of a Fourier transform, n_fft 64, and are none: they dif"
    )
    transposed, x = _model("ConvTranspose", wrong, "strides = [16]")
    np.testing.assert_allclose(session(transposed).run(None, {"x": x})[0], plain(transposed, {"x": x})[0], atol=1e-3)


@pytest.mark.parametrize("name", ["onesided", "cosines", "sines", "whole", "few_bins", "odd"])
def test_noisy_filters_are_seen_to_be_near(name: str) -> None:
    noisy = BASES[name] * (1 + 0.005 * rand(*BASES[name].shape, dtype=np.float64))
    (found,) = claims(_model("Conv", noisy, "strides = [16]")[0])
    assert found.reason.startswith("its filters resemble those of a Fourier transform")


@pytest.mark.parametrize(
    "basis",
    [rand(20, 32), rand(300, 400), rand(3, 32), filters(12, window=hann(12))],
    ids=["any", "many", "few", "short"],
)
def test_other_filters_are_not_looked_at(basis: np.ndarray) -> None:
    assert claims(_model("Conv", basis, "strides = [8]")[0]) == []


def test_a_bias_is_left_to_onnx_runtime() -> None:
    model, _ = _model("Conv", BASES["odd"], "strides = [8]")
    model.graph.node[0].input.append("b")
    model.graph.initializer.append(onnx.numpy_helper.from_array(rand(len(BASES["odd"])), "b"))
    assert [each.reason for each in claims(model)] == [
        "its filters are those of a Fourier transform, and it has a bias"
    ]
