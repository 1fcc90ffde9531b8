"""Pad: constant, edge, reflect and symmetric, with sizes that may be negative or runtime values."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.broadcasting import rank_of
from ortconv.converters.openvino.lib.constants import int64_vector, known_ints
from ortconv.converters.openvino.lib.padding import PadMode, emit_pad
from ortconv.converters.openvino.plugin_bugs.padding import PAD_VALUE_AT_RUN_TIME
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import ShapeError
from ortconv.graph.builder import Builder, Ints

_INT64 = np.iinfo(np.int64)


@REGISTRY.lowering("Pad", since=1, until=12)
def pad(
    b: Builder,
    data: ir.Value,
    pads_begin: ir.Value,
    pads_end: ir.Value,
    pad_value: ir.Value | None = None,
    /,
    *,
    pad_mode: PadMode = "constant",
) -> ir.Value:
    """Pad; symmetric as Concat with reversed Slices; negative sizes as a Slice of the padded data."""
    begin, end = known_ints(b, pads_begin), known_ints(b, pads_end)
    if begin is not None and end is not None:
        for label, sizes in (("pads_begin", begin), ("pads_end", end)):
            if data.shape is not None and len(sizes) != len(data.shape):
                raise ShapeError(label, [len(sizes)], f"data has {len(data.shape)} axes.")
        static = data.shape is not None and data.shape.is_static()
        if pad_mode == "constant" and pad_value is not None and b.array(pad_value) is None and static:
            PAD_VALUE_AT_RUN_TIME.warn(b)
        return _crop(b, _grow(b, data, begin, end, pad_value, pad_mode), begin, end)
    if pad_mode == "symmetric":
        return _mirrored(b, data, int64_vector(b, pads_begin), int64_vector(b, pads_end))
    front, back, zero = int64_vector(b, pads_begin), int64_vector(b, pads_end), b.constant([0])
    positive = b.op("Concat", b.op("Max", front, zero), b.op("Max", back, zero), axis=0)
    padded = emit_pad(b, data, positive, pad_value, pad_mode)
    ends = b.op("Add", b.op("Shape", padded), b.op("Min", back, zero))
    return b.op("Slice", padded, b.op("Neg", b.op("Min", front, zero)), ends)


def _grow(b: Builder, data: ir.Value, begin: Ints, end: Ints, fill: ir.Value | None, mode: PadMode) -> ir.Value:
    """Pads by the positive sizes; the reflection includes elements that are cropped afterwards."""
    front, back = (tuple(max(size, 0) for size in sizes) for sizes in (begin, end))
    if not any(front + back):
        return data
    if mode == "symmetric":
        return _mirror(b, data, front, back)
    return emit_pad(b, data, b.constant([*front, *back]), fill, mode)


def _crop(b: Builder, data: ir.Value, begin: Ints, end: Ints) -> ir.Value:
    """Crops by the negative sizes."""
    axes = [axis for axis, sizes in enumerate(zip(begin, end, strict=True)) if min(sizes) < 0]
    if not axes:
        return data
    starts = [max(-begin[axis], 0) for axis in axes]
    ends = [end[axis] if end[axis] < 0 else _INT64.max for axis in axes]
    return b.op("Slice", data, b.constant(starts), b.constant(ends), b.constant(axes))


def _mirror(b: Builder, data: ir.Value, begin: Ints, end: Ints) -> ir.Value:
    """Mirrors both ends of each axis, including the elements at the edge."""
    value = data
    for axis, (front, back) in enumerate(zip(begin, end, strict=True)):
        parts = [value]
        along, backwards = b.constant([axis]), b.constant([-1])
        if front:
            bounds = b.constant([front - 1]), b.constant([_INT64.min])
            parts.insert(0, b.op("Slice", value, *bounds, along, backwards))
        if back:
            bounds = b.constant([-1]), b.constant([-1 - back])
            parts.append(b.op("Slice", value, *bounds, along, backwards))
        if len(parts) > 1:
            value = b.op("Concat", *parts, axis=axis)
    return value


def _mirrored(b: Builder, data: ir.Value, begin: ir.Value, end: ir.Value) -> ir.Value:
    """Mirrors or crops both ends of each axis by runtime sizes, with a Gather of reflected positions."""
    value = data
    one = b.constant(1)
    for axis in range(rank_of(data, "data")):
        size = b.op("Squeeze", b.op("Shape", data, start=axis, end=axis + 1), b.constant([0]))
        front, back = (b.op("Gather", pads, b.constant(axis)) for pads in (begin, end))
        places = b.op("Range", b.op("Neg", front), b.op("Add", size, back), one)
        double = b.op("Mul", size, b.constant(2))
        turned = b.op("Mod", places, double)
        reflected = b.op("Sub", b.op("Sub", double, one), turned)
        value = b.op("Gather", value, b.op("Where", b.op("Less", turned, size), turned, reflected), axis=axis)
    return value
