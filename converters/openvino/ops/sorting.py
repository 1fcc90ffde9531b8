"""Ops that sort, search and count: TopK, Unique, NonZero, SearchSorted, Bucketize, CumSum, OneHot."""

from __future__ import annotations

from typing import Literal

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.broadcasting import rank_of
from ortconv.converters.openvino.lib.compute_types import (
    FLOATS,
    INTEGERS,
    apply,
    compute,
    dtype_of,
    require,
    scalar,
    type_for,
)
from ortconv.converters.openvino.lib.constants import int64_vector, known_ints, normalized
from ortconv.converters.openvino.ops.scattering import axis_of
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.graph.builder import Builder

_BOOL, _I32, _I64 = ir.DataType.BOOL, ir.DataType.INT32, ir.DataType.INT64

IndexType = Literal["i64", "i32"]
_INDEX_TYPES = {"i64": _I64, "i32": _I32}


@REGISTRY.lowering("TopK", since=1, how="composed")
@REGISTRY.lowering("TopK", since=3, how="composed")
def top_k(
    b: Builder,
    data: ir.Value,
    k: ir.Value,
    /,
    *,
    axis: int = 0,
    mode: Literal["min", "max"] = "max",
    sort: Literal["none", "index", "value"] = "none",
    index_element_type: IndexType = "i32",
) -> tuple[ir.Value, ...]:
    """TopK; sorted by index by a second one."""
    _warn_of_ties(b, data, sort)
    return _top_k(b, data, k, axis, mode, sort, index_element_type)


@REGISTRY.lowering("TopK", since=11, how="composed")
def top_k_11(
    b: Builder,
    data: ir.Value,
    k: ir.Value,
    /,
    *,
    axis: int = 0,
    mode: Literal["min", "max"] = "max",
    sort: Literal["none", "index", "value"] = "none",
    index_element_type: IndexType = "i32",
    stable: bool = False,
) -> tuple[ir.Value, ...]:
    """TopK, which is stable; sorted by index by a second one."""
    if not stable:
        _warn_of_ties(b, data, sort)
    elif sort == "index":
        b.warn(
            "the page is followed: of equal numbers OpenVINO's CPU plugin may take later ones, where it sorts by index"
        )
    return _top_k(b, data, k, axis, mode, sort, index_element_type)


def _warn_of_ties(b: Builder, data: ir.Value, sort: str) -> None:
    if sort == "value" and len(b.node.outputs) == 1:
        return  # whichever of equal ones are taken, the values are the same
    if data.dtype in (*INTEGERS, _BOOL):
        b.warn(
            "of equal integers the first ones are taken; the page leaves that open, OpenVINO's CPU plugin may differ"
        )


def _top_k(
    b: Builder, data: ir.Value, k: ir.Value, axis: int, mode: str, sort: str, index_type: IndexType
) -> tuple[ir.Value, ...]:
    own = dtype_of(data)
    count = int64_vector(b, k)
    if own == ir.DataType.UINT64:  # another highest bit makes signed integers of the same order
        highest = b.constant(np.iinfo(np.int64).min)
        signed = b.typed(b.op("BitwiseXor", b.cast(data, _I64), highest), _I64, data.shape)
        values, indices = _top_k(b, signed, k, axis, mode, sort, index_type)
        return b.cast(b.typed(b.op("BitwiseXor", values, highest), _I64, None), own), indices
    x = b.cast(data, type_for(own, ("TopK",)))
    values, indices = b.op("TopK", x, count, outputs=2, axis=axis, largest=int(mode == "max"))
    if sort == "index":
        b.typed(indices, _I64, None)
        indices, _ = b.op("TopK", indices, count, outputs=2, axis=axis, largest=0)
        values = b.op("GatherElements", x, indices, axis=axis)
    b.typed(values, x.dtype, None)
    b.typed(indices, _I64, None)
    return b.cast(values, own), b.cast(indices, _INDEX_TYPES[index_type])


_INVERSE = 2
"""The output of Unique that says which one each element is."""


