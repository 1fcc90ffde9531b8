"""Data formats: the order of batch, channels and spatial axes in a shape."""

from __future__ import annotations

from typing import Literal

import onnx_ir as ir

from ortconv.errors import ShapeError, UnsupportedAttributeError

__all__ = [
    "DataFormat",
    "Dims",
    "all_but_channels",
    "broken_vector",
    "channels_of",
    "differ",
    "known_dims",
    "normal_axis",
    "plain_sizes",
    "rank_of",
    "same_dims",
    "to_ncx",
]

DataFormat = Literal["NXC", "NCX"]
"""Order of the logical dimensions; NXC is the default of every op. Independent of strides."""

Dims = list[int | str | None]
"""A shape with unknown and symbolic dimensions."""


def known_dims(value: ir.Value) -> Dims | None:
    """Returns the dimensions of a value: ints, names, None for an unknown one; None if the rank is unknown."""
    if value.shape is None:
        return None
    return [dim if isinstance(dim, int) else dim.value for dim in value.shape]


def plain_sizes(value: ir.Value) -> tuple[int | None, ...]:
    """Returns the sizes of a value of known rank, None for a dynamic one."""
    return tuple(dim if isinstance(dim, int) else None for dim in known_dims(value) or ())


def rank_of(argument: str, value: ir.Value) -> int:
    """Returns a value's rank.

    Raises:
        ShapeError: The rank is unknown.
    """
    if value.shape is None:
        raise ShapeError(argument, None, "the number of dimensions must be known.")
    return len(value.shape)


def normal_axis(attribute: str, axis: int, rank: int) -> int:
    """Returns a non-negative axis.

    Raises:
        UnsupportedAttributeError: The axis is out of range.
    """
    if not -rank <= axis < rank:
        raise UnsupportedAttributeError(attribute, axis, f"an axis of {rank}, from {-rank} to {rank - 1}")
    return axis % rank


def channels_of(argument: str, value: ir.Value, data_format: DataFormat) -> int | str | None:
    """Returns the number of channels, None if it is unknown.

    Raises:
        ShapeError: The rank is unknown or below 2.
    """
    dims = known_dims(value)
    if dims is None or len(dims) < 2:
        raise ShapeError(argument, dims, f"at least two dimensions are required, in the order {data_format}.")
    return dims[1] if data_format == "NCX" else dims[-1]


def differ(dims: Dims, others: Dims) -> bool:
    """Returns whether known sizes of two shapes differ, as far as both reach."""
    pairs = zip(dims, others, strict=False)
    return any(isinstance(x, int) and isinstance(y, int) and x != y for x, y in pairs)


def all_but_channels(rank: int, data_format: DataFormat) -> tuple[int, ...]:
    """Returns all axes but that of the channels."""
    channel = 1 if data_format == "NCX" else rank - 1
    return tuple(axis for axis in range(rank) if axis != channel)


def broken_vector(dims: Dims, entries: int | str | None) -> bool:
    """Returns whether a shape is certainly not that of a vector of `entries` entries."""
    return len(dims) != 1 or differ(dims, [entries])


def same_dims(argument: str, value: ir.Value, other: str, model: ir.Value) -> None:
    """Checks that the shapes of two values can be equal.

    Raises:
        ShapeError: Their ranks or known sizes differ.
    """
    dims, required = known_dims(value), known_dims(model)
    if dims is not None and required is not None and (len(dims) != len(required) or differ(dims, required)):
        raise ShapeError(argument, dims, f"{required} is required, the shape of {other}.")


def to_ncx(rank: int, data_format: DataFormat) -> tuple[int, ...]:
    """Returns the permutation of a tensor to [N, C, spatial...]."""
    return tuple(range(rank)) if data_format == "NCX" else (0, rank - 1, *range(1, rank - 1))
