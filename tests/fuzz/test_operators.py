"""The first cases of the fuzzer of operators, and those that once went wrong."""

from __future__ import annotations

import pathlib

import pytest

from tests.fuzz.operators import OPERATORS, fuzz

pytestmark = pytest.mark.skipif(
    not pathlib.Path("/proc/self/status").exists(), reason="resident memory is read from /proc, which Linux has"
)


def test_first_cases() -> None:
    findings, count = fuzz(OPERATORS, iter(range(16)))
    assert (findings, count) == ([], 16 * len(OPERATORS))


@pytest.mark.parametrize(
    ("op", "seeds"),
    [
        ("ConvIntegerToFloat", [33, 105, 109]),  # gigabytes of padding; no output channels
        ("TransposedConvolution", [245]),  # strides whose product exceeds int64
        ("TransposedConvolutionAdd", [569, 691]),  # an attribute of another kind, a size beyond int64
        ("GatherMatMulCodebook", [580, 614]),
        ("Convolution", [5015, 777451]),  # the same for a Python op; many groups of nothing
    ],
)
def test_what_went_wrong(op: str, seeds: list[int]) -> None:
    assert fuzz([op], iter(seeds)) == ([], len(seeds))
