"""Ops that select elements by index: Gather, Slice, StridedSlice."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from ortconv.converters.openvino.lib.broadcasting import rank_of
from ortconv.converters.openvino.lib.compute_types import SIGNED, compute, is_static, scalar
from ortconv.converters.openvino.lib.constants import constant_ints, int64_vector, known_ints, length_of, normalized
from ortconv.converters.openvino.lib.dynamic_axes import view_along
from ortconv.converters.openvino.lib.sizes import counted, size_of
from ortconv.converters.openvino.plugin_bugs.misread_weights import is_misread
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.converters.openvino.weights.compressed_gather import compressed_gather
from ortconv.errors import ConversionError, ShapeError, UnsupportedAttributeError
from ortconv.graph.builder import Builder, Ints

_INT64 = np.iinfo(np.int64)
_INT32 = np.iinfo(np.int32)
_LITERAL_ENDS = {int(_INT64.max): int(_INT64.max) - 1, int(_INT32.max): int(_INT32.max) + 1}
_I64 = ir.DataType.INT64
_INDEX_TYPES = (ir.DataType.INT32, _I64)


@REGISTRY.lowering("Gather", how="exact")
def gather(b: Builder, data: ir.Value, indices: ir.Value, axis: ir.Value, /) -> ir.Value:
    """Gather; an index out of range gives zeros where it is known, and is an error when the model runs."""
    return _gather(b, data, indices, axis, 0, counts_back=False)


@REGISTRY.lowering("Gather", since=7, how="composed")
def gather_7(b: Builder, data: ir.Value, indices: ir.Value, axis: ir.Value, /, *, batch_dims: int = 0) -> ir.Value:
    """Gather; GatherND between Transposes with batch_dims. Out of range as in version 1; so are negative indices."""
    return _gather(b, data, indices, axis, batch_dims, counts_back=False)


@REGISTRY.lowering("Gather", since=8, how="exact")
def gather_8(b: Builder, data: ir.Value, indices: ir.Value, axis: ir.Value, /, *, batch_dims: int = 0) -> ir.Value:
    """Gather; GatherND between Transposes with batch_dims. Out of range as in version 1."""
    if batch_dims == 0 and _turns_channels(b, data, indices, axis):
        b.warn(
            "the page is followed: in front of a convolution OpenVINO's CPU plugin exchanges channels the other way "
            "round, which here is another order"
        )
    return _gather(b, data, indices, axis, batch_dims, counts_back=True)


def _turns_channels(b: Builder, data: ir.Value, indices: ir.Value, axis: ir.Value) -> bool:
    """Tells whether all channels are put in an order that does not undo itself."""
    order, along = b.array(indices), b.array(axis)
    if order is None or along is None or along.size != 1 or int(along.flat[0]) != 1 or order.ndim != 1:
        return False
    channels = data.shape[1] if data.shape is not None and len(data.shape) > 1 else None
    if not isinstance(channels, int) or channels != order.size:
        return False
    places = order % channels
    numbers = b.budget.arange("indices", channels)
    return bool(np.array_equal(np.sort(places), numbers)) and not np.array_equal(places[places], numbers)


def _gather(
    b: Builder, data: ir.Value, indices: ir.Value, axis: ir.Value, batch_dims: int, *, counts_back: bool
) -> ir.Value:
    if is_misread(data):
        b.warn(
            "the page is followed: OpenVINO's CPU plugin gathers wrongly from compressed weights whose groups do not "
            "lie along the last axis within the rows"
        )
    if b.array(axis) is None:
        return _gather_along(b, data, indices, axis, batch_dims, counts_back=counts_back)
    axes = constant_ints(b, axis, "axis")
    if len(axes) != 1:
        raise ShapeError("axis", axis.shape, "it must be one number.")
    if data.shape is not None:
        axes = normalized(axes, len(data.shape), "axis")
    counts_back = counts_back or _is_made_positive(b, data, indices, axes[0])
    if not counts_back and b.array(indices) is None and indices.dtype in SIGNED:
        return _not_counted_back(b, data, indices, axes[0], batch_dims)
    outside = _outside(b, data, indices, axes[0], counts_back)
    if outside is None:
        return _gathered(b, data, indices, axes[0], batch_dims)
    if data.shape is not None and data.shape[axes[0]] == 0:
        raise ShapeError("data", data.shape, f"axis {axes[0]} has no elements, of which some are gathered.")
    # OpenVINO fills in zeros there, which ONNX cannot.
    known = b.array(indices)
    assert known is not None
    inside = b.constant(np.where(outside, 0, known), np.int64)
    gathered = b.typed(_gathered(b, data, inside, axes[0], batch_dims), data.dtype, None)
    rank = rank_of(data, "data")
    batch = batch_dims + known.ndim if batch_dims < 0 else batch_dims
    (along,) = normalized(axes, rank, "axis")
    sizes = [*known.shape[:batch], *[1] * (along - batch), *known.shape[batch:], *[1] * (rank - along - 1)]
    mask = b.constant(outside.reshape(sizes))
    zero = scalar(b, 0, data)
    return compute(b, lambda no, x: b.op("Where", mask, no, x), zero, gathered, kernels=("Where",), modular=True)


def _is_made_positive(b: Builder, data: ir.Value, indices: ir.Value, axis: int) -> bool:
    """Tells whether OpenVINO's CPU plugin counts an index from the end in the versions that do not.

    It does so with one constant along the first axis, if its size is known.
    """
    known = b.array(indices)
    first = axis == 0 and data.shape is not None and isinstance(data.shape[0], int)
    return first and known is not None and known.size == 1


def _gather_along(
    b: Builder, data: ir.Value, indices: ir.Value, axis: ir.Value, batch_dims: int, *, counts_back: bool
) -> ir.Value:
    """Gathers along an axis that is known at run time only."""
    view, count = view_along(b, data, axis), rank_of(indices, "indices")
    batch = batch_dims + count if batch_dims < 0 else batch_dims
    most = min(view.rank - 1, count)
    if not 0 <= batch <= most:
        raise UnsupportedAttributeError("batch_dims", batch_dims, f"at most {most} for such ranks")
    lines = view.value
    if batch:
        batches = b.op("Slice", view.before, b.constant([0]), b.constant([batch]))
        sizes = b.op("Concat", batches, b.constant([-1]), b.op("Shape", lines, start=1), axis=0)
        lines = b.typed(b.op("Reshape", lines, sizes), lines.dtype, [None] * (batch + 3))
    taken = _gather(b, lines, indices, b.constant(batch + 1), batch, counts_back=counts_back)
    return view.restored(b, taken, b.op("Shape", indices, start=batch), count - batch)


def _not_counted_back(b: Builder, data: ir.Value, indices: ir.Value, axis: int, batch_dims: int) -> ir.Value:
    """Gathers by indices of the run, of which negative ones give zeros in OpenVINO."""
    rank, index_rank = rank_of(data, "data"), rank_of(indices, "indices")
    (along,) = normalized((axis,), rank, "axis")
    batch = batch_dims + index_rank if batch_dims < 0 else batch_dims
    negative = b.op("Less", b.cast(indices, _I64), b.constant(0))
    first = b.typed(b.op("Max", b.cast(indices, _I64), b.constant(0)), _I64, indices.shape)
    gathered = b.typed(_gathered(b, data, first, axis, batch_dims), data.dtype, None)
    end = along + index_rank - batch
    others = [*range(batch, along), *range(end, end + rank - along - 1)]
    mask = b.op("Unsqueeze", negative, b.constant(others)) if others else negative
    zero = scalar(b, 0, data)
    return compute(b, lambda no, x: b.op("Where", mask, no, x), zero, gathered, kernels=("Where",), modular=True)


def _gathered(b: Builder, data: ir.Value, indices: ir.Value, axis: int, batch_dims: int) -> ir.Value:
    axes = (axis,)
    if batch_dims == 0:
        index = indices if indices.dtype in _INDEX_TYPES else b.cast(indices, ir.DataType.INT64)
        rows = compressed_gather(b, data, index) if axis == 0 else None
        return b.op("Gather", data, index, axis=axis) if rows is None else rows
    rank, index_rank = rank_of(data, "data"), rank_of(indices, "indices")
    (along,) = normalized(axes, rank, "axis")
    batch = batch_dims + index_rank if batch_dims < 0 else batch_dims
    if not 0 <= batch <= min(along, index_rank):
        raise UnsupportedAttributeError("batch_dims", batch_dims, f"at most axis, {along}, and the rank of indices")
    # GatherND gathers along the axis behind the batch; the axes between the two step behind it meanwhile.
    passed = list(range(batch, along))
    if passed:
        data = b.op("Transpose", data, perm=[*range(batch), along, *passed, *range(along + 1, rank)])
    positions = b.op("Unsqueeze", b.cast(indices, ir.DataType.INT64), b.constant([-1]))
    gathered = b.op("GatherND", data, positions, batch_dims=batch)
    if not passed:
        return gathered
    behind = index_rank + len(passed)
    perm = [
        *range(batch),
        *range(index_rank, behind),
        *range(batch, index_rank),
        *range(behind, index_rank + rank - batch - 1),
    ]
    return b.op("Transpose", gathered, perm=perm)


def _outside(
    b: Builder, data: ir.Value, indices: ir.Value, axis: int, counts_back: bool
) -> npt.NDArray[np.bool_] | None:
    """Tells which indices are known to be out of range; None for none of them."""
    known = b.array(indices)
    if known is None:
        return None
    size = data.shape[axis] if data.shape is not None else None
    wide = known.astype(np.int64)
    outside = np.zeros_like(wide, bool) if counts_back else wide < 0
    if isinstance(size, int):
        outside = outside | (wide < -size) | (wide >= size)
    return outside if outside.any() else None


@REGISTRY.lowering("Slice", since=8)
def slice_(
    b: Builder,
    data: ir.Value,
    start: ir.Value,
    stop: ir.Value,
    step: ir.Value,
    axes: ir.Value | None = None,
    /,
) -> ir.Value:
    """Slice; without axes those from the first on, as many as start has entries."""
    if axes is not None:
        along = int64_vector(b, axes)
    elif start.shape is not None and len(start.shape) == 1 and not isinstance(start.shape[0], int):
        along = counted(b, size_of(b, start, 0))
    else:
        along = b.constant(list(range(length_of(start, "start"))))
    return b.op("Slice", data, int64_vector(b, start), _literal(b, stop, step), along, int64_vector(b, step))


def _literal(b: Builder, stop: ir.Value, step: ir.Value) -> ir.Value:
    """Returns ends that mean what they say.

    ONNX Runtime takes the largest number of 32 or 64 bits for an open end, which it is not where steps lead backwards.
    """
    ints = known_ints(b, stop)
    if ints is not None:
        return b.constant([_LITERAL_ENDS.get(end, end) for end in ints])
    steps = known_ints(b, step)
    end = int64_vector(b, stop)
    if steps is not None and all(size > 0 for size in steps):
        return end
    for largest, literal in _LITERAL_ENDS.items():
        end = b.op("Where", b.op("Equal", end, b.constant([largest])), b.constant([literal]), end)
    return end


@dataclasses.dataclass(frozen=True)
class _Steps:
    """Which slicing step does what.

    Attributes:
        sliced: Places in begin, end and stride of the steps that slice an axis.
        axes: The data's axis of each of those.
        shrunk: Axes of the data that disappear.
        created: Axes of the result that are new.
    """

    sliced: list[int]
    axes: list[int]
    shrunk: list[int]
    created: list[int]


@REGISTRY.lowering("StridedSlice")
def strided_slice(
    b: Builder,
    data: ir.Value,
    begin: ir.Value,
    end: ir.Value,
    stride: ir.Value | None = None,
    /,
    *,
    begin_mask: Ints,
    end_mask: Ints,
    new_axis_mask: Ints = (),
    shrink_axis_mask: Ints = (),
    ellipsis_mask: Ints = (),
) -> ir.Value:
    """Slice, then Squeeze (shrink_axis_mask) and Unsqueeze (new_axis_mask)."""
    count = length_of(begin, "begin")
    flags = [_flags(mask, count) for mask in (begin_mask, end_mask, new_axis_mask, shrink_axis_mask, ellipsis_mask)]
    for label, bound in (("end", end), ("stride", stride)):
        if bound is not None and length_of(bound, label) != count:
            raise ShapeError(label, bound.shape, f"begin has {count} entries.")
    from_start, to_end, new, shrink, ellipsis = flags
    steps = _steps(data, new, shrink, ellipsis)
    known = (1,) * count if stride is None else known_ints(b, stride)
    step, open_start, open_end = _strides(b, stride, known, steps.sliced, shrink)
    starts = _bounds(b, int64_vector(b, begin), steps.sliced, [from_start[i] for i in steps.sliced], open_start)
    ends = _bounds(b, _literal(b, end, step), steps.sliced, [to_end[i] for i in steps.sliced], open_end)
    ends = _single_elements(b, starts, ends, [shrink[i] for i in steps.sliced])
    value = data
    if steps.sliced:
        value = b.op("Slice", value, starts, ends, b.constant(steps.axes), step)
    if steps.shrunk:
        value = b.op("Squeeze", value, b.constant(steps.shrunk))
    if steps.created:
        value = b.op("Unsqueeze", value, b.constant(steps.created))
    if steps.created and steps.shrunk:
        b.warn("the page is followed; OpenVINO's CPU plugin may give other numbers where axes come and go")
    running = known_ints(b, begin) is None or known_ints(b, end) is None
    whole = all(shrink[place] or (from_start[place] and to_end[place]) for place in steps.sliced)
    if (running or known is None) and is_static(data) and whole:
        b.warn(
            "the page is followed: OpenVINO's CPU plugin reads other memory where bounds of the run leave no size open"
        )
    if running and any(new[ellipsis.index(True) :] if any(ellipsis) else ()):
        b.warn("a new axis behind the ellipsis is where the page has it; OpenVINO's CPU plugin misplaces it")
        # So are the sizes that OpenVINO declares: names keep them away.
        rank = rank_of(data, "data") - len(steps.shrunk) + len(steps.created)
        value = b.typed(value, data.dtype, [b.unique("strided_slice") for _ in range(rank)])
    return value


def _flags(mask: Ints, count: int) -> list[bool]:
    """Fills a mask up with zeros, or cuts it, to one entry per step."""
    return [bool(bit) for bit in (*mask, *[0] * count)[:count]]


def _steps(data: ir.Value, new: list[bool], shrink: list[bool], ellipsis: list[bool]) -> _Steps:
    rank = rank_of(data, "data")
    count = len(new)
    if sum(ellipsis) > 1:
        raise UnsupportedAttributeError("ellipsis_mask", [int(bit) for bit in ellipsis], "at most one 1")
    consuming = sum(not ellipsis[i] and not new[i] for i in range(count))
    if consuming > rank:
        raise ShapeError("data", data.shape, f"begin slices {consuming} axes.")
    steps = _Steps([], [], [], [])
    axis = position = 0
    for i in range(count):
        if ellipsis[i]:
            axis, position = axis + rank - consuming, position + rank - consuming
        elif new[i]:
            steps.created.append(position)
            position += 1
        else:
            steps.sliced.append(i)
            steps.axes.append(axis)
            if shrink[i]:
                steps.shrunk.append(axis)
            else:
                position += 1
            axis += 1
    return steps


def _strides(
    b: Builder, stride: ir.Value | None, known: Ints | None, chosen: list[int], shrink: list[bool]
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Returns the strides of the chosen steps, and the bounds of steps that a mask opens."""
    if known is not None:
        step = [1 if shrink[i] else known[i] for i in chosen]
        if 0 in step:
            raise ConversionError(f"input stride = {list(known)} is not supported; allowed: strides that are not 0.")
        opened_start = [_INT64.max if size < 0 else 0 for size in step]
        opened_end = [_INT64.min if size < 0 else _INT64.max for size in step]
        return b.constant(step, np.int64), b.constant(opened_start, np.int64), b.constant(opened_end, np.int64)
    assert stride is not None
    single = b.constant(np.array([shrink[i] for i in chosen]))
    taken = b.op("Gather", int64_vector(b, stride), b.constant(chosen, np.int64))
    size = b.op("Where", single, b.constant([1]), taken)
    back = b.op("Less", size, b.constant([0]))
    start = b.op("Where", back, b.constant([_INT64.max]), b.constant([0]))
    return size, start, b.op("Where", back, b.constant([_INT64.min]), b.constant([_INT64.max]))


