"""Rows and elements that are equal may be sorted otherwise; others may not."""

from __future__ import annotations

import numpy as np
import pytest

from ortconv.model_io.input_data import Array
from ortconv.verification.ordering import chosen, reordered
from ortconv.verification.steps import Step

TOP = Step("TopK", ("data",), ("values", "indices"), lambda inputs, absolute: (), lambda index: None, {"axis": -1})


@pytest.mark.parametrize(
    ("actual", "is_right"),
    [
        ([0, 1, 3], True),
        ([0, 3, 1], True),  # equal elements
        ([0, 1, 4], True),  # equal, and the last of them is left out
        ([1, 0, 3], False),  # the largest is first
        ([0, 1, 1], False),  # none is there twice
        ([0, 1, 2], False),  # 1.0 is smaller
        ([0, 1, 5], False),  # there is no such element
    ],
)
def test_equal_elements_are_sorted_as_the_model_does(actual: list[int], is_right: bool) -> None:
    data = np.array([[3.0, 2.0, 1.0, 2.0, 2.0]], np.float32)
    values = {"data": data, "indices": np.array([[0, 1, 3]])}
    found = np.array([actual])
    assert (reordered(TOP, values, 0.0, found) == found).all() == is_right


def test_elements_that_are_computed_may_be_nearly_equal() -> None:
    values = {"data": np.array([1.0, 1.000001, 0.5], np.float32), "indices": np.array([1, 0])}
    actual = np.array([0, 1])
    assert (reordered(TOP, values, 1e-5, actual) == actual).all()
    assert (reordered(TOP, values, 1e-8, actual) == [1, 0]).all()


def rows(*scores: float) -> Array:
    """Returns rows of a label, a score, and numbers that belong to it."""
    return np.array([[1, score, score * 7 % 1, score * 3 % 1] for score in scores], np.float32)


EVALUATIONS = [rows(0.9, 0.5, 0.3, 0.1), rows(0.9, 0.3, 0.5, 0.1), rows(0.9, 0.5, 0.3, 0.2)]
"""0.5 and 0.3 stand for scores that tie, 0.1 and 0.2 for one that takes the other's place."""


@pytest.mark.parametrize(
    ("actual", "right"),
    [
        (rows(0.9, 0.3, 0.5, 0.2), [True] * 4),
        (rows(0.9, 0.5, 0.3, 0.1), [True] * 4),
        (rows(0.5, 0.9, 0.3, 0.1), [False, False, True, True]),
        (rows(0.9, 0.5, 0.5, 0.1), [True, False, False, True]),
        (rows(0.9, 0.5, 0.3, 0.15), [True, True, True, False]),
    ],
)
def test_rows_stand_where_equally_good_evaluations_put_them(actual: Array, right: list[bool]) -> None:
    evaluations = [each.reshape(1, 1, 4, 4) for each in EVALUATIONS]
    found = chosen(evaluations, 2e-5, actual.reshape(1, 1, 4, 4))
    settled = (found == actual.reshape(1, 1, 4, 4)).all(axis=-1).ravel()
    expected = (EVALUATIONS[0] == actual).all(axis=-1)
    assert list(settled) == [each or same for each, same in zip(right, expected, strict=True)]


def test_indices_are_equal_or_are_not() -> None:
    evaluations = [np.array([[0, 0, 90000]]), np.array([[0, 0, 90002]])]
    assert chosen(evaluations, 2e-5, np.array([[0, 0, 90001]])).tolist() == [[0, 0, 90000]]
    assert chosen(evaluations, 2e-5, np.array([[0, 0, 90002]])).tolist() == [[0, 0, 90002]]
