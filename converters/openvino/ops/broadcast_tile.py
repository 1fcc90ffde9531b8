"""Broadcast and Tile."""

from __future__ import annotations

from typing import Literal

import onnx_ir as ir

from ortconv.converters.openvino.lib.broadcasting import rank_of
from ortconv.converters.openvino.lib.compute_types import compute
from ortconv.converters.openvino.lib.constants import constant_ints, int64_vector, known_ints, length_of, normalized
from ortconv.converters.openvino.lib.defaults import warn_of_default
from ortconv.converters.openvino.plugin_bugs.empty_inputs import EMPTY_REPEATS
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import ConversionError
from ortconv.graph.builder import Builder


@REGISTRY.lowering("Broadcast", since=1, until=3)
def broadcast(
    b: Builder,
    data: ir.Value,
    target_shape: ir.Value,
    axes_mapping: ir.Value | None = None,
    /,
    *,
    mode: Literal["numpy", "explicit", "none", "bidirectional"] = "numpy",
) -> ir.Value:
    """Expand; for mode explicit (or none) after an Unsqueeze by axes_mapping."""
    if b.node.version == 1 and axes_mapping is not None:
        warn_of_default(b, "mode", "numpy", "takes explicit")
    if mode in ("explicit", "none"):
        if axes_mapping is None:
            raise ConversionError(f"input axes_mapping is missing; mode {mode} requires it.")
        rank = length_of(target_shape, "target_shape")
        known = known_ints(b, axes_mapping)
        if known is None:  # assumed to ascend, as the specification requires
            ones = b.constant([1] * rank)
            sizes = b.op("ScatterElements", ones, int64_vector(b, axes_mapping), b.op("Shape", data), axis=0)
            placed = b.typed(b.op("Reshape", data, sizes), data.dtype, [None] * rank)
            return _expanded(b, placed, target_shape)
        axes = normalized(constant_ints(b, axes_mapping, "axes_mapping"), rank, "axes_mapping")
        if list(axes) != sorted(set(axes)):
            raise ConversionError(f"input axes_mapping = {list(axes)} is not supported; allowed: ascending axes.")
        others = [axis for axis in range(rank) if axis not in axes]
        data = b.typed(b.op("Unsqueeze", data, b.constant(others)), data.dtype, None) if others else data
    return _expanded(b, data, target_shape)


def _expanded(b: Builder, data: ir.Value, target_shape: ir.Value) -> ir.Value:
    shape = int64_vector(b, target_shape)
    if b.array(shape) is not None:
        length_of(shape, "target_shape")
    return compute(b, lambda x: b.op("Expand", x, shape), data, op_types=("Expand",), modular=True)


@REGISTRY.lowering("Tile")
def tile(b: Builder, data: ir.Value, repeats: ir.Value, /) -> ir.Value:
    """Tile; the shorter of shape and repeats is prefixed with ones."""
    known = known_ints(b, repeats)
    rank = rank_of(data, "data")
    count = length_of(repeats, "repeats") if known is None else len(known)
    times = int64_vector(b, repeats)
    if not count:
        EMPTY_REPEATS.warn(b)
    if count < rank:
        times = b.op("Concat", b.constant([1] * (rank - count)), times, axis=0)
    if count > rank:
        data = b.typed(b.op("Unsqueeze", data, b.constant(list(range(count - rank)))), data.dtype, None)
    return compute(b, lambda x: b.op("Tile", x, times), data, op_types=("Tile",), modular=True)
