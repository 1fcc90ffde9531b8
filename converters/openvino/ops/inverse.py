"""Inverse."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.compute_types import FLOATS, compute, require, scalar
from ortconv.converters.openvino.lib.loops import iteration
from ortconv.converters.openvino.plugin_bugs.computed_weights import INVERSE_OF_CONSTANT
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.graph.builder import Builder

_I64 = ir.DataType.INT64


@REGISTRY.lowering("Inverse", since=14)
def inverse(b: Builder, data: ir.Value, /, *, adjoint: bool = False) -> ir.Value:
    """Loop of Gauss-Jordan elimination with the largest pivot of each column; transposed if adjoint."""
    require(data, "data", FLOATS)
    if data.shape is not None and 0 in data.shape:
        return b.op("Identity", data)
    if b.array(data) is not None:
        INVERSE_OF_CONSTANT.warn(b)
    return compute(b, lambda x: _eliminated(b, x, adjoint), data, op_types=("Div", "Mul", "Sub"))


def _eliminated(b: Builder, x: ir.Value, adjoint: bool) -> ir.Value:
    dtype = x.dtype
    assert dtype is not None
    shape = b.op("Shape", x)
    size = b.op("Shape", x, start=-1)
    count = b.op("Squeeze", size, b.constant([0]))
    numbers = b.op("Range", b.constant(0), count, b.constant(1))
    unit = b.op("Cast", b.op("Equal", b.op("Unsqueeze", numbers, b.constant([1])), numbers), to=int(dtype))
    flat = b.op("Reshape", x, b.op("Concat", b.constant([-1]), size, size, axis=0))
    units = b.op("Expand", unit, b.op("Shape", flat))
    begin = b.op("Concat", flat, units, axis=2)
    with b.body() as body:
        column = iteration(body, "column")
        rows = body.input("rows", dtype, [None, None, None])
        # Pivot: the largest entry of the column among rows without a pivot.
        entries = b.op("Abs", b.op("Gather", rows, column, axis=2))
        open_rows = b.op("GreaterOrEqual", numbers, column)
        best = b.op("ArgMax", b.op("Where", open_rows, entries, scalar(b, -1, x)), axis=1, keepdims=1)
        own = b.op("Equal", numbers, column)
        swapped_from = b.op("Where", own, best, b.op("Where", b.op("Equal", numbers, best), column, numbers))
        order = b.op("Expand", b.op("Unsqueeze", swapped_from, b.constant([2])), b.op("Shape", rows))
        swapped = b.op("GatherElements", rows, order, axis=1)
        pivot_row = b.op("Gather", swapped, b.op("Reshape", column, b.constant([1])), axis=1)
        pivot = b.op("Gather", pivot_row, b.op("Reshape", column, b.constant([1])), axis=2)
        scaled = b.op("Div", pivot_row, pivot)
        factors = b.op("Gather", swapped, b.op("Reshape", column, b.constant([1])), axis=2)
        rest = b.op("Sub", swapped, b.op("Mul", factors, scaled))
        after = b.op("Where", b.op("Unsqueeze", own, b.constant([1])), scaled, rest)
        graph = body.graph([b.constant(True), after])
    (solved,) = b.op("Loop", count, b.constant(True), begin, outputs=1, body=graph)
    right = b.op("Slice", solved, size, b.constant([np.iinfo(np.int64).max]), b.constant([2]))
    if adjoint:
        right = b.op("Transpose", right, perm=[0, 2, 1])
    return b.op("Reshape", right, shape)
