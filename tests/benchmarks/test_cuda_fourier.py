"""The benchmark of Fourier operators on the GPU, as far as a machine without one can tell."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np
import onnxruntime
import pytest
from click.testing import CliRunner

from benchmarks.cuda import fourier, gpu
from benchmarks.cuda.engines import Prepared
from benchmarks.cuda.fourier import ENGINES, Layer


@pytest.fixture(autouse=True)
def on_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions of the CPU instead, and no torch."""

    def bind(session: Any, x: np.ndarray, dims: list[int]) -> Prepared:
        def run() -> np.ndarray:
            (result,) = session.run(None, {"X": x})
            assert list(result.shape) == dims
            return np.asarray(result)

        return Prepared(run, run, 1)

    monkeypatch.setattr(fourier, "bind", bind)
    monkeypatch.setattr(fourier, "provider", lambda dtype, graph: "CPUExecutionProvider")
    monkeypatch.setattr(fourier, "session_options", onnxruntime.SessionOptions)
    monkeypatch.setitem(ENGINES, "torch", ENGINES["ours"])


@pytest.mark.parametrize("layer", [Layer(16, 5), Layer(20, 7, 5)], ids=lambda layer: layer.name)
def test_engines_compute_the_same(layer: Layer) -> None:
    found = fourier.compare(layer, 1, 1e-4, False)
    assert found["wrong"] == {}
    assert found["errors"]["ours"] <= 1e-6


def test_what_is_written(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    monkeypatch.setattr(fourier, "LAYERS", (Layer(16, 5), Layer(20, 7, 5)))
    monkeypatch.setattr(gpu, "describe", lambda: {"gpu": "none"})
    path = tmp_path / "found.json"
    done = CliRunner().invoke(fourier.main, ["--rounds", "1", "--seconds", "0.0001", "--json", str(path)])
    assert done.exit_code == 0, done.output
    document = json.loads(path.read_text())
    assert [each["layer"]["name"] for each in document["cases"]] == ["5 x 16", "STFT 20, hop 5, 7 frames"]
    assert document["missing"] == 0
