"""The operator ``TransposedConvolutionToShape``: a transposed convolution to sizes that are runtime values."""

from __future__ import annotations

import onnx
import onnx.defs
import onnx.numpy_helper

from ortconv.opset.bodies import convolutions
from ortconv.opset.inferred_node import Dim, InferredNode, differ
from ortconv.opset.operator import Attribute
from ortconv.opset.ops.convolution_family import (
    BIAS,
    DATA,
    GRID,
    OUTPUT_SHAPE,
    WEIGHTS,
    convolution_operator,
    is_same_padded,
)
from ortconv.opset.reference.convolutions import conv_transpose_to_shape

__all__ = ["TRANSPOSED_CONVOLUTION_TO_SHAPE"]

_Kind = onnx.defs.OpSchema.AttrType


def _sizes(node: InferredNode, x: list[Dim], kernel: list[Dim]) -> list[Dim]:
    count = len(x)
    node.ints("strides", count, 1)
    node.ints("dilations", count, 1)
    node.ints("output_padding", count, 0)
    is_same_padded(node, node.ints("pads_begin", count, 0))
    data = node.ctx.get_input_data(2)
    if data is None:
        given = node.dims(2)
        if given is not None and (len(given) != 1 or differ(given[0], count)):
            raise node.fail(f"output_shape has shape {given}; allowed: [{count}]")
        return [None] * count
    values = onnx.numpy_helper.to_array(data).tolist()
    if len(values) != count or any(value < 0 for value in values):
        raise node.fail(f"output_shape = {values} is not allowed; allowed: {count} integers >= 0")
    return list(values)


TRANSPOSED_CONVOLUTION_TO_SHAPE = convolution_operator(
    name="TransposedConvolutionToShape",
    doc="Transposed convolution whose spatial output sizes are the values of a tensor. Positions outside the full "
    "result are zero.",
    inputs=(DATA, WEIGHTS, OUTPUT_SHAPE, BIAS),
    attributes=(
        *GRID,
        Attribute(
            "auto_pad",
            _Kind.INT,
            "0 (NOTSET): begin = pads_begin. 1 (SAME_UPPER): begin = floor(t/2). 2 (SAME_LOWER): begin = ceil(t/2). "
            "t = max(F + output_padding - Y, 0).",
        ),
        Attribute("pads_begin", _Kind.INTS, "Begin padding per spatial axis; zero unless auto_pad is 0."),
        Attribute("output_padding", _Kind.INTS, "Term of t."),
    ),
    sizes=_sizes,
    text=convolutions.transposed_convolution_to_shape,
    reference=conv_transpose_to_shape,
    transposed=True,
)
