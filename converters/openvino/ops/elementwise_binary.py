"""Elementwise ops of two operands, and Select.

The specifications do not define overflow. As in OpenVINO's CPU plugin, sums, differences, products and powers of 8-bit
integers saturate, and quotients, rests and powers of integers are computed in float32 and truncated, so that a zero
divisor gives a number. Wider integers wrap around in their own type, where the plugin has 32 bits.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.broadcasting import AutoBroadcast, aligned, rank_of
from ortconv.converters.openvino.lib.compute_types import (
    INTEGERS,
    SIGNED,
    apply,
    compute,
    dtype_of,
    is_static,
    name,
    require,
    saturated,
    saturates,
    scalar,
    truncated,
    warn_of_float32_integers,
)
from ortconv.converters.openvino.lib.int64_extrema import extreme
from ortconv.converters.openvino.plugin_bugs.elementwise import UINT8_PRODUCT, UINT8_SQUARED_DIFFERENCE
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.converters.openvino.weights.dequantization import dequantized
from ortconv.graph.builder import Builder

Emit = Callable[[Builder, ir.Value, ir.Value], ir.Value]

_SATURATING = {"Add": "Add", "Subtract": "Sub", "Multiply": "Mul"}
_EXTREMES = {"Maximum": "Max", "Minimum": "Min"}
_COMPARISONS = {
    "Equal": "Equal",
    "Greater": "Greater",
    "GreaterEqual": "GreaterOrEqual",
    "Less": "Less",
    "LessEqual": "LessOrEqual",
}
_LOGICAL = {"LogicalAnd": "And", "LogicalOr": "Or", "LogicalXor": "Xor", "Xor": "Xor"}
_UNTIL = {"LogicalXor": 2}
"""Last version of ops that OpenVINO writes in more than one."""

_F32 = ir.DataType.FLOAT
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
            auto_broadcast_auto_broadcast_axis: int = 0,
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
        if (onnx_op != "Mul" and _folded(b, x, y)) or not saturates(b, x.dtype):
            return apply(b, onnx_op, x, y, modular=True)
        if onnx_op == "Mul":
            _warn_of_lost_products(b, x, y)
        wide = b.op(onnx_op, b.cast(x, ir.DataType.INT32), b.cast(y, ir.DataType.INT32))
        return saturated(b, wide, dtype_of(x))

    return emit


def _warn_of_lost_products(b: Builder, x: ir.Value, y: ir.Value) -> None:
    """Warns of u8 products and powers, which OpenVINO's CPU plugin converts through signed 16 bits."""
    if x.dtype == ir.DataType.UINT8 and not (is_static(x) and is_static(y)):
        UINT8_PRODUCT.warn(b)


def _extreme(onnx_op: str) -> Emit:
    return lambda b, x, y: extreme(b, onnx_op, x, y)


def _comparison(onnx_op: str) -> Emit:
    return lambda b, x, y: apply(b, onnx_op, x, y, result=ir.DataType.BOOL)


def _logical(onnx_op: str) -> Emit:
    def emit(b: Builder, x: ir.Value, y: ir.Value) -> ir.Value:
        require(x, "input 0", [ir.DataType.BOOL])
        require(y, "input 1", [ir.DataType.BOOL])
        return b.op(onnx_op, x, y)

    return emit


for _table, _make in (
    (_SATURATING, _saturating),
    (_EXTREMES, _extreme),
    (_COMPARISONS, _comparison),
    (_LOGICAL, _logical),
):
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

    if dtype_of(x).bitwidth == 8:
        if is_static(x) and is_static(y):
            UINT8_SQUARED_DIFFERENCE.warn(b)
        b.note(f"{name(x.dtype)} overflow saturates; the specification does not define it")
        return saturated(b, square(b.cast(x, ir.DataType.INT32), b.cast(y, ir.DataType.INT32)), dtype_of(x))
    return compute(b, square, x, y, op_types=("Mul", "Sub"), modular=True)


