"""Every refusal of a lowering, by the fields of its error; and the warnings where page and library differ."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from typing import Any

import numpy as np
import onnxruntime
import pytest

import ortconv
from ortconv import onednn
from ortconv.errors import (
    ConversionError,
    ConversionErrors,
    ShapeError,
    UnsupportedAttributeError,
    UnsupportedOpError,
    UnsupportedTypeError,
)
from tests.onednn_graph.documents import graph, op, tensor, write
from tests.running import run

SHARED = pathlib.Path(os.environ.get("ORTCONV_SHARED", pathlib.Path(__file__).parents[2].parent / "shared"))
MODES: tuple[Any, ...] = ("spec", "runtime")

NCX = {"data_format": "NCX", "weights_format": "OIX"}
IOX = {"data_format": "NCX", "weights_format": "IOX"}


def window(spatial: int = 1, **changes: object) -> dict[str, Any]:
    """The required attributes: stride 2, no padding."""
    required = {"strides": [2], "pads_begin": [0], "pads_end": [0], "dilations": [1]}
    return {name: value * spatial for name, value in required.items()} | changes


def convert(
    kind: str,
    shapes: list[tuple[int | None, ...] | None],
    attributes: dict[str, Any],
    *,
    dtypes: list[str] | None = None,
    result: Any = None,
    semantics: Any = "spec",
    tensors: dict[str, np.ndarray] | None = None,
) -> ortconv.Conversion:
    g = onednn.Graph("net")
    dtypes = dtypes or ["f32"] * len(shapes)
    inputs = [g.tensor(f"x{i}", dtype, shape) for i, (shape, dtype) in enumerate(zip(shapes, dtypes, strict=True))]
    outputs = None if result is None else [g.tensor("y", *result)]
    g.op(kind, inputs, outputs=outputs, name="node", **attributes)
    return ortconv.conversion(g, semantics=semantics, tensors=tensors)


def refused(*arguments: Any, **options: Any) -> ConversionError:
    with pytest.raises(ConversionErrors) as caught:
        convert(*arguments, **options)
    (error,) = caught.value.exceptions
    assert error.node is not None
    assert (error.node.file, error.node.op_type, error.node.name) == ("<onednn.Graph 'net'>", arguments[0], "node")
    return error


@dataclasses.dataclass(frozen=True)
class Family:
    """How to call an op of the family so that it converts."""

    shapes: list[Any]
    attributes: dict[str, Any]


FAMILIES = {
    "Convolution": Family([(1, 2, 7), (4, 2, 3)], window(**NCX)),
    "ConvTranspose": Family([(1, 4, 3), (4, 2, 3)], window(**IOX)),
    "ConvTransposeBackwardData": Family([(1, 2, 7), (4, 2, 3)], window(**IOX)),
    "ConvolutionBackwardData": Family([(1, 4, 3), (4, 2, 3)], window(**NCX, dst_shape=[1, 2, 7])),
    "ConvolutionBackwardWeights": Family([(1, 2, 7), (1, 4, 3)], window(**NCX, weights_shape=[4, 2, 3])),
    "ConvTransposeBackwardWeights": Family([(1, 4, 3), (1, 2, 7)], window(**IOX, weights_shape=[4, 2, 3])),
}


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
def test_types_that_no_page_lists(kind: str) -> None:
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


# ConvolutionBackwardData: the shape of the result.


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


def test_the_library_refuses_more_under_same_than_the_page_does() -> None:
    family = FAMILIES["ConvolutionBackwardData"]
    attributes = family.attributes | {"dst_shape": [1, 2, 4], "auto_pad": "same_lower"}
    error = refused("ConvolutionBackwardData", family.shapes, attributes, semantics="runtime")
    assert isinstance(error, ShapeError)
    assert "takes size 4 to 2, diff_dst has 3; allowed: 5 to 6" in error.problem
    (warning,) = convert("ConvolutionBackwardData", family.shapes, attributes).warnings
    assert "the library refuses this dst_shape" in warning


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


# The gradients of weights.


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


# At run time.


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("data_format", ["NCX", "NXC"])
def test_a_runtime_dst_shape_that_contradicts_batch_or_channels_fails(mode: str, data_format: str) -> None:
    channels_last = data_format == "NXC"
    g = onednn.Graph()
    x = g.tensor("x", "f32", (2, 3, 4) if channels_last else (2, 4, 3))
    w, shape = g.tensor("w", "f32", (4, 3, 3)), g.tensor("shape", "s32", (3,))
    g.op("ConvolutionBackwardData", [x, w, shape], **window(data_format=data_format, weights_format="OIX"))
    model = ortconv.conversion(g, semantics=mode).to_proto()
    feeds = {tensor.name: np.ones([dim or 1 for dim in tensor.shape or ()], np.float32) for tensor in (x, w)}

    def result(batch: int, channels: int) -> np.ndarray:
        sizes = [batch, 7, channels] if channels_last else [batch, channels, 7]
        (found,) = run(model, feeds | {"shape": np.array(sizes, np.int32)}, "none")
        return found

    assert result(2, 3).shape == ((2, 7, 3) if channels_last else (2, 3, 7))
    for batch, channels in ((3, 2), (1, 3), (2, 6), (1, 1)):
        with pytest.raises(Exception, match="Reshape") as caught:
            result(batch, channels)
        assert type(caught.value).__module__.startswith(onnxruntime.__name__)


def test_a_runtime_weights_shape_that_contradicts_the_channels_fails() -> None:
    g = onednn.Graph()
    tensors = [g.tensor("x", "f32", (1, 2, 7)), g.tensor("dy", "f32", (1, 4, 3)), g.tensor("shape", "s32", (3,))]
    g.op("ConvolutionBackwardWeights", tensors, **window(**NCX))
    model = ortconv.convert(g)
    feeds = {"x": np.ones((1, 2, 7), np.float32), "dy": np.ones((1, 4, 3), np.float32)}
    (found,) = run(model, feeds | {"shape": np.array([4, 2, 3], np.int32)}, "none")
    assert found.shape == (4, 2, 3)
    for sizes in ([2, 4, 3], [4, 2, 9]):
        with pytest.raises(Exception, match="Reshape"):
            run(model, feeds | {"shape": np.array(sizes, np.int32)}, "none")


@pytest.mark.parametrize("unknown", [1, 2])
def test_dynamic_sizes_that_contradict_the_weights_shape_fail(unknown: int) -> None:
    g = onednn.Graph()
    src: list[int | None] = [1, 2, 7]
    diff_dst: list[int | None] = [1, 4, 3]
    src[unknown] = diff_dst[unknown] = None
    tensors = [g.tensor("x", "f32", src), g.tensor("dy", "f32", diff_dst)]
    g.op("ConvolutionBackwardWeights", tensors, **window(**NCX, weights_shape=[4, 2, 3]))
    model = ortconv.convert(g)
    feeds = {"x": np.ones((1, 2, 7), np.float32), "dy": np.ones((1, 4, 3), np.float32)}
    (found,) = run(model, feeds, "none")
    np.testing.assert_array_equal(found, np.full((4, 2, 3), 3, np.float32))
    with pytest.raises(Exception, match="Reshape"):
        run(model, feeds | {"x": np.ones((1, 2, 6) if unknown == 2 else (1, 3, 7), np.float32)}, "none")


# Warnings.


@pytest.mark.parametrize("mode", MODES)
def test_halves_on_other_sides_are_warned_about_with_both_paddings(mode: str) -> None:
    family = FAMILIES["ConvolutionBackwardData"]
    attributes = family.attributes | {"dst_shape": [1, 2, 6], "auto_pad": "SAME_UPPER"}
    (warning,) = convert("ConvolutionBackwardData", family.shapes, attributes, semantics=mode).warnings
    assert warning.endswith(
        "auto_pad same_upper: the page pads begin [1], end [0]; the library pads begin [0], end [1]"
    )


def test_output_padding_that_only_the_page_counts_is_warned_about() -> None:
    family = FAMILIES["ConvolutionBackwardData"]
    attributes = family.attributes | {"dst_shape": [1, 2, 5], "auto_pad": "same_lower", "output_padding": [1]}
    assert convert("ConvolutionBackwardData", family.shapes, attributes).warnings == ()
    (warning,) = convert("ConvolutionBackwardData", family.shapes, attributes | {"auto_pad": "same_upper"}).warnings
    assert warning.endswith("the page pads begin [2], end [0]; the library pads begin [1], end [1]")


def test_even_totals_and_explicit_padding_are_not_warned_about() -> None:
    family = FAMILIES["ConvolutionBackwardData"]
    for changes in (
        {"dst_shape": [1, 2, 5], "auto_pad": "same_upper"},
        {"output_padding": [1], "dst_shape": [1, 2, 8]},
    ):
        assert convert("ConvolutionBackwardData", family.shapes, family.attributes | changes).warnings == ()


def test_unknown_sizes_under_same_are_warned_about() -> None:
    family = FAMILIES["ConvolutionBackwardData"]
    attributes = family.attributes | {"auto_pad": "same_upper"}
    (warning,) = convert("ConvolutionBackwardData", [(1, 4, None), (4, 2, 3)], attributes).warnings
    assert "the page puts the odd element of the total padding at the begin" in warning


def test_the_library_ignores_dilations_in_one_op() -> None:
    attributes = window(**IOX, dilations=[2])
    (warning,) = convert("ConvTransposeBackwardData", [(1, 2, 9), (4, 2, 3)], attributes).warnings
    assert "the library ignores dilations [2]" in warning


def test_the_library_pads_the_weights_gradient_of_a_transposed_convolution_by_another_rule() -> None:
    family = FAMILIES["ConvTransposeBackwardWeights"]
    attributes = family.attributes | {"auto_pad": "same_upper"}
    shapes = [(1, 4, 3), (1, 2, 6)]
    (warning,) = convert("ConvTransposeBackwardWeights", shapes, attributes).warnings
    assert "ConvTranspose pads begin [0], end [1]; in this op the library pads begin [1], end [1]" in warning


# The neighbours.


@pytest.mark.parametrize(
    ("kind", "shapes", "attributes", "error", "fields"),
    [
        ("Clamp", [(2,)], {"min": 2, "max": 1}, UnsupportedAttributeError, ("min", 2.0)),
        ("GELU", [(2,)], {"mode": "erf"}, UnsupportedAttributeError, ("mode", "erf")),
        ("SoftPlus", [(2,)], {"beta": 0}, UnsupportedAttributeError, ("beta", 0.0)),
        ("Add", [(2,), (2,)], {"auto_broadcast": "pdpd"}, UnsupportedAttributeError, ("auto_broadcast", "pdpd")),
        ("Add", [(2,), (3,)], {}, ShapeError, ("src_1", (3,))),
        ("Add", [(2, 3), (3,)], {"auto_broadcast": "none"}, ShapeError, ("src_1", (3,))),
        ("Add", [(2, 3), (1, 3)], {"auto_broadcast": "none"}, ShapeError, ("src_1", (1, 3))),
        ("Select", [(2,), (2,), (3,)], {}, ShapeError, ("src_1", (3,))),
        ("BiasAdd", [(2, 3, 4), (3,)], {}, ShapeError, ("bias", (3,))),
        ("BiasAdd", [(2, 3, 4), (4,)], {"data_format": "NCX"}, ShapeError, ("bias", (4,))),
        ("BiasAdd", [(2, 3, 4), (1, 4)], {}, ShapeError, ("bias", (1, 4))),
        ("BiasAdd", [(4,), (4,)], {}, ShapeError, ("src", (4,))),
        ("BatchNormInference", [(2, 3), (3,), (3,), (2,), (3,)], {"epsilon": 1}, ShapeError, ("mean", (2,))),
        ("StaticReshape", [(2, 3)], {"shape": [4], "special_zero": False}, ShapeError, ("src", (2, 3))),
        ("StaticReshape", [(2, 3)], {"shape": [4, -1], "special_zero": False}, ShapeError, ("src", (2, 3))),
        (
            "StaticReshape",
            [(2,)],
            {"shape": [-1, -1], "special_zero": False},
            UnsupportedAttributeError,
            ("shape", (-1, -1)),
        ),
        ("StaticReshape", [(2,)], {"shape": [-2], "special_zero": False}, UnsupportedAttributeError, ("shape", (-2,))),
        (
            "StaticReshape",
            [(2,)],
            {"shape": [2, 0], "special_zero": True},
            UnsupportedAttributeError,
            ("shape", (2, 0)),
        ),
        ("StaticTranspose", [(2, 3)], {"order": [0]}, UnsupportedAttributeError, ("order", (0,))),
        ("StaticTranspose", [(2, 3)], {"order": [0, -2]}, UnsupportedAttributeError, ("order", (0, -2))),
        ("StaticTranspose", [(2, 3)], {"order": [0, 2]}, UnsupportedAttributeError, ("order", (0, 2))),
    ],
)
def test_neighbours_refuse(kind: str, shapes: Any, attributes: Any, error: type, fields: tuple[str, object]) -> None:
    if kind == "Select":
        found = refused(kind, shapes, attributes, dtypes=["boolean", "f32", "f32"], result=("f32", None))
    else:
        found = refused(kind, shapes, attributes, result=("f32", None))
    assert type(found) is error
    if isinstance(found, ShapeError):
        assert (found.input, found.shape) == fields
    else:
        assert isinstance(found, UnsupportedAttributeError)
        assert (found.attribute, found.value) == fields


@pytest.mark.parametrize(
    ("kind", "dtypes", "result", "fields"),
    [
        ("ReLU", ["s32"], "s32", ("src", "s32", ("f32", "bf16", "f16"))),
        ("ReLU", ["f32"], "bf16", ("the output", "bf16", ("f32",))),
        ("ReLU", ["f32"], "undef", ("the output", "undef", ("f32",))),
        ("Multiply", ["s32", "s32"], "s32", ("src_0", "s32", ("f32", "bf16", "f16"))),
        ("Add", ["f32", "f64"], "f32", ("src_1", "f64", ("f32", "bf16", "f16", "s32"))),
        ("TypeCast", ["f32"], "f32", ("dst", "f32", ("bf16", "f16"))),
        ("TypeCast", ["bf16"], "f16", ("dst", "f16", ("f32",))),
        ("Reorder", ["f32"], "bf16", ("the output", "bf16", ("f32",))),
        ("GreaterEqual", ["f32", "f32"], "f32", ("dst", "f32", ("boolean",))),
        ("GreaterEqual", ["f32", "s32"], "boolean", ("src_1", "s32", ("f32",))),
        ("Select", ["f32", "f32", "f32"], "f32", ("cond", "f32", ("boolean",))),
    ],
)
def test_neighbours_refuse_types(
    tmp_path: pathlib.Path, kind: str, dtypes: list[str], result: str, fields: tuple[str, str, tuple[str, ...]]
) -> None:
    inputs = [tensor(i, (2,), dtype) for i, dtype in enumerate(dtypes)]
    path = write(tmp_path, graph(op(0, kind, inputs, [tensor(9, (2,), result)])))
    with pytest.raises(ConversionErrors) as caught:
        ortconv.convert(path)
    (error,) = caught.value.exceptions
    assert isinstance(error, UnsupportedTypeError)
    assert (error.input, error.dtype, error.allowed) == fields


def test_batch_norm_statistics_of_a_type_the_page_does_not_pair() -> None:
    shapes: list[Any] = [(2, 3), (3,), (3,), (3,), (3,)]
    error = refused("BatchNormInference", shapes, {"epsilon": 1.0}, dtypes=["f16", *["bf16"] * 4])
    assert isinstance(error, UnsupportedTypeError)
    assert (error.input, error.dtype, error.allowed) == ("gamma", "bf16", ("f32",))


def test_unknown_ops_and_attributes_are_all_reported_at_once(tmp_path: pathlib.Path) -> None:
    document = graph(
        op(5, "ConvolutionBackpropData", [tensor(0)], [tensor(1)]),
        op(6, "GELU", [tensor(1)], [tensor(2)], {"mode": ("string", "gelu_quick")}),
        op(7, "Elu", [tensor(2)], [tensor(3)]),
    )
    with pytest.raises(ConversionErrors) as caught:
        ortconv.convert(write(tmp_path, document))
    unknown, mode, missing = caught.value.exceptions
    assert isinstance(unknown, UnsupportedOpError)
    assert unknown.node is not None
    assert (unknown.node.op_type, unknown.node.id) == ("ConvolutionBackpropData", "5")
    assert isinstance(mode, UnsupportedAttributeError)
    assert (mode.attribute, mode.value) == ("mode", "gelu_quick")
    assert isinstance(missing, UnsupportedAttributeError)
    assert (missing.attribute, missing.value) == ("alpha", None)


@pytest.mark.parametrize("name", ["strides", "pads_begin", "pads_end", "dilations"])
@pytest.mark.parametrize("auto_pad", ["None", "SAME_UPPER"])
def test_required_attributes(tmp_path: pathlib.Path, name: str, auto_pad: str) -> None:
    attrs = {key: ("s64[]", value) for key, value in window().items() if key != name}
    document = graph(
        op(
            0,
            "ConvolutionBackwardData",
            [tensor(0, (1, 3, 2)), tensor(1, (3, 2, 2))],
            [tensor(2, (1, 7, 2))],
            attrs | {"auto_pad": ("string", auto_pad)},
        )
    )
    with pytest.raises(ConversionErrors) as caught:
        ortconv.convert(write(tmp_path, document))
    (error,) = caught.value.exceptions
    assert isinstance(error, UnsupportedAttributeError)
    assert (error.attribute, error.value) == (name, None)


# What the real library was seen to do with cases that must be refused, where that record is at hand.

RECORDED = SHARED / "vectors" / "error_cases.json"
OUTCOMES: dict[str, tuple[str, str] | None] = {
    "dst_shape inconsistent with forward size": ("ShapeError", "dst_shape"),
    "no dst_shape and output shape unknown": ("UnsupportedAttributeError", "dst_shape"),
    "groups>1": None,
    "dst_shape in wrong layout order for NXC": ("ShapeError", "dst_shape"),
    "pads_begin absent": ("UnsupportedAttributeError", "pads_begin"),
    "weights_format IOX": ("UnsupportedAttributeError", "weights_format"),
    "dilation 0": ("UnsupportedAttributeError", "dilations"),
    "4 spatial dims": None,
}
"""Case -> class of the error and its subject; None for what converts although the library cannot."""


def recorded() -> list[Any]:
    if not RECORDED.is_file():
        return [pytest.param({}, marks=pytest.mark.skip(reason=f"no recorded error cases at {RECORDED}"), id="none")]
    found = json.loads(RECORDED.read_text())
    return [pytest.param(case, id=case["case"]) for case in found if case["op"] == "onednn.ConvolutionBackwardData"]


@pytest.mark.parametrize("case", recorded())
def test_recorded_error_case(tmp_path: pathlib.Path, case: dict[str, Any]) -> None:
    attributes = dict(case["attrs"])
    spatial = 4 if case["case"] == "4 spatial dims" else 1
    channels_last = attributes["data_format"] == "NXC"
    data = attributes.pop("diff_dst", [1, 3, 2] if channels_last else [1, 2, *[3] * spatial])
    weights = attributes.pop("weights", [2, 2, *[3] * spatial])
    if spatial > 1:
        attributes |= {name: attributes[name] * spatial for name in window()} | {"dst_shape": [1, 2, *[5] * spatial]}
    types = {"groups": "s64", "data_format": "string", "weights_format": "string"}
    node = op(
        0,
        "ConvolutionBackwardData",
        [tensor(0, data), tensor(1, weights)],
        [tensor(2, [-(2**63)], stride=[-(2**63)])],
        {name: (types.get(name, "s64[]"), value) for name, value in attributes.items()},
    )
    path = write(tmp_path, graph(node))
    expected = OUTCOMES[case["case"]]
    if expected is None:
        assert ortconv.convert(path)
        return
    with pytest.raises(ConversionErrors) as caught:
        ortconv.convert(path)
    (error,) = caught.value.exceptions
    subject = error.input if isinstance(error, ShapeError) else getattr(error, "attribute", None)
    assert (type(error).__name__, subject) == expected
    if "layout order" in case["case"]:
        assert "data_format NXC" in str(error)


# Graphs that benchdnn ships, where they are at hand.

GRAPHS = sorted((SHARED / "onednn_graphs").rglob("*.json"))


@pytest.mark.skipif(not GRAPHS, reason=f"no graphs at {SHARED / 'onednn_graphs'}")
@pytest.mark.parametrize("path", GRAPHS, ids=lambda path: path.stem)
def test_real_graphs_convert_or_are_refused_for_what_is_not_supported(path: pathlib.Path) -> None:
    try:
        ortconv.conversion(path)
    except ConversionErrors as errors:
        assert {type(error) for error in errors.exceptions} == {UnsupportedOpError}  # noqa: PT017
    except ortconv.ModelFormatError as error:
        # A hand-edited file that describes one tensor with two shapes.
        found = path.stem, error.where
        assert found == ("int8_maxpool_add_mul_fusion", "/graph/4/inputs/1/shape")
