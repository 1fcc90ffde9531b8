"""Axes that are runtime values, where ONNX expects attributes.

Along one such axis an op works on a view of three axes: the axes before it, the axis, and the axes after it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.broadcasting import rank_of
from ortconv.converters.openvino.lib.constants import int64_vector
from ortconv.converters.openvino.lib.sizes import numbers_below
from ortconv.errors import ShapeError
from ortconv.graph.builder import Builder

__all__ = ["View", "coordinates", "on_lines", "permuted", "view_along"]

_I64 = ir.DataType.INT64
_END = np.iinfo(np.int64).max


@dataclasses.dataclass(frozen=True)
class View:
    """A value with its axes in three groups.

    Attributes:
        value: Its elements, as [before, size, behind].
        rank: How many axes it has.
        before: Sizes of the axes before the one in the middle, as a vector.
        size: Size of that one, as a vector of one entry.
        behind: Sizes of those behind it.
    """

    value: ir.Value
    rank: int
    before: ir.Value
    size: ir.Value
    behind: ir.Value

    def restored(self, b: Builder, value: ir.Value, sizes: ir.Value, count: int = 1) -> ir.Value:
        """Returns a value of [before, ..., behind] whose axes in the middle have these sizes, `count` of them."""
        shape = b.op("Concat", self.before, sizes, self.behind, axis=0)
        whole = b.op("Reshape", value, shape, allowzero=1)
        return b.typed(whole, self.value.dtype, [None] * (self.rank - 1 + count))


def view_along(b: Builder, data: ir.Value, axis: ir.Value, like: ir.Value | None = None) -> View:
    """Returns a view of data along an axis, counted from the front or from the end.

    Args:
        b: The builder.
        data: The data.
        axis: One number.
        like: What has the sizes before and behind the axis, if that is not the data.

    Raises:
        ShapeError: A rank is not known, or the axis is several numbers.
    """
    rank = rank_of(data if like is None else like, "data")
    place = _one(b, axis)
    place = b.op("Where", b.op("Less", place, b.constant([0])), b.op("Add", place, b.constant([rank])), place)
    after = b.op("Add", place, b.constant([1]))
    shape = b.op("Shape", data if like is None else like)
    before = b.op("Slice", shape, b.constant([0]), place)
    size = b.op("Slice", shape, place, after)
    behind = b.op("Slice", shape, after, b.constant([_END]))
    sizes = [_product(b, before), size if like is None else b.constant([-1]), _product(b, behind)]
    view = b.op("Reshape", data, b.op("Concat", *sizes, axis=0), allowzero=1 if like is None else None)
    return View(b.typed(view, data.dtype, [None] * 3), rank, before, size, behind)


def on_lines(
    b: Builder, data: ir.Value, axis: ir.Value, parts: int, formula: Callable[[ir.Value], ir.Value]
) -> ir.Value:
    """Emits a formula over [before, size, behind, parts], which may change the size and the number of parts.

    Args:
        b: The builder.
        data: Elements of several parts each, along the last axis.
        axis: One number, another than the last axis.
        parts: How many.
        formula: What to do along the second axis.
    """
    view = view_along(b, data, axis)
    shape = b.op("Concat", b.op("Shape", view.value, end=2), b.constant([-1, parts]), axis=0)
    moved = formula(b.typed(b.op("Reshape", view.value, shape), data.dtype, [None] * 4))
    inner = b.op("Slice", view.behind, b.constant([0]), b.constant([-1]))
    sizes = [view.before, b.op("Shape", moved, start=1, end=2), inner, b.op("Shape", moved, start=3)]
    whole = b.op("Reshape", moved, b.op("Concat", *sizes, axis=0), allowzero=1)
    return b.typed(whole, data.dtype, [None] * view.rank)


def permuted(b: Builder, data: ir.Value, order: ir.Value) -> ir.Value:
    """Transposes by a runtime permutation: computes the flat index of each element of the result."""
    rank = rank_of(data, "data")
    perm = int64_vector(b, order)
    shape = b.op("Shape", data)
    strides = [_product(b, b.op("Slice", shape, b.constant([axis + 1]), b.constant([_END]))) for axis in range(rank)]
    sizes = b.op("Gather", shape, perm)
    steps = b.op("Gather", b.op("Concat", *strides, axis=0), perm)
    places = b.constant(0)
    for axis in range(rank):
        one = (b.constant([axis]), b.constant([axis + 1]))
        along = b.op("Mul", numbers_below(b, b.op("Slice", sizes, *one)), b.op("Slice", steps, *one))
        places = b.op("Add", b.op("Unsqueeze", places, b.constant([axis])), along) if axis else along
    flat = b.op("Reshape", data, b.constant([-1]))
    return b.typed(b.op("Gather", flat, places, axis=0), data.dtype, [None] * rank)


def coordinates(b: Builder, indices: ir.Value, axis: ir.Value) -> ir.Value:
    """Returns the coordinates that an index tensor refers to: each element's own, with the index along the axis."""
    rank = rank_of(indices, "indices")
    place = _one(b, axis)
    own = []
    for each in range(rank):
        counted = numbers_below(b, b.op("Shape", indices, start=each, end=each + 1))
        if each + 1 < rank:
            counted = b.op("Unsqueeze", counted, b.constant(list(range(1, rank - each))))
        chosen = b.op("Or", *(b.op("Equal", place, b.constant([number])) for number in (each, each - rank)))
        own.append(b.op("Unsqueeze", b.op("Where", chosen, b.cast(indices, _I64), counted), b.constant([-1])))
    return b.typed(b.op("Concat", *own, axis=-1), _I64, [None] * (rank + 1))


def _one(b: Builder, axis: ir.Value) -> ir.Value:
    if axis.shape is not None and len(axis.shape) and axis.shape[0] != 1:
        raise ShapeError("axis", axis.shape, "it must be one number.")
    return int64_vector(b, axis)


def _product(b: Builder, sizes: ir.Value) -> ir.Value:
    """Multiplies the entries of a vector that may be empty."""
    return b.op("ReduceProd", b.op("Concat", b.constant([1]), sizes, axis=0), keepdims=1)
