"""Marks of tests whose expected results OpenVINO's CPU plugin gives on some x86-64 processors only."""

from __future__ import annotations

import pathlib
import platform

import pytest

__all__ = [
    "HAS_AMX_BF16",
    "HAS_AVX2",
    "HAS_AVX512",
    "HAS_AVX512_VNNI",
    "HAS_DOT_PRODUCTS",
    "WITHOUT_AVX512",
    "with_avx512",
    "with_dot_products",
]


def _flags() -> frozenset[str]:
    """Returns the flags of the processor as Linux names them; none elsewhere."""
    cpuinfo = pathlib.Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() and platform.machine() == "x86_64" else []
    return frozenset(next((line for line in lines if line.startswith("flags")), "").split())


HAS_AVX2 = {"avx2", "fma"} <= _flags()
HAS_AVX512 = "avx512f" in _flags()
HAS_AMX_BF16 = "amx_bf16" in _flags()

WITHOUT_AVX512 = (
    "without AVX-512, OpenVINO's CPU plugin truncates to bfloat16, turns what exceeds int32 into a uint8 of 0, and "
    "takes other rows of 4-bit weights"
)
with_avx512 = pytest.mark.skipif(not HAS_AVX512, reason=WITHOUT_AVX512)
HAS_DOT_PRODUCTS = bool({"avx512_vnni", "avx_vnni"} & _flags())
HAS_AVX512_VNNI = "avx512_vnni" in _flags()
with_dot_products = pytest.mark.skipif(
    not HAS_DOT_PRODUCTS,
    reason="without VNNI, OpenVINO's CPU plugin saturates sums of products of 8 bits",
)
