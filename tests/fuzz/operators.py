"""Runs random and hostile models of one node of ours, in processes that may crash.

    python -m tests.fuzz.operators --seconds 60
    python -m tests.fuzz.operators --op Convolution --seed 17    # one case, again

Each gives the numbers of the definition or one error. A crash, a hang, memory out of proportion to inputs and outputs,
an error that speaks of the implementation, another exception than ONNX Runtime's or other numbers is a finding; the
exit status is 1 if there is any. ``ORTCONV_LIBRARY`` names another build of the library; with one that is built with
AddressSanitizer, ``LD_PRELOAD`` has to name its runtime.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import itertools
import json
import math
import os
import pathlib
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.shape_inference
import onnxruntime

import ortconv
from ortconv.errors import OrtconvError
from ortconv.opset.schemas import register_schemas
from ortconv.runtime.session import _to_array, _to_value
from tests.fuzz.operator_case import Case
from tests.fuzz.operator_cases import OPERATORS, make_case

__all__ = ["Finding", "fuzz", "main"]

_SANITIZED = "asan" in os.environ.get("LD_PRELOAD", "")
_PATIENCE = 240 if _SANITIZED else 60
"""Seconds that a case may take; the machine may be busy."""

_ALWAYS = 64 << 20
_TIMES = 32
"""Bytes that a case may take, and how many times the bytes of its inputs and outputs."""

_ROOM = 3 << 30
"""Bytes of address space that a worker has beyond what it begins with."""

_LARGE = 1 << 26
"""Bytes of a result that may be refused for want of memory."""

_IMPLEMENTATION = re.compile(r"std::|vector::|basic_string|bad_alloc|unknown error|Traceback|\bUB\b")
_OUT_OF_MEMORY = re.compile(r"out of memory|cannot be allocated|Failed to allocate", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class Finding:
    """What a case did that it must not do."""

    op: str
    seed: int
    what: str

    def __str__(self) -> str:
        return f"--op {self.op} --seed {self.seed}: {self.what}"


class _RefusalError(Exception):
    """An error, as it should be."""


# In a worker.


def _peak() -> int:
    """Returns the most bytes that were resident since the last call of `_forget_peak`."""
    status = pathlib.Path("/proc/self/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) << 10


def _forget_peak() -> None:
    pathlib.Path("/proc/self/clear_refs").write_text("5")


def _shape(model: onnx.ModelProto) -> list[int] | None:
    """Infers the shape of the result; None where it is not known.

    Raises:
        Exception: Shape inference fails otherwise than it should.
    """
    try:
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    except onnx.shape_inference.InferenceError:
        return None
    tensor = inferred.graph.output[0].type.tensor_type
    sizes = [dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim]
    return None if not tensor.HasField("shape") or None in sizes else [size for size in sizes if size is not None]


def _run(case: Case, model: onnx.ModelProto, backend: Any) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 2
    options.enable_cpu_mem_arena = False
    try:
        if backend == "native":  # whatever a session of ours would refuse
            ortconv.register(options)
            session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        else:
            session = ortconv.InferenceSession(model, options, ["CPUExecutionProvider"], backend=backend)
        values = {name: _to_value(name, data) for name, data in case.feeds.items()}
        (y,) = session.run_with_ort_values(["Y"], values)
        return _to_array(y)
    except Exception as error:
        if type(error).__module__.startswith("onnxruntime.") or isinstance(error, OrtconvError):
            raise _RefusalError(str(error)) from error
        if "array is too big" in str(error):  # an empty result, of sizes that numpy does not multiply
            raise _RefusalError(str(error)) from error
        raise


def _check(case: Case, model: onnx.ModelProto, backend: Any) -> str:
    """Runs a case; returns what is wrong, or nothing."""
    _shape(model)
    shape = _shape(case.model(open_sizes=False))
    element = model.graph.output[0].type.tensor_type.elem_type
    stated = 0 if shape is None else int(np.prod(shape, dtype=object)) * onnx.helper.tensor_dtype_to_np_dtype(
        element
    ).itemsize  # fmt: skip
    if stated > _LARGE and _SANITIZED:
        return ""
    if not _SANITIZED:
        _forget_peak()
    before = _peak()
    try:
        y = _run(case, model, backend)
    except _RefusalError as refused:
        text = str(refused)
        if case.is_plain:
            return f"refused: {text}"
        # ONNX Runtime multiplies the sizes in their order, those in front of a 0, too.
        refused_by_size = shape is None or math.prod(max(size, 1) for size in shape) > _LARGE
        if not refused_by_size and _OUT_OF_MEMORY.search(text):
            return f"is out of memory: {text}"
        if _IMPLEMENTATION.search(text) and not _OUT_OF_MEMORY.search(text):
            return f"is no clean error: {text}"
        return ""
    taken = _peak() - before
    given = sum(data.nbytes for data in case.inputs.values() if isinstance(data, np.ndarray))
    allowed = _ALWAYS + _TIMES * (given + y.nbytes)
    if taken > allowed and backend == "native" and not _SANITIZED:
        return f"takes {taken >> 20} MiB for {given} bytes of inputs and {y.nbytes} of outputs"
    if shape is not None and list(y.shape) != shape:
        return f"has shape {y.shape}, inferred is {shape}"
    if y.nbytes > _LARGE:
        return ""
    try:
        expected = case.expected()
    except Exception as error:
        return "" if "array is too big" in str(error) or "Maximum allowed" in str(error) else f"is accepted: {error}"
    if y.shape != expected.shape:
        return f"has shape {y.shape}, not {expected.shape}"
    got, want = y.astype(np.float64), expected.astype(np.float64)
    if y.dtype.kind in "iu":
        wrong = y != expected
    else:
        wrong = ~(np.abs(got - want) <= 0.01 + 2 * float(_epsilon(y.dtype)) * np.abs(want)) & ~(
            (got == want) | (np.isnan(got) & np.isnan(want))
        )
    return f"{int(wrong.sum())} of {wrong.size} numbers differ" if wrong.any() else ""


def _epsilon(dtype: np.dtype[Any]) -> float:
    import ml_dtypes

    return float(ml_dtypes.finfo(dtype).eps)


def _answer(op: str, seed: int) -> str:
    case = make_case(op, seed)
    backend = "python" if seed % 8 == 7 and not _SANITIZED else "native"
    try:
        wrong = _check(case, case.model(), backend)
    except Exception as error:
        wrong = f"{type(error).__name__}: {error}"
    return f"{backend}: {wrong}" if wrong else ""


def _work() -> None:
    """Answers each line, an op and a seed, with what is wrong."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what native code prints is no answer
    register_schemas()
    _answer(OPERATORS[0], 0)  # what is loaded once counts for no case
    if not _SANITIZED:
        import resource

        used = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + _ROOM, used + _ROOM))
    for line in sys.stdin:
        op, seed = line.split()
        print(json.dumps(_answer(op, int(seed))), file=answers, flush=True)


