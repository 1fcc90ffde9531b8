"""Reductions.

ONNX Runtime reduces integers in double. Sums and products of up to 32 bits are therefore formed as 64-bit integers,
which is exact, and those of 64 bits without Reduce ops.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

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
    saturated,
    saturates,
    warn_of_float32_integers,
)
from ortconv.converters.openvino.lib.constants import int64_vector, known_ints, normalized, warn_of_no_axes, with_axes
from ortconv.converters.openvino.lib.int64_extrema import holds_sizes
from ortconv.converters.openvino.patterns.mixture_of_experts.emit import mixture_sum
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.graph.builder import Builder

_HALVES = {ir.DataType.FLOAT16: 65504.0, ir.DataType.BFLOAT16: 2.0**128 - 2.0**120}
"""The 16-bit floats with their largest finite values."""
_I32, _I64 = ir.DataType.INT32, ir.DataType.INT64
_INT64_MAX = 2**63 - 1
_BEGINNINGS = {"ReduceMax": np.finfo(np.float32).min, "ReduceMin": np.finfo(np.float32).max}
"""Initial values of OpenVINO's CPU plugin, returned for no data and infinities of the other sign. A minimum along
runtime axes starts with infinity."""
_NORMS = ("ReduceL1", "ReduceL2")
_GROWING = ("ReduceL1", "ReduceProd", "ReduceSum")
_LARGEST_PRODUCT = 64


def _register(
    op_type: str, onnx_op: str, since: int = 1, *, allowed: tuple[ir.DataType, ...] = (*FLOATS, *INTEGERS)
) -> None:
    def lower(b: Builder, data: ir.Value, axes: ir.Value, /, *, keep_dims: bool = False) -> ir.Value:
        require(data, "data", allowed)
        warn_of_no_axes(b, axes)
        known = known_ints(b, axes)
        if known == ():
            return _over_nothing(b, onnx_op, data)
        is_scalar = data.shape is not None and not len(data.shape)
        if is_scalar and not keep_dims and known is not None and set(known) <= {-1, 0}:
            # OpenVINO treats a scalar as a vector of one element, unless keep_dims is set.
            data = b.typed(b.op("Unsqueeze", data, b.constant([0])), data.dtype, [1])
            axes = b.constant([0])
        if onnx_op == "ReduceSum" and not keep_dims and known == (0,):
            routed = mixture_sum(b, data)
            if routed is not None:
                return routed
        if onnx_op != "ReduceL2":  # that is in f32 here, too
            warn_of_float32_integers(b, data, may_overflow=onnx_op in _GROWING)
        if data.dtype in INTEGERS and onnx_op not in ("ReduceMax", "ReduceMin"):
            result = _integer(b, onnx_op, data, axes, keep_dims)
        elif data.dtype == ir.DataType.UINT64:
            result = _extreme_u64(b, onnx_op, data, axes, keep_dims)
        else:
            result = compute(b, lambda x: _reduce(b, onnx_op, x, axes, keep_dims), data, op_types=(onnx_op,))
            if data.dtype in FLOATS and (
                onnx_op == "ReduceMax" or (onnx_op == "ReduceMin" and b.array(axes) is not None)
            ):
                result = _from_beginning(b, onnx_op, b.typed(result, data.dtype, None))
        return result if keep_dims or b.array(axes) is not None else with_axes(b, result, data, axes, -1)

    lower.__doc__ = f"{onnx_op}; Identity for an empty list of axes."
    REGISTRY.lowering(op_type, since=since)(lower)


def _reduce(b: Builder, onnx_op: str, x: ir.Value, axes: ir.Value, keep_dims: bool) -> ir.Value:
    known = known_ints(b, axes)
    along = int64_vector(b, axes)
    is_extreme_64 = x.dtype == _I64 and onnx_op in _BEGINNINGS and not holds_sizes(b, x)
    if known is not None and x.shape is not None:
        places = normalized(known, len(x.shape), "axes")
        if is_extreme_64:
            return _extreme_64(b, onnx_op, x, places, keep_dims)
        # With negative axes and empty data, ONNX Runtime keeps the axes.
        along = b.constant(list(places))
    elif is_extreme_64:
        b.warn("64-bit integers along runtime axes: ONNX Runtime compares values beyond 2^31 wrongly")
    return b.typed(b.op(onnx_op, x, along, keepdims=int(keep_dims), noop_with_empty_axes=1), x.dtype, None)


def _extreme_64(b: Builder, onnx_op: str, x: ir.Value, along: Sequence[int], keep_dims: bool) -> ir.Value:
    """Emits TopK along each axis: ONNX Runtime's ReduceMax and ReduceMin compare the lower halves as signed."""
    largest = int(onnx_op == "ReduceMax")
    value = _never_empty(b, x, x.shape, along, -(2**63) if largest else _INT64_MAX)
    for axis in along:
        value, _ = b.op("TopK", value, b.constant([1]), outputs=2, axis=axis, largest=largest)
    return b.typed(value if keep_dims else b.op("Squeeze", value, b.constant(list(along))), _I64, None)


