"""Where the tests of the CUDA kernels run.

On a GPU, through ONNX Runtime's CUDA provider. With ``ORTCONV_TEST_CUDA=emulated`` and ``ORTCONV_LIBRARY`` naming
``libortconv_ops_emulated.so``, a library for tests, the same kernels run on the CPU: slowly, and without what only a
GPU has. With ``ORTCONV_TEST_CUDA=required``, a machine without one is an error, and not a reason to skip.
"""

from __future__ import annotations

import ctypes
import functools
import os
from typing import Any

import onnx
import onnxruntime
import pytest

import ortconv
from ortconv.runtime import cuda

MODE = os.environ.get("ORTCONV_TEST_CUDA", "")
EMULATED = MODE == "emulated"

PROVIDER = "CPUExecutionProvider" if EMULATED else cuda.PROVIDER
"""The provider that our kernels run in."""

needs_gpu = pytest.mark.skipif(EMULATED, reason="only a GPU has that")


@functools.cache
def missing() -> str:
    """Returns why the tests cannot run here, or ""."""
    if EMULATED:
        return ""
    if cuda.PROVIDER not in onnxruntime.get_available_providers():
        return f"this ONNX Runtime {onnxruntime.__version__} has no CUDA provider"
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return f"there is no NVIDIA driver: {error}"
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0 or count.value == 0:
        return "there is no NVIDIA GPU"
    return ""


def options(**entries: str) -> onnxruntime.SessionOptions:
    """Returns quiet options with these session config entries, whose names are ``ortconv.cuda.NAME``."""
    made = onnxruntime.SessionOptions()
    made.log_severity_level = 4
    for name, value in entries.items():
        made.add_session_config_entry(f"ortconv.cuda.{name}", value)
    return made


def only_here() -> onnxruntime.SessionOptions:
    """Returns options with which a session fails that would leave a node to another provider."""
    made = options()
    if not EMULATED:
        made.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    return made


def session(
    model: onnx.ModelProto | bytes, session_options: onnxruntime.SessionOptions | None = None, **provider_options: Any
) -> ortconv.InferenceSession:
    """Returns a session on the GPU, where float32 is float32."""
    given = session_options or options()
    if EMULATED:
        assert not provider_options
        return ortconv.InferenceSession(model, given, providers=[PROVIDER])
    return ortconv.InferenceSession(model, given, providers=[(PROVIDER, {"use_tf32": 0, **provider_options})])
