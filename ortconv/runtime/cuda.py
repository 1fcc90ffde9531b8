"""Finds and loads the NVIDIA libraries that ONNX Runtime's CUDA provider and our CUDA kernels need."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import pathlib
import sys
from collections.abc import Sequence
from types import ModuleType

from ortconv.errors import PluginError

__all__ = [
    "INSTALLATION",
    "NVRTC_ENTRY",
    "PROVIDER",
    "TF32_ENTRY",
    "is_requested",
    "load_libraries",
    "nvrtc_paths",
    "require",
]

PROVIDER = "CUDAExecutionProvider"
"""The provider's name in ONNX Runtime."""

NVRTC_ENTRY = "ortconv.cuda.nvrtc"
"""Session config entry: files of NVIDIA's runtime compiler to try, separated as in ``PATH``."""

TF32_ENTRY = "ortconv.cuda.use_tf32"
"""Session config entry: "1" allows products of float in TF32; the default is "0"."""

INSTALLATION = 'Install the ONNX Runtime that has it: pip uninstall onnxruntime; pip install "ortconv[gpu]".'
"""A hint for an ONNX Runtime without the CUDA provider."""

_NVRTC_FILES = {"win32": ("bin/nvrtc64_*_0.dll", "bin/*/nvrtc64_*_0.dll")}
_DRIVERS = {"win32": "nvcuda.dll"}


def nvrtc_paths() -> tuple[str, ...]:
    """Returns the NVRTC libraries installed by NVIDIA's wheels, the newest release first.

    A folder ``nvidia`` in the current folder, which may be on ``sys.path``, is not searched.
    """
    spec = importlib.util.find_spec("nvidia")
    roots = [pathlib.Path(root) for root in (spec.submodule_search_locations or ())] if spec else []
    roots = [root for root in roots if root.parent.resolve() != pathlib.Path.cwd()]
    patterns = _NVRTC_FILES.get(sys.platform, ("lib/libnvrtc.so.*",))
    found = [path for root in roots for pattern in patterns for path in root.glob(f"*/{pattern}") if path.is_file()]
    return tuple(os.fspath(path) for path in sorted(found, key=lambda path: path.name, reverse=True))


def is_requested(providers: Sequence[str | tuple[str, object]] | None) -> bool:
    """Returns whether the CUDA provider is among the providers of a session."""
    return any((each if isinstance(each, str) else each[0]) == PROVIDER for each in providers or ())


def load_libraries(onnxruntime: ModuleType) -> None:
    """Loads the CUDA libraries installed as wheels, which ONNX Runtime's CUDA provider does not find by itself.

    Raises:
        PluginError: This ONNX Runtime has no CUDA provider, or there is no NVIDIA driver.
    """
    if PROVIDER not in onnxruntime.get_available_providers():
        raise PluginError(
            f"this ONNX Runtime {onnxruntime.__version__} has no CUDA provider.",
            INSTALLATION,
        )
    try:
        ctypes.CDLL(_DRIVERS.get(sys.platform, "libcuda.so.1"))
    except OSError as error:
        raise PluginError(
            f"the CUDA provider cannot be used: there is no NVIDIA driver ({error}).",
            "Install it (https://www.nvidia.com/drivers), or use the CPU provider.",
        ) from error
    # It prints what it does not find to standard output.
    with contextlib.redirect_stdout(sys.stderr):
        onnxruntime.preload_dlls()


def require(active: Sequence[str]) -> None:
    """Refuses a session that should run on the GPU but does not.

    Args:
        active: The session's providers.

    Raises:
        PluginError: The CUDA provider is not among them.
    """
    if PROVIDER in active:
        return
    raise PluginError(
        "the CUDA provider cannot be used; ONNX Runtime's log says why.",
        'CUDA\'s libraries come with pip install "ortconv[gpu]".',
    )
