"""The operator ``ConvIntegerToFloat``: a convolution of 8-bit integers whose result is scaled to float.

Its function body dequantizes first, and convolves floats.
"""

from __future__ import annotations

from onnx import TensorProto

from ortconv.opset.inferred_node import Dim, InferredNode, differ
from ortconv.opset.operator import Formal, Operator, Type
from ortconv.opset.ops.convolution import direct_sizes
from ortconv.opset.ops.convolution_family import DILATIONS, GROUP, PADS, STRIDES, direct_channels
from ortconv.opset.ops.quantized_terms import INTEGERS, check_numbers, data_and_weights
from ortconv.opset.reference.conv_integer_to_float import conv_integer_to_float

__all__ = ["CONV_INTEGER_TO_FLOAT"]

_DOC = """Y = (the sum over taps of (X - x_zero_point) * (W - w_zero_point)) * (x_scale * w_scale) + B, where W is
[M, C/group, kernel...], and the scales, zero points and biases of W those of output channel M.

The sum is exact in 32 bits, which wrap. Positions of the padding count as x_zero_point, so they add nothing. The sum is
rounded to float, and so is the product of the scales; the product of both may be rounded before B is added, or not."""

_BODY = """
  data = DequantizeLinear (X, x_scale, x_zero_point)
  weights = DequantizeLinear <axis = 0> (W, w_scale, w_zero_point)
  Y = Conv <strides: ints = @strides, pads: ints = @pads, dilations: ints = @dilations, group: int = @group>
      (data, weights, B)
"""
_OLDEST_OPSET = 13
"""The version of ai.onnx that introduced the axis of DequantizeLinear."""


def _infer(node: InferredNode) -> list[Dim] | None:
    """Checks a node; returns the shape of Y, or None if its rank is not known."""
    data, weights, is_known = data_and_weights(node, 1)
    channels = direct_channels(node, data[1], weights, node.positive("group"))
    _check_numbers(node, channels)
    sizes = direct_sizes(node, data[2:], weights[2:])
    return [data[0], channels, *sizes] if is_known else None


def _check_numbers(node: InferredNode, channels: Dim) -> None:
    """Checks the shapes of scales, zero points and bias."""
    for index, count in ((2, 1), (3, channels), (4, 1), (5, channels)):
        if node.has(index):
            check_numbers(node, index, CONV_INTEGER_TO_FLOAT.inputs[index].name, count)
    scales, zeros = node.dims(3), node.dims(5) if node.has(5) else None
    if scales is not None and zeros is not None and differ(*((each or [1])[0] for each in (scales, zeros))):
        raise node.fail(f"w_zero_point has shape {zeros}; allowed: {scales}, as w_scale has")
    bias = node.dims(6) if node.has(6) else None
    if bias is not None and (len(bias) != 1 or differ(bias[0], channels)):
        raise node.fail(f"B has shape {bias}; allowed: [{'M' if channels is None else channels}]")


CONV_INTEGER_TO_FLOAT = Operator(
    name="ConvIntegerToFloat",
    doc=_DOC,
    types={
        "T1": Type(INTEGERS, "Integers of the data."),
        "T2": Type(INTEGERS, "Integers of the weights."),
        "F": Type((TensorProto.FLOAT,), "Floats."),
    },
    inputs=(
        Formal("X", "T1", "Data [N, C, spatial...], of three to eight axes."),
        Formal("W", "T2", "Weights [M, C/group, kernel...]."),
        Formal("x_scale", "F", "One number: a scalar, or [1]."),
        Formal("w_scale", "F", "One number, or one for each output channel: [M]."),
        Formal("x_zero_point", "T1", "One number; 0 if omitted.", optional=True),
        Formal("w_zero_point", "T2", "As many numbers as w_scale has; 0 if omitted.", optional=True),
        Formal("B", "F", "Bias [M].", optional=True),
    ),
    output=Formal("Y", "F", "The result [N, M, spatial...]."),
    attributes=(STRIDES, PADS, DILATIONS, GROUP),
    accumulation=dict.fromkeys(INTEGERS, TensorProto.FLOAT),
    infer=_infer,
    oldest_opset=_OLDEST_OPSET,
    text=_BODY,
    reference=conv_integer_to_float,
)
