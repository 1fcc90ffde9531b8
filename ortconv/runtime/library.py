"""Finds the native library and registers it in ONNX Runtime."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.resources
import os
import pathlib
import re
import sys
from types import ModuleType
from typing import Any, Literal

from ortconv.errors import PluginError
from ortconv.runtime import cuda

__all__ = [
    "FOURIER_ENTRY",
    "LIBRARY_VARIABLE",
    "MATMUL_COMPRESSED_ENTRY",
    "OLDEST_ONNXRUNTIME",
    "Backend",
    "import_onnxruntime",
    "library_path",
    "register",
]

Backend = Literal["native", "python", "none", "ep"]
"""What executes nodes of ours: the native library's custom operators, Python ops, the function bodies in the file, or
the native library as an execution provider, which takes standard nodes, too."""

LIBRARY_VARIABLE = "ORTCONV_LIBRARY"
"""Environment variable with the path of another build of the native library, for its developers."""

OLDEST_ONNXRUNTIME = (1, 24)
"""The oldest supported release; earlier ones crash in shape inference of custom ops, or find no bfloat16 kernels."""

MATMUL_COMPRESSED_ENTRY = "ortconv.matmul_compressed"
"""Session config entry: with "0", the function bodies of products by compressed weights run; the default is "1"."""

FOURIER_ENTRY = "ortconv.fourier_operators"
"""Session config entry: with "0", the function bodies of the Fourier operators run; the default is "1"."""

_FILE_NAMES = {"win32": "ortconv_ops.dll", "darwin": "libortconv_ops.dylib"}


def library_path() -> str:
    """Returns the path of the native library.

    It is for ``onnxruntime.SessionOptions.register_custom_ops_library`` and
    ``onnxruntime.register_execution_provider_library``.

    Raises:
        PluginError: This installation has no library, or ``ORTCONV_LIBRARY`` is not the path of a file.
    """
    override = os.environ.get(LIBRARY_VARIABLE)
    if override:
        if not pathlib.Path(override).is_file():
            raise PluginError(
                f"{LIBRARY_VARIABLE} is {override!r}, which is not a file.",
                f"Unset {LIBRARY_VARIABLE} to use the library that is installed with ortconv.",
            )
        return override
    name = _FILE_NAMES.get(sys.platform, "libortconv_ops.so")
    path = importlib.resources.files("ortconv") / "lib" / name
    if not path.is_file() and (installed := _installed_path(name)) is not None:
        return installed
    if not path.is_file():
        raise PluginError(
            f"the native library is not installed: {path} does not exist.",
            "Install ortconv from a wheel for this platform, or from source with a C++ compiler; "
            "InferenceSession(..., backend='python') works without it.",
        )
    return str(path)


def _installed_path(name: str) -> str | None:
    """Returns the path of an installed library; in the root of the repository its sources hide an installed wheel."""
    try:
        path = importlib.metadata.distribution("ortconv").locate_file(f"ortconv/lib/{name}")
    except importlib.metadata.PackageNotFoundError:
        return None
    return str(path) if os.path.isfile(str(path)) else None


def import_onnxruntime() -> ModuleType:
    """Imports ONNX Runtime, which is an optional dependency.

    Raises:
        PluginError: It is not installed, or too old.
    """
    try:
        onnxruntime = importlib.import_module("onnxruntime")
    except ImportError as error:
        raise PluginError(
            f"ONNX Runtime cannot be imported: {error}.",
            'Install it with pip install "ortconv[cpu]", or "ortconv[gpu]".',
        ) from error
    found = re.match(r"(\d+)\.(\d+)", onnxruntime.__version__)
    if found is None or (int(found[1]), int(found[2])) < OLDEST_ONNXRUNTIME:
        oldest = ".".join(map(str, OLDEST_ONNXRUNTIME))
        raise PluginError(
            f"ONNX Runtime {onnxruntime.__version__} is too old; allowed: {oldest} or newer.",
            f'Upgrade it with pip install --upgrade "onnxruntime>={oldest}".',
        )
    return onnxruntime


def register(session_options: Any) -> None:
    """Registers the native library in an ``onnxruntime.SessionOptions``.

    Sessions with these options execute the nodes of ``org.ortconv`` natively. Registering twice is harmless, and other
    libraries may be registered before or after.

    Session config entries that must be set before: with ``ortconv.cuda.use_tf32`` = "1", CUDA kernels may multiply
    float32 in TF32, which they do not by default. With ``ortconv.matmul_compressed`` = "0", ONNX Runtime inlines the
    function bodies of the products by compressed weights, which any provider runs; the operators themselves have
    kernels for the CPU and CUDA providers. ``ortconv.fourier_operators`` = "0" does the same for Fourier transforms.

    Each entry of ours has an environment variable, which counts where there is no entry, for programs that pass none
    on: ``ORTCONV_CUDA_USE_TF32`` for ``ortconv.cuda.use_tf32``, and so on.

    On x86-64 CPUs without VNNI, ONNX Runtime's products of uint8 and int8 saturate unless the entry
    ``session.x64quantprecision`` is "1". It is set on such CPUs, unless the options have it already.

    Args:
        session_options: The options, which are changed; any number of sessions may share them.

    Raises:
        PluginError: ONNX Runtime is missing or too old, or it cannot load the library.
        TypeError: `session_options` is not an ``onnxruntime.SessionOptions``.
    """
    onnxruntime = import_onnxruntime()
    if not isinstance(session_options, onnxruntime.SessionOptions):
        raise TypeError(f"register takes an onnxruntime.SessionOptions, not a {type(session_options).__name__}")
    path = library_path()
    if cuda.PROVIDER in onnxruntime.get_available_providers() and (nvrtc := os.pathsep.join(cuda.nvrtc_paths())):
        session_options.add_session_config_entry(cuda.NVRTC_ENTRY, nvrtc)
    try:
        session_options.register_custom_ops_library(path)
    except Exception as error:  # ONNX Runtime's own exception classes have no common base
        raise PluginError(f"ONNX Runtime {onnxruntime.__version__} cannot load {path}: {error}") from error
