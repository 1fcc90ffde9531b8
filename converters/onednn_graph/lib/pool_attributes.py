"""Attributes of pooling ops and their gradients: checks, padding and number of windows."""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx_ir as ir

from ortconv.converters.conv.layout import Sizes, transpose
from ortconv.converters.onednn_graph.lib.conv_attributes import AutoPadName, ConvAttributes
from ortconv.converters.onednn_graph.lib.data_format import DataFormat, known_dims, rank_of
from ortconv.converters.onednn_graph.lib.dtypes import one_type
from ortconv.convolution_arithmetic import LARGEST, conv_size, extent, in_order, pool_size, same_padding, split
from ortconv.errors import ShapeError, UnsupportedAttributeError
from ortconv.graph.builder import Builder, Ints

__all__ = [
    "Pool",
    "PoolAttributes",
    "channels_as_samples",
    "check_fit",
    "is_wide",
    "ncx_float",
    "ones_window",
    "padded",
    "runtime_pads",
    "samples_as_channels",
]

_MAX_SPATIAL = 3
"""Largest number of spatial axes of pooling in ONNX Runtime and in oneDNN."""


@dataclasses.dataclass(frozen=True)
class Pool:
    """Checked attributes of a pooling op.

    Attributes:
        kernel: Sizes of the window.
        attrs: Strides, dilations and padding.
        ceil: Whether the number of windows is rounded up.
        perm: Permutation of the data to [N, C, spatial...].
    """

    kernel: Ints
    attrs: ConvAttributes
    ceil: bool
    perm: Ints

    def pads(self, sizes: Sizes) -> tuple[Ints, Ints] | None:
        """Returns begin and end paddings that give the op's number of windows when rounding down.

        For static sizes the end padding is what the last window needs. None if a padding depends on a dynamic size.
        """
        rows: list[tuple[int, int]] = []
        window = self.attrs.window
        for axis, (size, k) in enumerate(zip(sizes, self.kernel, strict=True)):
            s, d = window.strides[axis], window.dilations[axis]
            begin, end = self.attrs.begin[axis], self.attrs.end[axis]
            if self.attrs.same:
                if size is None and s != 1:
                    return None
                begin, end = split(self.attrs.library_auto_pad, same_padding(1 if size is None else size, k, s, d))
            if size is not None:
                count = pool_size(size, k, s, d, begin + end, ceil=self.ceil)
                end = max((count - 1) * s + extent(k, d) - size - begin, 0)
            elif self.ceil:
                end += s - 1  # Rounding up equals rounding down with this much more padding.
            rows.append((begin, end))
        return tuple(begin for begin, _ in rows), tuple(end for _, end in rows)

    def counts(self, sizes: Sizes, begin: Ints, end: Ints) -> Sizes:
        """Returns the number of windows per axis, None for a dynamic size."""
        window = self.attrs.window
        return tuple(
            None if size is None else conv_size(size, k, s, d, before + after)
            for size, k, s, d, before, after in zip(
                sizes, self.kernel, window.strides, window.dilations, begin, end, strict=True
            )
        )

    def check_counts(self, argument: str, sizes: Sizes, found: Sizes, begin: Ints, end: Ints) -> None:
        """Checks that a gradient has one element per window.

        Raises:
            ShapeError: The numbers differ.
        """
        for axis, (count, given) in enumerate(zip(self.counts(sizes, begin, end), found, strict=True)):
            if None not in (count, given) and count != given:
                raise ShapeError(
                    argument, found, f"spatial axis {axis}: size {sizes[axis]} has {count} windows, {given} are given."
                )


@dataclasses.dataclass(frozen=True, kw_only=True)
class PoolAttributes:
    """The attributes that all pooling ops share.

    Attributes:
        strides: At least 1 each.
        pads_begin: At least 0 each; ignored unless auto_pad is none.
        pads_end: At least 0 each; ignored unless auto_pad is none.
        kernel: At least 1 each.
        auto_pad: How the padding is determined.
        data_format: Order of the axes.
    """

    strides: Ints
    pads_begin: Ints
    pads_end: Ints
    kernel: Ints
    auto_pad: AutoPadName = "none"
    data_format: DataFormat = "NXC"

    def pool(self, b: Builder, *, dilations: Ints = (), ceil: bool = False, **tensors: ir.Value) -> Pool:
        """Checks types and attributes.

        Args:
            b: The builder.
            dilations: At least 1 each; empty for ones.
            ceil: Whether the number of windows is rounded up.
            **tensors: Tensors of one type and of the data's rank, by argument name.

        Raises:
            ShapeError: There are fewer than 1 or more than 3 spatial axes.
            UnsupportedAttributeError: A list does not have one entry per spatial axis, or a value is out of range.
            UnsupportedTypeError: A type is not allowed, or differs from that of the first tensor.
        """
        one_type(b, **tensors)
        name, value = next(iter(tensors.items()))
        spatial = rank_of(name, value) - 2
        if spatial > _MAX_SPATIAL:
            raise ShapeError(name, known_dims(value), f"at most {_MAX_SPATIAL} spatial axes are required.")
        attrs = ConvAttributes(
            strides=self.strides,
            pads_begin=self.pads_begin,
            pads_end=self.pads_end,
            dilations=dilations or (1,) * spatial,
            auto_pad=self.auto_pad,
            data_format=self.data_format,
        )
        attrs.check(b, **tensors)
        if len(self.kernel) != spatial or min(self.kernel) < 1 or max(self.kernel) > LARGEST:
            raise UnsupportedAttributeError(
                "kernel", self.kernel, f"{spatial} integers from 1 to {LARGEST}, one per spatial axis"
            )
        return Pool(self.kernel, attrs, ceil, attrs.perm)


