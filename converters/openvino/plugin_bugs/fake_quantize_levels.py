"""Levels of FakeQuantize that OpenVINO's CPU plugin moves where it multiplies them by weights of 8 bits in integers.

It takes the number of the level that is zero for an integer, and counts on 256 or 16 levels where there is one less.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ortconv.graph.annotations import LEVELS, Levels
from ortconv.graph.builder import Builder

__all__ = ["keep_levels", "warn_of_moved_levels"]

_COUNTS = (15, 16, 255, 256)
"""How many levels there are where the plugin makes integers of them."""
_WEIGHTS = (255, 256)
"""How many levels weights have of which the plugin makes 8-bit integers."""
_ONE_LESS = (15, 255)
_BYTES = (ir.DataType.INT8, ir.DataType.UINT8)
_EXACT = 1e-3
"""How far zero may be from a level, in levels, to be that one."""


def keep_levels(b: Builder, result: ir.Value, count: int, low: ir.Value, high: ir.Value) -> None:
    """Keeps what a FakeQuantize makes with the value, for the layer that takes it.

    Args:
        b: The builder.
        result: What it returns.
        count: How many levels there are.
        low: The lowest level.
        high: The highest.
    """
    first, last = b.array(low), b.array(high)
    if first is None or last is None or count not in _COUNTS:
        return
    begin, end = np.broadcast_arrays(first.astype(np.float64), last.astype(np.float64))
    inside = (begin < 0) & (end > 0)
    place = -begin[inside] * (count - 1) / (end[inside] - begin[inside])
    LEVELS.set(_annotated(result), Levels(count, bool((abs(place - np.round(place)) < _EXACT).all())))


def warn_of_moved_levels(b: Builder, data: ir.Value, weights: ir.Value, *, shifts: bool = False) -> None:
    """Warns of a product of levels that OpenVINO's CPU plugin moves.

    Args:
        b: The builder.
        data: What is multiplied.
        weights: What it is multiplied by.
        shifts: Zero may lie between levels of the data, and weights of which it does are no integers: true of a MatMul
            and of transposed convolutions.
    """
    levels = LEVELS.get(_annotated(data))
    if levels is None:
        return
    node = weights.producer()
    if node is not None and node.op_type == "Reshape" and node.inputs[0] is not None:  # filters in groups
        weights, node = node.inputs[0], node.inputs[0].producer()
    own = LEVELS.get(_annotated(weights))
    if own.count not in _WEIGHTS if own is not None else not _are_bytes(node):
        return
    if own is not None and not own.have_zero:
        moved = not shifts
    else:
        moved = levels.count in _ONE_LESS or not (shifts or levels.have_zero)
    if moved:
        b.warn(
            "the file is followed: where zero is none of the levels of FakeQuantize, or there are 15 or 255 of them, "
            "OpenVINO's CPU plugin moves them to multiply in 8 bits"
        )


def _annotated(value: ir.Value) -> ir.Value | ir.TensorProtocol:
    """Returns a value, or the tensor of a constant, which gets another value when it gets its name."""
    return value if value.const_value is None else value.const_value


def _are_bytes(node: ir.Node | None) -> bool:
    source = None if node is None or node.op_type != "DequantizeLinear" else node.inputs[0]
    return source is not None and source.dtype in _BYTES
