"""The benchmark of audio: its models compute what is named, its float64 answers are right, and a short run."""

from __future__ import annotations

import json
import pathlib
import pickle
import subprocess
import sys

import numpy as np
import onnx
import pytest
import scipy.signal

import ortconv
from benchmarks.audio import engines, exact
from benchmarks.audio.comparing import Answer, compare
from benchmarks.audio.networks import ISTFTNetHead, Separator, Vocoder, WhisperFrontEnd, networks
from benchmarks.audio.problems import Problem
from benchmarks.audio.transforms import (
    DftNode,
    ForwardLayer,
    InverseLayer,
    OverlapAddLayer,
    SplitInverse,
    StftNode,
    transforms,
)
from benchmarks.turn import Fastest, Turn
from tests import oracle
from tests.folders import ROOT

TRANSFORMS: list[Problem] = [
    ForwardLayer(32, 8, 7, 2),
    ForwardLayer(20, 6, 5),
    InverseLayer(32, 8, 7, 2),
    InverseLayer(20, 6, 5),
    SplitInverse(32, 8, 7, 2),
    OverlapAddLayer(24, 5, 4),
    StftNode(32, 8, 6),
    StftNode(20, 5, 6),
    DftNode(20, 3),
    DftNode(32, 3, True),
]
NETWORKS: list[Problem] = [
    Vocoder(9, 10, 16, 2, 64),
    ISTFTNetHead(6, 8, 16),
    WhisperFrontEnd(1),
    Separator(5, 4, 64),
]
TINY = [*TRANSFORMS, *NETWORKS]
FOURIER = {"ForwardSTFT", "InverseSTFT", "OverlapAdd", "FourierTransform"}


def named(problem: Problem) -> str:
    return problem.name


def test_names_are_distinct_and_problems_reach_other_processes() -> None:
    found = [*transforms(12), *networks()]
    assert len({problem.name for problem in found}) == len(found) >= 32
    assert pickle.loads(pickle.dumps(found)) == found
    assert any("batch 12" in problem.name for problem in found)


@pytest.mark.parametrize("problem", TINY, ids=named)
def test_engines_agree_with_float64(problem: Problem) -> None:
    answer = Answer(exact.evaluate(problem.model(), problem.data()), 1.0)
    for engine in engines.ENGINES:
        if engine == engines.SCIPY and problem in NETWORKS:
            continue
        run, result = engines.prepare(problem, engine, 1)
        run()
        error = answer.errors(result(run())).rms
        assert error < (problem.allowed_error if engine == engines.ORT else 1e-5), engine


@pytest.mark.parametrize("problem", TINY, ids=named)
def test_optimize_recognises_each_transform(problem: Problem) -> None:
    looked_at = ("Conv", "ConvTranspose", "STFT", "DFT")
    model = problem.model()
    done = ortconv.optimization(model)
    found = [outcome.becomes for outcome in done.outcomes]
    assert FOURIER & set(found)
    assert "" not in found
    if problem in TRANSFORMS:
        assert len(found) == sum(node.op_type in looked_at for node in model.graph.node)
        assert set(found) <= FOURIER


@pytest.mark.parametrize("frames", [1, 9])
def test_layers_are_short_time_fourier_transforms(frames: int) -> None:
    layer = ForwardLayer(64, 16, frames)
    sound = layer.data()
    spectrum = exact.evaluate(layer.model(), sound)
    window = scipy.signal.get_window("hann", 64)
    pieces = np.array([sound[0, 0, at * 16 : at * 16 + 64] * window for at in range(frames)])
    expected = np.fft.fft(pieces, axis=1)[:, :33].T
    np.testing.assert_allclose(spectrum[0, :33] + 1j * spectrum[0, 33:], expected, atol=1e-5)
    # The inverse gives back each frame, windowed twice.
    back = exact.evaluate(InverseLayer(64, 16, frames).model(), spectrum)
    weights, total = np.zeros(layer.length), np.zeros(layer.length)
    for at, piece in enumerate(pieces):
        weights[at * 16 : at * 16 + 64] += window**2
        total[at * 16 : at * 16 + 64] += piece * window
    np.testing.assert_allclose(back[0, 0], total, atol=1e-5)
    np.testing.assert_allclose(back[0, 0], sound[0, 0] * weights, atol=1e-5)


