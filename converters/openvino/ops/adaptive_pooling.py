"""AdaptiveAvgPool and AdaptiveMaxPool: pooling to a given output size, with windows that may overlap.

Along an axis of X elements, window i of Y begins at floor(i*X/Y) and ends before ceil((i+1)*X/Y).
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.broadcasting import rank_of
from ortconv.converters.openvino.lib.compute_types import (
    FLOATS,
    INTEGERS,
    dtype_of,
    require,
    rounded,
    rounded_op,
    type_for,
)
from ortconv.converters.openvino.lib.constants import int64_vector, known_ints, length_of
from ortconv.converters.openvino.lib.index_type import INDEX_TYPES, IndexType
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import ConversionError, ShapeError
from ortconv.graph.builder import Builder

_INDEX_BYTES = 8


@REGISTRY.lowering("AdaptiveAvgPool", since=8)
def adaptive_avg_pool(b: Builder, data: ir.Value, output_shape: ir.Value, /) -> ir.Value:
    """AveragePool if all windows are equal, otherwise a MatMul along each axis that changes."""
    require(data, "data", (*FLOATS, *INTEGERS))
    sizes, goals = _sizes(b, data, output_shape)
    kernel = _even(sizes, goals)
    if kernel is not None:
        return rounded_op(b, "AveragePool", data, kernel_shape=kernel, strides=kernel)

    def formula(x: ir.Value) -> ir.Value:
        rank = len(sizes) + 2
        value = x
        for place, (size, goal) in enumerate(zip(sizes, goals, strict=True)):
            if size is not None and size == goal:
                continue
            axis = place + 2
            inside, length = _members(b, x, axis, size, goal, output_shape, place)
            if axis == rank - 1:
                value = b.op("MatMul", value, inside)
            else:
                moved = b.op("Transpose", value, perm=[*range(axis), *range(axis + 1, rank), axis])
                summed = b.op("MatMul", moved, inside)
                value = b.op("Transpose", summed, perm=[*range(axis), rank - 1, *range(axis, rank - 1)])
            column = b.op("Unsqueeze", length, b.constant(list(range(1, rank - axis)))) if axis < rank - 1 else length
            value = b.op("Div", value, column)
        return value

    return rounded(b, formula, data, op_types=("Div", "MatMul"))


@REGISTRY.lowering("AdaptiveMaxPool", since=8)
def adaptive_max_pool(
    b: Builder, data: ir.Value, output_shape: ir.Value, /, *, index_element_type: IndexType = "i64"
) -> tuple[ir.Value, ...]:
    """MaxPool if all windows are equal, otherwise ReduceMax and ArgMax over gathered windows."""
    require(data, "data", (*FLOATS, *INTEGERS))
    held = b.cast(data, type_for(dtype_of(data), ("MaxPool",)))
    sizes, goals = _sizes(b, data, output_shape)
    index_type = INDEX_TYPES[index_element_type]
    kernel = _even(sizes, goals)
    if kernel is not None:
        values, places = b.op("MaxPool", held, outputs=2, kernel_shape=kernel, strides=kernel)
        area = b.op("ReduceProd", b.op("Shape", data, start=2), keepdims=0)
        places = b.typed(b.op("Mod", places, area), ir.DataType.INT64, None)
    else:
        windows = [
            _window(b, data, axis + 2, size, goal, output_shape, axis)
            for axis, (size, goal) in enumerate(zip(sizes, goals, strict=True))
        ]
        values, places = _gathered(b, held, windows)
    b.typed(values, held.dtype, None)
    return b.cast(values, dtype_of(data)), b.cast(places, index_type)


def _sizes(b: Builder, data: ir.Value, output_shape: ir.Value) -> tuple[list[int | None], list[int | None]]:
    """Returns the spatial input and output sizes; None for dynamic ones."""
    spatial = rank_of(data, "data") - 2
    if spatial not in (1, 2, 3):
        raise ShapeError("data", data.shape, "its rank must be 3, 4 or 5.")
    assert data.shape is not None
    known = known_ints(b, output_shape)
    count = length_of(output_shape, "output_shape") if known is None else len(known)
    if count != spatial:
        raise ShapeError("output_shape", [count], f"data has {spatial} spatial axes.")
    if known is not None and min(known) < 1:
        raise ConversionError(f"input output_shape = {list(known)} is not supported; allowed: sizes of at least 1.")
    sizes = [size if isinstance(size, int) else None for size in data.shape[2:]]
    return sizes, [None] * spatial if known is None else list(known)


def _even(sizes: list[int | None], goals: list[int | None]) -> list[int] | None:
    """Returns the kernel size if all windows have one size and do not overlap."""
    pairs = list(zip(sizes, goals, strict=True))
    if any(size is None or goal is None or size % goal or not size for size, goal in pairs):
        return None
    return [size // goal for size, goal in pairs if size is not None and goal is not None]


def _bounds(b: Builder, x: ir.Value, axis: int, output_shape: ir.Value, place: int) -> tuple[ir.Value, ...]:
    """Emits the input size and each window's begin and end for dynamic sizes."""
    before = b.op("Squeeze", b.op("Shape", x, start=axis, end=axis + 1), b.constant([0]))
    after = b.op("Gather", int64_vector(b, output_shape), b.constant(place))
    places = b.op("Range", b.constant(0), after, b.constant(1))
    begins = b.op("Div", b.op("Mul", places, before), after)
    # ceil(a / b) is floor((a + b - 1) / b).
    reach = b.op("Mul", b.op("Add", places, b.constant(1)), before)
    ends = b.op("Div", b.op("Add", reach, b.op("Sub", after, b.constant(1))), after)
    return before, begins, ends


