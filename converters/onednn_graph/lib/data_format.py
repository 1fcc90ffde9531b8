"""Data formats: where batch, channels and spatial axes stand in a shape."""

from __future__ import annotations

from typing import Literal

import onnx_ir as ir

from ortconv.errors import ShapeError, UnsupportedAttributeError

__all__ = [
    "DataFormat",
    "Dims",
    "broken_vector",
    "channels_of",
    "known_dims",
    "normal_axis",
    "plain_sizes",
    "rank_of",
    "same_dims",
    "to_ncx",
]

DataFormat = Literal["NXC", "NCX"]
"""Order of the logical shape; the first is the default of every op. Strides have no say in it."""

Dims = list[int | str | None]
"""A shape as far as it is known."""


def known_dims(value: ir.Value) -> Dims | None:
    """Returns a value's dims: ints, names, or None for one that is not known; None without a rank."""
    if value.shape is None:
        return None
    return [dim if isinstance(dim, int) else dim.value for dim in value.shape]


def plain_sizes(value: ir.Value) -> tuple[int | None, ...]:
    """Returns the sizes of a value of known rank, None for one that is not known."""
    return tuple(dim if isinstance(dim, int) else None for dim in known_dims(value) or ())


def rank_of(argument: str, value: ir.Value) -> int:
    """Returns a value's rank.

    Raises:
        ShapeError: It is not known.
    """
    if value.shape is None:
        raise ShapeError(argument, None, "the number of dimensions must be known.")
    return len(value.shape)


def normal_axis(attribute: str, axis: int, rank: int) -> int:
    """Returns an axis counted from the front.

    Raises:
        UnsupportedAttributeError: There is no such axis.
    """
    if not -rank <= axis < rank:
        raise UnsupportedAttributeError(attribute, axis, f"an axis of {rank}, from {-rank} to {rank - 1}")
    return axis % rank


def channels_of(argument: str, value: ir.Value, data_format: DataFormat) -> int | str | None:
    """Returns the number of channels, None when it is not known.

    Raises:
        ShapeError: The value has no channels: fewer than two dimensions, or an unknown number of them.
    """
    dims = known_dims(value)
    if dims is None or len(dims) < 2:
        raise ShapeError(argument, dims, f"at least two dimensions are required, in the order {data_format}.")
    return dims[1] if data_format == "NCX" else dims[-1]


def broken_vector(dims: Dims, entries: int | str | None) -> bool:
    """Whether a shape cannot be that of a vector with so many entries."""
    return len(dims) != 1 or (isinstance(dims[0], int) and isinstance(entries, int) and dims[0] != entries)


def same_dims(argument: str, value: ir.Value, other: str, model: ir.Value) -> None:
    """Checks that two values may have one shape.

    Raises:
        ShapeError: Their ranks or known sizes differ.
    """
    dims, required = known_dims(value), known_dims(model)
    if dims is None or required is None:
        return
    pairs = zip(dims, required, strict=False)
    if len(dims) != len(required) or any(isinstance(x, int) and isinstance(y, int) and x != y for x, y in pairs):
        raise ShapeError(argument, dims, f"{required} is required, the shape of {other}.")


def to_ncx(rank: int, data_format: DataFormat) -> tuple[int, ...]:
    """Returns the permutation that takes a tensor to [N, C, spatial...]."""
    return tuple(range(rank)) if data_format == "NCX" else (0, rank - 1, *range(1, rank - 1))
