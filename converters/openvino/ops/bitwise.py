"""Bitwise ops."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from ortconv.converters.openvino.lib.broadcasting import AutoBroadcast, aligned
from ortconv.converters.openvino.lib.compute_types import INTEGERS, UNSIGNED, dtype_of, require, scalar
from ortconv.converters.openvino.plugin_bugs.elementwise import PDPD_SHIFT
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.graph.builder import Builder

_BOOL = ir.DataType.BOOL
_SHIFTED = {8: ir.DataType.UINT32, 16: ir.DataType.UINT32, 32: ir.DataType.UINT32, 64: ir.DataType.UINT64}
"""The type in which ONNX Runtime shifts, by bit width."""


def _register(op_type: str, onnx_op: str, logical: str) -> None:
    def lower(
        b: Builder,
        a: ir.Value,
        c: ir.Value,
        /,
        *,
        auto_broadcast: AutoBroadcast = "numpy",
        auto_broadcast_auto_broadcast_axis: int = 0,
    ) -> ir.Value:
        x, y = aligned(b, a, c, auto_broadcast, auto_broadcast_auto_broadcast_axis)
        require(x, "input 0", (*INTEGERS, _BOOL))
        return b.op(logical if x.dtype == _BOOL else onnx_op, x, y)

    lower.__doc__ = f"{onnx_op}, or {logical} on booleans."
    REGISTRY.lowering(op_type, since=13, how="exact")(lower)


for _op_type, _logical in (("BitwiseAnd", "And"), ("BitwiseOr", "Or"), ("BitwiseXor", "Xor")):
    _register(_op_type, _op_type, _logical)


@REGISTRY.lowering("BitwiseNot", since=13, how="exact")
def bitwise_not(b: Builder, data: ir.Value, /) -> ir.Value:
    """BitwiseNot, or Not on booleans."""
    require(data, "data", (*INTEGERS, _BOOL))
    return b.op("Not" if data.dtype == _BOOL else "BitwiseNot", data)


def _register_shift(op_type: str, emit: Callable[[Builder, ir.Value, ir.Value], ir.Value]) -> None:
    def lower(
        b: Builder,
        a: ir.Value,
        c: ir.Value,
        /,
        *,
        auto_broadcast: AutoBroadcast = "numpy",
        auto_broadcast_auto_broadcast_axis: int = 0,
    ) -> ir.Value:
        if auto_broadcast == "pdpd" and a.shape != c.shape:
            PDPD_SHIFT.warn(b)
        return emit(b, *aligned(b, a, c, auto_broadcast, auto_broadcast_auto_broadcast_axis))

    lower.__doc__ = emit.__doc__
    REGISTRY.lowering(op_type, since=15, how="composed")(lower)


def _left_shift(b: Builder, x: ir.Value, y: ir.Value) -> ir.Value:
    """BitShift of the bits as an unsigned integer."""
    return _shift(b, x, y, "LEFT")


def _right_shift(b: Builder, x: ir.Value, y: ir.Value) -> ir.Value:
    """BitShift; of negative numbers between two BitwiseNots, so that the sign stays."""
    if x.dtype in UNSIGNED:
        return _shift(b, x, y, "RIGHT")
    dtype = dtype_of(x)
    wide = b.cast(x, ir.DataType.INT64 if dtype.bitwidth == 64 else ir.DataType.INT32)
    negative = b.op("Less", wide, scalar(b, 0, wide))
    ones = b.cast(b.typed(b.op("Neg", b.cast(b.typed(negative, _BOOL, None), dtype_of(wide))), wide.dtype, None), dtype)
    flipped = b.typed(b.op("BitwiseXor", x, ones), dtype, None)
    return b.op("BitwiseXor", _shift(b, flipped, y, "RIGHT"), ones)


def _shift(b: Builder, x: ir.Value, y: ir.Value, direction: str) -> ir.Value:
    require(x, "input 0", INTEGERS)
    dtype = dtype_of(x)
    inner = _SHIFTED[dtype.bitwidth]
    bits = b.op("BitShift", b.cast(x, inner), b.cast(y, inner), direction=direction)
    return b.cast(b.typed(bits, inner, None), dtype)


_register_shift("BitwiseLeftShift", _left_shift)
_register_shift("BitwiseRightShift", _right_shift)
