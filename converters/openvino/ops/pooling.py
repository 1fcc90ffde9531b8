"""MaxPool and AvgPool."""

from __future__ import annotations

import math
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
    in_32_bits,
    require,
    rounded,
    scalar,
    type_for,
)
from ortconv.converters.openvino.lib.constants import normalized
from ortconv.converters.openvino.lib.convolution_window import AutoPadName
from ortconv.converters.openvino.lib.defaults import warn_of_default
from ortconv.converters.openvino.lib.index_type import INDEX_TYPES, IndexType
from ortconv.converters.openvino.lib.pool_padding import Plan, Rounding, apart, plan_pooling
from ortconv.converters.openvino.lib.sizes import calculate, joined, size_of
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.graph.builder import Builder, Ints


@REGISTRY.lowering("MaxPool")
def max_pool(
    b: Builder,
    data: ir.Value,
    /,
    *,
    kernel: Ints,
    strides: Ints,
    pads_begin: Ints = (),
    pads_end: Ints = (),
    rounding_type: Literal["floor", "ceil"] = "floor",
    auto_pad: AutoPadName = "explicit",
) -> ir.Value:
    """MaxPool with explicit pads."""
    require(data, "data", (*FLOATS, *INTEGERS))
    plan = plan_pooling(b, data, kernel, strides, (), pads_begin, pads_end, rounding_type, auto_pad)
    return in_32_bits(b, lambda x: _maximum(b, x, plan), data)


@REGISTRY.lowering("MaxPool", since=8, until=14)
def max_pool_8(
    b: Builder,
    data: ir.Value,
    /,
    *,
    kernel: Ints,
    strides: Ints,
    dilations: Ints = (),
    pads_begin: Ints = (),
    pads_end: Ints = (),
    rounding_type: Rounding = "floor",
    auto_pad: AutoPadName = "explicit",
    index_element_type: IndexType = "i64",
    axis: int = 0,
) -> tuple[ir.Value, ...]:
    """MaxPool with explicit pads; indices, where used, count from axis on (Mod)."""
    require(data, "data", (*FLOATS, *INTEGERS))
    warn_of_default(b, "dilations", 1, "has none, and its CPU plugin reads other memory")
    has_indices = len(b.node.outputs) > 1
    in_front = True
    sizes = () if data.shape is None else data.shape[2:]
    if has_indices and auto_pad.startswith("same") and not all(isinstance(size, int) for size in sizes):
        in_front = b.options.semantics == "spec"
        b.follow_semantics(
            f"with indices and dynamic spatial dimensions, OpenVINO's CPU plugin puts no padding of "
            f"{auto_pad} at the beginning; the specification does; --semantics {b.options.semantics} is in force"
        )
    plan = plan_pooling(
        b, data, kernel, strides, dilations, pads_begin, pads_end, rounding_type, auto_pad, in_front=in_front
    )
    if not has_indices:
        return (in_32_bits(b, lambda x: _maximum(b, x, plan), data),)
    own = dtype_of(data)
    # ONNX Runtime returns no index for the smallest 8-bit integer.
    inner = ir.DataType.INT32 if own in (ir.DataType.INT64, ir.DataType.UINT64) else own
    narrow = b.cast(data, inner)
    held = b.cast(narrow, ir.DataType.FLOAT if own.bitwidth == 8 else type_for(inner, ("MaxPool", "Pad")))
    least = scalar(b, _least(inner), held)
    pooled = apart(b, held) if plan.obstacle is None else plan.padded(b, held, least)
    values, indices = b.op("MaxPool", pooled, outputs=2, **plan.pool.attributes())
    if plan.obstacle is not None:
        indices = _without_padding(b, data, indices, plan)
    if plan.obstacle is not None or own.bitwidth == 8:
        # If all elements are the smallest value, OpenVINO's CPU plugin returns the first index of the channel.
        channel = b.op("Mod", indices, b.op("ReduceProd", b.op("Shape", data, start=2), keepdims=0))
        indices = b.op("Sub", indices, b.op("Where", b.op("Equal", values, least), channel, b.constant(0)))
    (first,) = normalized((axis,), rank_of(data, "data"), "axis")
    if first > 0:
        indices = b.op("Mod", indices, b.op("ReduceProd", b.op("Shape", data, start=first), keepdims=0))
    b.typed(indices, ir.DataType.INT64, None)
    b.typed(values, held.dtype, None)
    index_type = INDEX_TYPES[index_element_type]
    return b.cast(b.cast(values, inner), own), b.cast(indices, index_type)


