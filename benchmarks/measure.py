"""Measuring a case: every engine's answer is checked, then all are timed in turns."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping
from typing import Any, Protocol

import numpy.typing as npt

from benchmarks import answers
from benchmarks.engines import OURS, Unsupported
from benchmarks.shapes import Shape
from ortconv.benchmarking import quartiles

__all__ = ["Case", "Engine", "Timing", "measure"]


class Engine(Protocol):
    """What is measured; `benchmarks.worker.Worker` is one."""

    def answer(self, shape: Shape, dtype: str) -> npt.NDArray[Any]:
        """Loads a shape and returns its result."""

    def time(self, runs: int) -> float:
        """Returns seconds per run."""


@dataclasses.dataclass(frozen=True)
class Timing:
    """An engine's times.

    Attributes:
        seconds: Seconds per run, one entry per round.
        excess: Its answer's largest error in units of the error allowed.
    """

    seconds: tuple[float, ...]
    excess: float

    @property
    def median(self) -> float:
        """The median of the rounds."""
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """The interquartile range as a fraction of the median."""
        low, high = quartiles(self.seconds)
        return (high - low) / self.median


@dataclasses.dataclass(frozen=True)
class Case:
    """A shape, in one type and with one number of threads.

    Attributes:
        shape: The shape.
        dtype: The type.
        threads: Number of threads.
        timings: By engine, those that ran and are right.
        skipped: Engine -> why it did not run.
        wrong: Engine -> what is wrong with its answer, or its failure.
    """

    shape: Shape
    dtype: str
    threads: int
    timings: Mapping[str, Timing]
    skipped: Mapping[str, str]
    wrong: Mapping[str, str]

    def gflops(self, engine: str) -> float:
        """Returns an engine's rate of useful operations in GFLOP/s."""
        return self.shape.flops / self.timings[engine].median / 1e9

    @property
    def best_peer(self) -> str | None:
        """The fastest engine that is not ours."""
        peers = [name for name in self.timings if name != OURS]
        return min(peers, key=lambda name: self.timings[name].median, default=None)

    @property
    def ratios(self) -> tuple[float, ...]:
        """How many times as fast as the best peer ours is, one entry per round; empty if either did not run."""
        if self.best_peer is None or OURS not in self.timings:
            return ()
        pairs = zip(self.timings[self.best_peer].seconds, self.timings[OURS].seconds, strict=True)
        return tuple(peer / ours for peer, ours in pairs)


def measure(
    shape: Shape, dtype: str, threads: int, workers: Mapping[str, Engine], *, rounds: int, seconds: float
) -> Case:
    """Measures a case.

    Args:
        shape: The shape.
        dtype: The type.
        threads: What the engines were told.
        workers: The engines by name.
        rounds: How often each has its turn.
        seconds: How long a turn lasts, about.
    """
    expected = answers.expect(shape, dtype, *answers.data(shape, dtype))
    right: dict[str, float] = {}
    skipped, wrong = {}, {}
    for name, worker in workers.items():
        try:
            excess = expected.excess(worker.answer(shape, dtype))
        except Unsupported as reason:
            skipped[name] = str(reason)
        except RuntimeError as error:
            wrong[name] = str(error)
        else:
            if excess <= 1:
                right[name] = excess
            else:
                wrong[name] = f"error {excess:.3g} times the allowed"
    runs = {name: max(1, round(seconds / workers[name].time(1))) for name in right}
    times: dict[str, list[float]] = {name: [] for name in right}
    for number in range(rounds):
        # Each round starts with another engine, so that none always follows the same one.
        order = list(right)
        start = number % max(len(order), 1)
        for name in order[start:] + order[:start]:
            times[name].append(workers[name].time(runs[name]))
    timings = {name: Timing(tuple(times[name]), excess) for name, excess in right.items()}
    return Case(shape, dtype, threads, timings, skipped, wrong)
