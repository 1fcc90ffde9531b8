"""What the GPU is and can do: the ceiling that a rate is compared with. Measured with torch."""

from __future__ import annotations

import dataclasses
import platform
import time
from collections.abc import Callable
from typing import Any

from benchmarks.shapes import Shape

__all__ = ["DTYPES", "Ceiling", "describe", "measure"]

DTYPES = {"f16": 2, "f32": 4, "bf16": 2, "tf32": 4}
"""Types by name -> bytes of an element, those first that tell most; tf32 is float32 whose products may be formed in
TF32."""

_MATRIX = 8192
_COPIED = 1 << 30
_TRIES = 5


@dataclasses.dataclass(frozen=True)
class Ceiling:
    """Best rates of the GPU.

    Attributes:
        peak: GFLOP/s of torch's product of square matrices, by type.
        copy: Bytes read plus bytes written, in GB/s, between buffers of 1 GiB on the GPU.
    """

    peak: dict[str, float]
    copy: float

    def roofline(self, shape: Shape, dtype: str) -> float:
        """Returns min(peak, intensity * bandwidth) in GFLOP/s."""
        moved = shape.bytes_moved("f32") * DTYPES[dtype] / 4
        return min(self.peak[dtype], shape.flops / moved * self.copy)


def describe() -> dict[str, object]:
    """Returns the GPU and its driver in words."""
    import torch

    found = torch.cuda.get_device_properties(0)
    return {
        "gpu": found.name,
        "compute_capability": f"{found.major}.{found.minor}",
        "multiprocessors": found.multi_processor_count,
        "memory_gib": round(found.total_memory / 2**30, 1),
        "driver": _driver(),
        "cuda_of_torch": torch.version.cuda,
        "cudnn_of_torch": torch.backends.cudnn.version(),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def measure(dtypes: tuple[str, ...]) -> Ceiling:
    """Measures the peak of each type and the bandwidth."""
    import torch

    ceiling = Ceiling({dtype: _product(torch, dtype) for dtype in dtypes}, _copy(torch))
    torch.cuda.empty_cache()  # for the engines, which are other processes
    return ceiling


def _copy(torch: Any) -> float:
    source = torch.empty(_COPIED, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return _best(torch, lambda: target.copy_(source), 2 * _COPIED)


def _product(torch: Any, dtype: str) -> float:
    torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
    element = {"f16": torch.float16, "bf16": torch.bfloat16}.get(dtype, torch.float32)
    a, b = (torch.randn(_MATRIX, _MATRIX, device="cuda").to(element) for _ in range(2))
    out = torch.empty_like(a)
    return _best(torch, lambda: torch.matmul(a, b, out=out), 2 * _MATRIX**3)


def _best(torch: Any, work: Callable[[], object], amount: float) -> float:
    """Returns the best rate in units of 1e9 a second."""
    best, count = 0.0, 10
    for _ in range(_TRIES):
        work()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(count):
            work()
        torch.cuda.synchronize()
        best = max(best, count * amount / (time.perf_counter() - begin) / 1e9)
    return best


def _driver() -> str:
    import ctypes

    version = ctypes.c_int()
    ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    try:
        with open("/proc/driver/nvidia/version", encoding="utf-8") as file:
            name = file.readline().strip()
    except OSError:
        name = "unknown release"
    return f"CUDA {version.value // 1000}.{version.value % 1000 // 10}, {name}"
