"""The operators of the domain ``org.ortconv``: their inputs and attributes, and what they compute.

Notation, per spatial axis: X size of the input, K kernel, s stride, d dilation, E = (K-1)*d + 1 the kernel's extent,
F = s*(X-1) + E the full size of a transposed convolution, b its begin padding, Y the size of the output.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from typing import Any

import onnx
import onnx.defs
from onnx import TensorProto

from ortconv.opset.inferred_node import DOMAIN, VERSION

__all__ = [
    "ACCUMULATION",
    "ACTIVATION",
    "ACTIVATION_ATTRIBUTE",
    "CONV",
    "CONV_TRANSPOSE",
    "CONV_TRANSPOSE_ADD",
    "CONV_TRANSPOSE_TO_SHAPE",
    "DOMAIN",
    "NO_ACTIVATION",
    "OPS",
    "VERSION",
    "AutoPad",
    "Op",
]

ACCUMULATION: dict[int, int] = {
    TensorProto.FLOAT: TensorProto.FLOAT,
    TensorProto.FLOAT16: TensorProto.FLOAT,
    TensorProto.BFLOAT16: TensorProto.FLOAT,
    TensorProto.DOUBLE: TensorProto.DOUBLE,
    TensorProto.INT8: TensorProto.INT32,
    TensorProto.UINT8: TensorProto.INT32,
    TensorProto.INT16: TensorProto.INT32,
    TensorProto.UINT16: TensorProto.INT32,
    TensorProto.INT32: TensorProto.INT32,
    TensorProto.UINT32: TensorProto.UINT32,
    TensorProto.INT64: TensorProto.INT64,
    TensorProto.UINT64: TensorProto.UINT64,
}
"""Element type of the tensors -> the type in which products are formed and summed. Integers wrap."""

ACTIVATION = "activation"
"""Name of the attribute that folds a Relu, LeakyRelu or Clip in."""

NO_ACTIVATION = (1.0, -math.inf, math.inf)
"""Slope below zero, minimum and maximum that change nothing."""

_Type = onnx.defs.OpSchema.AttrType

_LAYOUT = (
    ("x_perm", _Type.INTS, "Transpose(X, perm=x_perm) has the layout [N, C, spatial...]."),
    ("w_perm", _Type.INTS, "Transpose(W, perm=w_perm) has the layout {weights}."),
    ("y_perm", _Type.INTS, "Y is Transpose(result, perm=y_perm) of a result in the layout [N, M, spatial...]."),
    ("accumulation_type", _Type.INT, "Element type of products and sums: the one that belongs to T."),
)
ACTIVATION_ATTRIBUTE = (
    ACTIVATION,
    _Type.FLOATS,
    "[slope, minimum, maximum], by default [1, -inf, inf], and that for types that do not accumulate in float. Every "
    "element v of the result, in type T, becomes v * slope if it is negative, is clipped, and is converted to T again.",
)
"""Name, type and meaning of that attribute."""
_GRID = (
    ("strides", _Type.INTS, "Stride per spatial axis, at least 1."),
    ("dilations", _Type.INTS, "Dilation per spatial axis, at least 1."),
    ("group", _Type.INT, "Number of groups; divides the channels of input and output."),
)


class AutoPad(enum.IntEnum):
    """What the attribute ``auto_pad`` says; numbers, since function bodies calculate with it."""

    NOTSET = 0
    SAME_UPPER = 1
    SAME_LOWER = 2


@dataclasses.dataclass(frozen=True)
class Op:
    """One operator of ours.

    Attributes:
        name: Op type.
        inputs: Formal inputs; the last one, ``B``, is optional.
        attributes: Attribute name, type and meaning; each is required. Beside them an op may have an `ACTIVATION`.
        doc: What it computes.
    """

    name: str
    inputs: tuple[str, ...]
    attributes: tuple[tuple[str, Any, str], ...]
    doc: str


CONV_TRANSPOSE = Op(
    "TransposedConvolution",
    ("X", "W", "B"),
    (
        *_GRID,
        ("pads", _Type.INTS, "Begin paddings of all spatial axes, then end paddings; none negative."),
        (
            "output_padding",
            _Type.INTS,
            "Positions added at the end of each spatial axis, not limited by the stride; a negative number takes "
            "positions off.",
        ),
        *_LAYOUT,
    ),
    "Transposed convolution: Y = F - begin - end + output_padding, for every element type. Positions that no kernel "
    "tap reaches are zero; the bias is added to all.",
)
CONV_TRANSPOSE_TO_SHAPE = Op(
    "TransposedConvolutionToShape",
    ("X", "W", "output_shape", "B"),
    (
        *_GRID,
        (
            "auto_pad",
            _Type.INT,
            "0 (NOTSET): begin = pads_begin. 1 (SAME_UPPER): begin = floor(t/2). 2 (SAME_LOWER): begin = ceil(t/2). "
            "t = max(F + output_padding - Y, 0).",
        ),
        ("pads_begin", _Type.INTS, "Begin padding per spatial axis; zero unless auto_pad is 0."),
        ("output_padding", _Type.INTS, "Enters t."),
        *_LAYOUT,
    ),
    "Transposed convolution whose spatial output sizes are the values of a tensor. Positions outside the full result "
    "are zero.",
)
CONV = Op(
    "Convolution",
    ("X", "W", "B"),
    (
        *_GRID,
        (
            "auto_pad",
            _Type.INT,
            "0 (NOTSET): pads. 1 (SAME_UPPER), 2 (SAME_LOWER): Y = ceil(X/s), the total padding "
            "max((Y-1)*s + E - X, 0) is halved, with the odd element at the end, at the begin.",
        ),
        ("pads", _Type.INTS, "Begin paddings of all spatial axes, then end paddings; zero unless auto_pad is 0."),
        *_LAYOUT,
    ),
    "Convolution (cross-correlation), for every element type.",
)
CONV_TRANSPOSE_ADD = Op(
    "TransposedConvolutionAdd",
    ("X", "W", "R", "B"),
    CONV_TRANSPOSE.attributes,
    "TransposedConvolution and a residual: R, which has the type and shape of Y, is added to the result in type T, and "
    "the sum is rounded to T, or wraps. An activation comes after that.",
)
OPS: tuple[Op, ...] = (CONV_TRANSPOSE, CONV_TRANSPOSE_TO_SHAPE, CONV, CONV_TRANSPOSE_ADD)
