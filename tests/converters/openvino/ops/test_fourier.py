"""What Fourier transforms of OpenVINO become for each target, and how exact that is at any length."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from openvino import opset7, opset9, opset15, opset16

from ortconv.api import Conversion, conversion
from ortconv.opset.domain import DOMAIN
from ortconv.options import Target
from tests.converters.openvino.live import Feed, check, ints, model_of, numbers, run_onnx
from tests.running import WAYS, run

TARGETS: tuple[Target, ...] = ("auto", "plugin", "onnx")
LENGTHS = (1, 2, 7, 16, 400, 1000)
ROUNDING = 1e-6
"""The greatest error (RMS) of float32, relative to the RMS of the result."""


def complex_of(x: np.ndarray) -> np.ndarray:
    return x[..., 0].astype(np.float64) + 1j * x[..., 1]


def parts_of(x: np.ndarray) -> np.ndarray:
    return np.stack([x.real, x.imag], -1)


def dft(x: np.ndarray, axes: Any, sizes: Any = None) -> np.ndarray:
    return parts_of(np.fft.fftn(complex_of(x), sizes, axes))


def idft(x: np.ndarray, axes: Any, sizes: Any = None) -> np.ndarray:
    return parts_of(np.fft.ifftn(complex_of(x), sizes, axes))


def rdft(x: np.ndarray, axes: Any, sizes: Any = None) -> np.ndarray:
    return parts_of(np.fft.rfftn(x.astype(np.float64), sizes, axes))


def irdft(x: np.ndarray, axes: Any, sizes: Any = None) -> np.ndarray:
    return np.fft.irfftn(complex_of(x), sizes, axes)


TRANSFORMS: dict[str, tuple[Any, Callable[..., np.ndarray], int]] = {
    # what OpenVINO builds, NumPy's result in float64, numbers of an element of the data
    "DFT": (opset7.dft, dft, 2),
    "IDFT": (opset7.idft, idft, 2),
    "RDFT": (opset9.rdft, rdft, 1),
    "IRDFT": (opset9.irdft, irdft, 2),
}


def data_of(name: str, *shape: int, seed: int = 0) -> np.ndarray:
    parts = TRANSFORMS[name][2]
    return numbers(*shape, *[parts][: parts - 1], seed=seed)


def assert_exact(actual: np.ndarray, expected: np.ndarray, bound: float = ROUNDING) -> None:
    """Asserts shape, type and the error relative to the RMS of the result."""
    assert actual.dtype == np.float32
    assert actual.shape == expected.shape
    error, scale = (np.sqrt(np.mean(np.square(each))) for each in (actual - expected, expected))
    assert error <= bound * scale, f"error {error / scale:.2g}, allowed {bound}"


def ops(converted: Conversion) -> Counter[str]:
    return Counter(node.op_type for node in converted.model.graph)


def own_ops(converted: Conversion) -> set[str]:
    return {node.op_type for node in converted.model.graph if node.domain == DOMAIN}


def run_in_ways(converted: Conversion, feed: Feed) -> list[np.ndarray]:
    names = [value.name for value in converted.model.graph.inputs]
    return [run(converted.to_proto(), dict(zip(names, feed, strict=True)), way)[0] for way in WAYS]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", TRANSFORMS)
def test_every_length(name: str, length: int, target: Target) -> None:
    build, right, _ = TRANSFORMS[name]
    bins = length // 2 + 1 if name == "IRDFT" else length
    x = data_of(name, 3, bins)
    # OpenVINO's CPU plugin is inexact: it errs by 1e-4 of the largest entry in a DFT of length 1000.
    bound = max(64, 2 * length)
    converted = check(model_of(lambda x: build(x, ints(1), ints(length)), [[x]]), [x], bound=bound, target=target)
    assert own_ops(converted) == (set() if target == "onnx" else {"FourierTransform"})
    assert_exact(run_onnx(converted, [[x]])[0][0], right(x, [1], [length]))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("axes", [(0, 1), (2, 0), (1, 2, 0)])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_several_axes(name: str, axes: tuple[int, ...], target: Target) -> None:
    build, right, _ = TRANSFORMS[name]
    x = data_of(name, 9, 10, 5)
    converted = check(model_of(lambda x: build(x, ints(*axes)), [[x]]), [x], bound=64, target=target)
    assert_exact(run_onnx(converted, [[x]])[0][0], right(x, axes))
    if target != "onnx":
        assert ops(converted)["FourierTransform"] == len(axes)
        assert not {"Pad", "Slice", "Transpose"} & ops(converted).keys()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("sizes", [(4, 3), (12, 11), (16, 8), (7, 12)])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_data_are_cut_and_padded(name: str, sizes: tuple[int, int], target: Target) -> None:
    """Against NumPy alone: OpenVINO's CPU plugin is wrong where it pads data of real transforms."""
    build, right, _ = TRANSFORMS[name]
    x = data_of(name, 2, 9, 8)
    for shape in (None, [2, -1, -1, 2][: x.ndim]):
        model = model_of(lambda x: build(x, ints(1, 2), ints(*sizes)), [[x]], None if shape is None else [shape])
        converted = conversion(model, target=target)
        assert_exact(run_onnx(converted, [[x]])[0][0], right(x, [1, 2], sizes))
        if target != "onnx":
            assert not {"Pad", "Slice"} & ops(converted).keys()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", TRANSFORMS)
