"""Constants behind FakeQuantize, as old files have weights, become the bytes that they are rounded to."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.weights.dequantization import Compressed
from ortconv.graph.builder import Builder
from ortconv.graph.match import made_by

__all__ = ["is_folded", "quantized_constant"]

_FOLDED = (15, 16, 255, 256)
"""Numbers of levels with which OpenVINO's CPU plugin takes a model for a quantised one."""
_EXACT = 2e-5
"""How far zero may be from a level, in levels, to be that one: what float32 makes of bounds is."""
_LEAST_RANK = 2
"""Vectors are biases, which nothing multiplies as bytes."""


def is_folded(data: ir.Value, levels: int, bounds: Sequence[np.ndarray | None]) -> bool:
    """Returns whether OpenVINO's CPU plugin computes what a FakeQuantize makes of a constant before it looks at others.

    It does so by the page's formula as it stands there, where bounds differ along one axis at most.
    """
    several = {
        axis - bound.ndim for bound in bounds if bound is not None for axis, size in enumerate(bound.shape) if size != 1
    }
    return levels in _FOLDED and len(several) <= 1 and _numbers(data) is not None


def quantized_constant(b: Builder, data: ir.Value, levels: int, bounds: Sequence[np.ndarray | None]) -> ir.Value | None:
    """Returns what a FakeQuantize makes of a constant, as one DequantizeLinear.

    Args:
        b: The builder.
        data: What is rounded.
        levels: To how many levels.
        bounds: The lower and upper bound of the data, and the results of the lowest and highest level, which broadcast
            to the data.

    Returns:
        None where the data are no constant, and where the levels are no 8-bit integers with one zero point for all and
        a scale for each entry of one axis.
    """
    numbers = _numbers(data) if is_folded(data, levels, bounds) else None
    low, high, first, last = bounds
    if numbers is None or low is None or high is None or first is None or last is None:
        return None
    if (
        numbers.ndim < _LEAST_RANK
        or not np.isfinite(numbers).all()
        or not (low < high).all()
        or not (first < last).all()
    ):
        return None
    steps = np.float32(levels - 1)
    codes = np.round((np.clip(numbers, low, high) - low) / (high - low) * steps)
    scale, begin = np.broadcast_arrays((last - first) / steps, first)
    several = [axis - scale.ndim for axis, size in enumerate(scale.shape) if size != 1]
    points = -begin.astype(np.float64) / scale
    point = np.round(points.flat[0])
    if codes.shape != numbers.shape or not (abs(points - point) < _EXACT).all():
        return None
    axis = numbers.ndim + several[0] if several else None
    return _stored(b, codes - point, int(point), scale.reshape(-1 if several else ()), axis)


def _stored(b: Builder, codes: np.ndarray, point: int, scale: np.ndarray, axis: int | None) -> ir.Value | None:
    """Returns codes around zero times their scales; None where they do not fit in a byte."""
    for dtype, zero in ((np.int8, 0), (np.uint8, point)):
        limits, shifted = np.iinfo(dtype), codes + zero
        if codes.size and limits.min <= min(zero, shifted.min()) and max(zero, shifted.max()) <= limits.max:
            zeros = np.full_like(scale, zero, np.int64) if zero else None
            return Compressed(b.constant(shifted.astype(dtype)), scale, zeros, axis, None).emit(b)
    return None


def _numbers(data: ir.Value) -> np.ndarray | None:
    """Returns constant float32, also of integers or float16 that are converted to it; None of anything else."""
    stored = made_by(data, "Cast") if data.const_value is None else data
    if data.dtype != ir.DataType.FLOAT or stored is None or stored.const_value is None:
        return None
    return stored.const_value.numpy().astype(np.float32)
