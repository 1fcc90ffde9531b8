"""Ops that pick elements at given places: GatherElements and GatherND."""

from __future__ import annotations

import onnx_ir as ir

from ortconv.converters.openvino.lib.broadcasting import rank_of
from ortconv.converters.openvino.lib.sizes import Size, calculate, reshaped, size_of
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import ShapeError, UnsupportedAttributeError
from ortconv.graph.builder import Builder

_INDEX_TYPES = (ir.DataType.INT32, ir.DataType.INT64)


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
