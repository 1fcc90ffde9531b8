"""Slice and StridedSlice."""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.broadcasting import rank_of
from ortconv.converters.openvino.lib.compute_types import is_static
from ortconv.converters.openvino.lib.constants import int64_vector, known_ints, length_of
from ortconv.converters.openvino.lib.sizes import counted, size_of
from ortconv.converters.openvino.plugin_bugs.slicing import (
    NEW_AND_SHRUNK_AXES,
    NEW_AXIS_BEHIND_ELLIPSIS,
    RUNTIME_BOUNDS_OF_STATIC_SLICE,
)
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import ConversionError, ShapeError, UnsupportedAttributeError
from ortconv.graph.builder import Builder, Ints

_INT64 = np.iinfo(np.int64)
_INT32 = np.iinfo(np.int32)
_LITERAL_ENDS = {int(_INT64.max): int(_INT64.max) - 1, int(_INT32.max): int(_INT32.max) + 1}


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
    """Slice; axes default to the first ones, one per entry of start."""
    if axes is not None:
        along = int64_vector(b, axes)
    elif start.shape is not None and len(start.shape) == 1 and not isinstance(start.shape[0], int):
        along = counted(b, size_of(b, start, 0))
    else:
        along = b.constant(list(range(length_of(start, "start"))))
    return b.op("Slice", data, int64_vector(b, start), _literal(b, stop, step), along, int64_vector(b, step))


def _literal(b: Builder, stop: ir.Value, step: ir.Value) -> ir.Value:
    """Returns ends without ONNX Runtime's special values.

    ONNX Runtime treats the largest 32-bit and 64-bit integers as open ends, which is wrong for negative steps.
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
    """The roles of the slicing steps.

    Attributes:
        sliced: Indices into begin, end and stride of the steps that slice an axis.
        axes: The data's axis of each of those.
        shrunk: Axes of the sliced data that shrink_axis_mask removes.
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
        NEW_AND_SHRUNK_AXES.warn(b)
    running = known_ints(b, begin) is None or known_ints(b, end) is None
    whole = all(shrink[place] or (from_start[place] and to_end[place]) for place in steps.sliced)
    if (running or known is None) and is_static(data) and whole:
        RUNTIME_BOUNDS_OF_STATIC_SLICE.warn(b)
    if running and any(new[ellipsis.index(True) :] if any(ellipsis) else ()):
        NEW_AXIS_BEHIND_ELLIPSIS.warn(b)
        # The shape that OpenVINO declares is wrong, too: symbolic dimensions replace it.
        rank = rank_of(data, "data") - len(steps.shrunk) + len(steps.created)
        value = b.typed(value, data.dtype, [b.unique("strided_slice") for _ in range(rank)])
    return value


def _flags(mask: Ints, count: int) -> list[bool]:
    """Pads a mask with zeros, or truncates it, to one entry per step."""
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
    """Returns the strides of the slicing steps, and the open bounds that masks ask for."""
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
    """Returns the bounds of the slicing steps; those that a mask opens are replaced."""
    known, open_bound = known_ints(b, bound), known_ints(b, opened)
    if known is not None and open_bound is not None:
        bounds = [open_bound[k] if masked[k] else _LITERAL_ENDS.get(known[i], known[i]) for k, i in enumerate(chosen)]
        return b.constant(bounds, np.int64)
    taken = b.op("Gather", bound, b.constant(chosen, np.int64))
    if not any(masked):
        return taken
    return b.op("Where", b.constant(masked), opened, taken)


def _single_elements(b: Builder, starts: ir.Value, ends: ir.Value, shrunk: list[bool]) -> ir.Value:
    """Ends the slice of each removed axis one element after its start."""
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