def _never_empty(b: Builder, value: ir.Value, sizes: ir.Shape | None, along: Sequence[int], neutral: int) -> ir.Value:
    """Appends a neutral element to each axis that may be empty.

    Args:
        b: The builder.
        value: Of int64.
        sizes: Its shape.
        along: The axes that are reduced.
        neutral: The neutral element.
    """
    extra = [int(axis in along and not (isinstance(size, int) and size)) for axis, size in enumerate(sizes or ())]
    return b.op("Pad", value, b.constant([0] * len(extra) + extra), b.constant(neutral)) if any(extra) else value


def _from_beginning(b: Builder, onnx_op: str, result: ir.Value) -> ir.Value:
    """Emits Max or Min with the initial value of OpenVINO's CPU plugin.

    The plugin computes in f32; 16-bit types, which cannot represent that value, return infinities.
    """
    own = dtype_of(result)
    if own in _HALVES and b.node.outputs[0] in b.returned:
        return result
    b.note("no elements, or only infinities of the other sign, give the largest finite value, as in OpenVINO")
    bound = float(_BEGINNINGS[onnx_op])
    bound = math.copysign(_HALVES.get(own, bound), bound)
    return apply(b, onnx_op.removeprefix("Reduce"), result, b.constant(np.asarray(bound).astype(own.numpy())))


def _extreme_u64(b: Builder, onnx_op: str, data: ir.Value, axes: ir.Value, keep_dims: bool) -> ir.Value:
    """Reduces as int64, shifted by half of the range, which preserves the order."""
    half = b.constant(np.array(-(2**63)))
    moved = b.typed(b.op("Add", b.cast(data, _I64), half), _I64, data.shape)
    best = b.typed(b.op("Add", _reduce(b, onnx_op, moved, axes, keep_dims), half), _I64, None)
    return b.cast(best, ir.DataType.UINT64)


def _over_nothing(b: Builder, onnx_op: str, data: ir.Value) -> ir.Value:
    if onnx_op in _NORMS:
        b.follow("follows OpenVINO's CPU plugin: empty axes give absolute values; the specification says identity")
        return apply(b, "Abs", data)
    return b.op("Identity", data)


def _integer(b: Builder, onnx_op: str, data: ir.Value, axes: ir.Value, keep_dims: bool) -> ir.Value:
    dtype = dtype_of(data)
    if saturates(b, dtype):
        return _integer_8(b, onnx_op, data, axes, keep_dims)
    if onnx_op == "ReduceL2":
        b.note(
            "integers: computed in f32 and truncated, as in OpenVINO's CPU plugin; the specification does not define it"
        )
        root = _reduce(b, onnx_op, b.cast(data, ir.DataType.FLOAT), axes, keep_dims)
        return b.op("Cast", root, to=int(dtype))
    inner = "ReduceSum" if onnx_op == "ReduceMean" else onnx_op
    wide = b.cast(data, _I64)
    if dtype.bitwidth < 64:
        total = _reduce(b, inner, wide, axes, keep_dims)
    else:
        total = _reduce_64(b, inner, data, wide, axes, keep_dims)
    return _mean(b, total, data, axes) if onnx_op == "ReduceMean" else b.cast(total, dtype)


