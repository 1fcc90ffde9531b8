"""Gather, GatherElements, GatherND."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from ortconv.converters.openvino.lib.broadcasting import rank_of
from ortconv.converters.openvino.lib.compute_types import SIGNED, compute, scalar
from ortconv.converters.openvino.lib.constants import constant_axis, normalized
from ortconv.converters.openvino.lib.dynamic_axes import view_along
from ortconv.converters.openvino.lib.sizes import Size, calculate, reshaped, size_of
from ortconv.converters.openvino.plugin_bugs.compressed_weights import GATHERED_BLOCKS, misreads_gathered_blocks
from ortconv.converters.openvino.plugin_bugs.convolution import CHANNELS_REORDERED
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.converters.openvino.weights.compressed_gather import compressed_gather
from ortconv.errors import ShapeError, UnsupportedAttributeError
from ortconv.graph.builder import Builder

_I64 = ir.DataType.INT64
_INDEX_TYPES = (ir.DataType.INT32, _I64)


@REGISTRY.lowering("Gather", how="exact")
def gather(b: Builder, data: ir.Value, indices: ir.Value, axis: ir.Value, /) -> ir.Value:
    """Gather; a constant index out of range gives zeros, any other is an error at run time."""
    return _gather(b, data, indices, axis, 0, counts_back=False)


@REGISTRY.lowering("Gather", since=7, how="composed")
def gather_7(b: Builder, data: ir.Value, indices: ir.Value, axis: ir.Value, /, *, batch_dims: int = 0) -> ir.Value:
    """Gather; GatherND between Transposes with batch_dims. Out of range as in version 1; so are negative indices."""
    return _gather(b, data, indices, axis, batch_dims, counts_back=False)


@REGISTRY.lowering("Gather", since=8, how="exact")
def gather_8(b: Builder, data: ir.Value, indices: ir.Value, axis: ir.Value, /, *, batch_dims: int = 0) -> ir.Value:
    """Gather; GatherND between Transposes with batch_dims. Out of range as in version 1."""
    if batch_dims == 0 and _turns_channels(b, data, indices, axis):
        CHANNELS_REORDERED.warn(b)
    return _gather(b, data, indices, axis, batch_dims, counts_back=True)


def _turns_channels(b: Builder, data: ir.Value, indices: ir.Value, axis: ir.Value) -> bool:
    """Tells whether the indices permute all channels by a permutation that is not its own inverse."""
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
    if misreads_gathered_blocks(data):
        GATHERED_BLOCKS.warn(b)
    if b.array(axis) is None:
        return _gather_along(b, data, indices, axis, batch_dims, counts_back=counts_back)
    along = constant_axis(b, axis)
    if data.shape is not None:
        (along,) = normalized((along,), len(data.shape), "axis")
    counts_back = counts_back or _is_made_positive(b, data, indices, along)
    if not counts_back and b.array(indices) is None and indices.dtype in SIGNED:
        return _not_counted_back(b, data, indices, along, batch_dims)
    outside = _outside(b, data, indices, along, counts_back)
    if outside is None:
        return _gathered(b, data, indices, along, batch_dims)
    if data.shape is not None and data.shape[along] == 0:
        raise ShapeError("data", data.shape, f"axis {along} is empty; allowed: at least one element.")
    # OpenVINO returns zeros for indices out of range; ONNX has no such mode.
    known = b.array(indices)
    assert known is not None
    inside = b.constant(np.where(outside, 0, known), np.int64)
    gathered = b.typed(_gathered(b, data, inside, along, batch_dims), data.dtype, None)
    rank = rank_of(data, "data")
    batch = batch_dims + known.ndim if batch_dims < 0 else batch_dims
    sizes = [*known.shape[:batch], *[1] * (along - batch), *known.shape[batch:], *[1] * (rank - along - 1)]
    return _zeros_where(b, b.constant(outside.reshape(sizes)), gathered)


def _zeros_where(b: Builder, mask: ir.Value, gathered: ir.Value) -> ir.Value:
    zero = scalar(b, 0, gathered)
    return compute(b, lambda no, x: b.op("Where", mask, no, x), zero, gathered, op_types=("Where",), modular=True)


def _is_made_positive(b: Builder, data: ir.Value, indices: ir.Value, axis: int) -> bool:
    """Tells whether OpenVINO's CPU plugin accepts a negative index in versions that do not specify it.

    It does so for one constant index along the first axis, if the size of that axis is static.
    """
    known = b.array(indices)
    first = axis == 0 and data.shape is not None and isinstance(data.shape[0], int)
    return first and known is not None and known.size == 1


def _gather_along(
    b: Builder, data: ir.Value, indices: ir.Value, axis: ir.Value, batch_dims: int, *, counts_back: bool
) -> ir.Value:
    """Gathers along an axis that is a runtime value."""
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
    """Gathers by runtime indices; negative ones give zeros, as in OpenVINO."""
    rank, index_rank = rank_of(data, "data"), rank_of(indices, "indices")
    (along,) = normalized((axis,), rank, "axis")
    batch = batch_dims + index_rank if batch_dims < 0 else batch_dims
    negative = b.op("Less", b.cast(indices, _I64), b.constant(0))
    first = b.typed(b.op("Max", b.cast(indices, _I64), b.constant(0)), _I64, indices.shape)
    gathered = b.typed(_gathered(b, data, first, axis, batch_dims), data.dtype, None)
    end = along + index_rank - batch
    others = [*range(batch, along), *range(end, end + rank - along - 1)]
    return _zeros_where(b, b.op("Unsqueeze", negative, b.constant(others)) if others else negative, gathered)


def _gathered(b: Builder, data: ir.Value, indices: ir.Value, axis: int, batch_dims: int) -> ir.Value:
    if batch_dims == 0:
        index = indices if indices.dtype in _INDEX_TYPES else b.cast(indices, ir.DataType.INT64)
        rows = compressed_gather(b, data, index) if axis == 0 else None
        return b.op("Gather", data, index, axis=axis) if rows is None else rows
    rank, index_rank = rank_of(data, "data"), rank_of(indices, "indices")
    (along,) = normalized((axis,), rank, "axis")
    batch = batch_dims + index_rank if batch_dims < 0 else batch_dims
    if not 0 <= batch <= min(along, index_rank):
        raise UnsupportedAttributeError("batch_dims", batch_dims, f"at most axis, {along}, and the rank of indices")
    # GatherND gathers along the axis behind the batch: Transposes move the axes between them out of the way.
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


@REGISTRY.lowering("GatherElements", since=6, how="exact")
def gather_elements(b: Builder, data: ir.Value, indices: ir.Value, /, *, axis: int) -> ir.Value:
    """GatherElements."""
    index = indices if indices.dtype in _INDEX_TYPES else b.cast(indices, ir.DataType.INT64)
    return b.op("GatherElements", data, index, axis=axis)


@REGISTRY.lowering("GatherND", since=5, how="exact")
def gather_nd(b: Builder, data: ir.Value, indices: ir.Value, /, *, batch_dims: int = 0) -> ir.Value:
    """GatherND; the batch axes of the result become one."""
    gathered = _gather_nd(b, data, indices, batch_dims)
    if batch_dims < 2:
        return gathered
    batch: Size = 1
    for axis in range(batch_dims):
        batch = calculate(b, "Mul", batch, size_of(b, indices, axis))
    taken = indices.shape[-1] if indices.shape is not None else None
    if not isinstance(taken, int):
        raise ShapeError("indices", indices.shape, "its last dimension must be known.")
    behind = [size_of(b, indices, axis) for axis in range(batch_dims, rank_of(indices, "indices") - 1)]
    within = [size_of(b, data, axis) for axis in range(batch_dims + taken, rank_of(data, "data"))]
    return reshaped(b, gathered, [batch, *behind, *within])


@REGISTRY.lowering("GatherND", since=8, how="exact")
def gather_nd_8(b: Builder, data: ir.Value, indices: ir.Value, /, *, batch_dims: int = 0) -> ir.Value:
    """GatherND."""
    return _gather_nd(b, data, indices, batch_dims)


def _gather_nd(b: Builder, data: ir.Value, indices: ir.Value, batch_dims: int) -> ir.Value:
    most = min(rank_of(data, "data"), rank_of(indices, "indices")) - 1
    if not 0 <= batch_dims <= most:
        raise UnsupportedAttributeError("batch_dims", batch_dims, f"0 to {most}, less than the rank of either input")
    return b.op("GatherND", data, b.cast(indices, ir.DataType.INT64), batch_dims=batch_dims)
