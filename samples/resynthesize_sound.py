"""Take the clicks out of a sound: a network whose Fourier transforms are convolutions, before and after `optimize`.

    python samples/resynthesize_sound.py [FOLDER]

The network is one as PyTorch exports them: its STFT class holds a windowed Fourier basis as weights of a Conv, and the
pseudo-inverse basis as weights of a ConvTranspose. What lasts in time is kept, and what spreads over frequencies is
not; phases do not change. The plain file runs in ONNX Runtime, the optimized one with the plugin, and both are compared
with float64. Models, sounds and a picture of their spectrograms are written into FOLDER (demo_output by default).
"""

from __future__ import annotations

import pathlib
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime
import sound
from onnx import helper, numpy_helper

import ortconv

N_FFT, HOP = 1024, 256
BINS, FRAMES = N_FFT // 2 + 1, sound.LENGTH // HOP + 1
WINDOW = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(N_FFT) / N_FFT)
REACH = 33
"""Over how many frames, and over how many bins, levels are averaged."""

FLOOR, MARGIN = 1e-6, 3.0
"""Power below which nothing is heard; by how much, as a logarithm, what is kept lasts more than it spreads."""

ROUNDS = 9
TOLERANCE = 1e-5
"""Of errors, as root mean square relative to that of the sound."""


def window_sum() -> np.ndarray:
    """Returns the sum of the squared windows of all frames at each sample, 1 where it vanishes."""
    total = np.zeros((FRAMES - 1) * HOP + N_FFT)
    for frame in range(FRAMES):
        total[frame * HOP : frame * HOP + N_FFT] += WINDOW**2
    return np.where(total > np.finfo(np.float32).tiny, total, 1)