@_binary("Mod")
def _mod(b: Builder, x: ir.Value, y: ir.Value) -> ir.Value:
    """Mod; of floats the remainder of the quotient rounded toward zero, which is exact for powers of two."""
    if x.dtype not in INTEGERS:
        divisor = b.array(y)
        if divisor is not None and (np.abs(np.frexp(divisor.astype(np.float64))[0]) == 0.5).all():
            return apply(b, "Mod", x, y, fmod=1)  # a quotient by a power of two is exact
        op_types = ("Div", "Mod", "Mul", "Sub")
        return compute(b, lambda x, y: _rest(b, x, y, _truncated(b, b.op("Div", x, y), x)), x, y, op_types=op_types)
    exact = _exact_divisor(b, x, y)
    if exact is None:
        return _in_single(b, lambda x, y: _rest(b, x, y, _truncated(b, b.op("Div", x, y), x)), x, y)
    if x.dtype not in SIGNED:
        return apply(b, "Mod", x, exact)
    # ONNX Runtime computes fmod of integers in double.
    return compute(b, lambda x, y: _rest(b, x, y, b.op("Div", x, y)), x, exact, op_types=("Div", "Mul", "Sub"))


@_binary("FloorMod")
def _floor_mod(b: Builder, x: ir.Value, y: ir.Value) -> ir.Value:
    """The remainder of the Floor of the quotient, with the divisor's sign; of integers mostly in float32, or Mod."""
    divisor = _exact_divisor(b, x, y) if x.dtype in INTEGERS else None
    if divisor is not None:
        return apply(b, "Mod", x, divisor)

    def rest(x: ir.Value, y: ir.Value) -> ir.Value:
        return _rest(b, x, y, b.op("Floor", b.op("Div", x, y)))

    if x.dtype in INTEGERS:
        return _in_single(b, rest, x, y)
    return compute(b, rest, x, y, op_types=("Div", "Floor", "Mul", "Sub"))


@_binary("Power")
def _power(b: Builder, x: ir.Value, y: ir.Value) -> ir.Value:
    """Pow; on integers in float32 and truncated, but for repeated Mul of 64 bits with a constant exponent."""
    if x.dtype not in INTEGERS:
        return apply(b, "Pow", x, y)
    exponent = b.array(y)
    if saturates(b, x.dtype):
        _warn_of_lost_products(b, x, y)
    if (
        dtype_of(x).bitwidth < 64
        or exponent is None
        or exponent.size != 1
        or not 1 <= exponent.item() <= _LARGEST_EXPONENT
    ):
        return _in_single(b, lambda x, y: b.op("Pow", x, y), x, y)
    warn_of_float32_integers(b, x, may_overflow=True)
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
    auto_broadcast_auto_broadcast_axis: int = 0,
) -> ir.Value:
    """Div; integers with a non-constant divisor in float32, truncated whatever m_pythondiv is.

    Quotients of two constants, and most of pdpd, are exact, and rounded down where m_pythondiv says so.
    """
    x, y = aligned(b, a, c, auto_broadcast, auto_broadcast_auto_broadcast_axis)
    if x.dtype not in INTEGERS:
        return apply(b, "Div", x, y)
    if auto_broadcast == "pdpd" and not _in_bytes(a, c):
        return _exact_quotient(b, x, y, floored=m_pythondiv)
    if x.dtype in SIGNED and m_pythondiv and _folded(b, x, y) and _divides(b, y, x):
        return _floored(b, x, y)
    if x.dtype in SIGNED and m_pythondiv:
        b.follow("follows OpenVINO's CPU plugin: quotients are truncated, the specification of Divide-1 rounds down")
    rounds = dtype_of(x).bitwidth == 8 and not (is_static(x) and is_static(y))
    if rounds:
        b.follow("follows OpenVINO's CPU plugin: 8-bit quotients are rounded to nearest in dynamic shapes")
    if _divides(b, y) and not rounds:
        return apply(b, "Div", x, y)

    def quotient(x: ir.Value, y: ir.Value) -> ir.Value:
        exact = b.op("Div", x, y)
        return b.op("Round", exact) if rounds else exact

    return _in_single(b, quotient, x, y)


@REGISTRY.lowering("Select")
def select(
    b: Builder,
    cond: ir.Value,
    then: ir.Value,
    otherwise: ir.Value,
    /,
    *,
    auto_broadcast: AutoBroadcast = "numpy",
    auto_broadcast_auto_broadcast_axis: int = 0,
) -> ir.Value:
    """Where."""
    require(cond, "cond", [ir.DataType.BOOL])
    then, otherwise = aligned(b, then, otherwise, auto_broadcast, auto_broadcast_auto_broadcast_axis)
    _, mask = aligned(b, then, cond, auto_broadcast, auto_broadcast_auto_broadcast_axis)
    return compute(b, lambda yes, no: b.op("Where", mask, yes, no), then, otherwise, op_types=("Where",), modular=True)


