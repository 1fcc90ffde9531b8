"""Convolution arithmetic: padding and output sizes of convolution, transposed convolution and pooling.

Pure functions of integers for one spatial axis. Notation: X input size, K kernel size, s stride, d dilation,
E = (K-1)*d + 1 kernel extent, F = s*(X-1) + E full size of a transposed convolution, b and e begin and end padding,
t = b + e total padding, Y output size.
"""

from __future__ import annotations

import enum
from typing import TypeVar

__all__ = [
    "LARGEST",
    "AutoPad",
    "conv_size",
    "conv_transpose_begin",
    "conv_transpose_size",
    "extent",
    "given_size_padding",
    "in_order",
    "pool_size",
    "same_padding",
    "split",
]

_T = TypeVar("_T")

LARGEST = 2**31 - 1
"""Largest size and attribute value: every size that follows from such values fits in 64 bits."""


class AutoPad(enum.IntEnum):
    """How the padding of an axis is found; the attribute ``auto_pad`` of ONNX and of the operators of ``org.ortconv``.

    The values are numbers because function bodies calculate with them.

    Attributes:
        NOTSET: Begin and end padding are attributes.
        SAME_UPPER: The total follows from the sizes; the odd element is at the end.
        SAME_LOWER: The total follows from the sizes; the odd element is at the beginning.
    """

    NOTSET = 0
    SAME_UPPER = 1
    SAME_LOWER = 2


def in_order(auto_pad: AutoPad, smaller: _T, larger: _T) -> tuple[_T, _T]:
    """Returns the two halves of a total padding as (begin, end): numbers, or values that nodes compute.

    This is the one place that decides which half of the padding lies where.
    """
    return (smaller, larger) if auto_pad == AutoPad.SAME_UPPER else (larger, smaller)


def split(auto_pad: AutoPad, total: int) -> tuple[int, int]:
    """Returns (b, e) of a total padding of at least 0 under SAME_UPPER or SAME_LOWER."""
    return in_order(auto_pad, total // 2, total - total // 2)


def extent(kernel: int, dilation: int) -> int:
    """Returns E, the number of positions that a kernel covers."""
    return (kernel - 1) * dilation + 1


def conv_size(size: int, kernel: int, stride: int, dilation: int, padding: int) -> int:
    """Returns Y = floor((X + t - E) / s) + 1 of a convolution; 0 or less if the kernel does not fit."""
    return (size + padding - extent(kernel, dilation)) // stride + 1


def pool_size(size: int, kernel: int, stride: int, dilation: int, padding: int, *, ceil: bool) -> int:
    """Returns the number of windows of a pooling operation, rounded down, or up if `ceil`."""
    return conv_size(size, kernel, stride, dilation, padding + (stride - 1 if ceil else 0))


def conv_transpose_size(size: int, kernel: int, stride: int, dilation: int, padding: int = 0) -> int:
    """Returns Y = F - t of a transposed convolution; F without padding."""
    return stride * (size - 1) + extent(kernel, dilation) - padding


def same_padding(size: int, kernel: int, stride: int, dilation: int) -> int:
    """Returns t = max((Y-1)*s + E - X, 0) of a convolution or pooling operation with Y = ceil(X / s)."""
    return max((-(-size // stride) - 1) * stride + extent(kernel, dilation) - size, 0)


def given_size_padding(full: int, size: int, output_padding: int = 0) -> int:
    """Returns t = max(F + output_padding - Y, 0) of a transposed convolution with a given output size."""
    return max(full + output_padding - size, 0)


def conv_transpose_begin(auto_pad: AutoPad, full: int, size: int, output_padding: int, pad: int) -> int:
    """Returns b of a transposed convolution with a given output size.

    Args:
        auto_pad: NOTSET: `pad`. SAME_UPPER, SAME_LOWER: the half of t that is at the beginning.
        full: F.
        size: Y.
        output_padding: Enters t.
        pad: The begin padding under NOTSET.
    """
    if auto_pad == AutoPad.NOTSET:
        return pad
    return split(auto_pad, given_size_padding(full, size, output_padding))[0]
