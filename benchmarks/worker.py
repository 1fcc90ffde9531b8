"""An engine in a process of its own, which waits while the others run."""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any

import numpy.typing as npt

from benchmarks import answers, engines
from benchmarks.shapes import Shape

__all__ = ["Worker"]

Array = npt.NDArray[Any]

_TRIES = 5
_UNDISTURBED = 0.97
"""The share of the time in which the process had a core, above which it was not disturbed."""


class Worker:
    """An engine. It computes only while one of these methods runs.

    Args:
        engine: Its name.
        threads: How many threads it may use.
    """

    def __init__(self, engine: str, threads: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._engine = engine
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, engine, threads), daemon=True)
        self._process.start()
        theirs.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._pipe.close()
        self._process.join(timeout=10)
        if self._process.is_alive():
            self._process.terminate()

    def answer(self, shape: Shape, dtype: str) -> Array:
        """Loads a shape, runs it and returns the result.

        Raises:
            Unsupported: The engine cannot do that.
            RuntimeError: It fails.
        """
        result: Array = self._ask("answer", shape, dtype)
        return result

    def time(self, runs: int) -> float:
        """Returns the seconds per run, over some runs of what was loaded last, after one that does not count."""
        seconds: float = self._ask("time", runs)
        return seconds

    def _ask(self, *request: object) -> Any:
        try:
            self._pipe.send(request)
            reply = self._pipe.recv()
        except (EOFError, OSError) as error:
            raise RuntimeError(f"{self._engine}: its process ended") from error
        if isinstance(reply, Exception):
            raise reply
        return reply


def _serve(pipe: Connection, engine: str, threads: int) -> None:
    prepared: engines.Prepared | None = None
    while True:
        try:
            request = pipe.recv()
        except EOFError:
            return
        try:
            if request[0] == "answer":
                _, shape, dtype = request
                prepared = engines.prepare(engine, shape, dtype, threads, *answers.data(shape, dtype))
                run, result = prepared
                pipe.send(result(run()))
            else:
                assert prepared
                pipe.send(_seconds(prepared, request[1]))
        except engines.Unsupported as reason:
            pipe.send(reason)
        except Exception as error:
            # The exception classes of a runtime may not exist, or not be picklable, on the other side.
            pipe.send(RuntimeError(f"{engine}: {type(error).__name__}: {error}"))


def _seconds(prepared: engines.Prepared, runs: int) -> float:
    """Returns the seconds per run of the try that was disturbed least: where others use the cores, several are made."""
    run, _ = prepared
    best = (0.0, 0.0)
    for _attempt in range(_TRIES):
        run()
        used, begin = time.process_time(), time.perf_counter()
        for _ in range(runs):
            run()
        seconds, used = time.perf_counter() - begin, time.process_time() - used
        best = max(best, (used / seconds, seconds / runs))
        if used > _UNDISTURBED * seconds:
            return seconds / runs
    return best[1]