def one_node(op_type: str, w: np.ndarray, **attributes: object) -> onnx.ModelProto:
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(op_type, ["x", "w", "b"], ["y"], **attributes)],
        "one",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, None)],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(each, name) for name, each in (("w", w), ("b", np.zeros(4, np.float32)))],
    )
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)])


def test_float64_transposed_convolution_is_the_definition() -> None:
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in ((2, 6, 5, 4), (6, 2, 3, 2)))
    model = one_node(
        "ConvTranspose", w, strides=[2, 3], pads=[1, 0, 0, 1], dilations=[2, 1], group=2, output_padding=[1, 2]
    )
    got = exact.evaluate(model, x)
    expected = oracle.transposed(
        x.astype(np.float64),
        w.astype(np.float64),
        strides=(2, 3),
        dilations=(2, 1),
        begin=(1, 0),
        size=got.shape[2:],
        group=2,
    )
    assert got.shape == (2, 4, 13, 12)
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)


def test_float64_convolution_is_the_definition() -> None:
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in ((2, 6, 7, 8), (4, 3, 3, 2)))
    got = exact.evaluate(one_node("Conv", w, strides=[2, 1], pads=[1, 0, 2, 1], dilations=[1, 3], group=2), x)
    padded = np.pad(x.astype(np.float64), [(0, 0), (0, 0), (1, 2), (0, 1)])
    assert got.shape == (2, 4, 4, 6)
    for n, m, i, j in np.ndindex(got.shape):
        window = padded[n, m // 2 * 3 : m // 2 * 3 + 3, 2 * i : 2 * i + 3, j : j + 4 : 3]
        assert got[n, m, i, j] == pytest.approx(np.sum(window * w[m].astype(np.float64)), rel=1e-12)


class Engine:
    """An engine whose answers are off by some part."""

    def __init__(self, off: float) -> None:
        self.off = off

    def answer(self, problem: Problem, _: str) -> np.ndarray:
        right = exact.evaluate(problem.model(), problem.data())
        return (right * (1 + self.off)).astype(np.float32)

    def time(self, runs: int) -> Turn:
        return Turn(0.5 if self.off else 0.25)


def test_wrong_answers_are_not_timed() -> None:
    problem = DftNode(20, 3)
    found = compare(
        problem, {"ort": Engine(1e-3), "scipy": Engine(1e-3), "ours": Engine(0)}, threads=1, rounds=1, seconds=0.1,
        fastest=Fastest(),
    )  # fmt: skip
    assert set(found.seconds) == {"ort", "ours"}, "only ONNX Runtime's DFT may be inexact"
    assert found.ratio("ort") == 2
    assert found.ratio("scipy") is None
    assert "error 1.0e-03 of the RMS" in found.wrong["scipy"]
    found = compare(
        ForwardLayer(20, 5, 3), {"ort": Engine(1e-3), "ours": Engine(1e-3)}, threads=1, rounds=1, seconds=0.1,
        fastest=Fastest(),
    )  # fmt: skip
    assert set(found.wrong) == {"ort", "ours"}
    assert not found.seconds


@pytest.mark.slow
def test_short_run(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("matplotlib", reason="the plot needs matplotlib")
    target, plot = tmp_path / "audio.json", tmp_path / "audio.png"
    arguments = ["--only", "n_fft 16, hop 4", "--only", "rows, real", "--rounds", "1", "--seconds", "0.001"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.audio", *arguments, "--json", str(target), "--plot", str(plot)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ortconv in the geometric mean" in done.stdout
    assert plot.read_bytes().startswith(b"\x89PNG")
    found = json.loads(target.read_text())
    assert len(found["problems"]) == 6
    for entry in found["problems"]:
        assert set(entry["seconds"]) == set(entry["errors"]) == {"ort", "scipy", "ours"}
        assert entry["ratios"]["ort"] > 0
        assert entry["errors"]["ours"] < 1e-5
        assert not entry["wrong"]
    assert set(found["means"]) == {"inverse STFT as ConvTranspose", "STFT as Conv", "node DFT"}


def test_unknown_name_is_wrong_usage() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.audio", "--only", "opera"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 2
    assert "--list" in done.stderr
