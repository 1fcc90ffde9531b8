"""The benchmarks on the GPU, as far as a machine without one can tell: models, answers, arithmetic, reports."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import subprocess
import sys
from typing import Any

import numpy as np
import onnxruntime
import pytest
from click.testing import CliRunner
from rich.console import Console

from benchmarks import answers
from benchmarks.answers import Errors
from benchmarks.cuda import __main__ as command
from benchmarks.cuda import engines, gpu, report
from benchmarks.cuda.answers import data, expect
from benchmarks.cuda.gpu import Ceiling
from benchmarks.cuda.shapes import ALL, families
from benchmarks.measure import Case, Timing, measure
from benchmarks.shapes import SHAPES, Shape
from benchmarks.turn import Turn
from tests.folders import ROOT

SMALL = Shape("small", 2, 4, 6, (3, 5), 3, 2, 1, 1, group=2)
LINE = Shape("line", 1, 3, 2, (7,), 4, 3, 1)


def test_shapes_are_those_of_the_cpu_and_larger_ones() -> None:
    assert ALL[: len(SHAPES)] == SHAPES
    assert len({shape.name for shape in ALL}) == len(ALL)
    assert max(shape.flops for shape in ALL) > 20 * max(shape.flops for shape in SHAPES)
    for kind in ("depthwise", "small channels", "k2s2"):
        assert sum(kind in families(shape) for shape in ALL) >= 3


@pytest.mark.parametrize(
    ("shape", "kinds"),
    [
        (SMALL, ()),
        (Shape("", 1, 8, 8, (4, 4), 4, 2, group=8), ("depthwise",)),
        (Shape("", 1, 64, 3, (4, 4), 4, 2), ("small channels",)),
        (Shape("", 1, 64, 1, (4, 4), 2, 2), ("small channels", "k2s2")),
    ],
)
def test_families(shape: Shape, kinds: tuple[str, ...]) -> None:
    assert families(shape) == kinds


def test_small_shapes_run_many_times_in_a_graph_and_large_ones_do_not() -> None:
    largest = max(ALL, key=lambda shape: shape.flops)
    assert engines._runs(SMALL, "f32") == engines._MOST_RUNS
    assert 1 <= engines._runs(largest, "f32") < 10
    for shape in ALL:
        held = engines._runs(shape, "f32") * 4 * (np.prod(shape.w_shape) + np.prod(shape.y_shape))
        assert held <= engines._REPLAY_BYTES / 2


@pytest.mark.parametrize("layout", engines.LAYOUTS)
@pytest.mark.parametrize("shape", [SMALL, LINE])
@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_models_compute_the_shape(layout: str, shape: Shape, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "_MOST_RUNS", 2)
    monkeypatch.setattr(engines, "session_options", onnxruntime.SessionOptions)
    monkeypatch.setattr(engines, "provider", lambda dtype, graph: "CPUExecutionProvider")
    monkeypatch.setattr(engines, "_bound", lambda session, *rest: session)
    x, w = answers.data(shape, dtype)
    sessions = [engines._ours(layout, shape, dtype, x, w, False)]
    if layout == "ncx":
        model = engines._model(layout, shape, dtype, w, "", {})
        sessions.append(onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]))
    source = np.ascontiguousarray(np.moveaxis(x, 1, -1) if layout == "nxc" else x)
    for session in sessions:
        results = session.run(None, {"X": source})
        assert len(results) == 2
        for y in results:
            right = answers.expect(shape, dtype, x, w)
            assert right.errors(np.moveaxis(y, -1, 1) if layout == "nxc" else y).excess <= 1


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("shape", [SMALL, LINE])
def test_torch_and_numpy_know_the_same_answers(dtype: str, shape: Shape) -> None:
    pytest.importorskip("torch", reason="torch, which computes the references, is not installed")
    known, right = expect(shape, dtype, "cpu"), answers.expect(shape, dtype, *data(shape, dtype))
    np.testing.assert_allclose(known.expected.numpy(), right.expected, rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(known.bound.numpy(), right.bound, rtol=1e-13)
    y = right.expected.astype(right.dtype)
    y[0, 0, 0] *= right.dtype.type(1.5)
    for result in (y, np.full_like(y, np.nan), np.full_like(y, np.inf), y[:, 1:]):
        found, expected = known.errors(result), right.errors(result)
        for name in ("excess", "largest", "rms"):
            np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-9)


def test_large_arrays_repeat_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.cuda.answers._DRAWN", 7)
    for dtype in ("f16", "bf16", "tf32"):
        x, w = data(SMALL, dtype)
        assert (x.shape, w.shape) == (SMALL.x_shape, SMALL.w_shape)
        assert x.dtype == w.dtype == answers.NUMPY["f32" if dtype == "tf32" else dtype]
        np.testing.assert_array_equal(x.ravel()[7:14], x.ravel()[:7])
        assert len(np.unique(x.ravel()[:7].astype(np.float32))) == 7


def test_tf32_is_held_to_its_own_bound() -> None:
    pytest.importorskip("torch", reason="torch, which computes the references, is not installed")
    x, w = data(SMALL, "tf32")
    single, tf32 = expect(SMALL, "f32", "cpu"), expect(SMALL, "tf32", "cpu")
    np.testing.assert_array_equal(single.expected, tf32.expected)
    assert bool((tf32.bound > 100 * single.bound).all())

    def cut(array: np.ndarray) -> np.ndarray:
        return (array.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)

    other = answers.expect(SMALL, "f32", cut(x), cut(w)).expected.astype(np.float32)
    assert tf32.errors(other).excess <= 1
    assert single.errors(other).excess > 1


def test_roofline() -> None:
    shape = Shape("", 1, 1, 1, (100,), 1, 1)  # 200 operations on 804 bytes in float32
    assert Ceiling({"f32": 100.0}, 8.04).roofline(shape, "f32") == pytest.approx(2.0)
    assert Ceiling({"f16": 100.0}, 8.04).roofline(shape, "f16") == pytest.approx(4.0)
    assert Ceiling({"tf32": 1.5}, 8.04).roofline(shape, "tf32") == 1.5


def timing(seconds: float) -> Timing:
    return Timing((seconds,) * 3, Errors(0.1, 1e-6, 1e-7))


CEILING = Ceiling({"f16": 1e5}, 1e3)


def entries() -> list[report.Entry]:
    timings = {"ort": timing(2e-5), "torch": timing(4e-5), "ours": timing(1e-5)}
    depthwise = Shape("deep", 1, 8, 8, (4, 4), 4, 2, group=8)
    slower = {"torch": timing(1e-5), "ours": timing(4e-5)}
    cases = (Case(SMALL, "f16", 0, timings, {}, {}), Case(depthwise, "f16", 0, slower, {}, {"ort": "error"}))
    return [report.entry("ncx", case, CEILING) for case in cases]


def test_report_has_means_by_family_and_what_is_wrong() -> None:
    console = Console(record=True, width=160)
    found = json.loads(json.dumps(report.document(entries(), CEILING, {"gpu": "none"}, {}, 3)))
    assert found["cases"] == entries()  # so that a later run may go on
    report.show(console, found["cases"])
    text = console.export_text()
    assert "ours / best peer, all: 0.71 (0.25 to 2.00, 2 shapes)" in text
    assert "ours / best peer, depthwise: 0.25 (0.25 to 0.25, 1 shapes)" in text
    assert "2.00-2.00" in text
    assert "WRONG deep f16 ncx: ort: error" in text
    assert (found["ok"], found["missing"]) == (False, 3)
    assert found["date"].endswith("+00:00")
    assert found["ratios"]["ncx f16"]["all"]["mean"] == pytest.approx(0.7071)
    assert [case["ratio"] for case in found["cases"]] == [2.0, 0.25]
    assert [case["best_peer"] for case in found["cases"]] == ["ort", "torch"]


class Fake:
    """An engine that knows the answer, and is slower the later its name is in the alphabet."""

    def __init__(self, engine: str, layout: str, graph: bool) -> None:
        self.engine = engine

    def __enter__(self) -> Fake:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def answer(self, shape: Shape, dtype: str) -> np.ndarray:
        return answers.expect(shape, dtype, *data(shape, dtype)).expected.astype(answers.NUMPY[dtype])

    def time(self, runs: int) -> Turn:
        return Turn(ord(self.engine[0]) * 1e-6)


def test_what_is_left_is_measured_by_a_later_run(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    shapes = [dataclasses.replace(SMALL, name=name) for name in ("a", "b", "c")]
    monkeypatch.setattr(command, "ALL", tuple(shapes))
    monkeypatch.setattr(command, "Worker", Fake)
    monkeypatch.setattr(command, "expect", lambda shape, dtype: answers.expect(shape, dtype, *data(shape, dtype)))
    monkeypatch.setattr(gpu, "measure", lambda dtypes: CEILING)
    monkeypatch.setattr(gpu, "describe", lambda: {"gpu": "none"})
    clock = iter(range(0, 10_000, 40))
    monkeypatch.setattr(command, "monotonic", lambda: next(clock))
    file = tmp_path / "found.json"

    def run(*more: str) -> tuple[str, dict[str, Any]]:
        arguments = ["--dtype", "f16", "--layout", "nxc", "--rounds", "3", "--json", str(file), *more]
        done = CliRunner().invoke(command.main, arguments)
        assert done.exit_code == 0, done.output
        return done.output, json.loads(file.read_text())

    output, found = run("--minutes", "1.5")
    assert [case["shape"]["name"] for case in found["cases"]] == ["a", "b"]
    assert "1 cases are left; --resume goes on." in output
    output, again = run("--resume")
    assert again["cases"][:2] == found["cases"]
    assert [report.key(case) for case in again["cases"]] == [("nxc", "f16", name) for name in "abc"]
    assert (again["missing"], again["ok"]) == (0, True)
    assert "left" not in output
    assert again["ratios"]["nxc f16"]["all"] == {"mean": 1.0, "least": 1.0, "greatest": 1.0, "shapes": 3}
    other = CliRunner().invoke(command.main, ["--resume", "--json", str(file), "--rounds", "4"])
    assert other.exit_code == 2
    assert "measured with other settings" in other.output


def test_answer_of_another_bound_is_used() -> None:
    class Engine:
        def answer(self, shape: Shape, dtype: str) -> np.ndarray:
            return (answers.expect(shape, "f32", *data(shape, dtype)).expected * (1 + 1e-4)).astype(np.float32)

        def time(self, runs: int) -> Turn:
            return Turn(1.0)

    pytest.importorskip("torch", reason="torch, which computes the references, is not installed")
    for dtype, right in (("f32", False), ("tf32", True)):
        known = expect(SMALL, dtype, "cpu")
        (case,) = measure(SMALL, dtype, {0: {"ours": Engine()}}, rounds=1, seconds=1.0, expected=known)
        assert ("ours" in case.timings) is right


def test_command_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.cuda", "--shape", "no such network"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 2
    assert "no shape has that in its name" in done.stderr
