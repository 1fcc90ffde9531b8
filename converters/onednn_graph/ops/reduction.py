"""Reductions; the axes are an attribute or an input."""

from __future__ import annotations

import onnx_ir as ir

from ortconv.converters.onednn_graph.lib.data_format import known_dims, normal_axis, rank_of
from ortconv.converters.onednn_graph.lib.dtypes import check_type, computed, one_type
from ortconv.converters.onednn_graph.registry import REGISTRY
from ortconv.errors import ShapeError, UnsupportedAttributeError
from ortconv.graph.builder import Builder, Ints


@REGISTRY.lowering(
    "ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", how="exact"
)
def reduce(
    b: Builder, src: ir.Value, axes_input: ir.Value | None = None, /, *, axes: Ints = (), keep_dims: bool = False
) -> ir.Value:
    """Lowers to the ai.onnx op of the same name; empty axes reduce nothing."""
    one_type(b, src=src)
    rank = rank_of("src", src)
    if axes_input is not None:
        data = b.array(axes_input)
        if data is None:
            return _at_run_time(b, src, axes_input, keep_dims)
        axes = tuple(int(axis) for axis in data.ravel())
    elif "axes" not in b.node.attributes:
        raise UnsupportedAttributeError("axes", None, "a list of axes, as attribute or as input")
    along = tuple(normal_axis("axes", axis, rank) for axis in axes)
    if len(set(along)) < len(along):
        raise UnsupportedAttributeError("axes", axes, "each axis once")
    if not along:
        b.note("axes is empty: the result is src")
        return b.typed(b.op("Identity", src), None, src.shape)
    result = computed(b, (src,), lambda x: _emit(b, x, b.constant(along), keep_dims), exact=False)
    dims = known_dims(src) or []
    kept = [1 if axis in along else dim for axis, dim in enumerate(dims) if keep_dims or axis not in along]
    return b.typed(result, None, kept)


def _emit(b: Builder, x: ir.Value, axes: ir.Value, keep_dims: bool) -> ir.Value:
    return b.op(b.node.ref.op_type, x, axes, keepdims=int(keep_dims), noop_with_empty_axes=1)


def _at_run_time(b: Builder, src: ir.Value, axes: ir.Value, keep_dims: bool) -> ir.Value:
    """Reduces along axes whose number is known when converting and whose values are not."""
    check_type("axes", axes.dtype, ["s32"])
    dims = known_dims(axes)
    if dims is None or len(dims) != 1 or not isinstance(dims[0], int):
        raise ShapeError("axes", dims, "a vector of known length is required: it decides the rank of the result.")
    count = dims[0]
    rank = rank_of("src", src)
    if count > rank:
        raise ShapeError("axes", dims, f"at most {rank} axes are required, as many as src has.")
    if count == 0:
        return b.typed(b.op("Identity", src), None, src.shape)
    indices = b.cast(axes, ir.DataType.INT64)
    result = computed(b, (src,), lambda x: _emit(b, x, indices, keep_dims), exact=False)
    return b.typed(result, None, [None] * (rank if keep_dims else rank - count))
