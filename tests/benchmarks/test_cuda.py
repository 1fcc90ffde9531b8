"""The benchmarks on the GPU, as far as a machine without one can tell: models, answers, arithmetic, reports."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import numpy as np
import onnxruntime
import pytest
from rich.console import Console

from benchmarks import answers
from benchmarks.answers import Errors
from benchmarks.cuda import engines, report
from benchmarks.cuda.answers import expect
from benchmarks.cuda.gpu import Ceiling
from benchmarks.cuda.shapes import ALL, families
from benchmarks.measure import Case, Timing, measure
from benchmarks.shapes import SHAPES, Shape

ROOT = pathlib.Path(__file__).parents[2]
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
    monkeypatch.setattr(engines, "_session_options", onnxruntime.SessionOptions)
    monkeypatch.setattr(engines, "_provider", lambda dtype, graph: "CPUExecutionProvider")
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
            assert expect(shape, dtype).errors(np.moveaxis(y, -1, 1) if layout == "nxc" else y).excess <= 1


def test_tf32_is_held_to_its_own_bound() -> None:
    x, w = answers.data(SMALL, "f32")
    single, tf32 = expect(SMALL, "f32"), expect(SMALL, "tf32")
    np.testing.assert_array_equal(single.expected, tf32.expected)
    assert np.all(tf32.bound > 100 * single.bound)

    def rounded(array: np.ndarray) -> np.ndarray:
        return ((array.view(np.uint32) + 0x1000) & np.uint32(0xFFFFE000)).view(np.float32)

    other = answers.expect(SMALL, "f32", rounded(x), rounded(w)).expected.astype(np.float32)
    assert tf32.errors(other).excess <= 1
    assert single.errors(other).excess > 1


def test_roofline() -> None:
    shape = Shape("", 1, 1, 1, (100,), 1, 1)  # 200 operations on 804 bytes in float32
    assert Ceiling({"f32": 100.0}, 8.04).roofline(shape, "f32") == pytest.approx(2.0)
    assert Ceiling({"f16": 100.0}, 8.04).roofline(shape, "f16") == pytest.approx(4.0)
    assert Ceiling({"tf32": 1.5}, 8.04).roofline(shape, "tf32") == 1.5


def timing(seconds: float) -> Timing:
    return Timing((seconds,) * 3, Errors(0.1, 1e-6, 1e-7))


def groups() -> list[report.Group]:
    timings = {"ort": timing(2e-5), "torch": timing(4e-5), "ours": timing(1e-5)}
    depthwise = Shape("deep", 1, 8, 8, (4, 4), 4, 2, group=8)
    slower = {"torch": timing(1e-5), "ours": timing(4e-5)}
    return [
        report.Group(
            "ncx",
            (Case(SMALL, "f16", 0, timings, {}, {}), Case(depthwise, "f16", 0, slower, {}, {"ort": "error"})),
        )
    ]


def test_report_has_means_by_family_and_what_is_wrong() -> None:
    ceiling = Ceiling({"f16": 1e5}, 1e3)
    console = Console(record=True, width=160)
    report.show(console, groups(), ceiling)
    text = console.export_text()
    assert "ours / best peer, all: 0.71 (0.25 to 2.00, 2 shapes)" in text
    assert "ours / best peer, depthwise: 0.25 (0.25 to 0.25, 1 shapes)" in text
    assert "WRONG deep f16 ncx: ort: error" in text
    found = json.loads(json.dumps(report.document(groups(), ceiling, {"gpu": "none"}, {})))
    assert not found["ok"]
    assert found["date"].endswith("+00:00")
    assert found["ratios"]["ncx f16"]["all"]["mean"] == pytest.approx(0.7071)
    assert [case["ratio"] for case in found["cases"]] == [2.0, 0.25]
    assert [case["best_peer"] for case in found["cases"]] == ["ort", "torch"]


def test_answer_of_another_bound_is_used() -> None:
    class Engine:
        def answer(self, shape: Shape, dtype: str) -> np.ndarray:
            return (expect(shape, "f32").expected * (1 + 1e-4)).astype(np.float32)

        def time(self, runs: int) -> float:
            return 1.0

    for dtype, right in (("f32", False), ("tf32", True)):
        (case,) = measure(SMALL, dtype, {0: {"ours": Engine()}}, rounds=1, seconds=1.0, expected=expect(SMALL, dtype))
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