@REGISTRY.lowering("Unique", since=10, how="composed")
def unique(
    b: Builder,
    data: ir.Value,
    axis: ir.Value | None = None,
    /,
    *,
    sorted: bool = True,
    index_element_type: IndexType = "i64",
    count_element_type: IndexType = "i64",
) -> tuple[ir.Value, ...]:
    """Unique; of all elements without an axis."""
    own = dtype_of(data)
    along = None if axis is None else axis_of(b, axis, rank_of(data, "data"))
    if along is not None:
        _warn_of_slices(b, data, along, sorted)
    elif not sorted and (len(b.node.outputs) <= _INVERSE or _INVERSE in b.node.unused):
        b.warn("the page is followed: where no output tells the places, OpenVINO's CPU plugin does not fill the others")
    x = b.cast(data, type_for(own, ("Unique",)))
    values, first, inverse, counts = b.op("Unique", x, outputs=4, axis=along, sorted=int(sorted))
    b.typed(values, x.dtype, None)
    for result in (first, inverse, counts):
        b.typed(result, _I64, None)
    index, count = _INDEX_TYPES[index_element_type], _INDEX_TYPES[count_element_type]
    return b.cast(values, own), b.cast(first, index), b.cast(inverse, index), b.cast(counts, count)


def _warn_of_slices(b: Builder, data: ir.Value, axis: int, sorted: bool) -> None:
    """Warns of slices that OpenVINO's CPU plugin takes from where they are not."""
    assert data.shape is not None
    if any(size != 1 for size in data.shape[:axis]):
        b.warn("the page is followed: along an axis behind others OpenVINO's CPU plugin may keep slices that are equal")
    if dtype_of(data).bitwidth == 8 and not (sorted and rank_of(data, "data") == 1):
        b.warn("the page is followed: of slices of 8 bits OpenVINO's CPU plugin gives indices of other memory")


@REGISTRY.lowering("NonZero", since=3, how="exact")
def non_zero(b: Builder, data: ir.Value, /, *, output_type: IndexType = "i64") -> ir.Value:
    """NonZero."""
    x = data if data.dtype in (_BOOL, _I32, _I64, ir.DataType.FLOAT) else b.cast(data, _BOOL)
    # Of a scalar, ONNX has no axis; OpenVINO declares none, and gives one.
    is_scalar = data.shape is not None and not len(data.shape)
    if is_scalar:
        x = b.op("Unsqueeze", x, b.constant([0]))
    places = b.typed(b.op("NonZero", x), _I64, ["axes", None] if is_scalar else None)
    return b.cast(places, _INDEX_TYPES[output_type])


@REGISTRY.lowering("SearchSorted", since=15)
def search_sorted(
    b: Builder,
    sorted: ir.Value,
    values: ir.Value,
    /,
    *,
    right_mode: bool = False,
    output_type: IndexType = "i64",
) -> ir.Value:
    """ReduceSum of Less, or of LessOrEqual."""
    rows = sorted  # one row broadcasts as it is
    if sorted.shape is None or len(sorted.shape) != 1:
        rows = b.typed(b.op("Unsqueeze", sorted, b.constant([-2])), sorted.dtype, None)
    columns = b.typed(b.op("Unsqueeze", values, b.constant([-1])), values.dtype, None)
    return _count_below(b, rows, columns, rank_of(values, "values"), not right_mode, output_type)


@REGISTRY.lowering("Bucketize", since=3)
def bucketize(
    b: Builder,
    data: ir.Value,
    buckets: ir.Value,
    /,
    *,
    output_type: IndexType = "i64",
    with_right_bound: bool = True,
) -> ir.Value:
    """ReduceSum of Less, or of LessOrEqual."""
    if buckets.shape is not None and 0 in buckets.shape:  # ONNX Runtime keeps the axis when it sums nothing
        return b.op("Expand", b.constant(0, _INDEX_TYPES[output_type].numpy()), b.op("Shape", data))
    columns = b.typed(b.op("Unsqueeze", data, b.constant([-1])), data.dtype, None)
    return _count_below(b, buckets, columns, rank_of(data, "data"), with_right_bound, output_type)


