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


def _register(op_type: str, doc: str, *, has_groups: bool) -> None:
    def lower(
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
        if not has_groups:
            warn_of_shared_filter(b, filter, backward=False)
        if rounds_zero_point(data, filter):
            ZERO_POINT_ROUNDED.warn(b)
        groups, weights = grouped(b, data, filter) if has_groups else (1, filter)
        window = window_of(data, weights, strides, dilations, groups)
        layout, padding = Layout.ncx(window.rank), AUTO_PAD[auto_pad]
        begin, end = explicit_pads(b, window, pads_begin, pads_end, auto_pad, allow_negative_end=False)
        if leaves_one_column(b, data, weights, window, padding, begin, end):
            ONE_COLUMN.warn(b)

        def emit(x: ir.Value, w: ir.Value) -> ir.Value:
            return conv(b, x, w, None, window, layout, auto_pad=padding, begin=begin, end=end)

        return in_source_types(b, data, weights, emit)

    lower.__doc__ = doc
    REGISTRY.lowering(op_type)(lower)


_register("Convolution", "Conv with explicit pads.", has_groups=False)
_register(
    "GroupConvolution",
    "Conv with explicit pads and group; the weights' group axis is merged into the output channels.",
    has_groups=True,
)
