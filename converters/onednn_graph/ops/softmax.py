"""SoftMax, LogSoftmax and their gradients."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import onnx_ir as ir

from ortconv.converters.onednn_graph.lib.data_format import known_dims, normal_axis, rank_of, same_dims
from ortconv.converters.onednn_graph.lib.dtypes import FLOATS, check_type, computed, dtype_name, one_type
from ortconv.converters.onednn_graph.registry import REGISTRY
from ortconv.errors import ShapeError
from ortconv.graph.builder import Builder


@REGISTRY.lowering("SoftMax", how="exact")
def soft_max(
    b: Builder, src: ir.Value, /, *, axis: int = 1, mode: Literal["none", "inf_as_zero"] = "none"
) -> tuple[ir.Value, ...]:
    """Lowers to ai.onnx Softmax; with stats to its definition, where stats is the logarithm of the sum.

    With inf_as_zero, a row of -inf gives zeros, also in stats, instead of NaN.
    """
    along = _axis(src, axis)
    _check_types(b, src)
    results = b.node.outputs
    if len(results) == 1 and mode == "none":
        return (b.typed(computed(b, (src,), lambda x: b.op("Softmax", x, axis=along)), None, src.shape),)
    x, axes = b.cast(src, ir.DataType.FLOAT), b.constant([along])
    largest = b.op("ReduceMax", x, axes, keepdims=1)
    empty = None
    if mode == "inf_as_zero":
        if along != rank_of("src", src) - 1:
            b.warn(
                f"where all elements along axis {along} are -infinity, the result is 0, as in the specification; "
                "the library gives NaN there, since the axis is not the last"
            )
        empty = b.op("Equal", largest, b.constant(-math.inf, np.float32))
    if len(results) == 1:
        y = b.op("Softmax", x, axis=along)
    else:
        check_type("stats", results[1].dtype, ["f32"])
        # Without inf_as_zero, a row of -inf gives -inf - -inf = NaN in both results, as in the library.
        exponentials = b.op("Exp", b.op("Sub", x, largest))
        total = b.op("ReduceSum", exponentials, axes, keepdims=1)
        y, stats = b.op("Div", exponentials, total), b.op("Add", b.op("Log", total), largest)
    zero = b.constant(0.0, np.float32)
    dst = b.typed(y if empty is None else b.op("Where", empty, zero, y), ir.DataType.FLOAT, src.shape)
    dst = b.cast(dst, results[0].dtype)
    if len(results) == 1:
        return (dst,)
    if empty is not None:
        stats = b.op("Where", empty, zero, stats)
    kept = [1 if at == along else dim for at, dim in enumerate(known_dims(src) or [])]
    return dst, b.typed(stats, ir.DataType.FLOAT, kept)


@REGISTRY.lowering("LogSoftmax", how="exact")
def log_soft_max(b: Builder, src: ir.Value, /, *, axis: int = -1) -> ir.Value:
    """Lowers to ai.onnx LogSoftmax."""
    along = _axis(src, axis)
    one_type(b, src=src)
    return b.typed(computed(b, (src,), lambda x: b.op("LogSoftmax", x, axis=along)), None, src.shape)


@REGISTRY.lowering("SoftMaxBackward")
def soft_max_backward(b: Builder, diff_dst: ir.Value, dst: ir.Value, /, *, axis: int = 1) -> ir.Value:
    """Lowers to dst * (diff_dst - sum(diff_dst * dst)); the gradient is the first input."""
    along = _axis(dst, axis)
    _check_types(b, diff_dst)
    check_type("dst", dst.dtype, [dtype_name(diff_dst.dtype)])
    same_dims("dst", dst, "diff_dst", diff_dst)

    def gradient(g: ir.Value, y: ir.Value) -> ir.Value:
        total = b.op("ReduceSum", b.op("Mul", g, y), b.constant([along]), keepdims=1)
        return b.op("Mul", y, b.op("Sub", g, total))

    return b.typed(computed(b, (diff_dst, dst), gradient, exact=False), None, dst.shape)


@REGISTRY.lowering("LogSoftmaxBackward")
def log_soft_max_backward(b: Builder, diff_dst: ir.Value, dst: ir.Value, /, *, axis: int = -1) -> ir.Value:
    """Lowers to diff_dst - exp(dst) * sum(diff_dst); the gradient is the first input."""
    along = _axis(dst, axis)
    one_type(b, diff_dst=diff_dst, dst=dst)
    same_dims("dst", dst, "diff_dst", diff_dst)

    def gradient(g: ir.Value, y: ir.Value) -> ir.Value:
        total = b.op("ReduceSum", g, b.constant([along]), keepdims=1)
        return b.op("Sub", g, b.op("Mul", b.op("Exp", y), total))

    return b.typed(computed(b, (diff_dst, dst), gradient, exact=False), None, dst.shape)


def _axis(value: ir.Value, axis: int) -> int:
    rank = rank_of("src", value)
    if rank == 0:
        raise ShapeError("src", (), "at least one dimension is required.")
    return normal_axis("axis", axis, rank)


def _check_types(b: Builder, source: ir.Value) -> None:
    """Checks the types of the input and the first output: equal, or one of them f32."""
    check_type("the first input", source.dtype)
    found = dtype_name(source.dtype)
    check_type("the output", b.node.outputs[0].dtype, FLOATS if found == "f32" else ["f32", found])
