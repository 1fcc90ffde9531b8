"""An engine in a process of its own, which takes shapes and the time that they need."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Protocol, Self

import numpy.typing as npt

from benchmarks.engines import Unsupported
from benchmarks.shapes import Shape
from benchmarks.turn import Turn

__all__ = ["Loaded", "Remote", "serve"]

Array = npt.NDArray[Any]


class Loaded(Protocol):
    """A shape in an engine, with its data."""

    def answer(self) -> Array:
        """Runs and returns the result."""

    def time(self, runs: int) -> Turn:
        """Returns a turn of at least so many runs, after one that does not count."""


class Remote:
    """An engine. It computes only while one of these methods runs.

    Args:
        engine: Its name.
        target: What its process does, called with its end of the pipe, the name and the settings.
        settings: What else it is told.
    """

    def __init__(self, engine: str, target: Callable[..., None], *settings: object) -> None:
        context = multiprocessing.get_context("spawn")
        self._engine = engine
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=target, args=(theirs, engine, *settings), daemon=True)
        self._process.start()
        theirs.close()

    def __enter__(self) -> Self:
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

    def time(self, runs: int) -> Turn:
        """Returns a turn of at least so many runs of what was loaded last, after one not counted."""
        turn: Turn = self._ask("time", runs)
        return turn

    def _ask(self, *request: object) -> Any:
        try:
            self._pipe.send(request)
            reply = self._pipe.recv()
        except (EOFError, OSError) as error:
            raise RuntimeError(f"{self._engine}: its process ended") from error
        if isinstance(reply, Exception):
            raise reply
        return reply


def serve(pipe: Connection, engine: str, load: Callable[[Shape, str], Loaded]) -> None:
    """Answers the requests of a `Remote` until it closes the pipe."""
    loaded: Loaded | None = None
    while True:
        try:
            request = pipe.recv()
        except EOFError:
            return
        try:
            if request[0] == "answer":
                loaded = None  # gives its memory back first
                loaded = load(*request[1:])
                pipe.send(loaded.answer())
            else:
                assert loaded
                pipe.send(loaded.time(request[1]))
        except Unsupported as reason:
            pipe.send(reason)
        except Exception as error:
            # The exception classes of a runtime may not exist, or not be picklable, on the other side.
            pipe.send(RuntimeError(f"{engine}: {type(error).__name__}: {error}"))
