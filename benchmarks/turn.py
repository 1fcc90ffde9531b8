"""What a turn of an engine took, and how fast the core was meanwhile.

A core of a virtual machine may be one of the two threads of a real one. While somebody else uses the other thread it
computes at half to three quarters of its speed, for seconds or for minutes. Nothing in the machine says so but the time
that instructions take: a fixed loop that touches no memory is timed before and after each turn.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Iterable, Mapping

__all__ = ["Fastest", "Turn", "in_turns", "pace"]

_STEPS, _LOOPS = 4000, 3
_TRIES = 4
"""How many turns `in_turns` makes, at most, for one that nobody else disturbed."""
_SHARED = 1.25
"""How many times as long as at best the loop takes, above which somebody else used the core."""


@dataclasses.dataclass(frozen=True)
class Turn:
    """An engine's turn.

    Attributes:
        seconds: Seconds per run.
        pace: Seconds of the loop, the longer of before and after; 0 where it says nothing, as for a GPU.
    """

    seconds: float
    pace: float = 0.0


def pace() -> float:
    """Returns the seconds of the loop on the core of this thread, now."""
    return min(_loop() for _ in range(_LOOPS))


def _loop() -> float:
    begin = time.perf_counter()
    for _ in range(_STEPS):
        pass
    return time.perf_counter() - begin


class Fastest:
    """The best pace so far."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def add(self, paces: Iterable[float]) -> None:
        """Takes note of paces."""
        for pace in paces:
            if pace > 0 and (self._seconds == 0 or pace < self._seconds):
                self._seconds = pace

    def slowed(self, pace: float) -> bool:
        """Tells whether a pace is that of a core which somebody else used."""
        return pace > _SHARED * self._seconds > 0


def in_turns(runs: Mapping[str, Callable[[], object]], rounds: int, seconds: float) -> dict[str, float]:
    """Times several engines in one process, each on one thread.

    Args:
        runs: What runs each of them once.
        rounds: How many turns each has.
        seconds: How long a turn takes at least.

    Returns:
        The median of the seconds of a run, by engine.
    """
    fastest = Fastest()
    found: dict[str, list[float]] = {engine: [] for engine in runs}
    for _ in range(rounds):
        for engine, run in runs.items():
            found[engine].append(_undisturbed(run, seconds, fastest).seconds)
    return {engine: statistics.median(each) for engine, each in found.items()}


def _undisturbed(run: Callable[[], object], seconds: float, fastest: Fastest) -> Turn:
    """Returns the turn during which the core was fastest, of as many as it takes until nobody disturbs one."""
    found: list[Turn] = []
    while len(found) < _TRIES:
        run()
        before, begin, runs = pace(), time.perf_counter(), 0
        while time.perf_counter() - begin < seconds:
            run()
            runs += 1
        turn = Turn((time.perf_counter() - begin) / runs, max(before, pace()))
        found.append(turn)
        fastest.add([turn.pace])
        if not fastest.slowed(turn.pace):
            break
    return min(found, key=lambda turn: turn.pace)
