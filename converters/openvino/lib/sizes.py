"""Sizes of a value's axes, as constants where they are known and computed where they are not."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from ortconv.converters.openvino.lib.broadcasting import rank_of
from ortconv.convolution_arithmetic import AutoPad, in_order
from ortconv.errors import ShapeError
from ortconv.graph.builder import Builder

__all__ = [
    "Size",
    "at_least_zero",
    "at_most",
    "calculate",
    "counted",
    "counted_row",
    "halved",
    "joined",
    "numbers_below",
    "require_sizes",
    "reshaped",
    "same_padding",
    "same_windows",
    "size_of",
    "sizes_of",
]

Size = int | ir.Value
"""A number that is known, or an int64 vector of one entry."""


def sizes_of(b: Builder, value: ir.Value, input: str) -> list[Size]:
    """Returns the size of each axis.

    Raises:
        ShapeError: The rank is not known.
    """
    return [size_of(b, value, axis) for axis in range(rank_of(value, input))]


def size_of(b: Builder, value: ir.Value, axis: int) -> Size:
    """Returns the size of one axis.

    Raises:
        ShapeError: The rank is known, and there is no such axis.
    """
    if value.shape is not None and not -len(value.shape) <= axis < len(value.shape):
        raise ShapeError(str(value.name), value.shape, f"it must have an axis {axis}.")
    dim = None if value.shape is None else value.shape[axis]
    return dim if isinstance(dim, int) else b.op("Shape", value, start=axis, end=axis + 1 or None)


def require_sizes(value: ir.Value, input: str, *sizes: Size | None) -> None:
    """Refuses a value of another rank, or with an axis of another size where both are known; None is any size.

    Raises:
        ShapeError: It is.
    """
    if value.shape is None:
        raise ShapeError(input, None, "its rank must be known.")
    if len(value.shape) != len(sizes):
        raise ShapeError(input, value.shape, f"its rank must be {len(sizes)}.")
    for axis, (found, size) in enumerate(zip(value.shape, sizes, strict=True)):
        if isinstance(found, int) and isinstance(size, int) and found != size:
            raise ShapeError(input, value.shape, f"axis {axis} must have {size} entries.")


def joined(b: Builder, sizes: Sequence[Size]) -> ir.Value:
    """Returns sizes as one int64 vector."""
    if all(isinstance(size, int) for size in sizes):
        return b.constant([size for size in sizes if isinstance(size, int)])
    parts = [b.constant([size]) if isinstance(size, int) else size for size in sizes]
    return parts[0] if len(parts) == 1 else b.op("Concat", *parts, axis=0)


def calculate(b: Builder, op_type: str, left: Size, right: Size) -> Size:
    """Adds, subtracts, multiplies or divides (Add, Sub, Mul, Div) two sizes; Div takes positive ones."""
    if isinstance(left, int) and isinstance(right, int):
        return {"Add": left + right, "Sub": left - right, "Mul": left * right, "Div": left // max(right, 1)}[op_type]
    neutral = int(op_type in ("Mul", "Div"))
    if not isinstance(left, int) and isinstance(right, int) and right == neutral:
        return left
    if isinstance(left, int) and left == neutral and op_type in ("Add", "Mul"):
        return right
    return b.op(op_type, joined(b, [left]), joined(b, [right]))


def at_least_zero(b: Builder, size: Size) -> Size:
    """Returns a size, or 0 where it is negative."""
    return max(size, 0) if isinstance(size, int) else b.op("Max", size, b.constant([0]))


def at_most(b: Builder, size: Size, most: int) -> Size:
    """Returns the smaller of a size and a limit."""
    return min(size, most) if isinstance(size, int) else b.op("Min", size, b.constant([most]))


def same_windows(b: Builder, size: Size, stride: int) -> Size:
    """Returns how many windows same_upper and same_lower leave along an axis: ceil(size / stride)."""
    return calculate(b, "Div", calculate(b, "Add", size, stride - 1), stride)


def same_padding(b: Builder, size: Size, windows: Size, extent: int, stride: int) -> Size:
    """Returns what same_upper and same_lower pad along an axis, both sides together.

    Args:
        b: The builder.
        size: Of the axis, X.
        windows: How many there are, Y; see `same_windows`.
        extent: Positions that a window covers, E.
        stride: From one window to the next.

    Returns:
        max((Y - 1) * stride + E - X, 0).
    """
    last = calculate(b, "Mul", calculate(b, "Sub", windows, 1), stride)
    return at_least_zero(b, calculate(b, "Sub", calculate(b, "Add", last, extent), size))


def halved(b: Builder, auto_pad: AutoPad, total: Size) -> tuple[Size, Size]:
    """Returns begin and end padding of a total padding under SAME_UPPER or SAME_LOWER."""
    half = calculate(b, "Div", total, 2)
    return in_order(auto_pad, half, calculate(b, "Sub", total, half))


def reshaped(b: Builder, value: ir.Value, sizes: Sequence[Size]) -> ir.Value:
    """Emits a Reshape to sizes; a zero is a size."""
    if not sizes:
        return b.typed(b.op("Reshape", value, b.constant([])), value.dtype, [])
    unknown = [index for index, size in enumerate(sizes) if not isinstance(size, int)]
    if len(unknown) == 1 and 0 not in sizes:
        sizes = [-1 if index in unknown else size for index, size in enumerate(sizes)]
    shape = [size if isinstance(size, int) and size >= 0 else None for size in sizes]
    zeros = any(not isinstance(size, int) or size == 0 for size in sizes)
    result = b.op("Reshape", value, joined(b, sizes), allowzero=1 if zeros else None)
    return b.typed(result, value.dtype, shape)


def counted(b: Builder, size: Size) -> ir.Value:
    """Returns the numbers from 0 to a size, as int64."""
    if isinstance(size, int):
        return b.counted(size)
    return b.typed(numbers_below(b, size), ir.DataType.INT64, [None])


def numbers_below(b: Builder, size: ir.Value) -> ir.Value:
    """Emits the numbers from 0 to a size that is a vector of one entry, as int64."""
    return b.op("Range", b.constant(0), b.op("Squeeze", size, b.constant([0])), b.constant(1))


def counted_row(b: Builder, size: int) -> ir.Value:
    """Returns the numbers from 0 to a size, as float32 [1, size]."""
    numbers = b.cast(b.counted(size), ir.DataType.FLOAT)
    return b.op("Unsqueeze", numbers, b.constant([0]))
