"""Reductions along axes given as attribute or as input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ortconv
from ortconv.errors import ConversionErrors, ShapeError, UnsupportedAttributeError
from tests.converters.onednn_graph.agreement import FLOATS, check, graph_of, numbers

KINDS = ["ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"]
AXES = [[0], [1], [-1], [0, 2], [-3, 1], [2, 0, 1], []]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("keep_dims", [None, False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_reductions(kind: str, keep_dims: bool | None, dtype: str) -> None:
    x = numbers((3, 4, 2), dtype)
    for axes in AXES:
        attributes: dict[str, Any] = {"axes": axes} | ({} if keep_dims is None else {"keep_dims": keep_dims})
        check(kind, [x], [dtype], attributes, slack=16)


@pytest.mark.parametrize("known", [False, True], ids=["at run time", "when converting"])
@pytest.mark.parametrize("keep_dims", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_axes_as_input(kind: str, keep_dims: bool, known: bool) -> None:
    x = numbers((3, 4, 2))
    for axes in AXES:
        inputs = [x, np.array(axes, np.int32)]
        if known:
            check(kind, inputs, ["f32"], {"keep_dims": keep_dims}, slack=16, constants=[1])
            continue
        model = ortconv.convert(graph_of(kind, inputs, ["f32"], {"keep_dims": keep_dims}))
        rank = 3 if keep_dims else 3 - len(axes)
        assert len(model.graph.output[0].type.tensor_type.shape.dim) == rank


@pytest.mark.parametrize(
    ("attributes", "value"), [({"axes": [3]}, 3), ({"axes": [-4]}, -4), ({"axes": [0, -3]}, (0, -3)), ({}, None)]
)
def test_axes_that_are_none(attributes: dict[str, Any], value: object) -> None:
    with pytest.raises(ConversionErrors) as caught:
        ortconv.convert(graph_of("ReduceSum", [numbers((2, 3, 4))], ["f32"], attributes))
    (error,) = caught.value.exceptions
    assert isinstance(error, UnsupportedAttributeError)
    assert (error.attribute, error.value) == ("axes", value)


@pytest.mark.parametrize("shape", [(2, 2), (5,)])
def test_an_input_of_axes_that_cannot_be(shape: tuple[int, ...]) -> None:
    with pytest.raises(ConversionErrors) as caught:
        ortconv.convert(graph_of("ReduceSum", [numbers((2, 3, 4)), np.zeros(shape, np.int32)], ["f32"], {}))
    (error,) = caught.value.exceptions
    assert isinstance(error, ShapeError)
    assert (error.input, error.shape) == ("axes", shape)
