"""ConvolutionBackwardData: the gradient of a convolution's source, of a shape that the op is told."""

from __future__ import annotations

from typing import NamedTuple

import onnx_ir as ir

from ortconv.converters.conv.emit import conv_transpose_to_shape
from ortconv.converters.conv.layout import Layout, Sizes, sizes
from ortconv.converters.conv.output_size import OutputSize
from ortconv.converters.onednn_graph.lib.conv_attributes import AutoPadName, Grid, on_grid, same_shape, target_shape
from ortconv.converters.onednn_graph.lib.data_format import DataFormat
from ortconv.converters.onednn_graph.lib.dtypes import one_type
from ortconv.converters.onednn_graph.ops.convolution import ConvWeights, layout_of
from ortconv.converters.onednn_graph.registry import REGISTRY
from ortconv.convolution_arithmetic import AutoPad, conv_size
from ortconv.errors import ShapeError, UnsupportedAttributeError
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
    strides: Ints,
    pads_begin: Ints,
    pads_end: Ints,
    dilations: Ints,
    auto_pad: AutoPadName = "none",
    output_padding: Ints = (),
    groups: int = 1,
    data_format: DataFormat = "NXC",
    weights_format: ConvWeights = "XIO",
    dst_shape: Ints = (),
) -> ir.Value:
    """Lowers to ai.onnx ConvTranspose with explicit pads; TransposedConvolutionToShape for sizes known at run time.

    Under spec semantics the total padding is F - Y + output_padding, of which same_lower puts the smaller half in
    front; under runtime semantics same_upper does, and output_padding has no effect.
    """
    one_type(b, diff_dst=diff_dst, weights=weights)
    grid = on_grid(
        b,
        {"diff_dst": diff_dst, "weights": weights},
        strides=strides,
        pads_begin=pads_begin,
        pads_end=pads_end,
        dilations=dilations,
        groups=groups,
        auto_pad=auto_pad,
        output_padding=output_padding,
    )
    layout = layout_of(grid, data_format, weights_format)
    target = target_shape(b, "dst_shape", dst_shape_input, dst_shape, grid.window.rank + 2)
    if isinstance(target, ir.Value):
        return _to_runtime_shape(b, diff_dst, weights, target, grid, layout)
    spatial = _spatial_target(b, target, diff_dst, weights, grid, layout)
    size = OutputSize.of(diff_dst, weights, spatial, grid.window, layout)
    if size is None:
        _warn_of_unknown_sizes(b, grid)
        return _to_shape(b, diff_dst, weights, b.constant(spatial), grid, layout)
    x, k = sizes(diff_dst, layout.x_perm)[2:], sizes(weights, layout.w_perm)[2:]
    axes = list(
        map(_Axis._make, zip(x, k, spatial, size.full, grid.window.strides, grid.window.dilations, strict=True))
    )
    begin = _begin(grid, size, b.options.semantics)
    _check_forward_size(b, target, axes, begin, grid, layout)
    _warn_of_library(b, axes, size, grid)
    return _to_shape(b, diff_dst, weights, size, grid, layout)


class _Axis(NamedTuple):
    """Sizes along a spatial axis: of diff_dst, of the kernel, of the result, and of the result without padding."""

    small: int
    kernel: int
    big: int
    full: int
    stride: int
    dilation: int


def _reading(grid: Grid, semantics: Semantics) -> tuple[AutoPad, Ints]:
    """Returns how the begin padding follows from sizes, in ONNX's words, and the output padding that enters it.

    The library ignores output_padding and means by same_upper and same_lower what ONNX means; the page halves the other
    way round. Where the library accepts the sizes, its total (of the forward convolution) is the page's.
    """
    if semantics == "runtime" or not grid.same:
        return grid.rule, (0,) * grid.window.rank
    swapped = AutoPad.SAME_LOWER if grid.rule == AutoPad.SAME_UPPER else AutoPad.SAME_UPPER
    return swapped, grid.output_padding


def _begin(grid: Grid, size: OutputSize, semantics: Semantics) -> Ints:
    auto_pad, output_padding = _reading(grid, semantics)
    return size.begin(auto_pad, grid.begin, output_padding)


