"""Arithmetic of spatial axes: extents, output sizes, and how a total padding is split. Pure functions on ints.

Notation, per axis: X size the op reads, K kernel, s stride, d dilation, E extent, F full size of a transposed
convolution, b and e begin and end padding, Y output size, t total padding.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

from ortconv.graph.builder import Ints

__all__ = ["LARGEST", "Rule", "Window", "conv_pads", "conv_size", "extent", "transpose_begin", "transpose_full"]

LARGEST = 2**31 - 1
"""With sizes and attributes up to this, no size that follows from them exceeds 64 bits."""

Rule = Literal["NOTSET", "SAME_UPPER", "SAME_LOWER"]
"""How a total padding is split, in ONNX's words: given, extra element at the end, extra element at the begin."""


@dataclasses.dataclass(frozen=True)
class Window:
    """How a kernel moves: one entry per spatial axis, and the number of groups."""

    strides: Ints
    dilations: Ints
    group: int = 1

    @property
    def rank(self) -> int:
        """Number of spatial axes."""
        return len(self.strides)


def extent(kernel: int, dilation: int) -> int:
    """Returns E = (K-1)*d + 1, the positions a kernel covers."""
    return (kernel - 1) * dilation + 1


def transpose_full(size: int, kernel: int, stride: int, dilation: int) -> int:
    """Returns F = s*(X-1) + E, the size of an unpadded transposed convolution."""
    return stride * (size - 1) + extent(kernel, dilation)


def transpose_begin(rule: Rule, full: int, size: int, output_padding: int, pad: int) -> int:
    """Returns the begin padding of a transposed convolution whose output size is given.

    Args:
        rule: NOTSET: `pad`. SAME_UPPER: floor(t/2). SAME_LOWER: ceil(t/2).
        full: F.
        size: Y.
        output_padding: Enters t = max(F + output_padding - Y, 0); padding is never negative.
        pad: The begin padding under NOTSET.
    """
    if rule == "NOTSET":
        return pad
    total = max(full + output_padding - size, 0)
    return total // 2 if rule == "SAME_UPPER" else (total + 1) // 2


def conv_size(size: int, kernel: int, stride: int, dilation: int, pads: int) -> int:
    """Returns Y = floor((X + b + e - E) / s) + 1 of a convolution; at most 0 when the kernel does not fit."""
    return (size + pads - extent(kernel, dilation)) // stride + 1


def conv_pads(rule: Rule, size: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    """Returns (b, e) of a convolution under a SAME rule: Y = ceil(X/s), t = max(0, (Y-1)*s + E - X)."""
    total = max(0, (-(-size // stride) - 1) * stride + extent(kernel, dilation) - size)
    begin = total // 2 if rule == "SAME_UPPER" else (total + 1) // 2
    return begin, total - begin
