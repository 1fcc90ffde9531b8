"""Comparing arrays: what differs, and by how much."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ortconv.verification.compare import compare


def test_equal_arrays_agree_even_without_tolerance() -> None:
    array = np.array([1.0, np.nan, np.inf, -np.inf, 0.0], np.float32)
    found = compare("y", array.copy(), array, 0.0)
    assert found.agrees
    assert (found.max_abs, found.max_rel, found.wrong, found.worst) == (0.0, 0.0, 0, None)


def test_error_is_relative_to_the_expected_value_or_the_root_mean_square() -> None:
    expected = np.array([0.0, 3.0, 4.0, 100.0])
    actual = expected + np.array([0.5, 0.0, 0.0, 1.0])
    found = compare("y", actual, expected, 0.01)
    rms = np.sqrt((9 + 16 + 10000) / 4)
    assert found.max_abs == 1.0
    assert found.max_rel == pytest.approx(max(0.5 / rms, 1.0 / 100.0))
    assert found.agrees
    assert found.worst == ((3,), 100.0, 101.0)


def test_element_beyond_the_tolerance_differs() -> None:
    found = compare("y", np.array([1.0, 1.2]), np.array([1.0, 1.0]), 0.1)
    assert not found.agrees
    assert (found.wrong, found.worst) == (1, ((1,), 1.0, 1.2))


def test_worst_element_is_one_that_differs() -> None:
    found = compare("y", np.array([np.nan, np.inf, 2.0]), np.array([np.nan, np.inf, 1.0]), 0.1)
    assert (found.wrong, found.worst) == (1, ((2,), 1.0, 2.0))


@pytest.mark.parametrize(
    ("actual", "expected"),
    [(np.nan, 1.0), (1.0, np.nan), (np.inf, 1.0), (1.0, np.inf), (np.inf, -np.inf), (np.nan, np.inf)],
)
def test_nan_or_infinity_on_one_side_differs_whatever_the_tolerance(actual: float, expected: float) -> None:
    found = compare("y", np.array([5.0, actual]), np.array([5.0, expected]), 1e9)
    assert not found.agrees
    assert found.wrong == 1
    assert (found.max_abs, found.max_rel) == (np.inf, np.inf)
    assert found.worst is not None
    assert found.worst[0] == (1,)


def test_shape_mismatch_is_the_problem() -> None:
    found = compare("y", np.zeros((1, 2)), np.zeros((2, 1)), 1.0)
    assert not found.agrees
    assert found.problem == "shape [1, 2] instead of [2, 1]"


def test_type_mismatch_is_the_problem() -> None:
    found = compare("y", np.zeros(2, np.float32), np.zeros(2, np.float16), 1.0)
    assert found.problem == "type float32 instead of float16"


def test_missing_output_is_the_problem() -> None:
    assert not compare("y", None, np.zeros(0), 1.0).agrees


def test_large_integers_that_are_one_float_differ() -> None:
    found = compare("y", np.array([2**53 + 1]), np.array([2**53]), 0.0)
    assert (found.wrong, found.max_abs) == (1, 1.0)


def test_result_where_zeros_are_expected_differs() -> None:
    assert not compare("y", np.array([1e-30, 0.0]), np.zeros(2), 0.5).agrees


def test_empty_arrays_agree() -> None:
    assert compare("y", np.zeros((0, 3)), np.zeros((0, 3)), 0.0).agrees


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16, np.bool_, np.uint64, ml_dtypes.float8_e4m3fn])
def test_every_type_compares(dtype: Any) -> None:
    array = np.array([0, 1, 1], dtype)
    assert compare("y", array.copy(), array, 0.0).agrees
    assert compare("y", np.array([1, 1, 1], dtype), array, 0.0).wrong == 1
