"""BinaryConvolution: convolution of signs with binary weights, as OpenVINO's CPU plugin computes it.

The plugin takes the lowest bit of each byte of the weights first, where the file format has the highest first. It does
so reliably only for a multiple of 8 input channels: otherwise its results change from run to run.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import onnx_ir as ir

from ortconv.converters.conv.emit import conv
from ortconv.converters.conv.layout import Layout
from ortconv.converters.openvino.lib.compute_types import FLOATS, in_single, require
from ortconv.converters.openvino.lib.convolution_window import AUTO_PAD, AutoPadName, explicit_pads, window_of
from ortconv.converters.openvino.lib.sizes import require_sizes
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import ConversionError, ShapeError, UnsupportedAttributeError
from ortconv.graph.builder import Builder, Ints

_RANK = 4
_BYTE = 8


@REGISTRY.lowering("BinaryConvolution")
def binary_convolution(
    b: Builder,
    data: ir.Value,
    filter: ir.Value,
    /,
    *,
    strides: Ints,
    pads_begin: Ints,
    pads_end: Ints,
    dilations: Ints,
    mode: Literal["xnor-popcount"],
    pad_value: float,
    auto_pad: AutoPadName = "explicit",
) -> ir.Value:
    """Conv of 1 where the data is positive and -1 elsewhere, by weights of 1 and -1."""
    require(data, "data", FLOATS)
    require(filter, "filter", (ir.DataType.BOOL,))
    require_sizes(data, "data", None, None, None, None)
    signs = _signs(b, filter)
    weights = b.constant(signs)
    window = window_of(data, weights, strides, dilations, 1)
    begin, end = explicit_pads(b, window, pads_begin, pads_end, auto_pad, allow_negative_end=False)
    b.follow(
        "filter: OpenVINO's CPU plugin takes the lowest bit of each byte first; the file format has the highest first"
    )
    reach = (signs.shape[3] - 1) * window.dilations[1]
    if pad_value == 0 and window.strides[1].bit_count() > 1 and reach >= window.strides[1]:
        raise UnsupportedAttributeError(
            "strides",
            list(strides),
            f"a power of two, or more than {reach}, along the width where pad_value is 0: with others OpenVINO's CPU "
            "plugin leaves columns of the kernel out",
        )
    fill, bias = 0.0, None
    if auto_pad.startswith("same") or any(begin + end):
        if pad_value == 0:
            b.follow("pad_value 0: OpenVINO's CPU plugin ignores the padding; the specification counts it as -1")
        else:
            # To pad with pad_value: subtract it from all elements, then pad with zeros.
            fill = 1.0 if pad_value == 1 else -1.0
            bias = b.constant(fill * signs.sum(axis=(1, 2, 3)))
    positive, negative = (b.constant(sign - fill, np.float32) for sign in (1.0, -1.0))

    def formula(x: ir.Value) -> ir.Value:
        bits = b.op("Greater", x, b.constant(0, np.float32))
        values = b.typed(b.op("Where", bits, positive, negative), ir.DataType.FLOAT, data.shape)
        return conv(b, values, weights, bias, window, Layout.ncx(2), auto_pad=AUTO_PAD[auto_pad], begin=begin, end=end)

    return in_single(b, formula, data)


def _signs(b: Builder, filter: ir.Value) -> np.ndarray:
    """Returns the weights as 1 and -1."""
    bits = b.array(filter)
    if bits is None:
        raise ConversionError("input filter is computed at run time; allowed: a constant.")
    if bits.ndim != _RANK:
        raise ShapeError("filter", bits.shape, f"rank {_RANK} is required.")
    if bits.shape[1] % _BYTE:
        raise ShapeError(
            "filter",
            bits.shape,
            f"its {bits.shape[1]} input channels must be a multiple of {_BYTE}: with others the results of OpenVINO's "
            "CPU plugin change from run to run.",
        )
    read = np.unpackbits(np.packbits(bits.ravel()), bitorder="little").reshape(bits.shape)
    return np.where(read, 1, -1).astype(np.float32)
