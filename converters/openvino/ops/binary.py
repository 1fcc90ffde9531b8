"""Elementwise ops of two operands, and Select.

Integers are computed in the declared type and wrap around, as OpenVINO's reference implementation does; the pages do
not speak of overflow. OpenVINO's CPU plugin saturates sums, differences and products of 8-bit integers, and divides
integers in float; ``--semantics runtime`` does the same.
"""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from ortconv.builder import Builder
from ortconv.converters.openvino.ops.broadcasting import AutoBroadcast, aligned
from ortconv.converters.openvino.ops.compression import dequantized
from ortconv.converters.openvino.ops.types import (
    FLOATS,
    INTEGERS,
    SIGNED,
    apply,
    compute,
    dtype_of,
    require,
    saturated,
    saturates,
)
from ortconv.converters.openvino.registry import REGISTRY

Emit = Callable[[Builder, ir.Value, ir.Value], ir.Value]

_SATURATING = {"Add": "Add", "Subtract": "Sub", "Multiply": "Mul"}
_PLAIN = {"Maximum": "Max", "Minimum": "Min"}
_COMPARISONS = {
    "Equal": "Equal",
    "Greater": "Greater",
    "GreaterEqual": "GreaterOrEqual",
    "Less": "Less",
    "LessEqual": "LessOrEqual",
}
_LOGICAL = {"LogicalAnd": "And", "LogicalOr": "Or", "LogicalXor": "Xor"}
_UNTIL = {"LogicalXor": 2}
"""Last version, where OpenVINO writes another than the first."""

_LARGEST_EXPONENT = 64


def _binary(op_type: str, doc: str | None = None) -> Callable[[Emit], Emit]:
    """Registers an emitter of two broadcast operands as the lowering of an op."""

    def register(emit: Emit) -> Emit:
        def lower(
            b: Builder,
            a: ir.Value,
            c: ir.Value,
            /,
            *,
            auto_broadcast: AutoBroadcast = "numpy",
            auto_broadcast_auto_broadcast_axis: int = -1,
        ) -> ir.Value:
            return emit(b, *aligned(b, a, c, auto_broadcast, auto_broadcast_auto_broadcast_axis))

        lower.__doc__ = doc or emit.__doc__
        REGISTRY.lowering(op_type, until=_UNTIL.get(op_type))(lower)
        return emit

    return register


def _saturating(onnx_op: str) -> Emit:
    def emit(b: Builder, x: ir.Value, y: ir.Value) -> ir.Value:
        weights = dequantized(b, x, y) if onnx_op == "Mul" else None
        if weights is not None:
            return weights
        if not saturates(b, x.dtype):
            return apply(b, onnx_op, x, y, modular=True)
        wide = b.op(onnx_op, b.cast(x, ir.DataType.INT32), b.cast(y, ir.DataType.INT32))
        return saturated(b, wide, dtype_of(x))

    return emit


def _plain(onnx_op: str) -> Emit:
    return lambda b, x, y: apply(b, onnx_op, x, y)


def _comparison(onnx_op: str) -> Emit:
    return lambda b, x, y: apply(b, onnx_op, x, y, result=ir.DataType.BOOL)


def _logical(onnx_op: str) -> Emit:
    def emit(b: Builder, x: ir.Value, y: ir.Value) -> ir.Value:
        require(x, "input 0", [ir.DataType.BOOL])
        require(y, "input 1", [ir.DataType.BOOL])
        return b.op(onnx_op, x, y)

    return emit


for _table, _make in ((_SATURATING, _saturating), (_PLAIN, _plain), (_COMPARISONS, _comparison), (_LOGICAL, _logical)):
    for _op_type, _onnx_op in _table.items():
        _binary(_op_type, f"{_onnx_op}.")(_make(_onnx_op))


@_binary("NotEqual")
def _not_equal(b: Builder, x: ir.Value, y: ir.Value) -> ir.Value:
    """Not of Equal."""
    return b.op("Not", apply(b, "Equal", x, y, result=ir.DataType.BOOL))


@_binary("SquaredDifference")
def _squared_difference(b: Builder, x: ir.Value, y: ir.Value) -> ir.Value:
    """Mul of a Sub with itself."""

    def square(x: ir.Value, y: ir.Value) -> ir.Value:
        difference = b.op("Sub", x, y)
        return b.op("Mul", difference, difference)

    if saturates(b, x.dtype):
        return saturated(b, square(b.cast(x, ir.DataType.INT32), b.cast(y, ir.DataType.INT32)), dtype_of(x))
    return compute(b, square, x, y, kernels=("Mul", "Sub"), modular=True)


@_binary("Mod")
def _mod(b: Builder, x: ir.Value, y: ir.Value) -> ir.Value:
    """Mod with fmod, whose sign is the dividend's; on signed integers the rest of a Div."""
    if x.dtype not in SIGNED:
        return apply(b, "Mod", x, y, fmod=int(x.dtype in FLOATS))
    # ONNX Runtime's fmod of integers goes by way of doubles.
    return compute(b, lambda x, y: _rest(b, x, y, b.op("Div", x, y)), x, y, kernels=("Div", "Mul", "Sub"))


