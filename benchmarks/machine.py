"""What the machine can do: the ceiling that a rate is compared with."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.shapes import Shape

__all__ = ["Ceiling", "describe", "measure"]

_SOURCE = pathlib.Path(__file__).with_name("peak.cc")
_COPIED = tuple(1 << power for power in range(15, 28, 2))
_MATRIX = 1536

_WAYS = {
    "f32": {"f32": 1, "amx bf16": 6},
    "f16": {"f32": 1, "amx bf16": 4},
    "bf16": {"f32": 1, "bf16": 1, "amx bf16": 1},
    "f64": {"f64": 1},
}
"""Type -> unit that can compute it -> products of the unit that one product takes."""


@dataclasses.dataclass(frozen=True)
class Ceiling:
    """Best rates of some number of threads.

    Attributes:
        threads: How many.
        peak: Arithmetic in GFLOP/s: "f32" and "f64" multiply-adds; where the CPU has them "bf16" dot products of
            vectors and "amx bf16" products of tiles.
        copy: How many bytes a copy reads and writes in all -> its GB/s.
        method: How the arithmetic was measured: "FMA loop", or "matrix product" where there is no C++ compiler.
    """

    threads: int
    peak: dict[str, float]
    copy: dict[int, float]
    method: str

    def roofline(self, shape: Shape, dtype: str) -> float:
        """Returns min(peak, intensity * bandwidth) in GFLOP/s.

        The peak is that of the fastest way: the narrow types may be computed in float32, and where there are products
        of bfloat16 tiles, a float32 as three bfloat16 numbers takes six of these, a float16 as two takes four. The
        bandwidth is that of a copy of as many bytes as the shape moves.
        """
        peak = max(self.peak.get(unit, 0.0) / times for unit, times in _WAYS[dtype].items())
        moved = shape.bytes_moved(dtype)
        size = min((size for size in self.copy if size >= moved), default=max(self.copy))
        return min(peak, shape.flops / moved * self.copy[size])


def describe() -> dict[str, object]:
    """Returns the machine in words."""
    model = platform.processor()
    info = pathlib.Path("/proc/cpuinfo")
    if info.exists():
        fields = dict(line.split(":", 1) for line in info.read_text().splitlines() if ":" in line)
        model = next((value.strip() for name, value in fields.items() if name.strip() == "model name"), model)
    return {"cpu": model, "cores": os.cpu_count(), "system": platform.platform(), "python": platform.python_version()}


def measure(threads: int, seconds: float) -> Ceiling:
    """Measures for about the given time per rate."""
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler:
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "peak"
            command = [compiler, "-O3", "-march=native", "-std=gnu++17", "-pthread", str(_SOURCE), "-o", str(program)]
            if subprocess.run(command, capture_output=True, check=False).returncode == 0:
                done = subprocess.run([program, str(threads), str(seconds)], capture_output=True, text=True, check=True)
                rates = json.loads(done.stdout)
                copy = {int(size): rate for size, rate in rates.pop("copy").items()}
                return Ceiling(threads, rates, copy, "FMA loop")
    peak = {"f32": _product(np.dtype(np.float32), seconds), "f64": _product(np.dtype(np.float64), seconds)}
    return Ceiling(threads, peak, {size: _copy(size, seconds / 4) for size in _COPIED}, "matrix product")


def _product(dtype: np.dtype[Any], seconds: float) -> float:
    """Returns the rate of numpy's matrix product, with as many threads as its BLAS takes."""
    a = np.ones((_MATRIX, _MATRIX), dtype)
    out = np.empty_like(a)
    return _best(lambda: np.matmul(a, a, out=out), 2 * _MATRIX**3, seconds)


def _copy(size: int, seconds: float) -> float:
    source, target = np.ones(size // 2, np.uint8), np.empty(size // 2, np.uint8)
    return _best(lambda: np.copyto(target, source), size, seconds)


def _best(work: Callable[[], object], amount: int, seconds: float) -> float:
    work()
    best, end = 0.0, time.perf_counter() + seconds
    while not best or time.perf_counter() < end:
        begin = time.perf_counter()
        work()
        best = max(best, amount / (time.perf_counter() - begin) / 1e9)
    return best