def _integer_8(b: Builder, onnx_op: str, data: ir.Value, axes: ir.Value, keep_dims: bool) -> ir.Value:
    """Reduces 8-bit integers; the intermediate sum of a mean or a root saturates, too."""
    dtype = dtype_of(data)
    wide = b.cast(data, _I32)
    if onnx_op in ("ReduceL1", "ReduceProd"):
        return saturated(b, _reduce(b, onnx_op, wide, axes, keep_dims), dtype)
    terms = b.typed(b.op("Mul", wide, wide), _I32, None) if onnx_op == "ReduceL2" else wide
    total = b.typed(saturated(b, _reduce(b, "ReduceSum", terms, axes, keep_dims), dtype), dtype, None)
    if onnx_op == "ReduceMean":
        return _mean(b, total, data, axes)
    return (
        b.op("Cast", b.op("Sqrt", b.cast(total, ir.DataType.FLOAT)), to=int(dtype)) if onnx_op == "ReduceL2" else total
    )


def _mean(b: Builder, total: ir.Value, data: ir.Value, axes: ir.Value) -> ir.Value:
    """Divides a sum by the count; truncates, as OpenVINO's CPU plugin does (the specification does not define it)."""
    dtype = dtype_of(data)
    sizes = b.op("Gather", b.op("Shape", data), int64_vector(b, axes))
    count = b.typed(b.op("ReduceProd", sizes, keepdims=0), _I64, None)
    known = b.array(count)
    if known is None or not known:  # the mean of no elements is zero, without a division
        count = b.typed(b.op("Max", count, b.constant(1)), _I64, None)
    divided = dtype if dtype == ir.DataType.UINT64 else _I64
    mean = b.op("Div", b.cast(total, divided), b.cast(count, divided))
    return b.cast(b.typed(mean, divided, None), dtype)


def _reduce_64(b: Builder, onnx_op: str, data: ir.Value, wide: ir.Value, axes: ir.Value, keep_dims: bool) -> ir.Value:
    """Reduces 64-bit integers along constant axes, one by one: the last element of a CumSum, or a Mul of slices."""
    known = known_ints(b, axes)
    along = () if known is None else normalized(known, rank_of(data, "data"), "axes")
    sizes = [None if data.shape is None else data.shape[axis] for axis in along]
    if 0 in sizes:
        return _reduce(b, onnx_op, wide, axes, keep_dims)
    long = any(not isinstance(size, int) or size > _LARGEST_PRODUCT for size in sizes)
    if not along or (onnx_op == "ReduceProd" and long):
        b.warn("64-bit integers: ONNX Runtime rounds beyond 2^53; OpenVINO's CPU plugin keeps 32 bits")
        return _reduce(b, onnx_op, wide, axes, keep_dims)
    value = b.op("Abs", wide) if onnx_op == "ReduceL1" and data.dtype == _I64 else wide
    value = _never_empty(b, value, data.shape, along, 0)
    for axis, size in zip(along, sizes, strict=True):
        if onnx_op == "ReduceProd":
            assert isinstance(size, int)
            first, *others = b.op("Split", value, outputs=size, axis=axis, num_outputs=size)
            value = first
            for other in others:
                value = b.op("Mul", value, other)
        else:
            sums = b.op("CumSum", value, b.constant(axis))
            value = b.op("Slice", sums, b.constant([-1]), b.constant([_INT64_MAX]), b.constant([axis]))
    return b.typed(value if keep_dims else b.op("Squeeze", value, b.constant(list(along))), _I64, None)


for _op_type in ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"):
    _register(_op_type, _op_type)
_register("ReduceL1", "ReduceL1", 4)
_register("ReduceL2", "ReduceL2", 4)
_register("ReduceLogicalAnd", "ReduceMin", allowed=(ir.DataType.BOOL,))
_register("ReduceLogicalOr", "ReduceMax", allowed=(ir.DataType.BOOL,))
