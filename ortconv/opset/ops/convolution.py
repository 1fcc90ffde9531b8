"""The operator ``Convolution``."""

from __future__ import annotations

import onnx.defs

from ortconv.convolution_arithmetic import conv_size, extent
from ortconv.opset.bodies import convolutions
from ortconv.opset.inferred_node import Dim, InferredNode
from ortconv.opset.operator import Attribute
from ortconv.opset.ops.convolution_family import BIAS, DATA, GRID, WEIGHTS, convolution_operator, is_same_padded
from ortconv.opset.reference.convolutions import conv

__all__ = ["CONVOLUTION", "direct_sizes"]

_Kind = onnx.defs.OpSchema.AttrType


def direct_sizes(node: InferredNode, x: list[Dim], kernel: list[Dim], *, same: bool = False) -> list[Dim]:
    """Infers spatial sizes from the paddings, or from the strides alone under a SAME rule."""
    count = len(x)
    strides, dilations = node.ints("strides", count, 1), node.ints("dilations", count, 1)
    pads = node.ints("pads", 2 * count, 0)
    result: list[Dim] = []
    for axis, (size, taps) in enumerate(zip(x, kernel, strict=True)):
        if isinstance(size, int) and same:
            result.append(-(-size // strides[axis]))
        elif isinstance(size, int) and isinstance(taps, int):
            padding = pads[axis] + pads[axis + count]
            covered, padded = extent(taps, dilations[axis]), size + padding
            if covered > padded:
                raise node.fail(f"spatial axis {axis}: the kernel covers {covered}, the padded input {padded}")
            result.append(conv_size(size, taps, strides[axis], dilations[axis], padding))
        else:
            result.append(None)
    return result


def _sizes(node: InferredNode, x: list[Dim], kernel: list[Dim]) -> list[Dim]:
    return direct_sizes(node, x, kernel, same=is_same_padded(node, node.ints("pads", 2 * len(x), 0)))


CONVOLUTION = convolution_operator(
    name="Convolution",
    doc="Convolution (cross-correlation), for every element type.",
    inputs=(DATA, WEIGHTS, BIAS),
    attributes=(
        *GRID,
        Attribute(
            "auto_pad",
            _Kind.INT,
            "0 (NOTSET): pads. 1 (SAME_UPPER), 2 (SAME_LOWER): Y = ceil(X/s), the total padding "
            "max((Y-1)*s + E - X, 0) is halved, with the odd element at the end, at the begin.",
        ),
        Attribute(
            "pads", _Kind.INTS, "Begin paddings of all spatial axes, then end paddings; zero unless auto_pad is 0."
        ),
    ),
    sizes=_sizes,
    text=convolutions.convolution,
    reference=conv,
    transposed=False,
)
