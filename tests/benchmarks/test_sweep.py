"""The search for cliffs: its series, what counts as one, and a short run. No rate is asserted."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from benchmarks import answers
from benchmarks.machine import Ceiling
from benchmarks.measure import Case
from benchmarks.series import SERIES, Series
from benchmarks.shapes import Shape
from benchmarks.sweep import Point, cliffs, sweep
from benchmarks.turn import Turn
from tests.folders import ROOT

CEILING = Ceiling(1, {"f32": 1e9}, {1: 1e9}, "")
SMALL = Shape("small", 1, 2, 3, (4,), 3, 2)


def points(*efficiencies: float | None) -> list[Point]:
    case = Case(SMALL, "f32", 1, {}, {}, {})
    return [
        Point(value, case, {} if efficiency is None else {"ours": efficiency})
        for value, efficiency in enumerate(efficiencies)
    ]


@pytest.mark.parametrize(
    ("efficiencies", "found"),
    [
        ((0.8, 0.7, 0.8), []),
        ((0.8, 0.3, 0.8), [1]),  # a dip
        ((0.8, 0.8, 0.3, 0.3), [2]),  # a step down: the first behind it
        ((0.3, 0.8, 0.8), [0]),  # a step up: the last before it
        ((0.8, 0.41, 0.21), []),
        ((0.8, None, 0.1), []),  # what has no rate is no neighbour
        ((None, 0.1, None), []),
        ((0.5,), []),
    ],
)
def test_cliffs(efficiencies: tuple[float | None, ...], found: list[int]) -> None:
    assert cliffs(points(*efficiencies), "ours") == found


def test_series_cover_what_users_may_bring() -> None:
    assert len({series.name + series.parameter for series in SERIES}) == len(SERIES)
    shapes = [shape for series in SERIES for shape in series.shapes.values()]
    assert len({shape.name for shape in shapes}) == len(shapes) > 400
    assert {shape.axes for shape in shapes} == {1, 2, 3}
    assert {1, 32} <= {shape.batch for shape in shapes}
    assert {1, 251, 257} <= {shape.inputs for shape in shapes}
    assert any(1 < shape.group < shape.inputs for shape in shapes)
    assert any(shape.group == shape.inputs == shape.outputs > 1 for shape in shapes)
    assert min(min(shape.size) for shape in shapes) == 1
    assert max(max(shape.size) for shape in shapes) > 50000
    for series in SERIES:
        assert list(series.shapes) == sorted(series.shapes)
        for shape in series.shapes.values():
            assert min(shape.y_shape) > 0, shape
            assert shape.flops > 0, shape


class Fake:
    """An engine whose answers are right, and whose time follows a rule; the shapes it was asked to load are kept."""

    def __init__(self, slow: str, error: float = 0.0) -> None:
        self.slow = slow
        self.error = error
        self.loaded: list[str] = []

    def answer(self, shape: Shape, dtype: str) -> np.ndarray:
        self.loaded.append(shape.name)
        answer = answers.expect(shape, dtype, *answers.data(shape, dtype))
        return (answer.expected + self.error).astype(answer.dtype)

    def time(self, runs: int) -> Turn:
        last = self.loaded[-1]
        return Turn(1e-6 if last == "empty call" else 1e-3 * (3 if last == self.slow else 1) + 1e-6)


def swept(engine: Fake) -> Point:
    shapes = {value: Shape(f"n {value}", 1, 4, 4, (8,), 3, 2) for value in range(5)}  # only the time differs
    (found,) = sweep(
        [Series("s", "n", shapes)], "f32", CEILING, {"ours": engine}, rounds=1, seconds=0.001, advance=lambda: None
    )
    assert [point.value for point in found.points] == list(shapes)
    return found.points[2]


def test_sweep_measures_again_what_looks_like_a_cliff() -> None:
    engine = Fake("n 2")
    point = swept(engine)
    assert [engine.loaded.count(f"n {value}") for value in range(5)] == [1, 2, 2, 2, 1]
    shape = point.case.shape
    assert point.efficiency["ours"] == pytest.approx(shape.flops / 3e-3 / 1e9 / CEILING.roofline(shape, "f32"))


def test_wrong_answers_have_no_rate() -> None:
    point = swept(Fake("", error=1.0))
    assert point.efficiency == {}
    assert "times the allowed" in point.case.wrong["ours"]


def benchmarks(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", "--sweep", *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )


def test_quick_sweep_is_complete(tmp_path: pathlib.Path) -> None:
    done = benchmarks("--quick", "--json", tmp_path / "found.json")
    assert done.returncode == 0, done.stderr
    assert "cliffs among" in done.stdout
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["ok"]
    (series,) = found["series"]
    assert len(series["points"]) == 3
    for point in series["points"]:
        assert set(point["engines"]) == {"ort", "ours"}
        for engine in point["engines"].values():
            assert 0 <= engine["error"] <= 1
            assert engine["gflops"] == pytest.approx(point["flops"] / engine["seconds"] / 1e9, rel=1e-2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("--shape", "no such series"), "no series has that"), (("--threads", "1", "--threads", "2"), "one --threads")],
)
def test_wrong_usage(arguments: tuple[str, ...], message: str) -> None:
    done = benchmarks(*arguments)
    assert done.returncode == 2
    assert message in done.stderr


def test_list_names_series() -> None:
    done = benchmarks("--list", "--shape", "grouped")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("grouped k4s2 192>192 14x14: groups 1, 2, 3,")