@REGISTRY.lowering("AvgPool", since=1, until=16)
def avg_pool(
    b: Builder,
    data: ir.Value,
    /,
    *,
    kernel: Ints,
    strides: Ints,
    exclude_pad: bool = True,
    dilations: Ints = (),
    pads_begin: Ints = (),
    pads_end: Ints = (),
    rounding_type: Rounding = "floor",
    auto_pad: AutoPadName = "explicit",
) -> ir.Value:
    """AveragePool with explicit pads; exclude-pad is count_include_pad."""
    require(data, "data", (*FLOATS, *INTEGERS))
    # Without any padding OpenVINO never counts the elements that rounding up adds at the end; with some it does.
    padded = auto_pad.startswith("same") or (auto_pad == "explicit" and any(pads_begin + pads_end))
    counted = padded and not exclude_pad
    plan = plan_pooling(b, data, kernel, strides, dilations, pads_begin, pads_end, rounding_type, auto_pad)
    if plan.obstacle is None:
        data = apart(b, data)
        return rounded(
            b,
            lambda x: b.op("AveragePool", x, count_include_pad=int(counted), **plan.pool.attributes()),
            data,
            op_types=("AveragePool",),
        )

    counts: bool | ir.Value = counted
    if counted and auto_pad.startswith("same") and rounding_type == "ceil":
        # If no axis is padded, OpenVINO excludes the elements that rounding up adds.
        counts = plan.asks_for_padding(b)

    def formula(x: ir.Value) -> ir.Value:
        def mean(x: ir.Value) -> ir.Value:
            value: ir.Value = b.op("AveragePool", x, **plan.pool.attributes())
            return value

        def total(x: ir.Value) -> ir.Value:  # the mean of integers must be exact before it is rounded
            whole = b.op("Mul", mean(x), scalar(b, math.prod(kernel), x))
            return b.op("Round", whole) if data.dtype in INTEGERS else whole

        values = plan.padded(b, x, scalar(b, 0, x))
        if counts is True:
            return mean(values)
        quotient: ir.Value = b.op("Div", total(values), b.op("Round", total(plan.marked(b, data, x))))
        return quotient if counts is False else b.op("Where", counts, mean(values), quotient)

    return rounded(b, formula, data, op_types=("AveragePool", "Div", "Mul", "Pad", "Round", "Where"))


def _maximum(b: Builder, data: ir.Value, plan: Plan) -> ir.Value:
    if plan.obstacle is None:
        return apply(b, "MaxPool", apart(b, data), **plan.pool.attributes())
    least = _least(dtype_of(data))
    return compute(
        b,
        lambda x: b.op("MaxPool", plan.padded(b, x, scalar(b, least, x)), **plan.pool.attributes()),
        data,
        op_types=("MaxPool", "Pad"),
    )


def _least(dtype: ir.DataType) -> float:
    """Returns the result of windows of padding only: the lowest f32, as in OpenVINO's CPU plugin, or bf16."""
    if dtype == ir.DataType.BFLOAT16:
        return 2.0**120 - 2.0**128
    return float(np.finfo(np.float32).min) if dtype in FLOATS else np.iinfo(dtype.numpy()).min


def _without_padding(b: Builder, data: ir.Value, indices: ir.Value, plan: Plan) -> ir.Value:
    """Converts indices into padded data to indices into the data; those of padding are arbitrary within the channel."""
    begins, ends = plan.pads
    sizes = [size_of(b, data, axis) for axis in range(2, 2 + len(begins))]
    rest, step = indices, joined(b, [1])
    place: ir.Value | None = None
    for size, begin, end in reversed(list(zip(sizes, begins, ends, strict=True))):
        whole = joined(b, [calculate(b, "Add", calculate(b, "Add", size, begin), end)])
        inside = b.op("Sub", b.op("Mod", rest, whole), joined(b, [begin]))
        last = b.op("Sub", joined(b, [size]), b.constant([1]))
        part = b.op("Mul", b.op("Max", b.op("Min", inside, last), b.constant([0])), step)
        place = part if place is None else b.op("Add", place, part)
        rest, step = b.op("Div", rest, whole), b.op("Mul", step, joined(b, [size]))
    assert place is not None
    return b.op("Add", b.op("Mul", rest, step), place)
