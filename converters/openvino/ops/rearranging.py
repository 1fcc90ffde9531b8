"""Ops that reorder elements: rolls, reversals, blocks between batch and space, shuffled channels, patches."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import onnx_ir as ir

from ortconv.converters.openvino.lib.broadcasting import rank_of
from ortconv.converters.openvino.lib.compute_types import compute, warn_of_singles
from ortconv.converters.openvino.lib.constants import (
    constant_ints,
    int64_vector,
    known_ints,
    length_of,
    normalized,
    warn_of_no_axes,
)
from ortconv.converters.openvino.lib.convolution_window import AUTO_PAD
from ortconv.converters.openvino.lib.dynamic_axes import view_along
from ortconv.converters.openvino.lib.sizes import (
    Size,
    calculate,
    counted,
    halved,
    joined,
    reshaped,
    same_padding,
    same_windows,
    size_of,
    sizes_of,
)
from ortconv.converters.openvino.patterns.atrous_convolution import dilated_conv, remember_blocks
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import ShapeError, UnsupportedAttributeError
from ortconv.graph.builder import Builder, Ints

_I32, _I64, _F32 = ir.DataType.INT32, ir.DataType.INT64, ir.DataType.FLOAT
_MANTISSA, _PART = 24, 11
"""Bits of a whole number that float32 holds, and of the parts of an int32 that are summed in it."""


@REGISTRY.lowering("Roll", since=7)
def roll(b: Builder, data: ir.Value, shift: ir.Value, axes: ir.Value, /) -> ir.Value:
    """Concat of Slices by known shifts, else Gather, per axis."""
    rank = rank_of(data, "data")
    if shift.shape is not None and not len(shift.shape) and axes.shape is not None and axes.shape[:1] != (1,):
        b.warn("the page is followed: OpenVINO's CPU plugin takes no single shift of several axes, or gives nothing")
    if b.array(axes) is None:
        return _rolled_along(b, data, int64_vector(b, shift), axes)
    along = normalized(constant_ints(b, axes, "axes"), rank, "axes")
    known = known_ints(b, shift)
    if known is None:
        shifts = b.op("Expand", int64_vector(b, shift), b.constant([len(along)]))
        for place, axis in enumerate(along):
            data = _rolled(b, data, b.op("Slice", shifts, b.constant([place]), b.constant([place + 1])), axis)
        return data
    if len(known) == 1:
        known *= len(along)
    if len(known) != len(along):
        raise ShapeError("shift", shift.shape, f"axes has {len(along)} entries.")
    value = data
    for axis, by in zip(along, known, strict=True):
        size = None if data.shape is None else data.shape[axis]
        if not isinstance(size, int):
            value = _rolled(b, value, b.constant([by]), axis)
        elif size and by % size:
            middle = size - by % size
            parts = [
                b.op("Slice", value, b.constant([start]), b.constant([stop]), b.constant([axis]))
                for start, stop in ((middle, size), (0, middle))
            ]
            value = b.op("Concat", *parts, axis=axis)
    return b.op("Identity", data) if value is data else value


def _rolled_along(b: Builder, data: ir.Value, shift: ir.Value, axes: ir.Value) -> ir.Value:
    """Rolls along axes that are known at run time only."""
    count = 1 if axes.shape is not None and not len(axes.shape) else length_of(axes, "axes")
    shifts, along = b.op("Expand", shift, b.constant([count])), int64_vector(b, axes)
    for place in range(count):
        one = (b.constant([place]), b.constant([place + 1]))
        view = view_along(b, data, b.typed(b.op("Slice", along, *one), _I64, [1]))
        data = view.restored(b, _rolled(b, view.value, b.op("Slice", shifts, *one), 1), view.size)
    return data


def _rolled(b: Builder, data: ir.Value, shift: ir.Value, axis: int) -> ir.Value:
    size = size_of(b, data, axis)
    places = b.op("Mod", b.op("Sub", counted(b, size), shift), b.op("Max", joined(b, [size]), b.constant([1])))
    return b.typed(b.op("Gather", data, places, axis=axis), data.dtype, data.shape)


@REGISTRY.lowering("ReverseSequence", since=1, how="exact")
def reverse_sequence(
    b: Builder, data: ir.Value, seq_lengths: ir.Value, /, *, batch_axis: int = 0, seq_axis: int = 1
) -> ir.Value:
    """ReverseSequence; between Transposes where the two axes are not the first."""
    rank = rank_of(data, "data")
    (batch,) = normalized((batch_axis,), rank, "batch_axis")
    (time,) = normalized((seq_axis,), rank, "seq_axis")
    if batch == time:
        raise UnsupportedAttributeError("seq_axis", seq_axis, "another axis than batch_axis")
    warn_of_singles(b, data)
    lengths = b.cast(seq_lengths, _I64)
    if data.dtype == ir.DataType.BFLOAT16:  # ONNX has no ReverseSequence of it
        own, data = data.dtype, b.cast(data, ir.DataType.FLOAT)
        single = reverse_sequence(b, data, lengths, batch_axis=batch, seq_axis=time)
        return b.cast(b.typed(single, ir.DataType.FLOAT, None), own)
    if {batch, time} == {0, 1}:
        return b.op("ReverseSequence", data, lengths, batch_axis=batch, time_axis=time)
    perm = [batch, time, *(axis for axis in range(rank) if axis not in (batch, time))]
    front = b.op("Transpose", data, perm=perm)
    reverse = b.op("ReverseSequence", front, lengths, batch_axis=0, time_axis=1)
    return b.op("Transpose", reverse, perm=[perm.index(axis) for axis in range(rank)])


@REGISTRY.lowering("ShuffleChannels", since=1)
def shuffle_channels(b: Builder, data: ir.Value, /, *, axis: int = 1, group: int = 1) -> ir.Value:
    """Reshape, Transpose, Reshape."""
    sizes = sizes_of(b, data, "data")
    (along,) = normalized((axis,), len(sizes), "axis")
    channels = sizes[along]
    if group < 1 or (isinstance(channels, int) and channels % group):
        raise UnsupportedAttributeError("group", group, f"a divisor of the axis' size, {channels}")
    split = [*sizes[:along], group, calculate(b, "Div", channels, group), *sizes[along + 1 :]]
    perm = [*range(along), along + 1, along, *range(along + 2, len(split))]
    return reshaped(b, b.op("Transpose", reshaped(b, data, split), perm=perm), sizes)


@REGISTRY.lowering("SpaceToBatch", since=2)
def space_to_batch(
    b: Builder, data: ir.Value, block_shape: ir.Value, pads_begin: ir.Value, pads_end: ir.Value, /
) -> ir.Value:
    """Pad, Reshape, Transpose, Reshape."""
    rank = rank_of(data, "data")
    blocks, begin, end = (_per_axis(b, value, rank) for value in (block_shape, pads_begin, pads_end))
    for size, first, block in zip(sizes_of(b, data, "data"), begin, blocks, strict=True):
        if isinstance(first, int) and isinstance(block, int) and first >= block - 1:
            misplaced = None
        elif not (isinstance(size, int) and isinstance(first, int) and isinstance(block, int)):
            misplaced = None if block == 1 else "where entries and those in front are less than a block"
        elif size + first < block:
            misplaced = f"{size} entries and {first} in front are less than a block of {block}"
        else:
            misplaced = None
        if misplaced is not None:
            b.warn(f"the page is followed: {misplaced}, of which OpenVINO's CPU plugin may misplace some")
            break
    pads = b.op("Concat", joined(b, begin), joined(b, end), axis=0)
    padded = data
    if set(begin + end) != {0}:
        padded = compute(b, lambda x: b.op("Pad", x, pads), data, kernels=("Pad",), modular=True)
    sizes = [
        calculate(b, "Add", calculate(b, "Add", size, first), last)
        for size, first, last in zip(sizes_of(b, data, "data"), begin, end, strict=True)
    ]
    thin = [calculate(b, "Div", size, block) for size, block in zip(sizes, blocks, strict=True)]
    split = reshaped(b, padded, [sizes[0], *(part for axis in range(1, rank) for part in (thin[axis], blocks[axis]))])
    perm = [*range(2, 2 * rank, 2), 0, *range(1, 2 * rank - 1, 2)]
    batch = sizes[0]
    for block in blocks[1:]:
        batch = calculate(b, "Mul", batch, block)
    spread = reshaped(b, b.op("Transpose", split, perm=perm), [batch, *thin[1:]])
    remember_blocks(b, spread, data, (block_shape, pads_begin, pads_end))
    return spread


@REGISTRY.lowering("BatchToSpace", since=2)
def batch_to_space(
    b: Builder, data: ir.Value, block_shape: ir.Value, crops_begin: ir.Value, crops_end: ir.Value, /
) -> ir.Value:
    """Reshape, Transpose, Reshape, Slice; a dilated Conv for blocks on which a Conv worked one by one."""
    rank = rank_of(data, "data")
    blocks, begin, end = (_per_axis(b, value, rank) for value in (block_shape, crops_begin, crops_end))
    dilated = dilated_conv(b, data, (block_shape, crops_begin, crops_end))
    if dilated is not None:
        return dilated
    sizes = sizes_of(b, data, "data")
    batch = sizes[0]
    for block in blocks[1:]:
        batch = calculate(b, "Div", batch, block)
    split = reshaped(b, data, [*blocks[1:], batch, *sizes[1:]])
    perm = [rank - 1, *(axis for place in range(rank - 1) for axis in (rank + place, place))]
    wide = [calculate(b, "Mul", size, block) for size, block in zip(sizes[1:], blocks[1:], strict=True)]
    apart = b.typed(b.op("Transpose", split, perm=perm), data.dtype, None)
    whole = reshaped(b, apart, [batch, *wide])
    if set(begin + end) == {0}:
        return whole
    stops = [calculate(b, "Sub", size, last) for size, last in zip([batch, *wide], end, strict=True)]
    return b.op("Slice", whole, joined(b, begin), joined(b, stops))


def _per_axis(b: Builder, value: ir.Value, rank: int) -> list[Size]:
    """Returns the entries of a vector that has one for each axis."""
    if length_of(value, "block_shape, begin or end") != rank:
        raise ShapeError("block_shape, begin or end", value.shape, f"data has {rank} axes.")
    known = known_ints(b, value)
    if known is not None:
        return list(known)
    return list(b.op("Split", int64_vector(b, value), outputs=rank, axis=0, num_outputs=rank))


@REGISTRY.lowering("ExtractImagePatches", since=3)
def extract_image_patches(
    b: Builder,
    data: ir.Value,
    /,
    *,
    sizes: Ints,
    strides: Ints,
    rates: Ints,
    auto_pad: Literal["valid", "same_upper", "same_lower"],
) -> ir.Value:
    """Pad, Gather of rows and of columns, Transpose, Reshape."""
    if rank_of(data, "data") != 4:
        raise ShapeError("data", data.shape, "its rank must be 4.")
    for label, values in (("sizes", sizes), ("strides", strides), ("rates", rates)):
        if len(values) != 2 or min(values) < 1:
            raise UnsupportedAttributeError(label, list(values), "two positive integers")
    batch, channels, *space = sizes_of(b, data, "data")
    counts: list[Size] = []
    begin: list[Size] = []
    end: list[Size] = []
    for size, taps, stride, rate in zip(space, sizes, strides, rates, strict=True):
        reach = (taps - 1) * rate + 1
        if auto_pad == "valid":
            room = calculate(b, "Sub", size, reach)
            counts.append(calculate(b, "Add", calculate(b, "Div", room, stride), 1))
            begin.append(0)
            end.append(0)
            continue
        counts.append(same_windows(b, size, stride))
        front, back = halved(b, AUTO_PAD[auto_pad], same_padding(b, size, counts[-1], reach, stride))
        begin.append(front)
        end.append(back)
    value = data
    if set(begin + end) != {0}:
        pads = joined(b, [0, 0, *begin, 0, 0, *end])
        value = compute(b, lambda x: b.op("Pad", x, pads), data, kernels=("Pad",), modular=True)
    for axis, (count, taps, stride, rate) in enumerate(zip(counts, sizes, strides, rates, strict=True)):
        starts = b.op("Mul", counted(b, count), b.constant([stride]))
        within = b.op("Unsqueeze", b.op("Mul", b.counted(taps), b.constant([rate])), b.constant([1]))
        places = b.op("Add", within, starts)
        value = b.op("Gather", value, places, axis=2 + 2 * axis)
    patches = b.op("Transpose", value, perm=[0, 2, 4, 1, 3, 5])
    return reshaped(b, patches, [batch, calculate(b, "Mul", channels, sizes[0] * sizes[1]), *counts])


@REGISTRY.lowering("Reverse", since=1, how="exact")
def reverse(
    b: Builder, data: ir.Value, reversed_axes: ir.Value, /, *, mode: Literal["index", "mask"] = "index"
) -> ir.Value:
    """Slice backwards."""
    if mode == "mask":
        axes = b.op("Reshape", b.op("NonZero", b.cast(reversed_axes, ir.DataType.BOOL)), b.constant([-1]))
        flags = b.array(reversed_axes)
        if flags is not None:
            axes = b.constant([axis for axis, flag in enumerate(flags.ravel()) if flag])
    else:
        axes = int64_vector(b, reversed_axes)
        warn_of_no_axes(b, reversed_axes)
    if known_ints(b, axes) == ():
        return b.op("Identity", data)
    count = b.op("Shape", axes)
    last, step = b.op("Expand", b.constant([-1]), count), b.op("Expand", b.constant([-1]), count)
    return b.op("Slice", data, last, b.op("Expand", b.constant([-(2**63)]), count), axes, step)


@REGISTRY.lowering("Col2Im", since=15, how="exact")
def col2im(
    b: Builder,
    data: ir.Value,
    output_size: ir.Value,
    kernel_size: ir.Value,
    /,
    *,
    strides: Ints = (1, 1),
    dilations: Ints = (1, 1),
    pads_begin: Ints = (0, 0),
    pads_end: Ints = (0, 0),
) -> ir.Value:
    """Col2Im, of a batch of one where the data has no batch; of int32 three, of 11 bits each, whose sums are exact."""
    batched = rank_of(data, "data") == 3
    sizes = [int64_vector(b, value) for value in (output_size, kernel_size)]

    def emit(x: ir.Value) -> ir.Value:
        columns = x if batched else b.op("Unsqueeze", x, b.constant([0]))
        pads = (*pads_begin, *pads_end)
        image = b.op("Col2Im", columns, *sizes, strides=strides, dilations=dilations, pads=pads)
        return image if batched else b.op("Squeeze", image, b.constant([0]))

    kernel = known_ints(b, kernel_size)
    assert data.shape is not None
    terms = data.shape[-2] if kernel is None else math.prod(kernel)  # of a sum, at most
    if data.dtype == _I32 and isinstance(terms, int) and terms <= 1 << (_MANTISSA - _PART):
        return _of_parts(b, emit, data)
    return compute(b, emit, data, kernels=("Col2Im",))


def _of_parts(b: Builder, formula: Callable[[ir.Value], ir.Value], data: ir.Value) -> ir.Value:
    """Emits a formula of sums over int32, in float32: over three parts that add up to it."""
    rest, base = b.cast(data, _I64), b.constant(1 << _PART)
    parts = []
    for _ in range(2):
        low = b.typed(b.op("Mod", rest, base), _I64, data.shape)
        rest = b.typed(b.op("Div", b.op("Sub", rest, low), base), _I64, data.shape)
        parts.append(low)
    total: ir.Value | None = None
    for part in (rest, *reversed(parts)):
        image = b.cast(b.typed(formula(b.cast(part, _F32)), _F32, None), _I64)
        total = image if total is None else b.op("Add", b.op("Mul", total, base), image)
    assert total is not None
    return b.cast(b.typed(total, _I64, None), _I32)