def _folded(b: Builder, x: ir.Value, y: ir.Value) -> bool:
    """Tells whether OpenVINO computes a result when it reads the model, and not in its CPU plugin.

    Sums then wrap, and quotients are rounded down; products saturate all the same.
    """
    return b.array(x) is not None and b.array(y) is not None


def _divides(b: Builder, divisor: ir.Value, dividend: ir.Value | None = None) -> bool:
    """Tells whether integer Div is safe: the divisor is a constant without 0 and -1 (the minimum overflows)."""
    known = b.array(divisor)
    held = None if dividend is None else b.array(dividend)
    overflows = held is None or bool((held == np.iinfo(held.dtype).min).any())
    return known is not None and not np.isin(known, (0, -1) if overflows else (0,)).any()


def _exact_divisor(b: Builder, dividend: ir.Value, divisor: ir.Value) -> ir.Value | None:
    """Returns the divisor for an exact integer remainder, or None if OpenVINO's CPU plugin computes in float32.

    The plugin leaves pdpd to OpenVINO's reference, which is exact and fails on 0. A rest by -1 is that by 1, which does
    not overflow; that by 0 becomes 0.
    """
    by_reference = b.node.attributes.get("auto_broadcast") == "pdpd"
    if _divides(b, divisor):
        if not by_reference:
            warn_of_float32_integers(b, dividend)
        return divisor
    if not by_reference:
        return None

    def harmless(y: ir.Value) -> ir.Value:
        unfit = b.op("Equal", y, scalar(b, 0, y))
        if divisor.dtype in SIGNED:
            unfit = b.op("Or", unfit, b.op("Equal", y, scalar(b, -1, y)))
        return b.op("Where", unfit, scalar(b, 1, y), y)

    return compute(b, harmless, divisor, op_types=("Equal", "Where"), modular=True)


def _in_bytes(a: ir.Value, c: ir.Value) -> bool:
    """Tells whether OpenVINO's CPU plugin divides integers that pdpd broadcasts in their own 8 bits.

    The plugin does not support other shapes; wider types use OpenVINO's reference, as specified.
    """
    return dtype_of(a).bitwidth == 8 and is_static(a) and is_static(c) and rank_of(a, "a") == rank_of(c, "c")


def _exact_quotient(b: Builder, x: ir.Value, y: ir.Value, *, floored: bool) -> ir.Value:
    """Divides integers of up to 32 bits in float64, which is exact; 64-bit integers by a constant with Div.

    OpenVINO fails on a zero divisor; here it gives a number.
    """
    own = dtype_of(x)
    down = floored and own in SIGNED
    if own.bitwidth == 64 and _divides(b, y, x):
        return _floored(b, x, y) if down else apply(b, "Div", x, y)
    quotient = b.op("Div", b.cast(x, ir.DataType.DOUBLE), b.cast(y, ir.DataType.DOUBLE))
    whole = b.op("Floor", quotient) if down else quotient
    wide = own if own.bitwidth == 64 else ir.DataType.INT64
    return b.cast(b.typed(b.op("Cast", whole, to=int(wide)), wide, None), own)


def _floored(b: Builder, x: ir.Value, y: ir.Value) -> ir.Value:
    """Divides integers by what `_divides` allows, rounding down."""
    return compute(
        b, lambda x, y: b.op("Div", b.op("Sub", x, b.op("Mod", x, y)), y), x, y, op_types=("Div", "Mod", "Sub")
    )


def _in_single(b: Builder, formula: Callable[[ir.Value, ir.Value], ir.Value], x: ir.Value, y: ir.Value) -> ir.Value:
    """Emits a formula of integers in float32, truncated."""
    return truncated(b, formula(b.cast(x, _F32), b.cast(y, _F32)), dtype_of(x))


def _truncated(b: Builder, quotient: ir.Value, like: ir.Value) -> ir.Value:
    """Rounds a float toward zero."""
    return b.op("Sub", quotient, b.op("Mod", quotient, scalar(b, 1, like), fmod=1))


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
