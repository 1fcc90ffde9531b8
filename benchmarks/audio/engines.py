"""What runs a problem: ONNX Runtime, ONNX Runtime with the plugin after `optimize`, and SciPy; each in a process."""

from __future__ import annotations

import ctypes
import math
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from benchmarks.audio.problems import INPUT, OUTPUT, Array, Problem
from benchmarks.engines import OURS, Prepared, Unsupported, session_options
from benchmarks.remote import serve
from benchmarks.worker import Repeated, Worker

__all__ = ["ENGINES", "ORT", "SCIPY", "prepare", "worker"]

ORT, SCIPY = "ort", "scipy"
ENGINES = (ORT, SCIPY, OURS)
"""Names, in the order of the tables."""

_DOMAIN = "org.ortconv"


def worker(engine: str, threads: int) -> Worker:
    """Starts an engine in a process of its own; what it is asked to load are problems."""
    return Worker(engine, threads, _serve)


def prepare(problem: Problem, engine: str, threads: int) -> Prepared:
    """Loads a problem into an engine.

    Raises:
        Unsupported: The engine has no program for it.
        RuntimeError: `optimize` replaced nothing.
    """
    x = problem.data()
    if engine == SCIPY:
        program = problem.scipy(x, threads)
        if program is None:
            raise Unsupported("is for transforms alone")
        return program, np.array
    model, options = problem.model(), session_options(threads)
    providers = ["CPUExecutionProvider"]
    if engine == ORT:
        import onnxruntime

        return _of_session(onnxruntime.InferenceSession(model.SerializeToString(), options, providers=providers), x)
    import ortconv

    done = ortconv.optimization(model)
    if not done.rewritten:
        raise RuntimeError("optimize replaced no node")
    return _of_session(ortconv.InferenceSession(done.to_proto(), options, providers=providers), x)


def _of_session(session: Any, x: Array) -> Prepared:
    """Runs a session from and to tensors that are bound to it once: a call with arrays copies them."""
    import onnxruntime

    (first,) = session.run(None, {INPUT: x})
    shape = first.shape
    output = onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros_like(first))
    binding = session.io_binding()
    binding.bind_ortvalue_input(INPUT, onnxruntime.OrtValue.ortvalue_from_numpy(x))
    binding.bind_ortvalue_output(OUTPUT, output)

    def run() -> object:
        session.run_with_iobinding(binding)
        return output

    def result(_: object) -> Array:
        data = ctypes.string_at(output.data_ptr(), first.dtype.itemsize * math.prod(shape))
        return np.frombuffer(data, first.dtype).reshape(shape)

    return run, result


def _serve(pipe: Connection, engine: str, threads: int) -> None:
    def load(problem: Any, _: str) -> Repeated:
        return Repeated(*prepare(problem, engine, threads))

    serve(pipe, engine, load)
