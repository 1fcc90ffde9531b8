"""Convolution family: shapes that an attribute, an input or a result states, and that are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ortconv.errors import ShapeError, UnsupportedAttributeError, UnsupportedTypeError
from tests.converters.onednn_graph.refusing import FAMILIES, MODES, NCX, convert, refused, window


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"dst_shape": [1, 2, 9]}, "takes size 9 to 4, diff_dst has 3; allowed: 7 to 8"),
        ({"dst_shape": [1, 2, 6]}, "takes size 6 to 2, diff_dst has 3; allowed: 7 to 8"),
        (
            {"dst_shape": [1, 2, 8], "pads_begin": [1], "pads_end": [1]},
            "takes size 8 to 4, diff_dst has 3; allowed: 5 to 6",
        ),
        ({"dst_shape": [1, 2, 9], "auto_pad": "VALID"}, "takes size 9 to 4"),
        ({"dst_shape": [1, 2, 9], "auto_pad": "SAME_UPPER"}, "takes size 9 to"),
        ({"dst_shape": [2, 2, 7]}, "batch is 2, 1 is required"),
        ({"dst_shape": [1, 4, 7]}, "channels is 4, 2 is required"),
    ],
)
def test_a_dst_shape_of_which_no_convolution_exists(mode: str, changes: dict[str, Any], problem: str) -> None:
    family = FAMILIES["ConvolutionBackwardData"]
    error = refused("ConvolutionBackwardData", family.shapes, family.attributes | changes, semantics=mode)
    assert isinstance(error, ShapeError)
    assert (error.input, error.shape) == ("dst_shape", tuple(changes["dst_shape"]))
    assert problem in error.problem
    assert error.hint == "data_format NCX reads it as [N, C, spatial...]."


def test_the_library_refuses_more_under_same_than_the_specification_does() -> None:
    family = FAMILIES["ConvolutionBackwardData"]
    attributes = family.attributes | {"dst_shape": [1, 2, 4], "auto_pad": "same_lower"}
    error = refused("ConvolutionBackwardData", family.shapes, attributes, semantics="runtime")
    assert isinstance(error, ShapeError)
    assert "takes size 4 to 2, diff_dst has 3; allowed: 5 to 6" in error.problem
    (warning,) = convert("ConvolutionBackwardData", family.shapes, attributes).warnings
    assert "the library rejects this dst_shape" in warning


@pytest.mark.parametrize("value", [[1, 7], [1, 2, 7, 7], [1, 2, 0], [1, 2, -7], [1, -2, 7]])
def test_a_dst_shape_that_is_none(value: list[int]) -> None:
    family = FAMILIES["ConvolutionBackwardData"]
    error = refused("ConvolutionBackwardData", family.shapes, family.attributes | {"dst_shape": value})
    assert isinstance(error, UnsupportedAttributeError)
    assert (error.attribute, error.value) == ("dst_shape", tuple(value))
    data = np.array(value, np.int32)
    attributes = window(**NCX)
    shapes = [*family.shapes, (len(value),)]
    error = refused("ConvolutionBackwardData", shapes, attributes, dtypes=["f32", "f32", "s32"], tensors={"x2": data})
    assert isinstance(error, ShapeError if len(value) != 3 else UnsupportedAttributeError)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("ConvolutionBackwardData", "dst_shape"),
        ("ConvolutionBackwardWeights", "weights_shape"),
        ("ConvTransposeBackwardWeights", "weights_shape"),
    ],
)
@pytest.mark.parametrize("declared", [None, (1, 2, None)])
def test_a_shape_that_stands_nowhere(kind: str, name: str, declared: Any) -> None:
    family = FAMILIES[kind]
    attributes = {key: value for key, value in family.attributes.items() if key != name}
    error = refused(kind, family.shapes, attributes, result=("f32", declared))
    assert isinstance(error, UnsupportedAttributeError)
    assert (error.attribute, error.value) == (name, None)


@pytest.mark.parametrize("kind", ["ConvolutionBackwardData", "ConvolutionBackwardWeights"])
def test_a_shape_input_of_another_type_or_length(kind: str) -> None:
    family = FAMILIES[kind]
    error = refused(kind, [*family.shapes, (3,)], family.attributes, dtypes=["f32", "f32", "s64"])
    assert isinstance(error, UnsupportedTypeError)
    assert (error.dtype, error.allowed) == ("s64", ("s32",))
    error = refused(kind, [*family.shapes, (1,)], family.attributes, dtypes=["f32", "f32", "s32"])
    assert isinstance(error, ShapeError)
    assert "[3] is required" in error.problem


@pytest.mark.parametrize("mode", MODES)
def test_the_declared_shape_comes_before_the_attribute_in_the_library_only(mode: str) -> None:
    family = FAMILIES["ConvolutionBackwardData"]
    attributes = family.attributes | {"dst_shape": [1, 2, 8]}
    if mode == "runtime":
        result = convert(
            "ConvolutionBackwardData", family.shapes, attributes, result=("f32", (1, 2, 7)), semantics=mode
        )
        assert list(result.model.graph.outputs[0].shape or ()) == [1, 2, 7]
    else:
        error = refused("ConvolutionBackwardData", family.shapes, attributes, result=("f32", (1, 2, 7)))
        assert isinstance(error, ShapeError)


@pytest.mark.parametrize("kind", ["ConvolutionBackwardWeights", "ConvTransposeBackwardWeights"])
@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ([4, 2, 1], "takes size 7 of"),
        ([4, 3, 3], "has 3 where the channels of"),
        ([2, 2, 3], "has 2 where the channels of"),
    ],
)
def test_a_weights_shape_of_which_no_convolution_exists(kind: str, value: list[int], problem: str) -> None:
    error = refused(kind, FAMILIES[kind].shapes, FAMILIES[kind].attributes | {"weights_shape": value})
    assert isinstance(error, ShapeError)
    assert (error.input, error.shape) == ("weights_shape", tuple(value))
    assert problem in error.problem


def test_batches_that_differ() -> None:
    family = FAMILIES["ConvolutionBackwardWeights"]
    error = refused("ConvolutionBackwardWeights", [family.shapes[0], (2, 4, 3)], family.attributes)
    assert isinstance(error, ShapeError)
    assert (error.input, error.shape) == ("diff_dst", (2, 4, 3))


def test_padding_that_depends_on_unknown_sizes() -> None:
    family = FAMILIES["ConvolutionBackwardWeights"]
    attributes = family.attributes | {"auto_pad": "same_upper"}
    error = refused("ConvolutionBackwardWeights", [(1, 2, None), (1, 4, 4)], attributes)
    assert isinstance(error, ShapeError)
    assert (error.input, error.shape) == ("src", None)
    attributes = FAMILIES["ConvTranspose"].attributes | {"auto_pad": "same_upper"}
    error = refused("ConvTranspose", [(1, 4, 3), (4, 2, None)], attributes)
    assert isinstance(error, ShapeError)
    assert (error.input, error.shape) == ("weights", None)