def test_lengths_that_only_a_run_knows(name: str, target: Target) -> None:
    build, right, _ = TRANSFORMS[name]
    feeds = [[data_of(name, rows, length)] for rows, length in ((2, 400), (3, 1000), (1, 33))]
    converted = check(model_of(lambda x: build(x, ints(1)), feeds), *feeds, bound=2000, target=target)
    for feed, (actual,) in zip(feeds, run_onnx(converted, feeds), strict=True):
        assert_exact(actual, right(feed[0], [1]))


@pytest.mark.parametrize("length", [1500, 6007])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_long_transforms_need_no_basis(name: str, axis: int, length: int) -> None:
    build, right, _ = TRANSFORMS[name]
    shape = [3, 3]
    shape[axis] = length // 2 + 1 if name == "IRDFT" else length
    x = data_of(name, *shape)
    model = model_of(lambda x: build(x, ints(axis), ints(length)), [[x]])
    converted = conversion(model, target="onnx")
    assert ops(converted)["DFT"] == 2
    assert len(converted.to_proto().SerializeToString()) < 100 * length
    assert_exact(run_onnx(converted, [[x]])[0][0], right(x, [axis], [length]))


def test_long_transforms_that_cut_and_pad() -> None:
    for have in (500, 4000):
        x = numbers(2, have)
        model = model_of(lambda x: opset9.rdft(x, ints(1), ints(2001)), [[x]])
        actual = run_onnx(conversion(model, target="onnx"), [[x]])[0][0]
        assert_exact(actual, rdft(x, [1], [2001]))


@pytest.mark.parametrize(
    ("length", "expected", "nbytes"),
    [
        (256, {"Unsqueeze": 1, "DFT": 1}, 0),
        (400, {"MatMul": 1, "Reshape": 1}, 400 * 402 * 4),
        (1300, {"DFT": 2, "MatMul": 0}, 2048 * 16),
    ],
)
def test_standard_nodes_and_their_sizes(length: int, expected: dict[str, int], nbytes: int) -> None:
    x = numbers(2, length)
    converted = conversion(model_of(lambda x: opset9.rdft(x, ints(1)), [[x]]), target="onnx")
    found = ops(converted)
    assert {name: found[name] for name in expected} == expected
    assert nbytes <= len(converted.to_proto().SerializeToString()) < nbytes + 50_000
    assert_exact(run_onnx(converted, [[x]])[0][0], rdft(x, [1]))


