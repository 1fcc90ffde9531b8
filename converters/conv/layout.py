"""Layouts of data and weights: permutations, permuted sizes, and the nodes that transpose and reshape."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

import numpy as np
import onnx_ir as ir

from ortconv.errors import ShapeError
from ortconv.graph.builder import Builder, Ints

__all__ = ["Layout", "Sizes", "dims_of", "inverse", "merge_axes", "sizes", "transpose"]

Sizes = tuple[int | None, ...]
"""Sizes of axes, None for a dynamic one."""


@dataclasses.dataclass(frozen=True)
class Layout:
    """Permutations to ONNX's layouts.

    Attributes:
        x_perm: Takes the data to [N, C, spatial...].
        w_perm: Takes the weights to ONNX's: [C, M/group, kernel...] of ConvTranspose, [M, C/group, kernel...] of Conv.
        y_perm: Takes the result from [N, M, spatial...] to the source's layout.
    """

    x_perm: Ints
    w_perm: Ints
    y_perm: Ints

    @classmethod
    def ncx(cls, spatial: int) -> Layout:
        """Returns ONNX's own layout."""
        same = tuple(range(spatial + 2))
        return cls(same, same, same)


def inverse(perm: Ints) -> Ints:
    """Returns the permutation that undoes another."""
    return tuple(perm.index(axis) for axis in range(len(perm)))


def sizes(value: ir.Value, perm: Ints) -> Sizes:
    """Returns the sizes of a value after a transposition, None for a dynamic one.

    Raises:
        ShapeError: The rank differs from that of the permutation.
    """
    if value.shape is None:
        return (None,) * len(perm)
    if len(value.shape) != len(perm):
        raise ShapeError(str(value.name), dims_of(value), f"rank {len(perm)} is required.")
    return tuple(dim if isinstance(dim := value.shape[axis], int) else None for axis in perm)


def transpose(b: Builder, value: ir.Value, perm: Ints) -> ir.Value:
    """Transposes a value; emits nothing for an identity and folds constants.

    Raises:
        ShapeError: The rank differs from that of the permutation.
    """
    if value.shape is not None and len(value.shape) != len(perm):
        raise ShapeError(str(value.name), dims_of(value), f"rank {len(perm)} is required.")
    if perm == tuple(range(len(perm))):
        return value
    shape = None if value.shape is None else ir.Shape([value.shape[axis] for axis in perm])
    folded = _fold(b, value, lambda array: np.transpose(array, perm), shape)
    if folded is not None:
        return folded
    return b.typed(b.op("Transpose", value, perm=perm), value.dtype, shape)


def merge_axes(b: Builder, value: ir.Value) -> ir.Value:
    """Reshapes [G, A, rest...] to [G*A, rest...]; folds constants."""
    dims = dims_of(value)
    if dims is None or len(dims) < 2:
        raise ShapeError(str(value.name), dims, "a tensor of groups is required.")
    first = dims[0] * dims[1] if isinstance(dims[0], int) and isinstance(dims[1], int) else None
    shape = [first, *dims[2:]]
    static = [dim for dim in shape if isinstance(dim, int)]
    if len(static) == len(shape):
        folded = _fold(b, value, lambda array: array.reshape(static), shape)
        if folded is not None:
            return folded
        target = b.constant(static)
    else:
        tail = b.op("Shape", value, start=2)
        target = b.op("Concat", b.constant([-1]), tail, axis=0)
    return b.typed(b.op("Reshape", value, target), value.dtype, shape)


def _fold(
    b: Builder, value: ir.Value, change: Callable[[np.ndarray], np.ndarray], shape: Iterable[object] | None
) -> ir.Value | None:
    """Returns a constant that `change` computes when the model is written, None if `value` is not a constant."""
    tensor = value.const_value
    if tensor is None or shape is None:
        return None
    return b.constant(
        ir.LazyTensor(
            lambda: ir.tensor(np.ascontiguousarray(change(tensor.numpy())), dtype=tensor.dtype),
            dtype=tensor.dtype,
            shape=ir.Shape([int(dim) for dim in shape]),  # type: ignore[call-overload]
            cache=False,
        )
    )


def dims_of(value: ir.Value) -> list[int | str | None] | None:
    """Returns the dimensions of a value, with the names of symbolic ones; None if the rank is unknown."""
    return None if value.shape is None else [dim if isinstance(dim, int) else dim.value for dim in value.shape]
