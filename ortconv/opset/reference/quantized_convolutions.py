"""The NumPy references of the transposed convolutions of 8-bit integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ortconv.opset.reference.convolutions import conv_transpose
from ortconv.opset.reference.operands import Array, activated, checked_activation

__all__ = [
    "qlinear_transposed_convolution",
    "qlinear_transposed_convolution_add",
    "sums_with_residual",
    "transposed_convolution_integer_to_float",
]


_SCALES_OF_Y, _BIAS = 6, 8
"""Positions of y_scale and the bias among the inputs of QLinearTransposedConvolution."""


def transposed_convolution_integer_to_float(
    x: Array,
    x_scale: Array,
    x_zero_point: Array,
    w: Array,
    w_scale: Array,
    w_zero_point: Array,
    bias: Array,
    *,
    activation: Sequence[float],
    **window: Any,
) -> Array:
    """Transposed convolution of 8-bit integers with sums in int32, scaled to float32 and activated.

    Args:
        x: Data [N, C, X...], integers of any type.
        x_scale: One number of float32.
        x_zero_point: One number.
        w: Weights [C, M/group, K...], integers of any type.
        w_scale: One number of float32, or [M].
        w_zero_point: One number.
        bias: [M] of float32.
        activation: Slope, minimum and maximum.
        **window: strides, dilations, group, pads and output_padding, as `conv_transpose` takes them.

    Returns:
        [N, M, Y...], of float32.

    Raises:
        ValueError: A shape or attribute contradicts the above, or Y is negative.
    """
    sums = _scaled_sums(x, x_scale, x_zero_point, w, w_scale, w_zero_point, bias, **window)
    return _activated(sums, activation)


def qlinear_transposed_convolution(*operands: Array, **attributes: Any) -> Array:
    """The same, quantized.

    Args:
        *operands: x, x_scale, x_zero_point, w, w_scale and w_zero_point; y_scale and y_zero_point, one number each;
            bias.
        **attributes: As for `transposed_convolution_integer_to_float`, like the other operands.

    Returns:
        [N, M, Y...], integers in the type of y_zero_point.

    Raises:
        ValueError: As there.
    """
    sums = transposed_convolution_integer_to_float(*operands[:_SCALES_OF_Y], *operands[_BIAS:], **attributes)
    return _quantized(sums, *operands[_SCALES_OF_Y:_BIAS])


def qlinear_transposed_convolution_add(*operands: Array, **attributes: Any) -> Array:
    """The same with a residual, which is added before the activation.

    Args:
        *operands: Those of `qlinear_transposed_convolution`, then those that `sums_with_residual` has in addition.
        **attributes: As there.

    Returns:
        [N, M, Y...], integers in the type of y_zero_point.

    Raises:
        ValueError: As there.
    """
    sums = sums_with_residual(*operands[:_SCALES_OF_Y], *operands[_BIAS:], **attributes)
    return _quantized(sums, *operands[_SCALES_OF_Y:_BIAS])


def sums_with_residual(*operands: Array, activation: Sequence[float], **window: Any) -> Array:
    """The same before it is quantized.

    Args:
        *operands: Those of `transposed_convolution_integer_to_float`; then a residual, integers of the shape of the
            result, and its scale and zero point, one number each.
        activation: Slope, minimum and maximum.
        **window: As for `transposed_convolution_integer_to_float`.

    Returns:
        [N, M, Y...], of float32.

    Raises:
        ValueError: As there.
    """
    *others, residual, scale, zero_point = operands
    sums = _scaled_sums(*others, **window)
    if residual.shape != sums.shape:
        raise ValueError(f"R has shape {list(residual.shape)}; allowed: {list(sums.shape)}, as Y has")
    shifted = residual.astype(np.int32) - _number("r_zero_point", zero_point).astype(np.int32)
    return _activated(sums + shifted.astype(np.float32) * _number("r_scale", scale), activation)


def _scaled_sums(
    x: Array,
    x_scale: Array,
    x_zero_point: Array,
    w: Array,
    w_scale: Array,
    w_zero_point: Array,
    bias: Array,
    **window: Any,
) -> Array:
    shifted = [
        each.astype(np.int32) - _number(name, zero).astype(np.int32)
        for each, name, zero in ((x, "x_zero_point", x_zero_point), (w, "w_zero_point", w_zero_point))
    ]
    plain = list(range(x.ndim))
    sums = conv_transpose(*shifted, **window, x_perm=plain, w_perm=plain, y_perm=plain)
    channels = sums.shape[1]
    if w_scale.shape not in ((), (1,), (channels,)):
        raise ValueError(f"w_scale has shape {list(w_scale.shape)}; allowed: one number, or [{channels}]")
    if bias.shape != (channels,):
        raise ValueError(f"B has shape {list(bias.shape)}; allowed: [{channels}]")
    ones = [1] * (x.ndim - 2)
    scale = (_number("x_scale", x_scale) * w_scale.reshape(-1)).reshape(-1, *ones)
    result: Array = sums.astype(np.float32) * scale + bias.reshape(-1, *ones)
    return result


def _activated(values: Array, activation: Sequence[float]) -> Array:
    checked = checked_activation(activation, values.dtype)
    return activated(values, checked, values.dtype)


def _quantized(values: Array, scale: Array, zero_point: Array) -> Array:
    zero, limits = _number("y_zero_point", zero_point), np.iinfo(zero_point.dtype)
    rounded = np.rint(values / _number("y_scale", scale)) + zero.astype(np.float32)
    result: Array = np.clip(rounded, limits.min, limits.max).astype(zero_point.dtype)
    return result


def _number(name: str, value: Array) -> Array:
    if value.size != 1 or value.ndim > 1:
        raise ValueError(f"{name} has shape {list(value.shape)}; allowed: one number")
    return value.reshape(())
