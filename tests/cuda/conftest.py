"""Every test here is of the CUDA kernels, and runs where there is a GPU."""

from __future__ import annotations

import contextlib
import pathlib
import warnings

import pytest

with contextlib.suppress(ImportError), warnings.catch_warnings(action="ignore"):
    import torch  # noqa: F401 - brings CUDA's libraries, where ONNX Runtime's provider finds them

from tests.cuda import device
from tests.operators.convolutions import cases, define, library, make_case

__all__ = ["cases", "define", "library", "make_case"]

HERE = pathlib.Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ours = [item for item in items if HERE in item.path.parents]
    reason = device.missing() if ours else ""
    if reason and device.MODE == "required":
        raise pytest.UsageError(f"ORTCONV_TEST_CUDA=required: {reason}")
    for item in ours:
        item.add_marker("cuda")
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))
