"""The convolution family refuses attributes, types and shapes that do not fit, by the fields of the error."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from ortconv.errors import ShapeError, UnsupportedAttributeError, UnsupportedTypeError
from tests.converters.onednn_graph.refusing import FAMILIES, MODES, NCX, convert, refused, window


@pytest.mark.parametrize("kind", FAMILIES)
def test_the_family_converts_as_it_stands(kind: str) -> None:
    for mode in MODES:
        assert convert(kind, FAMILIES[kind].shapes, FAMILIES[kind].attributes, semantics=mode).warnings == ()


ATTRIBUTES = [
    ("strides", [2, 2], "1 integers from 1 to 2147483647, one per spatial axis"),
    ("strides", [], "1 integers from 1 to"),
    ("strides", [0], "1 integers from 1 to"),
    ("strides", [2**31], "1 integers from 1 to"),
    ("dilations", [0], "1 integers from 1 to"),
    ("dilations", [1, 1], "1 integers from 1 to"),
    ("pads_begin", [-1], "1 integers from 0 to"),
    ("pads_begin", [0, 0], "1 integers from 0 to"),
    ("pads_end", [-1], "1 integers from 0 to"),
    ("pads_end", [], "1 integers from 0 to"),
    ("groups", 0, "an integer of at least 1"),
    ("groups", -1, "an integer of at least 1"),
    ("auto_pad", "same", "none, same_upper, same_lower, valid"),
    ("auto_pad", "explicit", "none, same_upper, same_lower, valid"),
    ("data_format", "NHWC", "NXC, NCX"),
]


@pytest.mark.parametrize("kind", FAMILIES)
@pytest.mark.parametrize(("name", "value", "allowed"), ATTRIBUTES, ids=[f"{a[0]}={a[1]}" for a in ATTRIBUTES])
def test_attributes_out_of_range(kind: str, name: str, value: Any, allowed: str) -> None:
    family = FAMILIES[kind]
    error = refused(kind, family.shapes, family.attributes | {name: value})
    assert isinstance(error, UnsupportedAttributeError)
    assert error.attribute == name
    assert error.value == (tuple(value) if isinstance(value, list) else value)
    assert allowed in error.allowed


@pytest.mark.parametrize("kind", FAMILIES)
def test_weights_formats_belong_to_their_ops(kind: str) -> None:
    transposed = kind.startswith("ConvTranspose")
    for value in ("OIX", "XIO") if transposed else ("IOX", "XOI"):
        error = refused(kind, FAMILIES[kind].shapes, FAMILIES[kind].attributes | {"weights_format": value})
        assert isinstance(error, UnsupportedAttributeError)
        assert (error.attribute, error.value) == ("weights_format", value)
        assert error.allowed == ("XOI, IOX" if transposed else "XIO, OIX")


@pytest.mark.parametrize("kind", ["ConvTranspose", "ConvolutionBackwardData"])
@pytest.mark.parametrize("value", [[-1], [0, 0]])
def test_output_padding_out_of_range(kind: str, value: list[int]) -> None:
    error = refused(kind, FAMILIES[kind].shapes, FAMILIES[kind].attributes | {"output_padding": value})
    assert isinstance(error, UnsupportedAttributeError)
    assert (error.attribute, error.value) == ("output_padding", tuple(value))


@pytest.mark.parametrize("kind", FAMILIES)
def test_types_outside_of_the_specification(kind: str) -> None:
    family = FAMILIES[kind]
    error = refused(kind, family.shapes, family.attributes, dtypes=["s8", "s8"])
    assert isinstance(error, UnsupportedTypeError)
    assert error.input in ("src", "diff_dst")
    assert (error.dtype, error.allowed) == ("s8", ("f32", "bf16", "f16"))
    error = refused(kind, family.shapes, family.attributes, dtypes=["f32", "bf16"])
    assert isinstance(error, UnsupportedTypeError)
    assert (error.dtype, error.allowed) == ("bf16", ("f32",))
    error = refused(kind, family.shapes, family.attributes, result=("f16", None))
    assert isinstance(error, UnsupportedTypeError)
    assert (error.input, error.dtype, error.allowed) == ("the output", "f16", ("f32",))


@pytest.mark.parametrize("kind", FAMILIES)
def test_ranks_that_do_not_fit(kind: str) -> None:
    family = FAMILIES[kind]
    error = refused(kind, [(1, 4), family.shapes[1]], family.attributes)
    assert isinstance(error, ShapeError)
    assert error.shape == (1, 4)
    assert "at least three dimensions" in error.problem
    error = refused(kind, [family.shapes[0], (1, 2, 3, 3)], family.attributes)
    assert isinstance(error, ShapeError)
    assert error.shape == (1, 2, 3, 3)
    assert "3 dimensions are required" in error.problem
    error = refused(kind, [(1, 4, 2**31), family.shapes[1]], family.attributes)
    assert isinstance(error, ShapeError)
    assert error.shape == (1, 4, 2**31)


@pytest.mark.parametrize("kind", FAMILIES)
def test_channels_that_do_not_fit(kind: str) -> None:
    family = FAMILIES[kind]
    for shapes, attributes in (
        ([(1, 5, family.shapes[0][2]), family.shapes[1]], family.attributes),
        (family.shapes, family.attributes | {"groups": 3}),
    ):
        assert isinstance(refused(kind, shapes, attributes), ShapeError)


@pytest.mark.parametrize("kind", ["Convolution", "ConvTranspose"])
def test_a_bias_that_does_not_fit(kind: str) -> None:
    family = FAMILIES[kind]
    error = refused(kind, [*family.shapes, (3,)], family.attributes)
    assert isinstance(error, ShapeError)
    assert error.shape == (3,)


def test_a_declared_shape_that_does_not_follow() -> None:
    error = refused("Convolution", *dataclasses.astuple(FAMILIES["Convolution"]), result=("f32", (1, 4, 4)))
    assert isinstance(error, ShapeError)
    assert (error.input, error.shape) == ("y", (1, 4, 4))


def test_a_kernel_that_does_not_fit() -> None:
    error = refused("Convolution", [(1, 2, 2), (4, 2, 3)], window(**NCX))
    assert isinstance(error, ShapeError)
    assert "the kernel covers 3 positions" in error.problem
