"""The NumPy reference of ``ConvIntegerToFloat``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ortconv.convolution_arithmetic import AutoPad
from ortconv.opset.reference.convolutions import conv
from ortconv.opset.reference.operands import Array

__all__ = ["conv_integer_to_float"]


def conv_integer_to_float(
    x: Array,
    w: Array,
    x_scale: Array,
    w_scale: Array,
    x_zero_point: Array | None = None,
    w_zero_point: Array | None = None,
    bias: Array | None = None,
    *,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    group: int,
) -> Array:
    """Convolution of 8-bit integers with sums in int32, scaled to float32.

    Args:
        x: Data [N, C, X...], in any integer type.
        w: Weights [M, C/group, K...], in any integer type.
        x_scale: One number of float32.
        w_scale: One number of float32, or [M].
        x_zero_point: One number; None for 0.
        w_zero_point: As many numbers as `w_scale` has; None for zeros.
        bias: [M] of float32, or None.
        strides: s per spatial axis, >= 1.
        pads: All begins, then all ends, >= 0.
        dilations: d per spatial axis, >= 1.
        group: Divides C and M.

    Returns:
        [N, M, Y...], of float32.

    Raises:
        ValueError: A shape or attribute contradicts the above, or the kernel exceeds the padded input.
    """
    ones = [1] * (w.ndim - 1)
    channels = w.shape[0] if w.ndim else 0
    for name, given, most in (
        ("x_scale", x_scale, 1),
        ("x_zero_point", x_zero_point, 1),
        ("w_scale", w_scale, channels),
        ("w_zero_point", w_zero_point, channels),
    ):
        if given is not None and given.shape not in ((), (1,), (most,)):
            raise ValueError(f"{name} has shape {list(given.shape)}; allowed: one number, or [{most}]")
    if w_zero_point is not None and w_zero_point.size != w_scale.size:
        raise ValueError(f"w_zero_point has {w_zero_point.size} numbers; allowed: {w_scale.size}, as w_scale has")
    if bias is not None and bias.shape != (channels,):
        raise ValueError(f"B has shape {list(bias.shape)}; allowed: [{channels}]")
    shifted = [
        each.astype(np.int32) - (0 if zero is None else zero.astype(np.int32).reshape(-1, *ones))
        for each, zero in ((x, x_zero_point), (w, w_zero_point))
    ]
    plain = list(range(x.ndim))
    sums = conv(
        *shifted, strides=strides, dilations=dilations, auto_pad=AutoPad.NOTSET, pads=pads, group=group, x_perm=plain,
        w_perm=plain, y_perm=plain,
    )  # fmt: skip
    scaled = sums.astype(np.float32) * (x_scale.reshape(-1) * w_scale.reshape(-1)).reshape(-1, *ones[1:])
    result: Array = scaled if bias is None else scaled + bias.reshape(-1, *ones[1:])
    return result