@pytest.mark.parametrize("name", TRANSFORMS)
def test_very_long_transforms_run_without_the_library(name: str) -> None:
    """Function bodies would need gigabytes."""
    build, right, _ = TRANSFORMS[name]
    for length in (16000, 32768):
        x = data_of(name, 1, length // 2 + 1 if name == "IRDFT" else length)
        model = model_of(lambda x, length=length: build(x, ints(1), ints(length)), [[x]])
        assert own_ops(conversion(model, target="plugin")) == {"FourierTransform"}
        converted = conversion(model)
        assert own_ops(converted) == set()
        assert_exact(run_onnx(converted, [[x]])[0][0], right(x, [1], [length]))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", TRANSFORMS)
def test_float16(name: str, target: Target) -> None:
    """Of lengths that are a power of two, that have a basis, and that are long."""
    build, right, _ = TRANSFORMS[name]
    for length in (64, 90, 1100):
        x = data_of(name, 2, length // 2 + 1 if name == "IRDFT" else length).astype(np.float16)
        converted = conversion(
            model_of(lambda x, length=length: build(x, ints(1), ints(length)), [[x]]), target=target, io="source"
        )
        (actual,) = run_onnx(converted, [[x]])[0]
        assert actual.dtype == np.float16
        expected = right(x, [1], [length])
        assert np.sqrt(np.mean(np.square(actual - expected))) <= 1e-3 * np.sqrt(np.mean(np.square(expected)))


def test_transforms_share_a_basis() -> None:
    x = numbers(4, 400)

    def build(x: Any) -> Any:
        once = opset9.rdft(opset9.irdft(opset9.rdft(x, ints(1)), ints(1)), ints(1))
        return opset9.irdft(once, ints(1))

    converted = conversion(model_of(build, [[x]]), target="onnx")
    assert ops(converted)["MatMul"] == 4
    assert len(converted.to_proto().SerializeToString()) < 2 * 400 * 402 * 4 + 5000
    assert_exact(run_onnx(converted, [[x]])[0][0], x.astype(np.float64))


@pytest.mark.parametrize("name", TRANSFORMS)
def test_runs_in_every_way(name: str) -> None:
    build, right, _ = TRANSFORMS[name]
    x = data_of(name, 2, 25, 40)
    converted = conversion(model_of(lambda x: build(x, ints(0, 2, 1)), [[x]]))
    assert own_ops(converted) == {"FourierTransform"}
    for actual in run_in_ways(converted, [x]):
        assert_exact(actual, right(x, [0, 2, 1]))


def window_of(taps: int) -> np.ndarray:
    return (0.2 + np.sin(np.pi * (np.arange(taps) + 0.5) / taps) ** 2).astype(np.float32)


def centered(window: np.ndarray, size: int) -> np.ndarray:
    before = (size - window.size) // 2
    return np.pad(window.astype(np.float64), (before, size - window.size - before))


def spectra_of(signal: np.ndarray, window: np.ndarray, size: int, step: int) -> np.ndarray:
    """Returns [..., bins, frames, 2] in float64."""
    count = (signal.shape[-1] - size) // step + 1
    at = np.arange(count)[:, None] * step + np.arange(size)
    frames = signal.astype(np.float64)[..., at] * centered(window, size)
    return parts_of(np.swapaxes(np.fft.rfft(frames), -1, -2))


def signals_of(spectra: np.ndarray, window: np.ndarray, size: int, step: int) -> np.ndarray:
    """Returns [..., length] in float64."""
    shape = centered(window, size)
    frames = np.fft.irfft(np.swapaxes(complex_of(spectra), -1, -2), size) * shape
    count = frames.shape[-2]
    added, weight = np.zeros((*frames.shape[:-2], (count - 1) * step + size)), np.zeros((count - 1) * step + size)
    for frame in range(count):
        added[..., frame * step : frame * step + size] += frames[..., frame, :]
        weight[frame * step : frame * step + size] += shape**2
    return added / np.where(weight == 0, 1, weight)


SHORT = [(1, 1, 1), (2, 1, 2), (7, 3, 7), (16, 4, 11), (400, 160, 400), (1000, 300, 801)]
"""frame_size, frame_step, length of the window"""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("size", "step", "taps"), SHORT)
def test_stft(size: int, step: int, taps: int, target: Target) -> None:
    window = window_of(taps)

    def build(x: Any, transposed: bool = True) -> Any:
        return opset15.stft(x, window, np.array(size), np.array(step), transposed)

    feeds = [[numbers(rows, size + step * 9 + 1)] for rows in (2, 3)]
    converted = check(model_of(build, feeds), *feeds, bound=64, target=target)
    assert own_ops(converted) == (set() if target == "onnx" else {"ForwardSTFT"})
    for feed, (actual,) in zip(feeds, run_onnx(converted, feeds), strict=True):
        assert_exact(actual, spectra_of(feed[0], window, size, step))
    signal = [numbers(size + step * 5)]
    by_frame = check(model_of(lambda x: build(x, False), [signal]), signal, bound=64, target=target)
    expected = np.swapaxes(spectra_of(signal[0], window, size, step), 0, 1)
    assert_exact(run_onnx(by_frame, [signal])[0][0], expected)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("size", "step", "taps"), SHORT)
