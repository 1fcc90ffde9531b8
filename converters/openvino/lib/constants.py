"""Inputs that ONNX expects as attributes or as int64 vectors."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.plugin_bugs.empty_inputs import EMPTY_RUNTIME_AXES
from ortconv.errors import ConversionError, ShapeError, shown
from ortconv.frontend.source_graph import MAX_RANK
from ortconv.graph.builder import Builder, Ints

__all__ = [
    "as_scalar",
    "axis_of",
    "constant_axis",
    "constant_ints",
    "int64_vector",
    "known_ints",
    "length_of",
    "normalized",
    "one_number",
    "warn_of_no_axes",
    "with_axes",
]


def known_ints(b: Builder, value: ir.Value) -> Ints | None:
    """Returns the integers of a constant input, else None; a scalar counts as one entry.

    Raises:
        ConversionError: They are floats that are no integers of 64 bits.
    """
    array = b.array(value)
    if array is None:
        return None
    if array.dtype.kind not in "iub" and not all(entry.is_integer() and abs(entry) < 2**63 for entry in _floats(array)):
        raise ConversionError(f"input {value.name} = {shown(_floats(array))} is not supported; allowed: integers.")
    return tuple(int(entry) for entry in np.ravel(array))


def _floats(array: np.ndarray) -> list[float]:
    return [float(entry) for entry in np.ravel(array)]


def constant_ints(b: Builder, value: ir.Value, input: str) -> Ints:
    """Returns the integers of an input that ONNX expects as an attribute.

    Raises:
        ConversionError: It is computed at run time.
    """
    ints = known_ints(b, value)
    if ints is None:
        raise ConversionError(f"input {input} is computed at run time; allowed: a constant.")
    return ints


def one_number(b: Builder, value: ir.Value, input: str) -> float | None:
    """Returns the value of a constant input of one element, else None.

    Raises:
        ShapeError: It is no number, but none or several.
    """
    if value.shape is not None and any(dim != 1 for dim in value.shape if isinstance(dim, int)):
        raise ShapeError(input, value.shape, "it must be one number.")
    known = b.array(value)
    return None if known is None else known.item()


def int64_vector(b: Builder, value: ir.Value) -> ir.Value:
    """Returns an integer input as a 1-D int64 value: a new constant, or the value cast and reshaped."""
    ints = known_ints(b, value)
    if ints is not None:
        return b.constant(list(ints))
    cast = b.cast(value, ir.DataType.INT64)
    if value.shape is not None and len(value.shape) == 1:
        return cast
    return b.op("Reshape", cast, b.constant([-1]))


def as_scalar(b: Builder, value: ir.Value, dtype: ir.DataType | None = None) -> ir.Value:
    """Returns a value of one element without axes; `dtype` states its type where that may be unknown."""
    if value.shape == ():
        return value
    return b.typed(b.op("Reshape", value, b.constant([])), dtype or value.dtype, ())


def length_of(value: ir.Value, input: str, *, most: int = MAX_RANK) -> int:
    """Returns the length of a vector.

    Raises:
        ShapeError: That is not known, or more than `most`, by default one for each axis that a tensor can have.
    """
    dim = None if value.shape is None or len(value.shape) != 1 else value.shape[0]
    if not isinstance(dim, int):
        raise ShapeError(input, value.shape, "its length must be known.")
    if dim > most:
        raise ShapeError(input, value.shape, f"it has {dim} entries; allowed: at most {most}.")
    return dim


def warn_of_no_axes(b: Builder, axes: ir.Value) -> None:
    """Warns of empty axes that are known only at run time."""
    if b.array(axes) is None and axes.shape is not None and 0 in axes.shape:
        EMPTY_RUNTIME_AXES.warn(b)


def with_axes(b: Builder, result: ir.Value, data: ir.Value, axes: ir.Value, change: int) -> ir.Value:
    """Sets the rank of a result that has one axis more or less for each entry of `axes`, if that number is static.

    Args:
        b: The builder.
        result: The result.
        data: What it was made of.
        axes: Axes that are runtime values.
        change: 1 or -1.
    """
    if data.shape is None or axes.shape is None:
        return result
    count = 1 if not len(axes.shape) else axes.shape[0]
    if not isinstance(count, int) or not 0 <= len(data.shape) + change * count <= MAX_RANK:
        return result
    return b.typed(result, data.dtype, [None] * (len(data.shape) + change * count))


def normalized(axes: Ints, rank: int, input: str) -> Ints:
    """Returns axes counted from the front.

    Raises:
        ConversionError: One is out of range.
    """
    for axis in axes:
        if not -rank <= axis < rank:
            raise ConversionError(f"input {input} = {list(axes)} is out of range; allowed: {-rank} to {rank - 1}.")
    return tuple(axis % rank for axis in axes)


def axis_of(b: Builder, axis: ir.Value, rank: int) -> int:
    """Returns a constant axis, counted from the front.

    Raises:
        ConversionError: It is computed at run time, is more than one number, or is out of range.
    """
    return normalized((constant_axis(b, axis),), rank, "axis")[0]


def constant_axis(b: Builder, axis: ir.Value) -> int:
    """Returns a constant axis as it is.

    Raises:
        ConversionError: It is computed at run time, or is more than one number.
    """
    axes = constant_ints(b, axis, "axis")
    if len(axes) != 1:
        raise ShapeError("axis", axis.shape, "it must be one number.")
    return axes[0]
