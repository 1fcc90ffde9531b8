"""The benchmark of convolutions of integers on the GPU, as far as a machine without one can tell."""

from __future__ import annotations

import dataclasses
import functools
import json
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnxruntime
import pytest
from click.testing import CliRunner

from benchmarks.cuda import gpu, integer_convs
from benchmarks.cuda.engines import Prepared
from benchmarks.cuda.integer_convs import ENGINES
from benchmarks.integer_convs import Layer
from ortconv.runtime import cuda

SMALL = Layer("some", 4, 6, 3, 2, 9, 2)


@pytest.fixture(autouse=True)
def on_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions of the CPU instead, and no torch."""

    def bind(session: Any, x: np.ndarray, dims: list[int], result: Any = None) -> Prepared:
        def run() -> list[Any]:
            results: list[Any] = session.run(None, {"X": x})
            assert [(list(each.shape), each.dtype) for each in results] == [(dims, result or x.dtype)] * len(results)
            return results

        return Prepared(run, lambda: run()[-1], len(session.get_outputs()))

    monkeypatch.setattr(integer_convs, "_MOST", 2)
    monkeypatch.setattr(integer_convs, "bind", bind)
    monkeypatch.setattr(integer_convs, "provider", lambda dtype, graph: "CPUExecutionProvider")
    monkeypatch.setattr(integer_convs, "session_options", onnxruntime.SessionOptions)
    monkeypatch.setattr(cuda, "load_libraries", lambda onnxruntime: None)
    monkeypatch.setitem(ENGINES, "torch, float16", functools.partial(integer_convs._ort, np.float16))


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("layer", [SMALL, Layer("some", 5, 5, 5, 1, 7, 5)], ids=lambda layer: layer.name)
def test_engines_compute_the_same(layer: Layer, batch: int) -> None:
    found = integer_convs.compare(layer, batch, 3, 1e-4, False)
    assert found["wrong"] == {}
    assert found["errors"]["ours"] <= 1e-6
    assert found["ratios"].keys() == ENGINES.keys() - {"ours"}


def test_a_wrong_answer_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = ENGINES["ours"]

    def off(layer: Layer, data: Mapping[str, Any], graph: bool) -> Prepared:
        prepared = right(layer, data, graph)
        return dataclasses.replace(prepared, result=lambda: prepared.result() * np.float32(1.0001))

    monkeypatch.setitem(ENGINES, "ours", off)
    found = integer_convs.compare(SMALL, 1, 1, 1e-4, False)
    assert "of the largest output; allowed: 1e-05" in found["wrong"]["ours"]
    assert found["ratios"] == {}


def test_what_is_written(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    monkeypatch.setattr(integer_convs, "LAYERS", (SMALL,))
    monkeypatch.setattr(gpu, "describe", lambda: {"gpu": "none"})
    path = tmp_path / "found.json"
    done = CliRunner().invoke(integer_convs.main, ["--rounds", "1", "--seconds", "0.0001", "--json", str(path)])
    assert done.exit_code == 0, done.output
    document = json.loads(path.read_text())
    assert [each["batch"] for each in document["cases"]] == [1, 32]
    assert document["missing"] == 0
    assert "32 images: ort, float / ours:" in done.output
    assert done.output.count("\n| some 4>6 in 2 groups 3x3, 9x9, stride 2 |") == 2
