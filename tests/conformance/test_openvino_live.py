"""The OpenVINO convolution family on random problems, against OpenVINO's CPU plugin and the float64 reference."""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np
import pytest

import ortconv
from tests.processor import HAS_DOT_PRODUCTS
from tests.running import EXACT, WAYS, assert_matches, run

pytest.importorskip("openvino", reason="the sources are built with OpenVINO")

from tests.conformance import openvino_sources
from tests.conformance.grids import Problem, problem

DTYPES = ("float32", "float16", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
TARGETS: Sequence[ortconv.Target] = ("auto", "onnx", "plugin")


def source_of(drawn: Problem) -> object:
    return openvino_sources.model(
        drawn.op,
        drawn.attributes,
        drawn.data,
        drawn.filter,
        drawn.output_shape,
        shape=[-1] * drawn.data.ndim if drawn.dynamic else None,
        runtime_shape=drawn.runtime_shape,
    )


def check(drawn: Problem, targets: Sequence[ortconv.Target] = TARGETS) -> None:
    source = source_of(drawn)
    for mode in ("runtime", "spec"):
        if mode == "runtime" and drawn.data.dtype == np.int8 and not HAS_DOT_PRODUCTS:
            continue  # OpenVINO's sums saturate
        expected = openvino_sources.run(source, drawn.feeds) if mode == "runtime" else drawn.expected("spec")
        for target in targets:
            model = ortconv.conversion(source, semantics=mode, target=target).to_proto()
            for way in WAYS if target != "onnx" else ("none",):
                (result,) = run(model, drawn.feeds, way)
                assert_matches(result, expected, EXACT, f"{drawn.op} {drawn.attributes} {mode} {target} {way}")


@pytest.mark.parametrize("seed", range(40))
def test_float_problem_matches_openvino_and_definition(seed: int) -> None:
    check(problem(seed, np.dtype(np.float32)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", range(3))
def test_every_type_matches_openvino_and_definition(seed: int, dtype: str) -> None:
    check(problem(1000 + seed, np.dtype(dtype)), ["auto"])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "int64", "uint64"])
@pytest.mark.parametrize("seed", range(2))
def test_integer_overflow_wraps_by_the_page_and_saturates_as_openvino_does(seed: int, dtype: str) -> None:
    largest = min(int(np.iinfo(dtype).max), 2**31 - 1) // 2
    check(problem(2000 + seed, np.dtype(dtype), largest), ["auto"])


@pytest.mark.parametrize("seed", range(4))
def test_double_keeps_all_its_bits_by_the_page(seed: int) -> None:
    drawn = problem(3000 + seed, np.dtype(np.float64))
    drawn.data[...] += drawn.data * 2.0**-40
    model = ortconv.conversion(source_of(drawn)).to_proto()
    for way in WAYS:
        (result,) = run(model, drawn.feeds, way)
        assert_matches(result, drawn.expected("spec"), EXACT, f"{drawn.op} {drawn.attributes} {way}")


@pytest.mark.parametrize("seed", range(6))
def test_bfloat16_is_summed_in_float_and_rounded_once(seed: int) -> None:
    drawn = problem(4000 + seed, np.dtype(np.float32))
    drawn = Problem(
        drawn.op,
        drawn.attributes,
        drawn.data.astype(ml_dtypes.bfloat16),
        drawn.filter.astype(ml_dtypes.bfloat16),
        drawn.output_shape,
        drawn.runtime_shape,
        drawn.dynamic,
    )
    model = ortconv.conversion(source_of(drawn)).to_proto()
    for way in WAYS:
        (result,) = run(model, drawn.feeds, way)
        assert_matches(result, drawn.expected("spec"), EXACT, f"{drawn.op} {drawn.attributes} {way}")


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(10_000, 10_600))
def test_sweep_matches_openvino_and_definition(seed: int) -> None:
    dtype = DTYPES[seed % len(DTYPES)] if seed % 2 else "float32"
    check(problem(seed, np.dtype(dtype)), ["auto", "plugin"])