def check_fit(argument: str, sizes: Sizes, counts: Sizes) -> None:
    """Checks that there is a window along every axis.

    Raises:
        ShapeError: The kernel does not fit.
    """
    for axis, count in enumerate(counts):
        if count is not None and count < 1:
            raise ShapeError(argument, sizes, f"spatial axis {axis}: the kernel must fit into the padded size.")


def is_wide(pool: Pool, begin: Ints, end: Ints) -> bool:
    """Returns whether a window may cover padding only, which ONNX Runtime's pooling does not support."""
    wide = any(pad >= k for pads in (begin, end) for pad, k in zip(pads, pool.kernel, strict=True))
    dilated = any(d > 1 for d in pool.attrs.window.dilations)
    return wide or (dilated and any((*begin, *end)))


def runtime_pads(b: Builder, x: ir.Value, pool: Pool) -> tuple[ir.Value, ir.Value]:
    """Emits nodes that compute `Pool.pads` for same_* with dynamic sizes; returns two int64 [spatial axes]."""
    window = pool.attrs.window
    size, strides = b.op("Shape", x, start=2), b.constant(window.strides)
    before_next = b.op("Add", size, b.constant([s - 1 for s in window.strides]))
    covered = b.op("Mul", b.op("Div", before_next, strides), strides)
    more = [extent(k, d) - s for k, d, s in zip(pool.kernel, window.dilations, window.strides, strict=True)]
    total = b.op("Max", b.op("Sub", b.op("Add", covered, b.constant(more)), size), b.constant([0]))
    half = b.op("Div", total, b.constant([2]))
    begin, end = in_order(pool.attrs.library_auto_pad, half, b.op("Sub", total, half))
    return begin, b.op("Add", end, b.constant([s - 1 for s in window.strides])) if pool.ceil else end


def padded(b: Builder, x: ir.Value, begin: Ints | ir.Value, end: Ints | ir.Value, number: float) -> ir.Value:
    """Emits Pad of the spatial axes of [N, C, spatial...], in float32."""
    none = b.constant([0, 0])
    parts = [value if isinstance(value, ir.Value) else b.constant(value) for value in (begin, end)]
    pads = b.op("Concat", none, parts[0], none, parts[1], axis=0)
    dims = known_dims(x) or []
    result = b.op("Pad", x, pads, b.constant(number, "float32"))
    return b.typed(result, ir.DataType.FLOAT, [*dims[:2], *[None] * (len(dims) - 2)])


def ncx_float(b: Builder, argument: str, value: ir.Value, pool: Pool) -> ir.Value:
    """Casts data to float32 and transposes it to [N, C, spatial...]."""
    assert rank_of(argument, value) == len(pool.perm)
    return transpose(b, b.cast(value, ir.DataType.FLOAT), pool.perm)


def channels_as_samples(b: Builder, value: ir.Value, counts: Sizes) -> ir.Value:
    """Reshapes [N, C, spatial...] to [N*C, 1, spatial...]."""
    known = [size for size in counts if size is not None]
    head = b.constant([-1, 1])
    tail = b.constant(known) if len(known) == len(counts) else b.op("Shape", value, start=2)
    flat = b.op("Reshape", value, b.op("Concat", head, tail, axis=0))
    return b.typed(flat, ir.DataType.FLOAT, [None, 1, *counts])


def samples_as_channels(b: Builder, value: ir.Value, model: ir.Value) -> ir.Value:
    """Reverses `channels_as_samples`: batch and channels are those of `model`."""
    head, tail = b.op("Shape", model, end=2), b.op("Shape", value, start=2)
    return b.op("Reshape", value, b.op("Concat", head, tail, axis=0))


def ones_window(b: Builder, pool: Pool) -> ir.Value:
    """Returns weights of ones, with which a convolution sums each window."""
    return b.constant(b.budget.full("kernel", (1, 1, *pool.kernel), 1, np.float32))
