"""Fourier transforms along one axis, shared by DFT and STFT."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.compute_types import dtype_of
from ortconv.converters.openvino.lib.sizes import Size, calculate, joined, size_of
from ortconv.graph.builder import Builder

__all__ = ["AXIS_IS_INPUT", "KERNELS", "dft_along_axis", "even_length", "fitted", "real_inverse"]

AXIS_IS_INPUT = 20
"""The opset since which a DFT takes its axis as an input."""

KERNELS = ("DFT",)


def even_length(b: Builder, size: Size) -> Size:
    """Returns the even length of the real data whose one-sided transform has `size` entries."""
    return calculate(b, "Mul", calculate(b, "Sub", size, 1), 2)


def dft_along_axis(b: Builder, x: ir.Value, axis: int, *, inverse: bool = False, one_sided: bool = False) -> ir.Value:
    """Emits DFT along an axis, an attribute or an input by the opset."""
    flags: dict[str, Any] = {"inverse": int(inverse) or None, "onesided": int(one_sided) or None}
    if b.options.opset >= AXIS_IS_INPUT:
        result = b.op("DFT", x, None, b.constant(axis), **flags)
    else:
        result = b.op("DFT", x, axis=axis, **flags)
    return b.typed(result, x.dtype, None)


def fitted(b: Builder, x: ir.Value, axis: int, size: Size) -> ir.Value:
    """Truncates an axis to a size, or pads it with zeros; -1 keeps it."""
    if size == -1:
        return x
    dtype = x.dtype
    current = size_of(b, x, axis)
    if isinstance(size, int) and isinstance(current, int):
        if size == current:
            return x
        missing: Size = max(size - current, 0)
    else:
        missing = b.op("Max", joined(b, [calculate(b, "Sub", size, current)]), b.constant([0]))
    along = b.constant([axis])
    cut = b.op("Slice", x, b.constant([0]), joined(b, [size]), along)
    if missing != 0:
        cut = b.op("Pad", cut, b.op("Concat", b.constant([0]), joined(b, [missing]), axis=0), None, along)
    return b.typed(cut, dtype, None)


def real_inverse(b: Builder, x: ir.Value, axis: int, size: Size) -> ir.Value:
    """Inverts a one-sided transform, extended by its conjugate; -1 stands for an even length."""
    if size == -1:
        size = even_length(b, size_of(b, x, axis))
    half = calculate(b, "Add", calculate(b, "Div", size, 2), 1)
    dtype = dtype_of(x)
    near = fitted(b, x, axis, half)
    behind = joined(b, [calculate(b, "Sub", size, half)])
    far = b.op("Slice", near, behind, b.constant([0]), b.constant([axis]), b.constant([-1]))
    conjugate = b.op("Mul", far, b.constant(np.array([1, -1], dtype.numpy())))
    whole = b.typed(b.op("Concat", near, conjugate, axis=axis), dtype, None)
    result = dft_along_axis(b, whole, axis, inverse=True)
    real = b.op("Gather", result, b.constant(0), axis=-1)
    return b.typed(real, dtype, None)
