"""Data for the inputs of a model: random, given, or refused."""

from __future__ import annotations

from collections.abc import Mapping

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

from ortconv.errors import InputError
from ortconv.model_io.input_data import Input, fill, fit

SIZES = (Input("a", ir.DataType.FLOAT, ("N", 3)), Input("b", ir.DataType.INT8, ("N", None)))


def test_random_data_depends_on_seed_and_name_only() -> None:
    one = fill(SIZES, {}, {"a": [2, 3], "b": [2, 5]}, 7)
    other = fill(SIZES[::-1], {}, {"a": [2, 3], "b": [2, 5]}, 7)
    np.testing.assert_array_equal(one["a"], other["a"])
    assert not np.array_equal(one["a"], fill(SIZES, {}, {"a": [2, 3], "b": [2, 5]}, 8)["a"])
    assert (one["b"].dtype, np.abs(one["b"]).max() <= 10) == (np.int8, True)


def test_symbolic_dim_is_bound_by_another_input() -> None:
    inputs = (Input("a", ir.DataType.FLOAT, ("N", 3)), Input("b", ir.DataType.FLOAT, (3, "N")))
    assert fill(inputs, {}, {"a": [4, 3]}, 0)["b"].shape == (3, 4)


@pytest.mark.parametrize(
    ("given", "shapes", "name", "problem"),
    [
        ({}, {}, "a, b", "their shapes are dynamic ([N, 3], [N, ?])"),
        ({"c": np.zeros(1)}, {}, "c", "no such input; it has a, b"),
        ({}, {"a": [2, 4]}, "a", "shape [2, 4] does not fit; the model declares [N, 3]"),
        ({}, {"a": [2, 3, 1]}, "a", "does not fit"),
        ({}, {"a": [2, 3], "b": [3, 1]}, "b", "dimension N is 3 in shape [3, 1], and 2 in that of a"),
        ({"a": np.full((1, 3), 1e300)}, {"b": [1, 1]}, "a", "not all of it is representable as float32"),
        ({"a": np.array([["x"] * 3])}, {"b": [1, 1]}, "a", "numbers are required"),
        (
            {"a": np.zeros((1, 3))},
            {"a": [2, 3], "b": [1, 1]},
            "a",
            "the data has the shape [1, 3], and [2, 3] is asked for",
        ),
        ({}, {"a": [1 << 40, 3], "b": [1 << 40, 1]}, "a", "more than 16 GiB"),
    ],
)
def test_what_does_not_fit_is_refused(
    given: Mapping[str, np.ndarray], shapes: Mapping[str, list[int]], name: str, problem: str
) -> None:
    with pytest.raises(InputError) as caught:
        fill(SIZES, given, shapes, 0)
    assert caught.value.input == name
    assert problem in caught.value.problem


def test_data_is_converted_where_that_changes_nothing() -> None:
    array = fit(np.array([1.5, np.nan, np.inf]), ir.DataType.BFLOAT16, "a")
    assert array.dtype == ml_dtypes.bfloat16
    assert float(array[0]) == 1.5
    assert fit(np.array([3]), ir.DataType.INT32, "a").dtype == np.int32
    halves = fit(np.array([1.5, np.nan], ml_dtypes.bfloat16), ir.DataType.FLOAT, "a")
    np.testing.assert_array_equal(halves, np.array([1.5, np.nan], np.float32))
