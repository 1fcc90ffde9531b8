"""Convolution, ConvTranspose and ConvTransposeBackwardData."""

from __future__ import annotations

from typing import Literal

import onnx_ir as ir

from ortconv.converters.conv.emit import conv, conv_transpose
from ortconv.converters.conv.layout import Sizes, sizes
from ortconv.converters.onednn_graph.lib.conv_attributes import ConvAttributes, TransposeAttributes
from ortconv.converters.onednn_graph.lib.dtypes import one_type
from ortconv.converters.onednn_graph.registry import REGISTRY
from ortconv.convolution_arithmetic import extent, given_size_padding, split
from ortconv.errors import ShapeError
from ortconv.graph.builder import Builder, Ints

__all__ = ["ConvWeights", "TransposeWeights", "transpose_pads"]

ConvWeights = Literal["XIO", "OIX"]
TransposeWeights = Literal["XOI", "IOX"]


@REGISTRY.lowering("Convolution")
def convolution(
    b: Builder,
    src: ir.Value,
    weights: ir.Value,
    bias: ir.Value | None = None,
    /,
    *,
    attrs: ConvAttributes,
    weights_format: ConvWeights = "XIO",
) -> ir.Value:
    """Lowers to ai.onnx Conv with explicit pads; org.ortconv Convolution for bf16, or same_* with dynamic sizes."""
    one_type(b, src=src, weights=weights, bias=bias)
    attrs.check(b, src=src, weights=weights)
    return _forward(b, src, weights, bias, attrs, weights_format)


@REGISTRY.lowering("ConvTranspose")
def conv_transpose_forward(
    b: Builder,
    src: ir.Value,
    weights: ir.Value,
    bias: ir.Value | None = None,
    /,
    *,
    attrs: TransposeAttributes,
    weights_format: TransposeWeights = "XOI",
) -> ir.Value:
    """Lowers to ai.onnx ConvTranspose with explicit pads; org.ortconv TransposedConvolution for bf16."""
    one_type(b, src=src, weights=weights, bias=bias)
    attrs.check(b, src=src, weights=weights)
    layout = attrs.layout(weights_format)
    begin, end = transpose_pads(attrs, sizes(weights, layout.w_perm)[2:], "weights")
    end = tuple(pad - extra for pad, extra in zip(end, attrs.extra, strict=True))
    return conv_transpose(b, src, weights, bias, attrs.window, layout, begin=begin, end=end)


@REGISTRY.lowering("ConvTransposeBackwardData")
def conv_transpose_backward_data(
    b: Builder,
    diff_dst: ir.Value,
    weights: ir.Value,
    /,
    *,
    attrs: ConvAttributes,
    weights_format: TransposeWeights = "XOI",
) -> ir.Value:
    """Lowers to ai.onnx Conv with the same weights; org.ortconv Convolution as for Convolution."""
    one_type(b, diff_dst=diff_dst, weights=weights)
    attrs.check(b, diff_dst=diff_dst, weights=weights)
    if any(dilation > 1 for dilation in attrs.dilations):
        b.warn(
            f"the library ignores dilations {list(attrs.dilations)} in this op; they are applied here, as in the "
            "specification of ConvTransposeBackwardData"
        )
    return _forward(b, diff_dst, weights, None, attrs, weights_format)


def _forward(
    b: Builder, x: ir.Value, w: ir.Value, bias: ir.Value | None, attrs: ConvAttributes, weights_format: str
) -> ir.Value:
    layout = attrs.layout(weights_format)
    return conv(b, x, w, bias, attrs.window, layout, auto_pad=attrs.library_auto_pad, begin=attrs.begin, end=attrs.end)


def transpose_pads(attrs: ConvAttributes, kernel: Sizes, argument: str) -> tuple[Ints, Ints]:
    """Returns (begin, end) of a ConvTranspose; under same_* the total is E - s, for s times the size.

    Raises:
        ShapeError: The total depends on a kernel size that is dynamic; the message names `argument`.
    """
    if not attrs.same:
        return attrs.begin, attrs.end
    pads: list[tuple[int, int]] = []
    for taps, stride, dilation in zip(kernel, attrs.window.strides, attrs.window.dilations, strict=True):
        if taps is None:
            raise ShapeError(argument, None, f"the kernel sizes must be known, since auto_pad is {attrs.auto_pad}.")
        pads.append(split(attrs.library_auto_pad, given_size_padding(extent(taps, dilation), stride)))
    return tuple(begin for begin, _ in pads), tuple(end for _, end in pads)
