"""Measuring a case: every engine's answer is checked, then all are timed in turns."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy.typing as npt

from benchmarks import answers
from benchmarks.answers import Errors
from benchmarks.engines import OURS, Unsupported
from benchmarks.shapes import Shape
from benchmarks.turn import Fastest, Turn
from ortconv.benchmarking import quartiles

__all__ = ["Case", "Engine", "Judge", "Timing", "measure", "speed_ups"]

_Key = tuple[int, str]
"""Number of threads and name of an engine."""

_PATIENCE = 4
"""How many times as many rounds as asked for are made at most."""


class Engine(Protocol):
    """What is measured; `benchmarks.remote.Remote` is one."""

    def answer(self, shape: Shape, dtype: str) -> npt.NDArray[Any]:
        """Loads a shape and returns its result."""

    def time(self, runs: int) -> Turn:
        """Returns a turn of so many runs."""


class Judge(Protocol):
    """Knows the right answer; `benchmarks.answers.Answer` is one."""

    def errors(self, actual: npt.NDArray[Any]) -> Errors:
        """Returns how far a result is off."""


@dataclasses.dataclass(frozen=True)
class Timing:
    """An engine's times.

    Attributes:
        seconds: Seconds per run, one entry per round.
        errors: How far its answer is off.
    """

    seconds: tuple[float, ...]
    errors: Errors

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
        pace: The longest pace of the turns; 0 if there were none, or it says nothing.
    """

    shape: Shape
    dtype: str
    threads: int
    timings: Mapping[str, Timing]
    skipped: Mapping[str, str]
    wrong: Mapping[str, str]
    pace: float = 0.0

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

    def error_ratio(self, name: str = "ort") -> float | None:
        """Returns our largest error over that of another engine; None if either did not run, or that one is exact."""
        if name not in self.timings or OURS not in self.timings or self.timings[name].errors.largest == 0:
            return None
        return self.timings[OURS].errors.largest / self.timings[name].errors.largest


def speed_ups(one: Case, more: Case) -> dict[str, float]:
    """Returns by engine how many times as fast a case is as the same with fewer threads, of the turns of each round."""
    return {
        name: statistics.median(a / b for a, b in zip(timing.seconds, more.timings[name].seconds, strict=True))
        for name, timing in one.timings.items()
        if name in more.timings
    }


def measure(
    shape: Shape,
    dtype: str,
    workers: Mapping[int, Mapping[str, Engine]],
    *,
    rounds: int,
    seconds: float,
    expected: Judge | None = None,
    fastest: Fastest | None = None,
) -> list[Case]:
    """Measures a shape, in turns over all engines and numbers of threads.

    Args:
        shape: The shape.
        dtype: The type.
        workers: Number of threads -> the engines that were told it, by name.
        rounds: How often each has its turn. A round in which somebody else used the core is not counted, unless
            there are not enough others among four times as many.
        seconds: How long a turn lasts, about.
        expected: The right answer, where it is not that of `answers.expect`.
        fastest: The best pace of the run so far, which is brought up to date.

    Returns:
        A case per number of threads.
    """
    expected = expected or answers.expect(shape, dtype, *answers.data(shape, dtype))
    right: dict[tuple[int, str], Errors] = {}
    skipped: dict[int, dict[str, str]] = {threads: {} for threads in workers}
    wrong: dict[int, dict[str, str]] = {threads: {} for threads in workers}
    for threads, engines in workers.items():
        for name, engine in engines.items():
            try:
                errors = expected.errors(engine.answer(shape, dtype))
            except Unsupported as reason:
                skipped[threads][name] = str(reason)
            except RuntimeError as error:
                wrong[threads][name] = str(error)
            else:
                if errors.excess <= 1:
                    right[threads, name] = errors
                else:
                    wrong[threads][name] = f"error {errors.excess:.3g} times the allowed"
    runs = {key: max(1, round(seconds / workers[key[0]][key[1]].time(1).seconds)) for key in right}
    chosen = _undisturbed(
        lambda order: {(count, name): workers[count][name].time(runs[count, name]) for count, name in order},
        list(right),
        rounds,
        fastest or Fastest(),
    )
    times = {key: tuple(turns[key].seconds for turns in chosen) for key in right}
    pace = max((turn.pace for turns in chosen for turn in turns.values()), default=0.0)
    return [
        Case(
            shape,
            dtype,
            threads,
            {name: Timing(times[count, name], right[count, name]) for count, name in right if count == threads},
            skipped[threads],
            wrong[threads],
            pace,
        )
        for threads in workers
    ]


def _undisturbed(
    take_turns: Callable[[Sequence[_Key]], Mapping[_Key, Turn]], order: Sequence[_Key], rounds: int, fastest: Fastest
) -> list[Mapping[_Key, Turn]]:
    """Returns rounds in which nobody else used the core, and others only if there are not enough of these."""

    def slowed(turns: Mapping[_Key, Turn]) -> bool:
        return any(fastest.slowed(turn.pace) for turn in turns.values())

    done: list[Mapping[_Key, Turn]] = []
    while len(done) < _PATIENCE * rounds and sum(not slowed(turns) for turns in done) < rounds:
        # Each round starts with another engine, so that none always follows the same one.
        start = len(done) % max(len(order), 1)
        done.append(take_turns([*order[start:], *order[:start]]))
        fastest.add(turn.pace for turn in done[-1].values())
    return sorted(done, key=slowed)[:rounds]