def test_istft(size: int, step: int, taps: int, target: Target) -> None:
    window = window_of(taps)

    def build(x: Any, center: bool = False, normalized: bool = False, *length: int) -> Any:
        more = [np.array(each) for each in length]
        return opset16.istft(x, window, np.array(size), np.array(step), center, normalized, *more)

    spectra = [numbers(2, size // 2 + 1, 6, 2)]
    whole = signals_of(spectra[0], window, size, step)
    converted = check(model_of(build, [spectra]), spectra, bound=128, target=target)
    assert own_ops(converted) == (set() if target == "onnx" else {"InverseSTFT"})
    assert_exact(run_onnx(converted, [spectra])[0][0], whole)
    margin = size // 2
    normal = whole * np.sqrt(size)
    for length, end in ((None, whole.shape[1] - margin), (step * 2, margin + step * 2), (whole.shape[1], None)):
        flags = [] if length is None else [length]
        model = model_of(lambda x, flags=flags: build(x, True, True, *flags), [spectra])
        (actual,) = run_onnx(check(model, spectra, bound=128, target=target), [spectra])[0]
        expected = normal[:, margin:end]
        if length is not None:
            expected = np.pad(expected, ((0, 0), (0, length - expected.shape[1])))
        assert_exact(actual, expected)


def test_very_long_frames_run_without_the_library() -> None:
    """Function bodies would need gigabytes."""
    size, step, window = 16384, 8192, window_of(16384)
    signal, spectra = numbers(1, size + 2 * step), numbers(1, size // 2 + 1, 3, 2)
    forward = model_of(lambda x: opset15.stft(x, window, np.array(size), np.array(step), True), [[signal]])
    inverse = model_of(lambda x: opset16.istft(x, window, np.array(size), np.array(step), False, False), [[spectra]])
    for model, x, right, name in (
        (forward, signal, spectra_of, "ForwardSTFT"),
        (inverse, spectra, signals_of, "InverseSTFT"),
    ):
        assert own_ops(conversion(model, target="plugin")) == {name}
        converted = conversion(model)
        assert own_ops(converted) == set()
        assert_exact(run_onnx(converted, [[x]])[0][0], right(x, window, size, step))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("running", [False, True])
def test_istft_of_sizes_that_only_a_run_knows(running: bool, target: Target) -> None:
    """The number of frames, and maybe the window and the length of the result."""
    feeds = [[numbers(2, 21, frames, 2), window_of(33), np.array(length)] for frames, length in ((5, 60), (9, 140))]

    def build(x: Any, *rest: Any) -> Any:
        window, length = rest if running else (window_of(33), np.array(100))
        return opset16.istft(x, window, np.array(40), np.array(15), True, False, length)

    if not running:
        feeds = [feed[:1] for feed in feeds]
    converted = check(model_of(build, feeds), *feeds, bound=128, target=target)
    assert own_ops(converted) == (set() if target == "onnx" else {"InverseSTFT", "OverlapAdd"})
    for feed, (actual,) in zip(feeds, run_onnx(converted, feeds), strict=True):
        length = int(feed[2]) if running else 100
        expected = signals_of(feed[0], window_of(33), 40, 15)[:, 20 : 20 + length]
        assert_exact(actual, np.pad(expected, ((0, 0), (0, length - expected.shape[1]))))


@pytest.mark.parametrize("target", TARGETS)
def test_frames_that_only_a_run_knows(target: Target) -> None:
    """Their size and distance: frames are gathered."""
    signal, window = numbers(2, 90), window_of(20)
    feeds = [[signal, np.array(size), np.array(step)] for size, step in ((20, 7), (25, 10))]
    model = model_of(lambda x, size, step: opset15.stft(x, window, size, step, True), feeds)
    converted = check(model, *feeds, bound=64, target=target)
    assert own_ops(converted) == (set() if target == "onnx" else {"FourierTransform"})
    for (x, size, step), (actual,) in zip(feeds, run_onnx(converted, feeds), strict=True):
        assert_exact(actual, spectra_of(x, window, int(size), int(step)))


@pytest.mark.parametrize(("size", "expected"), [(400, {"Conv": 1}), (1100, {"DFT": 2}), (2048, {"DFT": 1})])
def test_stft_by_standard_nodes(size: int, expected: dict[str, int]) -> None:
    window, signal = window_of(size), numbers(2, 6000)
    model = model_of(lambda x: opset15.stft(x, window, np.array(size), np.array(500), True), [[signal]])
    converted = conversion(model, target="onnx")
    found = ops(converted)
    assert {name: found[name] for name in ("Conv", "MatMul", "DFT") if found[name]} == expected
    assert_exact(run_onnx(converted, [[signal]])[0][0], spectra_of(signal, window, size, 500))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_other_types_of_short_transforms(dtype: type, target: Target) -> None:
    window, signal = window_of(33).astype(dtype), numbers(2, 200, dtype=dtype)
    spectra = numbers(2, 21, 6, 2, dtype=dtype)
    for build, data in (
        (lambda x: opset15.stft(x, window, np.array(40), np.array(15), True), signal),
        (lambda x: opset16.istft(x, window, np.array(40), np.array(15), True, True), spectra),
    ):
        check(model_of(build, [[data]]), [data], bound=128, target=target)


def test_short_transforms_run_in_every_way() -> None:
    window, signal = window_of(300), numbers(2, 4000)
    forward = conversion(model_of(lambda x: opset15.stft(x, window, np.array(400), np.array(160), True), [[signal]]))
    assert ops(forward) == {"Unsqueeze": 1, "ForwardSTFT": 1, "Reshape": 1, "Transpose": 1}
    spectra = spectra_of(signal, window, 400, 160)
    for actual in run_in_ways(forward, [signal]):
        assert_exact(actual, spectra)
    feed = [spectra.astype(np.float32)]
    inverse = conversion(
        model_of(lambda x: opset16.istft(x, window, np.array(400), np.array(160), False, False), [feed])
    )
    assert ops(inverse) == {"Transpose": 1, "Reshape": 1, "InverseSTFT": 1, "Div": 1, "Squeeze": 1}
    for actual in run_in_ways(inverse, feed):
        assert_exact(actual, signals_of(feed[0], window, 400, 160))


@pytest.mark.parametrize("opset", [19, 20, 25])
def test_every_opset(opset: int) -> None:
    x = numbers(2, 18, 15, 2)
    for target in TARGETS:
        for build, right in ((opset7.idft, idft), (opset9.irdft, irdft)):
            model = model_of(lambda x, build=build: build(x, ints(1, 2), ints(16, 21)), [[x]])
            converted = conversion(model, target=target, opset=opset)
            assert_exact(run_onnx(converted, [[x]])[0][0], right(x, [1, 2], [16, 21]))
