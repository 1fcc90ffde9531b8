"""Convolution-1 and GroupConvolution-1."""

from __future__ import annotations

import onnx_ir as ir

from ortconv.converters.conv.emit import conv
from ortconv.converters.conv.layout import Layout
from ortconv.converters.openvino.lib.convolution_types import in_source_types
from ortconv.converters.openvino.lib.convolution_window import AUTO_PAD, AutoPadName, explicit_pads, window_of
from ortconv.converters.openvino.plugin_bugs.convolution import ONE_COLUMN, leaves_one_column
from ortconv.converters.openvino.plugin_bugs.fake_quantize import ZERO_POINT_ROUNDED, rounds_zero_point
from ortconv.converters.openvino.plugin_bugs.shared_constants import warn_of_shared_filter
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.converters.openvino.weights.grouped_filters import grouped
from ortconv.graph.builder import Builder, Ints


@REGISTRY.lowering("Convolution")
def convolution(
    b: Builder,
    data: ir.Value,
    filter: ir.Value,
    /,
    *,
    strides: Ints = (),
    pads_begin: Ints = (),
    pads_end: Ints = (),
    dilations: Ints = (),
    auto_pad: AutoPadName = "explicit",
) -> ir.Value:
    """Conv with explicit pads."""
    warn_of_shared_filter(b, filter, backward=False)
    if rounds_zero_point(data, filter):
        ZERO_POINT_ROUNDED.warn(b)
    return _convolution(b, data, filter, 1, strides, pads_begin, pads_end, dilations, auto_pad)


@REGISTRY.lowering("GroupConvolution")
def group_convolution(
    b: Builder,
    data: ir.Value,
    filter: ir.Value,
    /,
    *,
    strides: Ints = (),
    pads_begin: Ints = (),
    pads_end: Ints = (),
    dilations: Ints = (),
    auto_pad: AutoPadName = "explicit",
) -> ir.Value:
    """Conv with explicit pads and group; the weights' group axis is merged into the output channels."""
    if rounds_zero_point(data, filter):
        ZERO_POINT_ROUNDED.warn(b)
    groups, merged = grouped(b, data, filter)
    return _convolution(b, data, merged, groups, strides, pads_begin, pads_end, dilations, auto_pad)


def _convolution(
    b: Builder,
    data: ir.Value,
    filter: ir.Value,
    groups: int,
    strides: Ints,
    pads_begin: Ints,
    pads_end: Ints,
    dilations: Ints,
    auto_pad: AutoPadName,
) -> ir.Value:
    window = window_of(data, filter, strides, dilations, groups)
    begin, end = explicit_pads(b, window, pads_begin, pads_end, auto_pad, negative_end=False)
    if leaves_one_column(b, data, filter, window, AUTO_PAD[auto_pad], begin, end):
        ONE_COLUMN.warn(b)

    def emit(x: ir.Value, w: ir.Value) -> ir.Value:
        return conv(b, x, w, None, window, Layout.ncx(window.rank), auto_pad=AUTO_PAD[auto_pad], begin=begin, end=end)

    return in_source_types(b, data, filter, emit)