def network() -> onnx.ModelProto:
    """Returns the network: float32 [1, 1, LENGTH] -> [1, 1, LENGTH]."""
    fourier = np.fft.fft(np.eye(N_FFT))[:BINS]
    basis = np.concatenate([fourier.real, fourier.imag])
    inverse = np.linalg.pinv(N_FFT / HOP * basis).T
    constants = {
        "forward_basis": (basis * WINDOW)[:, np.newaxis].astype(np.float32),
        "inverse_basis": (inverse * WINDOW)[:, np.newaxis].astype(np.float32),
        "window_sum": window_sum()[np.newaxis, np.newaxis].astype(np.float32),
        "reflected": np.array([0, 0, N_FFT // 2, 0, 0, N_FFT // 2]),
        "last_axis": np.array([2]),
        "begin": np.array([N_FFT // 2]),
        "end": np.array([N_FFT // 2 + sound.LENGTH]),
        "floor": np.float32(FLOOR),
        "margin": np.float32(MARGIN),
        "scale": np.float32(N_FFT / HOP),
    }
    half = REACH // 2
    node = helper.make_node
    nodes = [
        node("Pad", ["sound", "reflected"], ["padded"], mode="reflect"),
        node("Conv", ["padded", "forward_basis"], ["spectrum"], name="analysis", strides=[HOP]),
        node("Split", ["spectrum"], ["real", "imaginary"], axis=1, num_outputs=2),
        node("Mul", ["real", "real"], ["real_power"]),
        node("Mul", ["imaginary", "imaginary"], ["imaginary_power"]),
        node("Add", ["real_power", "imaginary_power"], ["power"]),
        node("Add", ["power", "floor"], ["audible"]),
        node("Log", ["audible"], ["level"]),
        node("AveragePool", ["level"], ["lasting"], kernel_shape=[REACH], pads=[half, half]),
        node("Transpose", ["level"], ["frames_first"], perm=[0, 2, 1]),
        node("AveragePool", ["frames_first"], ["means"], kernel_shape=[REACH], pads=[half, half]),
        node("Transpose", ["means"], ["spreading"], perm=[0, 2, 1]),
        node("Sub", ["lasting", "spreading"], ["difference"]),
        node("Sub", ["difference", "margin"], ["excess"]),
        node("Sigmoid", ["excess"], ["mask"]),
        node("Mul", ["real", "mask"], ["kept_real"]),
        node("Mul", ["imaginary", "mask"], ["kept_imaginary"]),
        node("Concat", ["kept_real", "kept_imaginary"], ["kept"], axis=1),
        node("ConvTranspose", ["kept", "inverse_basis"], ["frames"], name="synthesis", strides=[HOP]),
        node("Div", ["frames", "window_sum"], ["even"]),
        node("Mul", ["even", "scale"], ["scaled"]),
        node("Slice", ["scaled", "begin", "end", "last_axis"], ["cleaned"]),
    ]
    ends = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, (1, 1, sound.LENGTH))
        for name in ("sound", "cleaned")
    ]
    stored = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "resynthesize_sound", ends[:1], ends[1:], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def reference(samples: np.ndarray) -> np.ndarray:
    """Computes in float64, by fast Fourier transforms, what the network does; [LENGTH] -> [LENGTH]."""
    padded = np.pad(samples, N_FFT // 2, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, N_FFT)[::HOP]
    spectrum = np.fft.rfft(frames * WINDOW, axis=1)
    levels = np.log(np.abs(spectrum) ** 2 + FLOOR)
    excess = _mean(levels, 0) - _mean(levels, 1) - MARGIN
    kept = np.fft.irfft(spectrum / (1 + np.exp(-excess)), N_FFT, axis=1) * WINDOW
    result = np.zeros(len(padded))
    for number, frame in enumerate(kept):
        result[number * HOP : number * HOP + N_FFT] += frame
    return (result / window_sum())[N_FFT // 2 : N_FFT // 2 + sound.LENGTH]


def _mean(values: np.ndarray, axis: int) -> np.ndarray:
    """Returns the means of REACH neighbours along an axis; at the ends of as many as there are."""
    values = np.moveaxis(values, axis, 0)
    half = REACH // 2
    means = [values[max(0, at - half) : at + half + 1].mean(axis=0) for at in range(len(values))]
    return np.moveaxis(np.array(means), 0, axis)


def milliseconds(runs: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Returns the median time of each, run in turns."""
    found: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, run in runs.items():
            run()
            begin = time.perf_counter()
            run()
            found[name].append(1e3 * (time.perf_counter() - begin))
    return {name: statistics.median(times) for name, times in found.items()}


def decibels(wanted: np.ndarray, heard: np.ndarray) -> float:
    """Returns how far wanted samples stand out from everything else that is heard."""
    return float(10 * np.log10(np.mean(wanted**2) / np.mean((heard - wanted) ** 2)))


def main(folder: pathlib.Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    plain, optimized = folder / "resynthesize_sound.onnx", folder / "resynthesize_sound_optimized.onnx"
    onnx.save(network(), plain)
    done = ortconv.optimization(plain)
    done.save(optimized)
    for outcome in done.outcomes:
        print(f"{outcome.name}: {outcome.op_type} -> {outcome.becomes or outcome.reason}; {outcome.recognised}")
    print(f"file: {plain.stat().st_size / 1e6:.2f} MB, optimized {optimized.stat().st_size / 1e6:.2f} MB")

    wanted = sound.tones()
    before = (wanted + sound.clicks()).astype(np.float32)
    feeds = {"sound": before[np.newaxis, np.newaxis]}
    sessions = {
        "ONNX Runtime": onnxruntime.InferenceSession(plain, providers=["CPUExecutionProvider"]),
        "optimized, with the plugin": ortconv.InferenceSession(optimized, providers=["CPUExecutionProvider"]),
    }
    results = {name: session.run(None, feeds)[0][0, 0] for name, session in sessions.items()}
    expected = reference(before.astype(np.float64))
    errors = {name: np.sqrt(np.mean((each - expected) ** 2) / np.mean(expected**2)) for name, each in results.items()}
    for name, error in errors.items():
        print(f"{name}: error {error:.1e} of the RMS, {'agrees' if error < TOLERANCE else 'DIFFERS'} with float64")
    theirs, ours = milliseconds(
        {name: lambda session=session: session.run(None, feeds) for name, session in sessions.items()}
    ).values()
    print(f"time: ONNX Runtime {theirs:.1f} ms, optimized {ours:.1f} ms, {theirs / ours:.1f} times as fast")

    after = results["optimized, with the plugin"]
    print(f"tones to everything else: {decibels(wanted, before):.1f} dB before, {decibels(wanted, after):.1f} dB after")
    sound.write(folder / "input.wav", before)
    sound.write(folder / "output.wav", after)
    picture = folder / "resynthesize_sound.png"
    sound.draw(picture, {"input: two tones and clicks": before, "output: clicks removed": after})
    print(f"drawn: {picture}")
    return 0 if all(error < TOLERANCE for error in errors.values()) else 1


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "demo_output")))