def _count_below(
    b: Builder, bounds: ir.Value, values: ir.Value, axis: int, strictly: bool, output_type: IndexType
) -> ir.Value:
    """Counts, along the last axis, the bounds below each value."""
    if bounds.dtype != values.dtype:
        common = _I64 if {bounds.dtype, values.dtype} <= set(INTEGERS) else ir.DataType.DOUBLE
        bounds, values = b.cast(bounds, common), b.cast(values, common)
    below = apply(b, "Less" if strictly else "LessOrEqual", bounds, values, result=_BOOL)
    to = _INDEX_TYPES[output_type]
    # Counted from the end, ONNX Runtime keeps the axis where there are no elements.
    return b.op("ReduceSum", b.cast(below, to), b.constant([axis]), keepdims=0)


@REGISTRY.lowering("CumSum", since=3, how="exact")
def cum_sum(
    b: Builder, data: ir.Value, axis: ir.Value | None = None, /, *, exclusive: bool = False, reverse: bool = False
) -> ir.Value:
    """CumSum; of a scalar the scalar, or zero (exclusive)."""
    require(data, "data", (*FLOATS, *INTEGERS))
    if data.shape is not None and data.shape.rank() == 0:
        return scalar(b, 0, data) if exclusive else b.op("Identity", data)
    along = b.constant(0) if axis is None else axis if axis.dtype in (_I32, _I64) else b.cast(axis, _I64)
    return compute(
        b,
        lambda x: b.op("CumSum", x, along, exclusive=int(exclusive) or None, reverse=int(reverse) or None),
        data,
        kernels=("CumSum",),
        modular=True,
    )


@REGISTRY.lowering("OneHot", since=1)
def one_hot(
    b: Builder, indices: ir.Value, depth: ir.Value, on_value: ir.Value, off_value: ir.Value, /, *, axis: int
) -> ir.Value:
    """Where of an Equal; an index out of range is nowhere hot, a negative one too."""
    return _one_hot(b, indices, depth, on_value, off_value, axis, counts_back=False)


@REGISTRY.lowering("OneHot", since=16)
def one_hot_16(
    b: Builder,
    indices: ir.Value,
    depth: ir.Value,
    on_value: ir.Value,
    off_value: ir.Value,
    /,
    *,
    axis: int,
    negative_indices_mode: Literal["ignore_negative", "normalize"] = "ignore_negative",
) -> ir.Value:
    """Where of an Equal; an index out of range is nowhere hot; normalize counts negative ones from the end."""
    counts_back = negative_indices_mode == "normalize"
    return _one_hot(b, indices, depth, on_value, off_value, axis, counts_back=counts_back)


def _one_hot(
    b: Builder,
    indices: ir.Value,
    depth: ir.Value,
    on_value: ir.Value,
    off_value: ir.Value,
    axis: int,
    *,
    counts_back: bool,
) -> ir.Value:
    rank = rank_of(indices, "indices")
    (along,) = normalized((axis,), rank + 1, "axis")
    size = known_ints(b, depth)
    if size is not None and len(size) == 1:
        classes = b.counted(size[0])
    else:
        end = b.op("Reshape", b.cast(depth, _I64), b.constant([]))
        classes = b.op("Range", b.constant(0), end, b.constant(1))
    places = b.typed(b.op("Unsqueeze", b.cast(indices, _I64), b.constant([along])), _I64, None)
    if counts_back:
        behind = b.op("Add", places, b.cast(depth, _I64))
        places = b.op("Where", b.op("Less", places, b.constant(0)), behind, places)
    if along < rank:
        classes = b.op("Unsqueeze", classes, b.constant(list(range(1, rank - along + 1))))
    hot = b.typed(b.op("Equal", places, classes), _BOOL, None)
    on, off = (
        b.op("Reshape", value, b.constant([])) if value.shape != () else value for value in (on_value, off_value)
    )
    b.typed(on, on_value.dtype, None)
    b.typed(off, on_value.dtype, None)
    if on_value.dtype == _BOOL:
        return b.op("Or", b.op("And", hot, on), b.op("And", b.op("Not", hot), off))
    return compute(b, lambda yes, no: b.op("Where", hot, yes, no), on, off, kernels=("Where",), modular=True)
