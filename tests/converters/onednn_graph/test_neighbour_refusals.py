"""The other ops refuse attributes, types and shapes by the fields of the error; what a document lacks is reported."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

import ortconv
from ortconv.errors import (
    ConversionErrors,
    ShapeError,
    UnsupportedAttributeError,
    UnsupportedOpError,
    UnsupportedTypeError,
)
from tests.converters.onednn_graph.documents import graph, op, tensor, write
from tests.converters.onednn_graph.refusing import refused, window


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
        ("Select", [(3, 1, 5), (1, 5), (4, 1)], {}, ShapeError, ("cond", (3, 1, 5))),
        ("Select", [(2,), (1,), (1,)], {}, ShapeError, ("cond", (2,))),
        ("Select", [(1,), (2,), (2,)], {"auto_broadcast": "none"}, ShapeError, ("cond", (1,))),
        ("RMSNorm", [(1, 3, 4), (5, 1, 4)], {}, ShapeError, ("gamma", (5, 1, 4))),
        ("RMSNorm", [(3, 4), (1, 1, 4)], {}, ShapeError, ("gamma", (1, 1, 4))),
        ("RMSNorm", [(3, 4), (5,)], {}, ShapeError, ("gamma", (5,))),
        ("PReLU", [(2, 3, 4), (5, 1, 1)], {}, ShapeError, ("slope", (5, 1, 1))),
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


def test_batch_norm_statistics_of_a_type_outside_of_the_specification() -> None:
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