# In the process that watches them.


@contextlib.contextmanager
def _worker() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.fuzz.operators", "--worker"]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _ask(process: subprocess.Popen[str], op: str, seed: int) -> tuple[str, bool]:
    """Returns what is wrong with a case, and whether the worker is still there."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdin.write(f"{op} {seed}\n")
    process.stdin.flush()
    if not select.select([process.stdout], [], [], _PATIENCE)[0]:
        return f"takes more than {_PATIENCE} s", False
    line = process.stdout.readline()
    if line:
        return str(json.loads(line)), True
    code = process.wait()
    reason = signal.Signals(-code).name if code < 0 else f"exit status {code}"
    said = process.stderr.read()
    summary = re.search(r"(ERROR: AddressSanitizer|runtime error|SUMMARY)[^\n]*", said)
    return f"the process ends with {reason}{': ' + summary[0] if summary else ''}", False


def fuzz(ops: Sequence[str], seeds: Iterator[int], seconds: float = math.inf) -> tuple[list[Finding], int]:
    """Runs cases until the time or the seeds are over.

    Args:
        ops: Operators, of each of which the cases of every seed are run.
        seeds: Numbers of the cases.
        seconds: Time to run for.

    Returns:
        What was found, and how many cases were run.
    """
    findings: list[Finding] = []
    cases = ((op, seed) for seed in seeds for op in ops)
    end, count = time.monotonic() + seconds, 0
    done = False
    while not done:
        with _worker() as process:
            while True:
                asked = next(cases, None) if time.monotonic() < end else None
                if asked is None:
                    done = True
                    break
                wrong, alive = _ask(process, *asked)
                count += 1
                if wrong:
                    findings.append(Finding(*asked, wrong))
                if not alive:
                    break
    return findings, count


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.operators", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--op", choices=OPERATORS, action="append", help="by default all")
    parser.add_argument("--count", type=int, help="cases of each operator, whatever time they take")
    parser.add_argument("--seed", type=int, help="the one case to run")
    parser.add_argument("--first", type=int, default=time.time_ns() % (1 << 32), help="seed to begin with")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.worker:
        _work()
        return 0
    seeds = itertools.count(options.first) if options.seed is None else iter([options.seed])
    seconds = options.seconds if options.count is None else math.inf
    findings, count = fuzz(options.op or OPERATORS, itertools.islice(seeds, options.count), seconds)
    for finding in findings:
        print(finding)
    kinds = collections.Counter(finding.op for finding in findings)
    print(f"{count} cases from seed {options.first if options.seed is None else options.seed} on, "
          f"{len(findings)} findings{f' ({dict(kinds)})' if kinds else ''}")  # fmt: skip
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
