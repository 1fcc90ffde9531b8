"""The NumPy references of the convolutions of 8-bit integers to quantized results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ortconv.convolution_arithmetic import AutoPad
from ortconv.opset.convolution_terms import NO_HARD_SIGMOID
from ortconv.opset.reference.convolutions import conv, conv_transpose
from ortconv.opset.reference.operands import Array, activated, checked_activation

__all__ = [
    "affine_sums",
    "qlinear_convolution",
    "qlinear_transposed_convolution",
    "qlinear_transposed_convolution_add",
    "sums_with_residual",
    "transposed_convolution_integer_to_float",
]


_SCALES_OF_Y, _BIAS = 6, 8
"""Positions of y_scale and the bias among the inputs of QLinearTransposedConvolution and QLinearConvolution."""


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


def qlinear_convolution(*operands: Array, **attributes: Any) -> Array:
    """Convolution of 8-bit integers with a bias, an activation, and a scale and a bias behind it, quantized.

    Args:
        *operands: x, x_scale, x_zero_point, w, w_scale and w_zero_point; y_scale and y_zero_point, one number each;
            what `affine_sums` has in addition.
        **attributes: As for `affine_sums`, like the other operands.

    Returns:
        [N, M, Y...], integers in the type of y_zero_point.

    Raises:
        ValueError: As there.
    """
    return _quantized(
        affine_sums(*operands[:_SCALES_OF_Y], *operands[_BIAS:], **attributes), *operands[_SCALES_OF_Y:_BIAS]
    )


def affine_sums(
    x: Array,
    x_scale: Array,
    x_zero_point: Array,
    w: Array,
    w_scale: Array,
    w_zero_point: Array,
    bias: Array,
    factor: Array,
    addend: Array,
    *,
    activation: Sequence[float],
    hard_sigmoid: Sequence[float] | None = None,
    **window: Any,
) -> Array:
    """The same before it is quantized.

    Args:
        x: Data [N, C, X...], integers of any type.
        x_scale: One number of float32.
        x_zero_point: One number.
        w: Weights [M, C/group, K...], integers of any type.
        w_scale: One number of float32, or [M].
        w_zero_point: One number.
        bias: [M, 1...] of float32, or [M, Y...].
        factor: [M] of float32.
        addend: [M] of float32.
        activation: Slope, minimum and maximum.
        hard_sigmoid: Alpha and beta of the HardSigmoid by which what is activated is multiplied; None: there is none.
        **window: strides, dilations, group and pads, as `conv` takes them.

    Returns:
        [N, M, Y...], of float32.

    Raises:
        ValueError: A shape or attribute contradicts the above, or the kernel exceeds the padded input.
    """
    shifted = _shifted(x, x_zero_point, w, w_zero_point)
    plain = list(range(x.ndim))
    sums = conv(*shifted, auto_pad=AutoPad.NOTSET, **window, x_perm=plain, w_perm=plain, y_perm=plain)
    channels, ones = sums.shape[1], [1] * (x.ndim - 2)
    if bias.shape not in ((channels, *ones), sums.shape[1:]):
        raise ValueError(f"B has shape {list(bias.shape)}; allowed: {[channels, *ones]}, or {list(sums.shape[1:])}")
    for name, numbers in (("factor", factor), ("addend", addend)):
        if numbers.shape != (channels,):
            raise ValueError(f"{name} has shape {list(numbers.shape)}; allowed: [{channels}]")
    values = _activated(_scaled(sums, x_scale, w_scale) + bias, activation)
    if hard_sigmoid is not None:
        if len(hard_sigmoid) != len(NO_HARD_SIGMOID) or not np.isfinite(hard_sigmoid).all():
            raise ValueError(
                f"hard_sigmoid = {list(hard_sigmoid)} is not allowed; allowed: a finite alpha, a finite beta"
            )
        alpha, beta = np.asarray(hard_sigmoid, np.float32)
        values = values * np.clip(values * alpha + beta, np.float32(0), np.float32(1))
    result: Array = values * factor.reshape(-1, *ones) + addend.reshape(-1, *ones)
    return result


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
    shifted = _shifted(x, x_zero_point, w, w_zero_point)
    plain = list(range(x.ndim))
    sums = conv_transpose(*shifted, **window, x_perm=plain, w_perm=plain, y_perm=plain)
    channels = sums.shape[1]
    if bias.shape != (channels,):
        raise ValueError(f"B has shape {list(bias.shape)}; allowed: [{channels}]")
    return _scaled(sums, x_scale, w_scale) + bias.reshape(-1, *[1] * (x.ndim - 2))


def _shifted(x: Array, x_zero_point: Array, w: Array, w_zero_point: Array) -> list[Array]:
    """Returns data and weights in int32, without their zero points."""
    return [
        each.astype(np.int32) - _number(name, zero).astype(np.int32)
        for each, name, zero in ((x, "x_zero_point", x_zero_point), (w, "w_zero_point", w_zero_point))
    ]


def _scaled(sums: Array, x_scale: Array, w_scale: Array) -> Array:
    channels = sums.shape[1]
    if w_scale.shape not in ((), (1,), (channels,)):
        raise ValueError(f"w_scale has shape {list(w_scale.shape)}; allowed: one number, or [{channels}]")
    scale = (_number("x_scale", x_scale) * w_scale.reshape(-1)).reshape(-1, *[1] * (sums.ndim - 2))
    result: Array = sums.astype(np.float32) * scale
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
