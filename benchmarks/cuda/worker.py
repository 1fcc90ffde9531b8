"""An engine on the GPU in a process of its own, which waits while the others use it."""

from __future__ import annotations

import contextlib
from multiprocessing.connection import Connection

from benchmarks.cuda import engines
from benchmarks.cuda.answers import data
from benchmarks.remote import Remote, serve
from benchmarks.shapes import Shape

__all__ = ["Worker"]


class Worker(Remote):
    """An engine on the GPU.

    Args:
        engine: Its name.
        layout: Of the tensors.
        graph: Whether it replays CUDA graphs.
    """

    def __init__(self, engine: str, layout: str, graph: bool) -> None:
        super().__init__(engine, _serve, layout, graph)


def _serve(pipe: Connection, engine: str, layout: str, graph: bool) -> None:
    with contextlib.suppress(ImportError):
        import torch  # noqa: F401 - brings CUDA's libraries, where ONNX Runtime's provider finds them

    def load(shape: Shape, dtype: str) -> engines.Prepared:
        return engines.prepare(engine, layout, shape, dtype, *data(shape, dtype), graph)

    serve(pipe, engine, load)
