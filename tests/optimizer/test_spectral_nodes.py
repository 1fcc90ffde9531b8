"""STFT and DFT of ONNX become nodes of ours; versions of ONNX; where element types come from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ortconv.optimizer import optimization
from tests.optimizer.bases import hann
from tests.optimizer.models import op_types
from tests.optimizer.spectral_models import (
    BASIS,
    BINS,
    DFT,
    FORWARD,
    INVERSE,
    OVERLAP,
    N,
    assert_same,
    model,
    of_transposed,
    rand,
    transposed,
)
from tests.running import run

ORDER = ["Einsum", "Reshape", "Transpose"]
"""What brings the spectra of an STFT into ONNX's order."""


def stft_node(*, window: bool, length: bool, onesided: int) -> onnx.NodeProto:
    names = ["x", "step", "win" if window else "", "len" if length else ""]
    while not names[-1]:
        names.pop()
    return helper.make_node("STFT", names, ["y"], name="stft", onesided=onesided)


@pytest.mark.parametrize(("window", "length"), [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize("rank", [2, 3])
def test_stft_of_onnx(window: bool, length: bool, onesided: int, rank: int) -> None:
    node = stft_node(window=window, length=length, onesided=onesided)
    shape = ["N", "L", 1][:rank]
    original = model([node], {"x": shape}, win=hann(N).astype(np.float32))
    original.graph.initializer.extend(
        numpy_helper.from_array(np.array(each), name) for name, each in (("step", 8), ("len", N))
    )
    feeds = {"x": rand(*(2, 100, 1)[:rank])}
    front = ["Squeeze"] if rank == 3 else []
    done = assert_same(original, feeds, ops=[*front, "Unsqueeze", FORWARD, *ORDER])
    (got,) = run(done.to_proto(), feeds, "none")
    frames = np.lib.stride_tricks.sliding_window_view(feeds["x"].reshape(2, 100).astype(np.float64), N, 1)[:, ::8]
    spectrum = np.fft.fft(frames * (hann(N) if window else 1))[:, :, : BINS if onesided else N]
    np.testing.assert_allclose(got, np.stack([spectrum.real, spectrum.imag], -1), rtol=0, atol=1e-4)
    assert done.outcomes[0].recognised == f"n_fft {N}, hop 8, window {N}, bins {BINS if onesided else N}"


def test_stft_of_any_batch() -> None:
    node, window = stft_node(window=True, length=False, onesided=1), hann(N).astype(np.float32)
    original = model([node], {"x": ["N", "L"]}, win=window)
    original.graph.initializer.append(numpy_helper.from_array(np.array(8), "step"))
    done = assert_same(original, {"x": rand(1, 70)}, {"x": rand(3, 99)}, ops=["Unsqueeze", FORWARD, *ORDER])
    (got,) = run(done.to_proto(), {"x": rand(0, 70)}, "native")
    assert got.shape == (0, 5, BINS, 2)


def test_stft_that_stays() -> None:
    def reason(node: onnx.NodeProto, shape: list[int | str], *, step: bool = True, win: int = N) -> str:
        inputs: dict[str, Sequence[int | str]] = {"x": shape}
        original = model([node], inputs, win=hann(win).astype(np.float32))
        numbers = {"len": N} | ({"step": 8} if step else {})
        original.graph.initializer.extend(numpy_helper.from_array(np.array(n), name) for name, n in numbers.items())
        if not step:
            original.graph.input.append(helper.make_tensor_value_info("step", TensorProto.INT64, []))
        done = optimization(original)
        assert op_types(done.to_proto().graph) == ["STFT"]
        return done.outcomes[0].reason

    plain = stft_node(window=True, length=False, onesided=1)
    assert "not known to be real" in reason(plain, ["N", "L", "P"])
    assert "not known to be real" in reason(stft_node(window=True, length=False, onesided=0), ["N", "L", 2])
    assert "is not a constant" in reason(plain, ["N", "L", 1], step=False)
    assert "does not pay" in reason(plain, ["N", "L", 1], win=8)


@pytest.mark.parametrize("opset", [19, 20])
@pytest.mark.parametrize(("parts", "inverse", "onesided"), [(1, 0, 0), (1, 0, 1), (2, 0, 0), (2, 1, 0)])
@pytest.mark.parametrize("length", [None, 64, 128])
def test_dft_of_onnx(opset: int, parts: int, inverse: int, onesided: int, length: int | None) -> None:
    names = ["x", "" if length is None else "len", "axis"]
    attributes: dict[str, Any] = {"inverse": inverse, "onesided": onesided}
    if opset < 20:
        names, attributes = names[:2], attributes | {"axis": 1}
    node = helper.make_node("DFT", names if names[-1] else names[:1], ["y"], name="dft", **attributes)
    original = model([node], {"x": ["N", "M", 3, parts]}, opset=opset)
    for name, value in (("len", length), ("axis", 1)):
        if name in node.input:
            original.graph.initializer.append(numpy_helper.from_array(np.array(value), name))
    feeds = {"x": rand(2, 64, 3, parts)}
    done = assert_same(original, feeds, ops=[DFT])
    (got,) = run(done.to_proto(), feeds, "none")
    data = feeds["x"].astype(np.float64)
    wave = data[..., 0] + 1j * data[..., 1] if parts == 2 else data[..., 0]
    spectrum = (np.fft.ifft if inverse else np.fft.rfft if onesided else np.fft.fft)(wave, length, 1)
    np.testing.assert_allclose(got, np.stack([spectrum.real, spectrum.imag], -1), rtol=0, atol=1e-4)


def test_dft_that_stays() -> None:
    def reason(shape: list[int | str], **attributes: int) -> str:
        node = helper.make_node("DFT", ["x"], ["y"], **attributes)
        done = optimization(model([node], {"x": shape}, opset=20))
        assert op_types(done.to_proto().graph) == ["DFT"]
        return done.outcomes[0].reason

    assert "inverse and onesided" in reason(["N", "M", 2], inverse=1, onesided=1)
    assert "not known to be real or complex" in reason(["N", "M", "P"])
    assert "does not pay" in reason(["N", 8, 1])


@pytest.mark.parametrize("opset", [16, 17, 18, 25])
def test_opsets(opset: int) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "v"], ["c"], strides=[8]),
        helper.make_node("Mul", ["c", "c"], ["d"]),
        transposed("d"),
    ]
    original = model(nodes, {"x": ["N", 1, "L"]}, opset=opset, v=BASIS[:, np.newaxis], w=BASIS[:, np.newaxis])
    assert_same(original, {"x": rand(2, 1, 99)}, ops=[FORWARD, "Mul", INVERSE])
    diagonal = of_transposed(np.eye(N, dtype=np.float32))
    diagonal.opset_import[0].version = opset
    assert_same(diagonal, {"x": rand(2, N, 9)}, ops=[OVERLAP])
    if opset >= 17:
        node = stft_node(window=True, length=False, onesided=1)
        original = model([node], {"x": ["N", "L", 1]}, opset=opset, win=hann(N).astype(np.float32))
        original.graph.initializer.append(numpy_helper.from_array(np.array(8), "step"))
        assert_same(original, {"x": rand(2, 99, 1)}, ops=["Squeeze", "Unsqueeze", FORWARD, *ORDER])


def test_types_come_from_where_the_data_do() -> None:
    """Intermediate results of a model need not state their type, as in what `ortconv convert` writes."""
    nodes = [
        helper.make_node("Split", ["x"], ["a", "b"], axis=1, num_outputs=2),
        helper.make_node("Concat", ["b", "a"], ["c"], axis=1),
        helper.make_node("Sub", ["c", "half"], ["d"]),
        helper.make_node("Unsqueeze", ["d", "last"], ["e"]),
        helper.make_node("DFT", ["e"], ["y"]),
    ]
    original = model(nodes, {"x": ["N", 64]}, half=np.array(0.5, np.float32), last=np.array([-1]))
    assert not original.graph.value_info
    assert_same(original, {"x": rand(2, 64)}, ops=["Split", "Concat", "Sub", "Unsqueeze", DFT])
