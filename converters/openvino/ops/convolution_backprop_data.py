"""ConvolutionBackpropData-1 and GroupConvolutionBackpropData-1.

The specification and OpenVINO's CPU plugin differ in where output_shape puts the padding (`_begin_rules`), and
``--semantics`` chooses.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from ortconv.converters.conv.emit import conv_transpose, conv_transpose_to_shape
from ortconv.converters.conv.layout import Layout
from ortconv.converters.conv.output_size import OutputSize
from ortconv.converters.conv.window import Window
from ortconv.converters.openvino.lib.compute_types import INTEGERS, require
from ortconv.converters.openvino.lib.convolution_types import in_source_types
from ortconv.converters.openvino.lib.convolution_window import AutoPadName, explicit_pads, per_axis, window_of
from ortconv.converters.openvino.plugin_bugs.fake_quantize import ZERO_POINT_ROUNDED, rounds_zero_point
from ortconv.converters.openvino.plugin_bugs.shared_constants import warn_of_shared_filter
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.converters.openvino.weights.grouped_filters import grouped
from ortconv.convolution_arithmetic import LARGEST, AutoPad
from ortconv.errors import ShapeError, UnsupportedAttributeError
from ortconv.graph.builder import Builder, Ints
from ortconv.graph.symbolic_shapes import Entry


def _register(op_type: str, doc: str, *, has_groups: bool) -> None:
    def lower(
        b: Builder,
        data: ir.Value,
        filter: ir.Value,
        output_shape: ir.Value | None = None,
        /,
        *,
        strides: Ints = (),
        pads_begin: Ints = (),
        pads_end: Ints = (),
        dilations: Ints = (),
        auto_pad: AutoPadName = "explicit",
        output_padding: Ints = (),
    ) -> ir.Value:
        if not has_groups:
            warn_of_shared_filter(b, filter, backward=True)
            if rounds_zero_point(data, filter, asymmetric=True):
                ZERO_POINT_ROUNDED.warn(b)
        groups, weights = grouped(b, data, filter) if has_groups else (1, filter)
        window = window_of(data, weights, strides, dilations, groups)
        layout, runtime = Layout.ncx(window.rank), b.options.semantics == "runtime"
        begin, end = explicit_pads(b, window, pads_begin, pads_end, auto_pad, allow_negative_end=runtime)
        extra = per_axis("output_padding", output_padding, window.rank, 0, None if runtime else 0)
        if output_shape is not None:
            return _to_shape(b, data, weights, output_shape, window, layout, auto_pad, begin, extra)
        end = tuple(pad - more for pad, more in zip(end, extra, strict=True))

        def emit(x: ir.Value, w: ir.Value) -> ir.Value:
            return conv_transpose(b, x, w, None, window, layout, begin=begin, end=end)

        return in_source_types(b, data, weights, emit)

    lower.__doc__ = doc
    REGISTRY.lowering(op_type)(lower)


_register(
    "ConvolutionBackpropData",
    "ConvTranspose with explicit pads; TransposedConvolutionToShape for sizes that are runtime values.",
    has_groups=False,
)
_register(
    "GroupConvolutionBackpropData",
    "ConvTranspose with explicit pads and group; TransposedConvolutionToShape as for ConvolutionBackpropData.",
    has_groups=True,
)


def _to_shape(
    b: Builder,
    data: ir.Value,
    filter: ir.Value,
    output_shape: ir.Value,
    window: Window,
    layout: Layout,
    auto_pad: AutoPadName,
    begin: Ints,
    extra: Ints,
) -> ir.Value:
    """Emits the convolution whose sizes output_shape states."""
    size = OutputSize.of(data, filter, _target_sizes(b, output_shape, window.rank), window, layout)
    rules = _begin_rules(auto_pad, begin)
    spec, library = (_begins(rule, pads, size, extra) for rule, pads in rules)
    if spec != library:
        b.follow_semantics(
            f"the begin padding is {_begin_text(rules[0][0], spec)} by the specification and "
            f"{_begin_text(rules[1][0], library)} in OpenVINO's CPU plugin; "
            f"--semantics {b.options.semantics} is in force."
        )
    rule, pads = rules[1 if b.options.semantics == "runtime" else 0]
    shape = b.cast(output_shape, ir.DataType.INT64) if size is None else size
    extra = (0,) * window.rank if rule == AutoPad.NOTSET else extra
    if size is None and any(more < 0 for more in extra):
        raise UnsupportedAttributeError("output_padding", list(extra), "integers >= 0 where sizes are dynamic")

    def emit(x: ir.Value, w: ir.Value) -> ir.Value:
        return conv_transpose_to_shape(
            b, x, w, shape, None, window, layout, auto_pad=rule, begin=pads, output_padding=extra
        )

    return in_source_types(b, data, filter, emit)


def _begin_rules(auto_pad: AutoPadName, begin: Ints) -> tuple[tuple[AutoPad, Ints], tuple[AutoPad, Ints]]:
    """Returns how output_shape places the padding by the specification and in the CPU plugin.

    The specification halves the total and puts the odd element at the begin under same_upper, at the end otherwise.
    The plugin does so for same_upper and same_lower only: explicit keeps pads_begin, valid has none. (OpenVINO's Python
    function for the grouped op leaves pads_begin out where an output_shape is given; a file may state it.)
    """
    zeros = (0,) * len(begin)
    if auto_pad == "same_upper":
        return (AutoPad.SAME_LOWER, zeros), (AutoPad.SAME_LOWER, zeros)
    if auto_pad == "same_lower":
        return (AutoPad.SAME_UPPER, zeros), (AutoPad.SAME_UPPER, zeros)
    return (AutoPad.SAME_UPPER, zeros), (AutoPad.NOTSET, begin)


def _begins(rule: AutoPad, pads: Ints, size: OutputSize | None, extra: Ints) -> Ints | None:
    """Returns the begin paddings, None where they depend on runtime values."""
    if rule == AutoPad.NOTSET:
        return pads
    return None if size is None else size.begin(rule, pads, extra)


def _begin_text(rule: AutoPad, resolved: Ints | None) -> str:
    if resolved is not None:
        return str(list(resolved))
    return f"half of the total, rounded {'down' if rule == AutoPad.SAME_UPPER else 'up'},"


def _target_sizes(b: Builder, output_shape: ir.Value, rank: int) -> Sequence[Entry]:
    """Returns what is known of an output_shape."""
    require(output_shape, "output_shape", INTEGERS)
    dims = None if output_shape.shape is None else list(output_shape.shape)
    if dims is not None and (len(dims) != 1 or (isinstance(dims[0], int) and dims[0] != rank)):
        raise ShapeError("output_shape", dims, f"[{rank}] is required: the spatial sizes only.")
    array, known = b.array(output_shape), b.entries(output_shape)
    if array is not None:
        target: Sequence[Entry] = [int(size) for size in array]
    else:
        target = (None,) * rank if known is None or known.entries.shape != (rank,) else known.entries.tolist()
    if any(isinstance(size, int) and not 0 <= size <= LARGEST for size in target):
        raise ShapeError("output_shape", [rank], f"holds {target}; sizes from 0 to {LARGEST} are required.")
    return target
