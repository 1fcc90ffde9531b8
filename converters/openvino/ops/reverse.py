"""Reverse and ReverseSequence."""

from __future__ import annotations

from typing import Literal

import onnx_ir as ir

from ortconv.converters.openvino.lib.broadcasting import rank_of
from ortconv.converters.openvino.lib.compute_types import warn_of_float32_integers
from ortconv.converters.openvino.lib.constants import (
    int64_vector,
    known_ints,
    normalized,
    warn_of_no_axes,
)
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import UnsupportedAttributeError
from ortconv.graph.builder import Builder

_I64 = ir.DataType.INT64


@REGISTRY.lowering("ReverseSequence", since=1, how="exact")
def reverse_sequence(
    b: Builder, data: ir.Value, seq_lengths: ir.Value, /, *, batch_axis: int = 0, seq_axis: int = 1
) -> ir.Value:
    """ReverseSequence; between Transposes where the two axes are not the first."""
    rank = rank_of(data, "data")
    (batch,) = normalized((batch_axis,), rank, "batch_axis")
    (time,) = normalized((seq_axis,), rank, "seq_axis")
    if batch == time:
        raise UnsupportedAttributeError("seq_axis", seq_axis, "an axis other than batch_axis")
    warn_of_float32_integers(b, data)
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
