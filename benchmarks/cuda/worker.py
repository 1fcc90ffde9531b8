"""An engine in a process of its own, which waits while the others use the GPU."""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import time
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any

import numpy.typing as npt

from benchmarks import answers
from benchmarks.cuda import engines
from benchmarks.engines import Unsupported
from benchmarks.shapes import Shape

__all__ = ["Worker"]

Array = npt.NDArray[Any]


class Worker:
    """An engine. It computes only while one of these methods runs.

    Args:
        engine: Its name.
        layout: Of the tensors.
        graph: Whether it replays CUDA graphs.
    """

    def __init__(self, engine: str, layout: str, graph: bool) -> None:
        context = multiprocessing.get_context("spawn")
        self._engine = engine
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, engine, layout, graph), daemon=True)
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
        """Returns the seconds of a run, over at least so many of what was loaded last."""
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


def _serve(pipe: Connection, engine: str, layout: str, graph: bool) -> None:
    with contextlib.suppress(ImportError):
        import torch  # noqa: F401 - brings CUDA's libraries, where ONNX Runtime's provider finds them
    prepared: engines.Prepared | None = None
    while True:
        try:
            request = pipe.recv()
        except EOFError:
            return
        try:
            if request[0] == "answer":
                _, shape, dtype = request
                prepared = None  # gives its memory back first
                data = answers.data(shape, "f32" if dtype == "tf32" else dtype)
                prepared = engines.prepare(engine, layout, shape, dtype, *data, graph)
                pipe.send(prepared.result())
            else:
                assert prepared
                pipe.send(_seconds(prepared, request[1]))
        except Unsupported as reason:
            pipe.send(reason)
        except Exception as error:
            # The exception classes of a runtime may not exist, or not be picklable, on the other side.
            pipe.send(RuntimeError(f"{engine}: {type(error).__name__}: {error}"))


def _seconds(prepared: engines.Prepared, runs: int) -> float:
    """Returns the seconds of a run, after a replay that does not count: the clocks may have gone down."""
    prepared.replay()
    replays = math.ceil(runs / prepared.runs)
    begin = time.perf_counter()
    for _ in range(replays):
        prepared.replay()
    return (time.perf_counter() - begin) / (replays * prepared.runs)
