"""An engine in a process of its own, which is stopped while the others run.

A runtime's threads keep looking for work for a while after a run, and would take the cores from the next engine. So a
process is stopped, with all its threads, from its reply to the next request: only one engine can run at any time, with
as many threads as it has and in its own way. Those of one thread run on the same core, as others may use one core more
than another.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any

import numpy.typing as npt

from benchmarks import answers, engines
from benchmarks.remote import Remote, serve
from benchmarks.shapes import Shape
from benchmarks.turn import Turn, pace

__all__ = ["Repeated", "Worker"]

Array = npt.NDArray[Any]

_TRIES = 5
_DISTURBED = 0.03
"""The share of the time in which threads had work and no core, above which others disturbed the process."""

_STOPS = hasattr(signal, "SIGSTOP")
_STOPPED_OR_ENDED = os.WSTOPPED | os.WEXITED | os.WNOWAIT if _STOPS else 0
_TASKS = pathlib.Path("/proc/self/task")


class Worker(Remote):
    """An engine on the CPU. Its process is stopped except while one of the methods runs.

    Args:
        engine: Its name.
        threads: How many threads it may use.
        target: What its process does, called with its end of the pipe, the name and the threads; by default it loads
            transposed convolutions.
    """

    def __init__(self, engine: str, threads: int, target: Callable[[Connection, str, int], None] | None = None) -> None:
        super().__init__(engine, target or _serve, threads)
        self._stop()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._go_on()
        super().__exit__(kind, error, at)

    def _ask(self, *request: object) -> Any:
        self._go_on()
        try:
            return super()._ask(*request)
        finally:
            self._stop()

    def _stop(self) -> None:
        """Stops all threads of the process, and returns when they have."""
        if _STOPS and self._process.pid and self._process.is_alive():
            os.kill(self._process.pid, signal.SIGSTOP)
            os.waitid(os.P_PID, self._process.pid, _STOPPED_OR_ENDED)

    def _go_on(self) -> None:
        if _STOPS and self._process.pid and self._process.is_alive():
            os.kill(self._process.pid, signal.SIGCONT)


def _serve(pipe: Connection, engine: str, threads: int) -> None:
    if threads == 1 and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

    def load(shape: Shape, dtype: str) -> Repeated:
        return Repeated(*engines.prepare(engine, shape, dtype, threads, *answers.data(shape, dtype)))

    serve(pipe, engine, load)


@dataclasses.dataclass(frozen=True)
class Repeated:
    """Something that is run again and again in this process.

    Attributes:
        run: Runs it once.
        result: Makes an array of what a run returns.
    """

    run: Callable[[], object]
    result: Callable[[object], Array]

    def answer(self) -> Array:
        """Runs it and returns the result."""
        return self.result(self.run())

    def time(self, runs: int) -> Turn:
        """Returns the try disturbed least: where others use the cores, several are made."""
        found: list[tuple[float, float, float]] = []
        for _attempt in range(_TRIES):
            self.run()
            before = pace()
            disturbance = _disturbance()
            begin = time.perf_counter()
            for _ in range(runs):
                self.run()
            seconds = time.perf_counter() - begin
            share = disturbance() / seconds
            found.append((share, seconds / runs, max(before, pace())))
            if share < _DISTURBED:
                break
        return Turn(*min(found)[1:])


def _disturbance() -> Callable[[], float]:
    """Returns what tells for how many seconds, since now, this process would have run if others had not."""
    if _TASKS.exists():
        before = _waited()
        return lambda: sum(max(0.0, seconds - before.get(task, 0.0)) for task, seconds in _waited().items())
    used, begin = time.process_time(), time.perf_counter()
    return lambda: time.perf_counter() - begin - (time.process_time() - used)


def _waited() -> dict[str, float]:
    """Returns for how many seconds in all each thread of this process was ready and had no core."""
    found = {}
    for task in _TASKS.iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that ends
            found[task.name] = int((task / "schedstat").read_text().split()[1]) / 1e9
    return found