def _bounds(b: Builder, bound: ir.Value, chosen: list[int], masked: list[bool], opened: ir.Value) -> ir.Value:
    """Returns the bounds of the chosen steps, those that a mask opens replaced."""
    known, open_bound = known_ints(b, bound), known_ints(b, opened)
    if known is not None and open_bound is not None:
        bounds = [open_bound[k] if masked[k] else _LITERAL_ENDS.get(known[i], known[i]) for k, i in enumerate(chosen)]
        return b.constant(bounds, np.int64)
    taken = b.op("Gather", bound, b.constant(chosen, np.int64))
    if not any(masked):
        return taken
    return b.op("Where", b.constant(masked), opened, taken)


def _single_elements(b: Builder, starts: ir.Value, ends: ir.Value, shrunk: list[bool]) -> ir.Value:
    """Ends each slice of an axis that disappears one element after its start."""
    if not any(shrunk):
        return ends
    known_starts, known_ends = known_ints(b, starts), known_ints(b, ends)
    if known_starts is not None and known_ends is not None:
        pairs = zip(known_starts, known_ends, shrunk, strict=True)
        return b.constant([(start + 1 or _INT64.max) if single else end for start, end, single in pairs])
    after = b.op("Add", starts, b.constant([1]))
    last = b.op("Equal", starts, b.constant([-1]))
    single = b.op("Where", last, b.constant([_INT64.max]), after)
    return b.op("Where", b.constant(shrunk), single, ends)
