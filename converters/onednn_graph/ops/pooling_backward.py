"""Gradients of pooling ops."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from ortconv.converters.conv.emit import conv_transpose_to_shape
from ortconv.converters.conv.layout import Layout, Sizes, inverse, transpose
from ortconv.converters.conv.output_size import OutputSize
from ortconv.converters.onednn_graph.lib.conv_attributes import (
    known_sizes,
    runtime_shape,
    same_shape,
    target_shape,
)
from ortconv.converters.onednn_graph.lib.data_format import known_dims, plain_sizes
from ortconv.converters.onednn_graph.lib.pool_attributes import (
    Pool,
    PoolAttributes,
    channels_as_samples,
    check_fit,
    is_wide,
    ncx_float,
    ones_window,
    padded,
    runtime_pads,
    samples_as_channels,
)
from ortconv.converters.onednn_graph.registry import REGISTRY
from ortconv.convolution_arithmetic import AutoPad, conv_transpose_size
from ortconv.errors import ShapeError, UnsupportedAttributeError
from ortconv.graph.builder import Builder, Ints


@REGISTRY.lowering("AvgPoolBackward")
def avg_pool_backward(
    b: Builder,
    diff_dst: ir.Value,
    src_shape_input: ir.Value | None = None,
    /,
    *,
    attrs: PoolAttributes,
    exclude_pad: bool,
    src_shape: Ints = (),
) -> ir.Value:
    """Lowers to ai.onnx ConvTranspose of every channel with a window of ones; computed in float32."""
    pool = attrs.pool(b, diff_dst=diff_dst)
    rank = len(pool.perm)
    target = target_shape(b, "src_shape", src_shape_input, src_shape, rank)
    g = ncx_float(b, "diff_dst", diff_dst, pool)
    if isinstance(target, ir.Value):
        return _to_runtime_shape(b, g, target, pool, exclude_pad=exclude_pad)
    if len(target) != rank:
        raise ShapeError("src_shape", target, f"{rank} dimensions are required, as diff_dst has.")
    whole: Sizes = tuple(target[axis] for axis in pool.perm)
    big = known_sizes(b, "src_shape", target, whole[2:])
    small = plain_sizes(g)
    for found, required in zip(whole[:2], small[:2], strict=True):
        if None not in (found, required) and found != required:
            raise ShapeError("src_shape", target, f"has {found} where diff_dst has {required}.")
    pads = pool.pads(big)
    assert pads is not None
    begin, end = pads
    counts = pool.counts(big, begin, end)
    check_fit("src_shape", big, counts)
    pool.check_counts("diff_dst", big, small[2:], begin, end)
    divisor = _divisors(b, pool, big, counts, begin) if exclude_pad else np.float32(math.prod(pool.kernel))
    shares = b.typed(b.op("Div", g, b.constant(divisor)), ir.DataType.FLOAT, [*small[:2], *counts])
    axes = zip(counts, pool.kernel, attrs.strides, strict=True)
    full = tuple(conv_transpose_size(count, taps, stride, 1) for count, taps, stride in axes if count is not None)
    channels = small[1] if small[1] is not None else whole[1]
    return _sums(b, shares, OutputSize(full, big), begin, pool, counts, (small[0], channels, *big))


def _to_runtime_shape(b: Builder, g: ir.Value, shape: ir.Value, pool: Pool, *, exclude_pad: bool) -> ir.Value:
    """Emits the gradient for a src_shape that is a runtime value."""
    attrs = pool.attrs
    if attrs.same or exclude_pad:
        name = "auto_pad" if attrs.same else "exclude_pad"
        raise UnsupportedAttributeError(
            name, attrs.auto_pad if attrs.same else True, "another one while src_shape is known at run time only"
        )
    expected, spatial = runtime_shape(b, shape, pool.perm)
    dims = plain_sizes(g)
    shares = b.typed(b.op("Div", g, b.constant(np.float32(math.prod(pool.kernel)))), ir.DataType.FLOAT, dims)
    result = _sums(b, shares, spatial, attrs.begin, pool, dims[2:], (*dims[:2], *(None,) * len(pool.kernel)))
    return same_shape(b, result, expected)


def _sums(
    b: Builder, shares: ir.Value, size: OutputSize | ir.Value, begin: Ints, pool: Pool, counts: Sizes, dims: Sizes
) -> ir.Value:
    """Emits the sum over the windows that cover each position, as a transposed convolution with ones.

    Args:
        b: The builder.
        shares: Each window's share, [N, C, windows...].
        size: Spatial sizes of the result.
        begin: Begin padding.
        pool: The op.
        counts: Number of windows per axis.
        dims: Shape of the result, [N, C, spatial...].
    """
    zeros = (0,) * len(pool.kernel)
    flat = conv_transpose_to_shape(
        b,
        channels_as_samples(b, shares, counts),
        ones_window(b, pool),
        size,
        None,
        pool.attrs.window,
        Layout.ncx(len(zeros)),
        auto_pad=AutoPad.NOTSET,
        begin=begin,
        output_padding=zeros,
    )
    result = b.typed(samples_as_channels(b, flat, shares), ir.DataType.FLOAT, dims)
    return b.cast(transpose(b, result, inverse(pool.perm)), b.node.outputs[0].dtype)


@REGISTRY.lowering("MaxPoolBackward")
def max_pool_backward(
    b: Builder, src: ir.Value, diff_dst: ir.Value, /, *, attrs: PoolAttributes, dilations: Ints = ()
) -> ir.Value:
    """Lowers to ai.onnx MaxPool for the indices of the maxima, and ScatterElements; computed in float32.

    Of several maxima in a window the first one counts.
    """
    pool = attrs.pool(b, dilations=dilations, src=src, diff_dst=diff_dst)
    rank = len(pool.perm)
    x, g = ncx_float(b, "src", src, pool), ncx_float(b, "diff_dst", diff_dst, pool)
    big, small = (plain_sizes(value)[2:] for value in (x, g))
    pads = pool.pads(big)
    if pads is not None:
        check_fit("src", big, pool.counts(big, *pads))
        pool.check_counts("diff_dst", big, small, *pads)
    # A window that covers padding only finds its maximum there; the padding is sliced off at the end.
    inside = pads is not None and not is_wide(pool, *pads)
    begin, end = pads or runtime_pads(b, x, pool)
    whole = x if inside else padded(b, x, begin, end, -math.inf)
    _, positions = b.op(
        "MaxPool",
        whole,
        outputs=2,
        kernel_shape=pool.kernel,
        strides=attrs.strides,
        dilations=pool.attrs.window.dilations,
        pads=pads[0] + pads[1] if pads is not None and inside else (0,) * (2 * len(big)),
    )
    line = b.constant([-1])
    shape = b.op("Shape", whole)
    zeros = b.op("ConstantOfShape", b.op("ReduceProd", shape, keepdims=1), value=ir.tensor(np.array([0], np.float32)))
    updates = [b.op("Reshape", value, line) for value in (positions, g)]
    result = b.op("Reshape", b.op("ScatterElements", zeros, *updates, reduction="add"), shape, allowzero=1)
    if not inside:
        starts, axes = begin if isinstance(begin, ir.Value) else b.constant(begin), b.constant(range(2, rank))
        ends = b.op("Add", b.op("Shape", x, start=2), starts)
        result = b.op("Slice", result, starts, ends, axes)
    b.typed(result, ir.DataType.FLOAT, known_dims(x))
    return b.cast(transpose(b, result, inverse(pool.perm)), b.node.outputs[0].dtype)


def _divisors(b: Builder, pool: Pool, big: Ints, counts: Sizes, begin: Ints) -> np.ndarray:
    """Returns the number of elements that every window covers, without padding.

    Raises:
        ShapeError: A window covers padding only.
    """
    result = np.array(1, np.float32)
    for axis, (size, count, before) in enumerate(zip(big, counts, begin, strict=True)):
        assert count is not None
        starts = b.budget.arange("diff_dst's size", count) * pool.attrs.window.strides[axis] - before
        covered = np.clip(starts + pool.kernel[axis], 0, size) - np.clip(starts, 0, size)
        if covered.min() < 1:
            raise ShapeError(
                "src_shape",
                big,
                f"spatial axis {axis}: a window lies in the padding alone; with exclude_pad that is "
                "the mean of nothing.",
            )
        b.budget.require("src_shape", big, result.size, covered.size, result.itemsize)
        result = np.multiply.outer(result, covered.astype(np.float32))
    return result
