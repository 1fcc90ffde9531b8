"""A problem's engines: their answers compared with float64, and their times in turns."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from benchmarks.answers import Errors
from benchmarks.audio import exact
from benchmarks.audio.engines import ORT
from benchmarks.audio.problems import Array, Problem
from benchmarks.engines import OURS
from benchmarks.measure import Engine, measure
from benchmarks.turn import Fastest
from ortconv.benchmarking import quartiles

__all__ = ["Answer", "Found", "compare"]

_ALLOWED = 1e-5
"""How large errors of engines other than ONNX Runtime may be."""


@dataclasses.dataclass(frozen=True)
class Answer:
    """The right answer.

    Attributes:
        expected: In float64.
        allowed: How large the root mean square of the errors may be, relative to that of the answer.
    """

    expected: Array
    allowed: float

    def errors(self, actual: Array) -> Errors:
        """Returns how far a result is off, relative to the root mean square of the answer."""
        if actual.shape != self.expected.shape or actual.dtype != np.float32:
            return Errors(math.inf, math.inf, math.inf)
        size = float(np.sqrt(np.mean(self.expected**2)))
        error = np.abs(actual - self.expected)
        rms = float(np.sqrt(np.mean(error**2))) / size
        return Errors(rms / self.allowed, float(np.max(error)) / size, rms)


@dataclasses.dataclass(frozen=True)
class Found:
    """What was found out about a problem.

    Attributes:
        problem: The problem.
        seconds: Seconds per run of each round, by engine; of those that ran and are right.
        errors: Root mean square of the errors, relative to that of the answer, by engine.
        wrong: Engine -> what is wrong with its answer, or its failure.
        pace: The longest pace of the turns.
    """

    problem: Problem
    seconds: Mapping[str, tuple[float, ...]]
    errors: Mapping[str, float]
    wrong: Mapping[str, str]
    pace: float

    def ratios(self, engine: str) -> tuple[float, ...]:
        """Returns how many times ours an engine's time is, one entry per round; empty if either did not run."""
        if engine not in self.seconds or OURS not in self.seconds:
            return ()
        return tuple(a / b for a, b in zip(self.seconds[engine], self.seconds[OURS], strict=True))

    def ratio(self, engine: str) -> float | None:
        """Returns the median of the ratios; None if there are none."""
        ratios = self.ratios(engine)
        return statistics.median(ratios) if ratios else None

    def document(self) -> dict[str, Any]:
        """Returns what stands in the JSON."""
        return {
            "name": self.problem.name,
            "group": self.problem.group,
            "seconds": {name: _rounded(statistics.median(each)) for name, each in self.seconds.items()},
            "quartiles": {name: [*map(_rounded, quartiles(each))] for name, each in self.seconds.items()},
            "ratios": {
                name: _rounded(statistics.median(self.ratios(name)))
                for name in self.seconds
                if name != OURS and self.ratios(name)
            },
            "errors": {name: _rounded(error) for name, error in self.errors.items()},
            "wrong": dict(self.wrong),
            "pace": _rounded(self.pace),
        }


def compare(
    problem: Problem, engines: Mapping[str, Engine], *, threads: int, rounds: int, seconds: float, fastest: Fastest
) -> Found:
    """Compares the answers of engines with float64, and times those that are right, in turns.

    Args:
        problem: The problem.
        engines: By name.
        threads: How many they have.
        rounds: How many turns each has.
        seconds: How long a turn lasts, about.
        fastest: The best pace of the run so far, which is brought up to date.
    """
    answer = Answer(exact.evaluate(problem.model(), problem.data()), problem.allowed_error)
    # Nothing of what it measures is looked at where the answer is given.
    (case,) = measure(
        cast(Any, problem), "f32", {threads: engines}, rounds=rounds, seconds=seconds, expected=answer, fastest=fastest
    )
    errors = {name: timing.errors.rms for name, timing in case.timings.items()}
    inexact = {name: error for name, error in errors.items() if name != ORT and not error <= _ALLOWED}
    wrong = {name: f"error {error:.1e} of the RMS; allowed: {_ALLOWED:.0e}" for name, error in inexact.items()}
    times = {name: timing.seconds for name, timing in case.timings.items() if name not in wrong}
    return Found(problem, times, errors, {**case.wrong, **wrong}, case.pace)


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