@_binary("FloorMod")
def _floor_mod(b: Builder, x: ir.Value, y: ir.Value) -> ir.Value:
    """Mod, whose sign is the divisor's; x - Floor(x / y) * y on floats."""
    if x.dtype in INTEGERS:
        return apply(b, "Mod", x, y)
    return compute(
        b,
        lambda x, y: _rest(b, x, y, b.op("Floor", b.op("Div", x, y))),
        x,
        y,
        kernels=("Div", "Floor", "Mul", "Sub"),
    )


@_binary("Power")
def _power(b: Builder, x: ir.Value, y: ir.Value) -> ir.Value:
    """Pow; repeated Mul of 64-bit integers with a constant exponent."""
    if x.dtype not in (ir.DataType.INT64, ir.DataType.UINT64):
        return apply(b, "Pow", x, y)
    # ONNX Runtime's Pow of 64-bit integers goes by way of doubles; OpenVINO's CPU plugin has 32 bits.
    exponent = b.array(y)
    if exponent is None or exponent.size != 1 or not 1 <= exponent.item() <= _LARGEST_EXPONENT:
        b.warn("64-bit integers: powers beyond 2^53 are rounded; OpenVINO's CPU plugin keeps 32 bits")
        wide = [b.cast(operand, ir.DataType.INT64) for operand in (x, y)]
        return b.cast(b.typed(b.op("Pow", *wide), ir.DataType.INT64, None), dtype_of(x))
    base = b.op("Expand", x, b.constant([1] * exponent.ndim)) if exponent.ndim else x
    result = _raised(b, base, int(exponent.item()))
    return b.op("Identity", x) if result is x else result


@REGISTRY.lowering("Divide")
def divide(
    b: Builder,
    a: ir.Value,
    c: ir.Value,
    /,
    *,
    m_pythondiv: bool = True,
    auto_broadcast: AutoBroadcast = "numpy",
    auto_broadcast_auto_broadcast_axis: int = -1,
) -> ir.Value:
    """Div; on signed integers with the quotient rounded down (m_pythondiv) or toward zero."""
    x, y = aligned(b, a, c, auto_broadcast, auto_broadcast_auto_broadcast_axis)
    if x.dtype not in SIGNED:
        return apply(b, "Div", x, y)
    b.warn("OpenVINO's CPU plugin divides integers in float32 and truncates; the page rounds the quotient down")
    if b.options.semantics == "runtime":
        quotient = b.op("Div", b.cast(x, ir.DataType.FLOAT), b.cast(y, ir.DataType.FLOAT))
        truncated = b.typed(b.op("Cast", quotient, to=int(ir.DataType.INT32)), ir.DataType.INT32, None)
        return b.cast(truncated, dtype_of(x))
    if not m_pythondiv:
        return apply(b, "Div", x, y)

    def floored(x: ir.Value, y: ir.Value) -> ir.Value:
        # Mod has the divisor's sign, the rest of a truncated quotient the dividend's: they differ where 1 is missing.
        truncated = b.op("Div", x, y)
        exact = b.op("Equal", _rest(b, x, y, truncated), b.op("Mod", x, y))
        return b.op("Sub", truncated, b.op("Cast", b.op("Not", exact), to=int(dtype_of(x))))

    return compute(b, floored, x, y, kernels=("Div", "Equal", "Mod", "Mul", "Sub"))


@REGISTRY.lowering("Select")
def select(
    b: Builder,
    cond: ir.Value,
    then: ir.Value,
    otherwise: ir.Value,
    /,
    *,
    auto_broadcast: AutoBroadcast = "numpy",
    auto_broadcast_auto_broadcast_axis: int = -1,
) -> ir.Value:
    """Where."""
    require(cond, "cond", [ir.DataType.BOOL])
    then, otherwise = aligned(b, then, otherwise, auto_broadcast, auto_broadcast_auto_broadcast_axis)
    _, mask = aligned(b, then, cond, auto_broadcast, auto_broadcast_auto_broadcast_axis)
    return compute(b, lambda yes, no: b.op("Where", mask, yes, no), then, otherwise, kernels=("Where",), modular=True)


def _rest(b: Builder, x: ir.Value, y: ir.Value, quotient: ir.Value) -> ir.Value:
    return b.op("Sub", x, b.op("Mul", quotient, y))


def _raised(b: Builder, base: ir.Value, exponent: int) -> ir.Value:
    """Multiplies by repeated squaring; products wrap around."""
    result: ir.Value | None = None
    while exponent:
        if exponent & 1:
            result = base if result is None else b.op("Mul", result, base)
        exponent >>= 1
        if exponent:
            base = b.op("Mul", base, base)
    assert result is not None
    return result