def _known_bounds(b: Builder, size: int, goal: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the begin and end of each window."""
    places = b.budget.arange("output_shape", goal)
    return places * size // goal, -(-(places + 1) * size // goal)


def _members(
    b: Builder, x: ir.Value, axis: int, size: int | None, goal: int | None, output_shape: ir.Value, place: int
) -> tuple[ir.Value, ir.Value]:
    """Returns a matrix [X, Y] that is 1 where an element belongs to a window, and how many belong to each."""
    dtype = dtype_of(x)
    if size is not None and goal is not None and b.budget.fits(size, goal, dtype.numpy().itemsize):
        first, last = _known_bounds(b, size, goal)
        rows = b.budget.arange("data's size", size)[:, None]
        member = (rows >= first) & (rows < last)
        return b.constant(member.astype(dtype.numpy())), b.constant((last - first).astype(dtype.numpy()))
    before, begins, ends = _bounds(b, x, axis, output_shape, place)
    positions = b.op("Unsqueeze", b.op("Range", b.constant(0), before, b.constant(1)), b.constant([1]))
    inside = b.op("And", b.op("GreaterOrEqual", positions, begins), b.op("Less", positions, ends))
    return b.op("Cast", inside, to=int(dtype)), b.op("Cast", b.op("Sub", ends, begins), to=int(dtype))


def _window(
    b: Builder, x: ir.Value, axis: int, size: int | None, goal: int | None, output_shape: ir.Value, place: int
) -> ir.Value:
    """Returns the positions [Y, K] of each window's elements; shorter windows repeat their last one."""
    # A window has at most size / goal + 2 elements.
    if size is not None and goal is not None and b.budget.fits(size + 2 * goal, _INDEX_BYTES):
        first, last = _known_bounds(b, size, goal)
        places = b.budget.arange("data's size", int((last - first).max()))
        return b.constant(np.minimum(first[:, None] + places, last[:, None] - 1))
    _, begins, ends = _bounds(b, x, axis, output_shape, place)
    longest = b.op("ReduceMax", b.op("Sub", ends, begins), keepdims=0)
    steps = b.op("Range", b.constant(0), longest, b.constant(1))
    column = b.constant([1])
    reached = b.op("Add", b.op("Unsqueeze", begins, column), steps)
    return b.op("Min", reached, b.op("Sub", b.op("Unsqueeze", ends, column), b.constant(1)))


def _gathered(b: Builder, x: ir.Value, windows: list[ir.Value]) -> tuple[ir.Value, ir.Value]:
    """Emits the maximum of each window and its index among all spatial elements; ties give the first."""
    spatial = len(windows)
    value, places = x, None
    for i, taken in enumerate(windows):
        value = b.op("Gather", value, taken, axis=2 + 2 * i)
        others = [axis for axis in range(2 * spatial) if axis not in (i, spatial + i)]
        spread = b.op("Unsqueeze", taken, b.constant(others)) if others else taken
        size = b.op("Shape", x, start=2 + i, end=3 + i)
        places = spread if places is None else b.op("Add", b.op("Mul", places, size), spread)
    assert places is not None
    order = [0, 1, *range(2, 2 + 2 * spatial, 2), *range(3, 3 + 2 * spatial, 2)]
    last = b.constant([-1])
    flat = b.op("Reshape", b.op("Transpose", value, perm=order), b.constant([*[0] * (spatial + 2), -1]))
    best = b.op("ArgMax", flat, axis=-1, keepdims=1)
    rows = b.op("Reshape", places, b.constant([*[0] * spatial, -1]))
    table = b.op("Expand", rows, b.op("Shape", flat))
    index = b.op("Squeeze", b.op("GatherElements", table, best, axis=-1), last)
    return b.op("ReduceMax", flat, last, keepdims=0), b.typed(index, ir.DataType.INT64, None)
