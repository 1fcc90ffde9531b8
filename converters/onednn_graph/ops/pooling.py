"""Pools."""

from __future__ import annotations

import math
from typing import Literal

import ml_dtypes
import numpy as np
import onnx_ir as ir

from ortconv.converters.conv.emit import conv
from ortconv.converters.conv.layout import Layout, Sizes, inverse, sizes, transpose
from ortconv.converters.onednn_graph.lib.data_format import plain_sizes
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
from ortconv.convolution_arithmetic import AutoPad
from ortconv.errors import ShapeError
from ortconv.graph.builder import Builder, Ints

Rounding = Literal["floor", "ceil"]


@REGISTRY.lowering("AvgPool", how="exact")
def avg_pool(
    b: Builder, src: ir.Value, /, *, attrs: PoolAttributes, exclude_pad: bool, rounding_type: Rounding = "floor"
) -> ir.Value:
    """Lowers to ai.onnx AveragePool; computed in float32. Without exclude_pad the kernel's size always divides."""
    pool = attrs.pool(b, ceil=rounding_type == "ceil", src=src)
    x = ncx_float(b, "src", src, pool)
    spatial = plain_sizes(x)[2:]
    pads = pool.pads(spatial)
    if pads is not None:
        check_fit("src", spatial, pool.counts(spatial, *pads))
        if not is_wide(pool, *pads):
            result = b.op(
                "AveragePool",
                x,
                kernel_shape=pool.kernel,
                strides=attrs.strides,
                pads=pads[0] + pads[1],
                count_include_pad=int(not exclude_pad),
            )
            return _finished(b, src, result, pool)
        if exclude_pad:
            _check_means(pool, spatial, *pads)
    # AveragePool allows no padding as large as the kernel, and ONNX Runtime fuses a Pad in front into AveragePool.
    total = _sums(b, x, pool, pads)
    if exclude_pad:
        one = ir.tensor(np.array([1], np.float32))
        ones = b.typed(b.op("ConstantOfShape", b.op("Shape", x), value=one), ir.DataType.FLOAT, x.shape)
        divisor = _sums(b, ones, pool, pads)
    else:
        divisor = b.constant(np.float32(math.prod(pool.kernel)))
    return _finished(b, src, b.op("Div", total, divisor), pool)


@REGISTRY.lowering("MaxPool", how="exact")
def max_pool(
    b: Builder, src: ir.Value, /, *, attrs: PoolAttributes, dilations: Ints = (), rounding_type: Rounding = "floor"
) -> ir.Value:
    """Lowers to ai.onnx MaxPool; computed in float32. A window in the padding alone gives the type's lowest value."""
    pool = attrs.pool(b, dilations=dilations, ceil=rounding_type == "ceil", src=src)
    x = ncx_float(b, "src", src, pool)
    spatial = plain_sizes(x)[2:]
    pads = pool.pads(spatial)
    inner = (0,) * len(spatial)
    may_be_empty = pads is None or is_wide(pool, *pads)
    if pads is not None:
        check_fit("src", spatial, pool.counts(spatial, *pads))
    if may_be_empty:
        before, after = pads or runtime_pads(b, x, pool)
        x = padded(b, x, before, after, -math.inf)
    begin, end = (inner, inner) if pads is None or may_be_empty else pads
    result = b.op(
        "MaxPool",
        x,
        kernel_shape=pool.kernel,
        strides=attrs.strides,
        dilations=pool.attrs.window.dilations,
        pads=begin + end,
    )
    if may_be_empty or (src.dtype != ir.DataType.FLOAT and any(begin + end)):
        assert src.dtype is not None
        lowest = float(ml_dtypes.finfo(src.dtype.numpy()).min)  # type: ignore[no-untyped-call]
        result = b.op("Max", result, b.constant(lowest, "float32"))
    return _finished(b, src, result, pool)


def _check_means(pool: Pool, spatial: Sizes, begin: Ints, end: Ints) -> None:
    """Checks that every window covers an element, as exclude_pad requires.

    Raises:
        ShapeError: A window covers padding only.
    """
    for axis, (size, k) in enumerate(zip(spatial, pool.kernel, strict=True)):
        if size is not None and max(begin[axis], end[axis]) >= k:
            raise ShapeError(
                "src",
                spatial,
                f"spatial axis {axis}: with padding {begin[axis]} and {end[axis]} a window of {k} lies in the padding "
                "alone; with exclude_pad that is the mean of nothing.",
            )


def _sums(b: Builder, x: ir.Value, pool: Pool, pads: tuple[Ints, Ints] | None) -> ir.Value:
    """Emits the sums over the windows, as a convolution of every channel with ones."""
    if pads is None:
        x = padded(b, x, *runtime_pads(b, x, pool), 0.0)
        pads = ((0,) * len(pool.kernel), (0,) * len(pool.kernel))
    spatial = plain_sizes(x)[2:]
    flat, layout = channels_as_samples(b, x, spatial), Layout.ncx(len(spatial))
    begin, end = pads
    total = conv(
        b, flat, ones_window(b, pool), None, pool.attrs.window, layout, auto_pad=AutoPad.NOTSET, begin=begin, end=end
    )
    return samples_as_channels(b, total, x)


def _finished(b: Builder, src: ir.Value, result: ir.Value, pool: Pool) -> ir.Value:
    """Transposes and casts a result to the op's format and type."""
    dims = sizes(src, pool.perm)
    pads = pool.pads(dims[2:])
    counts = (None,) * len(pool.kernel) if pads is None else pool.counts(dims[2:], *pads)
    b.typed(result, ir.DataType.FLOAT, [*dims[:2], *counts])
    return b.cast(transpose(b, result, inverse(pool.perm)), b.node.outputs[0].dtype)
