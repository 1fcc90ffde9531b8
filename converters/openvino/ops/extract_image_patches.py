"""ExtractImagePatches."""

from __future__ import annotations

from typing import Literal

import onnx_ir as ir

from ortconv.converters.openvino.lib.broadcasting import rank_of
from ortconv.converters.openvino.lib.compute_types import compute
from ortconv.converters.openvino.lib.convolution_window import AUTO_PAD
from ortconv.converters.openvino.lib.sizes import (
    Size,
    at_least_zero,
    calculate,
    counted,
    halved,
    joined,
    reshaped,
    same_padding,
    same_windows,
    sizes_of,
)
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import ShapeError, UnsupportedAttributeError
from ortconv.graph.builder import Builder, Ints


@REGISTRY.lowering("ExtractImagePatches", since=3)
def extract_image_patches(
    b: Builder,
    data: ir.Value,
    /,
    *,
    sizes: Ints,
    strides: Ints,
    rates: Ints,
    auto_pad: Literal["valid", "same_upper", "same_lower"],
) -> ir.Value:
    """Pad, Gather of rows and of columns, Transpose, Reshape."""
    if rank_of(data, "data") != 4:
        raise ShapeError("data", data.shape, "its rank must be 4.")
    for label, values in (("sizes", sizes), ("strides", strides), ("rates", rates)):
        if len(values) != 2 or min(values) < 1:
            raise UnsupportedAttributeError(label, list(values), "two positive integers")
    batch, channels, *space = sizes_of(b, data, "data")
    counts: list[Size] = []
    begin: list[Size] = []
    end: list[Size] = []
    for size, taps, stride, rate in zip(space, sizes, strides, rates, strict=True):
        reach = (taps - 1) * rate + 1
        if auto_pad == "valid":
            room = at_least_zero(b, calculate(b, "Add", calculate(b, "Sub", size, reach), stride))
            count = calculate(b, "Div", room, stride)
            padding: Size = 0
        else:
            count = same_windows(b, size, stride)
            padding = same_padding(b, size, count, reach, stride)
        front, back = halved(b, AUTO_PAD[auto_pad], padding)
        counts.append(count)
        begin.append(front)
        end.append(back)
    value = data
    if set(begin + end) != {0}:
        pads = joined(b, [0, 0, *begin, 0, 0, *end])
        value = compute(b, lambda x: b.op("Pad", x, pads), data, op_types=("Pad",), modular=True)
    for axis, (count, taps, stride, rate) in enumerate(zip(counts, sizes, strides, rates, strict=True)):
        starts = b.op("Mul", counted(b, count), b.constant([stride]))
        within = b.op("Unsqueeze", b.op("Mul", b.counted(taps), b.constant([rate])), b.constant([1]))
        places = b.op("Add", within, starts)
        value = b.op("Gather", value, places, axis=2 + 2 * axis)
    patches = b.op("Transpose", value, perm=[0, 2, 4, 1, 3, 5])
    return reshaped(b, patches, [batch, calculate(b, "Mul", channels, sizes[0] * sizes[1]), *counts])
