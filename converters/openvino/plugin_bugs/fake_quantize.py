"""Bugs of FakeQuantize.

In front of int8 weights, the plugin rounds the zero point of the data to an integer, and assumes 256 or 16 levels where
there is one less.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.plugin_bugs.bug import Bug, Live, convolution, random
from ortconv.graph.annotations import LEVELS, Levels
from ortconv.graph.builder import Builder

__all__ = [
    "EQUAL_INPUT_BOUNDS",
    "EXCHANGED_INPUT_BOUNDS",
    "OUTPUT_BOUNDS_OF_DIFFERENT_SIZES",
    "PER_CHANNEL_BEHIND_REDUCTION",
    "ZERO_POINT_ROUNDED",
    "rounds_zero_point",
    "set_levels",
]

_COUNTS = (15, 16, 255, 256)
"""Numbers of levels that the plugin computes with in integers."""
_WEIGHTS = (255, 256)
"""Numbers of levels of weights that the plugin converts to int8."""
_ONE_LESS = (15, 255)
_INT8 = (ir.DataType.INT8, ir.DataType.UINT8)
_EXACT = 1e-3
"""How far, in levels, zero may be from a level to count as exact."""


def set_levels(b: Builder, result: ir.Value, count: int, low: ir.Value, high: ir.Value) -> None:
    """Annotates the result of a FakeQuantize with its levels, for `rounds_zero_point`.

    Args:
        b: The builder.
        result: The result.
        count: The number of levels.
        low: The lowest level.
        high: The highest level.
    """
    first, last = b.array(low), b.array(high)
    if first is None or last is None or count not in _COUNTS:
        return
    begin, end = np.broadcast_arrays(first.astype(np.float64), last.astype(np.float64))
    inside = (begin < 0) & (end > 0)
    place = -begin[inside] * (count - 1) / (end[inside] - begin[inside])
    LEVELS.set(_annotated(result), Levels(count, bool((abs(place - np.round(place)) < _EXACT).all())))


def rounds_zero_point(data: ir.Value, weights: ir.Value, *, asymmetric: bool = False) -> bool:
    """Tells whether the plugin moves the levels of data or weights to multiply them in int8.

    Args:
        data: The data of a product or convolution.
        weights: The weights.
        asymmetric: Whether the plugin computes with the zero point of the data, and with float weights where zero is
            none of their levels: true of MatMul and of transposed convolutions.
    """
    levels = LEVELS.get(_annotated(data))
    if levels is None:
        return False
    node = weights.producer()
    if node is not None and node.op_type == "Reshape" and node.inputs[0] is not None:
        weights, node = node.inputs[0], node.inputs[0].producer()
    own = LEVELS.get(_annotated(weights))
    if own.count not in _WEIGHTS if own is not None else not _are_int8(node):
        return False
    if own is not None and not own.have_zero:
        return not asymmetric
    return levels.count in _ONE_LESS or not (asymmetric or levels.have_zero)


def _annotated(value: ir.Value) -> ir.Value | ir.TensorProtocol:
    """Returns a value, or the tensor of a constant: naming a constant makes another value of the same tensor."""
    return value if value.const_value is None else value.const_value


def _are_int8(node: ir.Node | None) -> bool:
    source = None if node is None or node.op_type != "DequantizeLinear" else node.inputs[0]
    return source is not None and source.dtype in _INT8


def _levels(ov: Any, x: Any, low: Any, high: Any, first: Any, last: Any, count: int) -> Any:
    return ov.opset1.fake_quantize(x, *(np.array(each, np.float32) for each in (low, high, first, last)), count)


_FILTER = (random(4, 3, 3, 3) * 30).astype(np.int8)
_NEAR_LEVELS = (np.round(random(1, 3, 6, 7, low=0, high=15)) / 7.5 - 1).astype(np.float32)
"""Data near the 16 levels from -1 to 1, so that no rounding differs."""


def _of_integers(ov: Any, x: Any) -> Any:
    """Makes a convolution with int8 weights."""
    weights = ov.opset1.multiply(ov.opset1.convert(ov.opset1.constant(_FILTER), "f32"), np.float32(0.01))
    return convolution(ov, _levels(ov, x, -1, 1, -1, 1, 16), weights, pad=1)


_OUTPUT_LOW = np.array([-1, -2, -3], np.float32).reshape(3, 1, 1)

ZERO_POINT_ROUNDED = Bug(
    op="Convolution, MatMul and the like",
    case="data of 15 or 255 levels, or without an exact zero, in front of 8-bit weights",
    fault="moves the levels to multiply in int8",
    live=Live(_of_integers, [_NEAR_LEVELS], lambda ov, x: convolution(ov, x, _FILTER * np.float32(0.01), pad=1)),
)

EXCHANGED_INPUT_BOUNDS = Bug(
    op="FakeQuantize",
    case="input_low is greater than input_high",
    fault="returns one number for any data",
    live=Live(
        lambda ov, x: _levels(ov, x, 1, -1, 0, 10, 5),
        [np.array([[-2, -0.9, -0.2, 0.3, 1.1]], np.float32)],
        np.array([[0, 10, 5, 2.5, 10]], np.float32),
    ),
)

EQUAL_INPUT_BOUNDS = Bug(
    op="FakeQuantize",
    case="input_low equals input_high",
    fault="may return NaN",
    live=Live(
        lambda ov, x: _levels(ov, x, 0.5, 0.5, -1, 1, 2),
        [np.array([[-1, 0.5], [0.50001, 3]], np.float32)],
        np.array([[-1, -1], [1, 1]], np.float32),
    ),
)

OUTPUT_BOUNDS_OF_DIFFERENT_SIZES = Bug(
    op="FakeQuantize",
    case="output_low and output_high have different sizes",
    fault="mixes up their entries",
    live=Live(
        lambda ov, x: _levels(ov, x, -2, 2, _OUTPUT_LOW, 2, 16),
        [random(2, 3, 4, 5)],
        np.round((np.clip(random(2, 3, 4, 5), -2, 2) + 2) / np.float32(4 / 15)) / 15 * (2 - _OUTPUT_LOW) + _OUTPUT_LOW,
    ),
)


def _per_channel(ov: Any, mean: Any) -> Any:
    return _levels(ov, ov.opset1.multiply(mean, random(1, 8, low=0.5, high=1.5)), -3, 3, -3, 3, 256)


def _mean_by_product(ov: Any, x: Any) -> Any:
    rows = ov.opset1.reshape(x, np.array([6, 8]), False)
    return ov.opset1.matmul(np.full((1, 6), 1 / 6, np.float32), rows, False, False)


PER_CHANNEL_BEHIND_REDUCTION = Bug(
    op="FakeQuantize",
    case="per-channel bounds or factors behind a reduction",
    fault="may fuse them with the reduction and mix up the channels",
    live=Live(
        lambda ov, x: _per_channel(ov, ov.opset1.reduce_mean(x, np.array([1, 2]), False)),
        [random(1, 2, 3, 8)],
        lambda ov, x: _per_channel(ov, _mean_by_product(ov, x)),
    ),
)