def _spatial_target(
    b: Builder, target: Sizes, diff_dst: ir.Value, weights: ir.Value, grid: Grid, layout: Layout
) -> Ints:
    """Checks batch and channels of dst_shape and returns its spatial sizes.

    Raises:
        ShapeError: They are not those of diff_dst and weights.
        UnsupportedAttributeError: A spatial size is not known.
    """
    if len(target) != grid.window.rank + 2:
        raise ShapeError("dst_shape", target, f"{grid.window.rank + 2} dimensions are required, as diff_dst has.")
    batch, channels, *spatial = (target[axis] for axis in layout.x_perm)
    per_group = sizes(weights, layout.w_perm)[1]
    expected = {
        "batch": (batch, sizes(diff_dst, layout.x_perm)[0]),
        "channels": (channels, None if per_group is None else per_group * grid.window.group),
    }
    for what, (found, required) in expected.items():
        if None not in (found, required) and found != required:
            raise ShapeError("dst_shape", target, f"{what} is {found}, {required} is required.", hint=_order(layout))
    known = tuple(size for size in spatial if size is not None)
    if len(known) < len(spatial):
        raise UnsupportedAttributeError(
            "dst_shape", None, f"the shape of the result; {b.node.outputs[0].name} is declared as {list(target)}"
        )
    return known


def _check_forward_size(b: Builder, target: Sizes, axes: list[_Axis], begin: Ints, grid: Grid, layout: Layout) -> None:
    """Checks that the convolution of which this is the gradient exists.

    Raises:
        ShapeError: It takes a tensor of dst_shape to another size than that of diff_dst.
    """
    for number, axis in enumerate(axes):
        if grid.same and b.options.semantics == "runtime":
            found = -(-axis.big // axis.stride)
            low, high = axis.stride * (axis.small - 1) + 1, axis.stride * axis.small
        else:
            end = max(axis.full - begin[number] - axis.big, 0) if grid.same else grid.end[number]
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


def _warn_of_library(b: Builder, axes: list[_Axis], size: OutputSize, grid: Grid) -> None:
    """Warns where page and library pad differently, or the library refuses."""
    if not grid.same:
        return
    page, library = (_begin(grid, size, semantics) for semantics in ("spec", "runtime"))
    full = [axis.full - axis.big for axis in axes]
    if any(-(-axis.big // axis.stride) != axis.small for axis in axes):
        b.warn(
            f"auto_pad {grid.auto_pad}: the library refuses this dst_shape, since its size over the stride is not "
            "the size of diff_dst"
        )
    elif page != library:
        b.follow(
            f"auto_pad {grid.auto_pad}: the page pads begin {list(page)}, end {_difference(full, page)}; "
            f"the library pads begin {list(library)}, end {_difference(full, library)}"
        )


def _warn_of_unknown_sizes(b: Builder, grid: Grid) -> None:
    if grid.same:
        b.follow(
            f"auto_pad {grid.auto_pad}: the page puts the odd element of the total padding at the "
            f"{'begin' if grid.auto_pad == 'same_upper' else 'end'}, the library at the other side and without "
            "output_padding; the sizes are known at run time only"
        )


def _to_shape(
    b: Builder, diff_dst: ir.Value, weights: ir.Value, spatial: OutputSize | ir.Value, grid: Grid, layout: Layout
) -> ir.Value:
    auto_pad, output_padding = _reading(grid, b.options.semantics)
    return conv_transpose_to_shape(
        b,
        diff_dst,
        weights,
        spatial,
        None,
        grid.window,
        layout,
        auto_pad=auto_pad,
        begin=grid.begin,
        output_padding=output_padding,
    )


def _to_runtime_shape(
    b: Builder, diff_dst: ir.Value, weights: ir.Value, dst_shape: ir.Value, grid: Grid, layout: Layout
) -> ir.Value:
    """Emits the op for a dst_shape that is an input of the model; batch and channels in it are checked at run time."""
    rank = grid.window.rank + 2
    shape = b.typed(b.cast(dst_shape, ir.DataType.INT64), None, [rank])
    first = layout.x_perm[2]
    spatial = b.op("Slice", shape, b.constant([first]), b.constant([first + grid.window.rank]), b.constant([0]))
    b.typed(spatial, ir.DataType.INT64, [grid.window.rank])
    _warn_of_unknown_sizes(b, grid)
    return same_shape(b, _to_shape(b, diff_dst, weights, spatial, grid, layout), shape)


def _order(layout: Layout) -> str:
    channels_last = layout.x_perm[1] != 1
    order = "[N, spatial..., C]" if channels_last else "[N, C, spatial...]"
    return f"data_format {'NXC' if channels_last else 'NCX'} reads it as {order}."


def _difference(total: list[int], part: Ints) -> list[int]:
    return [whole - some for whole, some in zip(total, part, strict=True)]
