"""ConvolutionBackwardData: the gradient of a convolution's source, with a given shape."""

from __future__ import annotations

from typing import NamedTuple

import onnx_ir as ir

from ortconv.converters.conv.emit import conv_transpose_to_shape
from ortconv.converters.conv.layout import Layout, Sizes, sizes
from ortconv.converters.conv.output_size import OutputSize
from ortconv.converters.onednn_graph.lib.conv_attributes import (
    TransposeAttributes,
    known_sizes,
    runtime_shape,
    same_shape,
    target_shape,
)
from ortconv.converters.onednn_graph.lib.dtypes import one_type
from ortconv.converters.onednn_graph.ops.convolution import ConvWeights
from ortconv.converters.onednn_graph.registry import REGISTRY
from ortconv.convolution_arithmetic import AutoPad, conv_size
from ortconv.errors import ShapeError
from ortconv.graph.builder import Builder, Ints
from ortconv.options import Semantics


@REGISTRY.lowering("ConvolutionBackwardData")
def convolution_backward_data(
    b: Builder,
    diff_dst: ir.Value,
    weights: ir.Value,
    dst_shape_input: ir.Value | None = None,
    /,
    *,
    attrs: TransposeAttributes,
    weights_format: ConvWeights = "XIO",
    dst_shape: Ints = (),
) -> ir.Value:
    """Lowers to ai.onnx ConvTranspose with explicit pads; TransposedConvolutionToShape for sizes known at run time.

    Under spec semantics the total padding is F - Y + output_padding, and same_lower puts its smaller half at the
    beginning. Under runtime semantics same_upper does so, and output_padding has no effect.
    """
    one_type(b, diff_dst=diff_dst, weights=weights)
    attrs.check(b, diff_dst=diff_dst, weights=weights)
    layout = attrs.layout(weights_format)
    target = target_shape(b, "dst_shape", dst_shape_input, dst_shape, attrs.window.rank + 2)
    size: OutputSize | ir.Value
    if isinstance(target, ir.Value):
        shape, size = runtime_shape(b, target, layout.x_perm)
        _warn_of_unknown_sizes(b, attrs)
    else:
        size = _given_size(b, target, diff_dst, weights, attrs, layout)
    auto_pad, output_padding = _reading(attrs, b.options.semantics)
    result = conv_transpose_to_shape(
        b,
        diff_dst,
        weights,
        size,
        None,
        attrs.window,
        layout,
        auto_pad=auto_pad,
        begin=attrs.begin,
        output_padding=output_padding,
    )
    return same_shape(b, result, shape) if isinstance(target, ir.Value) else result


def _given_size(
    b: Builder, target: Sizes, diff_dst: ir.Value, weights: ir.Value, attrs: TransposeAttributes, layout: Layout
) -> OutputSize | ir.Value:
    """Checks dst_shape; returns its spatial sizes, as a value if the padding depends on runtime values."""
    spatial = _spatial_target(b, target, diff_dst, weights, attrs, layout)
    size = OutputSize.of(diff_dst, weights, spatial, attrs.window, layout)
    if size is None:
        _warn_of_unknown_sizes(b, attrs)
        return b.constant(spatial)
    x, k = sizes(diff_dst, layout.x_perm)[2:], sizes(weights, layout.w_perm)[2:]
    rows = zip(x, k, spatial, size.full, attrs.strides, attrs.dilations, strict=True)
    axes = [_Axis._make(row) for row in rows]
    _check_forward_size(b, target, axes, _begin(attrs, size, b.options.semantics), attrs, layout)
    _warn_of_library(b, axes, size, attrs)
    return size


class _Axis(NamedTuple):
    """Sizes along a spatial axis: of diff_dst, of the kernel, of the result, and of the result without padding."""

    small: int
    kernel: int
    big: int
    full: int
    stride: int
    dilation: int


def _reading(attrs: TransposeAttributes, semantics: Semantics) -> tuple[AutoPad, Ints]:
    """Returns auto_pad in ONNX's meaning, and the output padding that enters the total padding.

    The library ignores output_padding and splits the total as ONNX does; the specification of ConvolutionBackwardData
    swaps same_upper and same_lower. For sizes that the library accepts both have the same total padding.
    """
    if semantics == "runtime" or not attrs.same:
        return attrs.library_auto_pad, (0,) * attrs.window.rank
    swapped = AutoPad.SAME_LOWER if attrs.library_auto_pad == AutoPad.SAME_UPPER else AutoPad.SAME_UPPER
    return swapped, attrs.extra


