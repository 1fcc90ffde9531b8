"""The benchmark of products on the GPU, as far as a machine without one can tell: models, answers, what is reported."""

from __future__ import annotations

import dataclasses
import itertools
import json
import pathlib
import subprocess
import sys
from typing import Any

import numpy as np
import onnxruntime
import pytest
from click.testing import CliRunner

from benchmarks.cuda import gpu, product_engines, products
from benchmarks.cuda.engines import Prepared
from benchmarks.cuda.gpu import Ceiling
from benchmarks.cuda.product_engines import ENGINES, Layer, Weights
from ortconv.runtime import cuda
from tests.folders import ROOT

SMALL = Layer("u4", 16, 6, 48, 3)


@pytest.fixture(autouse=True)
def on_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions of the CPU instead, and a torch that has no GPU."""

    def bind(session: Any, x: np.ndarray, dims: list[int]) -> Prepared:
        def run() -> list[Any]:
            results: list[Any] = session.run(None, {"X": x})
            assert [list(each.shape) for each in results] == [dims] * len(results)
            return results

        return Prepared(run, lambda: run()[-1], len(session.get_outputs()))

    monkeypatch.setattr(product_engines, "_MOST", 2)
    monkeypatch.setattr(product_engines, "bind", bind)
    monkeypatch.setattr(product_engines, "provider", lambda dtype, graph: "CPUExecutionProvider")
    monkeypatch.setattr(product_engines, "session_options", onnxruntime.SessionOptions)
    monkeypatch.setattr(cuda, "load_libraries", lambda onnxruntime: None)
    monkeypatch.setitem(ENGINES, "torch, dense", _numpy)


def _numpy(layer: Layer, dtype: str, x: np.ndarray, weights: Weights, graph: bool) -> Prepared:
    answer = (x.astype(np.float64) @ weights.dense().T).astype(x.dtype)
    return Prepared(lambda: None, lambda: answer, layer.matrices)


@pytest.mark.parametrize(("codes", "block"), [("u4", 16), ("u4", 48), ("i4", 16), ("i8", 0), ("i8", 24)])
@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_engines_compute_the_same(codes: str, block: int, rows: int, dtype: str) -> None:
    layer = Layer(codes, block, 6, 48, rows)
    found = products.compare(layer, dtype, 3, 1e-4, False)
    ours = found["errors"]["ours"]
    assert ours <= (1e-6 if dtype == "f32" else 1e-3)
    assert found["wrong"].keys() <= {"MatMulNBits"}  # whose kernel for the CPU takes some types and blocks only
    if codes == "i4" and dtype == "f32":
        assert found["errors"]["MatMulNBits"] <= 1e-5
    if codes == "i8":
        assert found["skipped"] == {"MatMulNBits": "MatMulNBits is for blocks of 4 bits"}
    assert found["ratios"].keys() == found["seconds"].keys() - {"ours"}


def test_a_wrong_answer_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = ENGINES["torch, dense"]

    def off(*arguments: Any) -> Prepared:
        prepared = right(*arguments)
        return dataclasses.replace(prepared, result=lambda: prepared.result() + np.float32(1e-3))

    monkeypatch.setitem(ENGINES, "torch, dense", off)
    found = products.compare(SMALL, "f32", 1, 1e-4, False)
    assert "of the largest output; allowed: 1e-05" in found["wrong"]["torch, dense"]
    assert "torch, dense" not in found["seconds"]


def test_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert len({layer.name for layer in products.LAYERS}) == len(products.LAYERS) == 27
    for layer in products.LAYERS:
        held = layer.matrices * layer.outputs * layer.inputs * product_engines.BITS[layer.codes] / 8
        assert held >= 256 << 20  # more than any cache holds
        assert layer.inputs % (layer.block or layer.inputs) == 0
    # Three rows of 48 codes and of 3 scales and zero points, 3 x 48 and 3 x 6 floats.
    assert SMALL.bytes_moved(2) == 6 * (24 + 3 * 2 + 1.5) + 2 * 3 * (48 + 6)


def test_command_writes_what_it_finds(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    monkeypatch.setattr(products, "LAYERS", (SMALL, Layer("i8", 0, 6, 48, 1)))
    monkeypatch.setattr(gpu, "measure", lambda dtypes: Ceiling({"f32": 1e5}, 1e3))
    monkeypatch.setattr(gpu, "describe", lambda: {"gpu": "none"})
    ticks = itertools.count(0, 40)
    monkeypatch.setattr(products, "monotonic", lambda: next(ticks))
    file = tmp_path / "found.json"
    arguments = ["--dtype", "f32", "--rounds", "1", "--seconds", "0.0001", "--json", str(file)]
    for name in ("MatMulNBits", "DequantizeLinear + MatMul"):
        monkeypatch.setitem(ENGINES, name, _numpy)
    done = CliRunner().invoke(products.main, arguments)
    assert done.exit_code == 0, done.output
    found = json.loads(file.read_text())
    assert [case["layer"]["name"] for case in found["cases"]] == [layer.name for layer in products.LAYERS]
    assert found["missing"] == 0
    assert found["means"].keys() == {
        f"f32, {rows} rows: {name}" for rows in (1, 3) for name in ENGINES if name != "ours"
    }
    assert all(case["of_roofline"] > 0 for case in found["cases"])
    done = CliRunner().invoke(products.main, [*arguments, "--minutes", "1"])
    assert json.loads(file.read_text())["missing"] == 1

    def off(layer: Layer, *rest: Any) -> Prepared:
        return Prepared(lambda: None, lambda: np.zeros((layer.rows, layer.outputs), np.float32), 1)

    monkeypatch.setitem(ENGINES, "MatMulNBits", off)
    done = CliRunner().invoke(products.main, arguments)
    assert done.exit_code == 1
    assert "WRONG u4 blocks of 16, 6 x 48, 3 rows f32: MatMulNBits: is off by" in done.output


def test_command_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.cuda.products", "--layer", "no such product"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 2
    assert "no product has that in its name" in done.stderr
