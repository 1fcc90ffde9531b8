"""FakeQuantize of constant weights, as INT8 files of OpenVINO have it, becomes int8 weights and a DequantizeLinear."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.weights.quantized_weights import QuantizedWeights
from ortconv.graph.builder import Builder
from ortconv.graph.match import operand_of

__all__ = ["is_folded", "quantized_constant"]

_FOLDED = (15, 16, 255, 256)
"""Numbers of levels by which OpenVINO's CPU plugin recognizes a quantized model."""
_EXACT = 2e-5
"""How far, in levels, zero may be from a level to count as exact: float32 bounds are rounded."""
_LEAST_RANK = 2
"""Vectors are biases, which stay floats."""


def is_folded(data: ir.Value, levels: int, bounds: Sequence[np.ndarray | None]) -> bool:
    """Tells whether OpenVINO folds a FakeQuantize of a constant when it compiles the model.

    Then it computes the formula of the specification literally. Bounds differ along one axis at most.
    """
    several = {
        axis - bound.ndim for bound in bounds if bound is not None for axis, size in enumerate(bound.shape) if size != 1
    }
    return levels in _FOLDED and len(several) <= 1 and _numbers(data) is not None


def quantized_constant(b: Builder, data: ir.Value, levels: int, bounds: Sequence[np.ndarray | None]) -> ir.Value | None:
    """Emits a FakeQuantize of a constant as one DequantizeLinear of int8 or uint8 weights.

    Args:
        b: The builder.
        data: The constant.
        levels: The number of levels.
        bounds: input_low, input_high, output_low and output_high, which broadcast to the data.

    Returns:
        None if the data are no constant, or the levels are not 8-bit integers with one zero point and one scale, or a
        scale for each entry of one axis.
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
    quantized = np.round((np.clip(numbers, low, high) - low) / (high - low) * steps)
    scale, begin = np.broadcast_arrays((last - first) / steps, first)
    several = [axis - scale.ndim for axis, size in enumerate(scale.shape) if size != 1]
    points = -begin.astype(np.float64) / scale
    point = np.round(points.flat[0])
    if quantized.shape != numbers.shape or not (abs(points - point) < _EXACT).all():
        return None
    axis = numbers.ndim + several[0] if several else None
    return _stored(b, quantized - point, int(point), scale.reshape(-1 if several else ()), axis)


def _stored(b: Builder, quantized: np.ndarray, point: int, scale: np.ndarray, axis: int | None) -> ir.Value | None:
    """Emits quantized values around zero times their scales; None if they do not fit int8 or uint8."""
    for dtype, zero in ((np.int8, 0), (np.uint8, point)):
        limits, shifted = np.iinfo(dtype), quantized + zero
        if quantized.size and limits.min <= min(zero, shifted.min()) and max(zero, shifted.max()) <= limits.max:
            zeros = np.full_like(scale, zero, np.int64) if zero else None
            return QuantizedWeights(b.constant(shifted.astype(dtype)), scale, zeros, axis, None).emit(b)
    return None


def _numbers(data: ir.Value) -> np.ndarray | None:
    """Returns constant float32, also converted from other types; None for other values."""
    stored = operand_of(data, "Cast") if data.const_value is None else data
    if data.dtype != ir.DataType.FLOAT or stored is None or stored.const_value is None:
        return None
    return stored.const_value.numpy().astype(np.float32)