def _begin(attrs: TransposeAttributes, size: OutputSize, semantics: Semantics) -> Ints:
    auto_pad, output_padding = _reading(attrs, semantics)
    return size.begin(auto_pad, attrs.begin, output_padding)


def _spatial_target(
    b: Builder, target: Sizes, diff_dst: ir.Value, weights: ir.Value, attrs: TransposeAttributes, layout: Layout
) -> Ints:
    """Checks batch and channels of dst_shape and returns its spatial sizes.

    Raises:
        ShapeError: They are not those of diff_dst and weights.
        UnsupportedAttributeError: A spatial size is not known.
    """
    if len(target) != attrs.window.rank + 2:
        raise ShapeError("dst_shape", target, f"{attrs.window.rank + 2} dimensions are required, as diff_dst has.")
    batch, channels, *spatial = (target[axis] for axis in layout.x_perm)
    per_group = sizes(weights, layout.w_perm)[1]
    expected = {
        "batch": (batch, sizes(diff_dst, layout.x_perm)[0]),
        "channels": (channels, None if per_group is None else per_group * attrs.window.group),
    }
    for what, (found, required) in expected.items():
        if None not in (found, required) and found != required:
            raise ShapeError("dst_shape", target, f"{what} is {found}, {required} is required.", hint=_order(layout))
    return known_sizes(b, "dst_shape", target, tuple(spatial))


def _check_forward_size(
    b: Builder, target: Sizes, axes: list[_Axis], begin: Ints, attrs: TransposeAttributes, layout: Layout
) -> None:
    """Checks that a forward convolution of a tensor of dst_shape gives the size of diff_dst.

    Raises:
        ShapeError: It gives another size.
    """
    for number, axis in enumerate(axes):
        if attrs.same and b.options.semantics == "runtime":
            found = -(-axis.big // axis.stride)
            low, high = axis.stride * (axis.small - 1) + 1, axis.stride * axis.small
        else:
            end = max(axis.full - begin[number] - axis.big, 0) if attrs.same else attrs.end[number]
            found = conv_size(axis.big, axis.kernel, axis.stride, axis.dilation, begin[number] + end)
            low = axis.full - begin[number] - end
            high = low + axis.stride - 1
        if found != axis.small:
            raise ShapeError(
                "dst_shape",
                target,
                f"spatial axis {number}: a convolution takes size {axis.big} to {found}, diff_dst has {axis.small}; "
                f"allowed: {max(low, 1)} to {high}, with begin padding {begin[number]}.",
                hint=_order(layout),
            )


def _warn_of_library(b: Builder, axes: list[_Axis], size: OutputSize, attrs: TransposeAttributes) -> None:
    """Warns where specification and library pad differently, or the library rejects the shape."""
    if not attrs.same:
        return
    spec, library = (_begin(attrs, size, semantics) for semantics in ("spec", "runtime"))
    full = [axis.full - axis.big for axis in axes]
    if any(-(-axis.big // axis.stride) != axis.small for axis in axes):
        b.warn(
            f"auto_pad {attrs.auto_pad}: the library rejects this dst_shape, since its size over the stride is not "
            "the size of diff_dst"
        )
    elif spec != library:
        b.follow_semantics(
            f"auto_pad {attrs.auto_pad}: the specification of ConvolutionBackwardData pads begin {list(spec)}, "
            f"end {_difference(full, spec)}; "
            f"the library pads begin {list(library)}, end {_difference(full, library)}"
        )


def _warn_of_unknown_sizes(b: Builder, attrs: TransposeAttributes) -> None:
    if attrs.same:
        b.follow_semantics(
            f"auto_pad {attrs.auto_pad}: the specification of ConvolutionBackwardData puts the odd element of the "
            f"total padding at the {'begin' if attrs.auto_pad == 'same_upper' else 'end'}, the library at the other "
            "side and without output_padding; the sizes are known at run time only"
        )


def _order(layout: Layout) -> str:
    channels_last = layout.x_perm[1] != 1
    order = "[N, spatial..., C]" if channels_last else "[N, C, spatial...]"
    return f"data_format {'NXC' if channels_last else 'NCX'} reads it as {order}."


def _difference(total: list[int], part: Ints) -> list[int]:
    return [whole - some for whole, some in zip(total, part, strict=True)]
