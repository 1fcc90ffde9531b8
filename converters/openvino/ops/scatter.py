"""ScatterUpdate, ScatterElementsUpdate, ScatterNDUpdate, SliceScatter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.broadcasting import rank_of
from ortconv.converters.openvino.lib.compute_types import (
    FLOATS,
    INTEGERS,
    compute,
    dtype_of,
    is_static,
    require,
    scalar,
)
from ortconv.converters.openvino.lib.constants import axis_of, int64_vector, length_of
from ortconv.converters.openvino.lib.dynamic_axes import coordinates, view_along
from ortconv.converters.openvino.plugin_bugs.slicing import SLICE_SCATTER_OF_STATIC_SHAPE
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.graph.builder import Builder

_BOOL, _I32, _I64 = ir.DataType.BOOL, ir.DataType.INT32, ir.DataType.INT64
_HALVES = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
_WIDE = {
    dtype: ir.DataType.FLOAT if dtype in _HALVES else _I64 for dtype in (*_HALVES, *INTEGERS) if dtype.bitwidth < 64
}
"""Wider types for sums, by data type."""

_REDUCTIONS = {"none": "none", "sum": "add", "prod": "mul", "min": "min", "max": "max"}
Scatter = Callable[[ir.Value, ir.Value, str], ir.Value]
"""Writes updates into data under an ONNX reduction."""


@REGISTRY.lowering("ScatterUpdate", since=3, how="composed")
def scatter_update(b: Builder, data: ir.Value, indices: ir.Value, updates: ir.Value, axis: ir.Value, /) -> ir.Value:
    """ScatterND; between Transposes where the axis is not the first."""
    if b.array(axis) is None:
        view = view_along(b, data, axis)
        flat = b.typed(b.op("Reshape", b.cast(indices, _I64), b.constant([-1])), _I64, [None])
        changes = view_along(b, updates, axis, like=data).value
        return view.restored(b, _scatter_update(b, view.value, flat, changes, 1), view.size)
    return _scatter_update(b, data, indices, updates, axis_of(b, axis, rank_of(data, "data")))


def _scatter_update(b: Builder, data: ir.Value, indices: ir.Value, updates: ir.Value, along: int) -> ir.Value:
    rank, index_rank = rank_of(data, "data"), rank_of(indices, "indices")
    places = b.op("Unsqueeze", b.cast(indices, _I64), b.constant([-1]))
    if along == 0:
        return b.op("ScatterND", data, places, updates)
    front = [along, *range(along), *range(along + 1, rank)]
    behind = along + index_rank
    moved = [*range(along, behind), *range(along), *range(behind, rank + index_rank - 1)]
    scattered = b.op("ScatterND", b.op("Transpose", data, perm=front), places, b.op("Transpose", updates, perm=moved))
    return b.op("Transpose", scattered, perm=[front.index(i) for i in range(rank)])


@REGISTRY.lowering("ScatterElementsUpdate", since=3, how="exact", without=["reduction", "use_init_val"])
@REGISTRY.lowering("ScatterElementsUpdate", since=12, how="exact")
def scatter_elements_update(
    b: Builder,
    data: ir.Value,
    indices: ir.Value,
    updates: ir.Value,
    axis: ir.Value,
    /,
    *,
    reduction: Literal["none", "sum", "prod", "min", "max", "mean"] = "none",
    use_init_val: bool = True,
) -> ir.Value:
    """ScatterElements; mean divides by counts; use_init_val=false writes neutral elements first."""
    running = b.array(axis) is None
    along = 0 if running else axis_of(b, axis, rank_of(data, "data"))
    if running:
        places = coordinates(b, indices, axis)
    else:
        places = indices if indices.dtype in (_I32, _I64) else b.cast(indices, _I64)

    def scatter(data: ir.Value, updates: ir.Value, how: str) -> ir.Value:
        reduction = how if how != "none" else None
        if running:
            return b.op("ScatterND", data, places, updates, reduction=reduction)
        return b.op("ScatterElements", data, places, updates, axis=along, reduction=reduction)

    if reduction == "none":
        return scatter(data, updates, "none")
    if reduction == "mean":
        require(data, "data", [dtype for dtype in ir.DataType if dtype != _BOOL])
        return _mean(b, scatter, data, updates, use_init_val)
    return _reduced(b, scatter, data, updates, reduction, use_init_val)


@REGISTRY.lowering("ScatterNDUpdate", since=3, until=4, how="exact", without=["reduction"])
@REGISTRY.lowering("ScatterNDUpdate", since=15, how="exact")
def scatter_nd_update(
    b: Builder,
    data: ir.Value,
    indices: ir.Value,
    updates: ir.Value,
    /,
    *,
    reduction: Literal["none", "sum", "sub", "prod", "min", "max"] = "none",
) -> ir.Value:
    """ScatterND; sub adds the negated updates."""
    places = b.cast(indices, _I64)

    def scatter(data: ir.Value, updates: ir.Value, how: str) -> ir.Value:
        return b.op("ScatterND", data, places, updates, reduction=how if how != "none" else None)

    if reduction != "sub":
        return _reduced(b, scatter, data, updates, reduction, True)
    if data.dtype == _BOOL:  # exclusive or, as in OpenVINO's CPU plugin
        difference = scatter(b.cast(data, _I32), b.op("Neg", b.cast(updates, _I32)), "add")
        return b.cast(b.typed(difference, _I32, None), _BOOL)

    def subtract(data: ir.Value, updates: ir.Value, how: str) -> ir.Value:
        return scatter(data, b.op("Sub", scalar(b, 0, updates), updates), "add")

    return _in_kernel_type(b, subtract, data, updates, "add")


def _reduced(
    b: Builder, scatter: Scatter, data: ir.Value, updates: ir.Value, reduction: str, use_init_val: bool
) -> ir.Value:
    if data.dtype == _BOOL and reduction != "none":  # sums are Or, products And
        reduction = {"sum": "max", "prod": "min"}.get(reduction, reduction)
        whole = _reduced(b, scatter, b.cast(data, _I32), b.cast(updates, _I32), reduction, use_init_val)
        return b.cast(b.typed(whole, _I32, None), _BOOL)
    how = _REDUCTIONS[reduction]
    if not use_init_val:
        data = _neutral(b, scatter, data, updates, reduction)
    return _in_kernel_type(b, scatter, data, updates, how)


def _in_kernel_type(b: Builder, scatter: Scatter, data: ir.Value, updates: ir.Value, how: str) -> ir.Value:
    """Scatters 16-bit floats under a reduction in float32, which rounds once."""
    own = dtype_of(data)
    if how == "none" or own not in _HALVES:
        return scatter(data, updates, how)
    single = ir.DataType.FLOAT
    return b.cast(b.typed(scatter(b.cast(data, single), b.cast(updates, single), how), single, None), own)


def _neutral(b: Builder, scatter: Scatter, data: ir.Value, updates: ir.Value, reduction: str) -> ir.Value:
    """Overwrites the updated elements with neutral elements."""
    dtype = dtype_of(data)
    lowest, highest = (-np.inf, np.inf)
    if dtype not in FLOATS:
        info = np.iinfo(dtype.numpy())
        lowest, highest = info.min, info.max
    number = {"sum": 0, "mean": 0, "prod": 1, "min": highest, "max": lowest}[reduction]
    sizes = b.op("Shape", updates)
    filled = compute(b, lambda x: b.op("Expand", x, sizes), scalar(b, number, data), op_types=("Expand",), modular=True)
    return b.typed(scatter(data, b.typed(filled, dtype, None), "none"), dtype, data.shape)


def _mean(b: Builder, scatter: Scatter, data: ir.Value, updates: ir.Value, use_init_val: bool) -> ir.Value:
    """Divides sums by counts; on integers the quotient is truncated, as in OpenVINO's CPU plugin."""
    own = dtype_of(data)
    inner = _WIDE.get(own, own)
    values, changes = b.cast(data, inner), b.cast(updates, inner)
    ones = b.op("Expand", scalar(b, 1, changes), b.op("Shape", updates))
    start = b.op("Expand", scalar(b, int(use_init_val), changes), b.op("Shape", data))
    counts = scatter(start, ones, "add")
    if not use_init_val:  # elements without updates are divided by one
        counts = b.op("Max", counts, scalar(b, 1, changes))
        values = _neutral(b, scatter, values, changes, "mean")
    quotient = b.op("Div", scatter(values, changes, "add"), counts)
    return b.cast(b.typed(quotient, inner, None), own)


@REGISTRY.lowering("SliceScatter", since=15)
def slice_scatter(
    b: Builder,
    data: ir.Value,
    updates: ir.Value,
    start: ir.Value,
    stop: ir.Value,
    step: ir.Value,
    axes: ir.Value | None = None,
    /,
) -> ir.Value:
    """ScatterElements into the flat data, at indices that a Slice selects from all element indices."""
    if is_static(data) and is_static(updates) and any(b.array(bound) is None for bound in (start, stop, step)):
        SLICE_SCATTER_OF_STATIC_SHAPE.warn(b)
    whole = b.constant([-1])
    shape = b.op("Shape", data)
    along = b.constant(list(range(length_of(start, "start")))) if axes is None else int64_vector(b, axes)
    numbers = b.op("Reshape", b.op("Range", b.constant(0), b.op("ReduceProd", shape, keepdims=0), b.constant(1)), shape)
    bounds = [int64_vector(b, value) for value in (start, stop)]
    chosen = b.op("Reshape", b.op("Slice", numbers, *bounds, along, int64_vector(b, step)), whole)
    flat = b.op("ScatterElements", b.op("Reshape", data, whole), chosen, b.op("Reshape", updates, whole))
    return b.op("Reshape", flat, shape, allowzero=1)
