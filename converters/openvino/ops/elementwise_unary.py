"""Elementwise arithmetic and logic of one operand."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.activation_formulas import softplus_of
from ortconv.converters.openvino.lib.compute_types import (
    FLOATS,
    INTEGERS,
    apply,
    compute,
    dtype_of,
    require,
    rounded,
    saturates,
    scalar,
    warn_of_float32_integers,
)
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.graph.builder import Builder

_NUMERIC = {"Abs": "Abs", "Negative": "Neg", "Sign": "Sign"}
_SATURATING = ("Abs", "Neg")
_ROUNDING = {"Ceiling": "Ceil", "Floor": "Floor"}
_FRACTIONAL = {
    1: ("Acos", "Asin", "Atan", "Cos", "Cosh", "Erf", "Exp", "Sigmoid", "Sin", "Sinh", "Sqrt", "Tan", "Tanh"),
    4: ("Acosh", "Asinh", "Atanh"),
}
"""Ops with the same name in ONNX and fractional results, by the opset that introduced them."""
_PARTIAL = ("Acos", "Acosh", "Asin", "Atanh", "Log", "Sqrt")
_NAN_AS = {ir.DataType.INT8: -128, ir.DataType.UINT8: 255}
"""Results of OpenVINO's CPU plugin outside of the domain; wider integers get the minimum of int32."""


def _register_numeric(op_type: str, onnx_op: str) -> None:
    def lower(b: Builder, data: ir.Value, /) -> ir.Value:
        if data.dtype == ir.DataType.INT8 and onnx_op in _SATURATING and saturates(b, data.dtype):
            data = b.typed(b.op("Max", data, scalar(b, -127, data)), data.dtype, data.shape)
        if onnx_op == "Sign" and data.dtype == ir.DataType.INT64:
            return _sign(b, data)
        return apply(b, onnx_op, data, modular=onnx_op == "Neg")

    lower.__doc__ = f"{onnx_op}."
    REGISTRY.lowering(op_type)(lower)


def _sign(b: Builder, data: ir.Value) -> ir.Value:
    """Emits two comparisons: to ONNX Runtime's Sign of int64, 2^31 is below 0."""
    zero = scalar(b, 0, data)
    above, below = (
        b.op("Cast", b.op("Less", *pair), to=int(ir.DataType.INT64)) for pair in ((zero, data), (data, zero))
    )
    return b.op("Sub", above, below)


def _register_rounding(op_type: str, onnx_op: str) -> None:
    def lower(b: Builder, data: ir.Value, /) -> ir.Value:
        if data.dtype not in INTEGERS:
            return apply(b, onnx_op, data)
        warn_of_float32_integers(b, data)
        return b.op("Identity", data)

    lower.__doc__ = f"{onnx_op}; Identity on integers."
    REGISTRY.lowering(op_type)(lower)


def _register_fractional(op_type: str, since: int) -> None:
    def lower(b: Builder, data: ir.Value, /) -> ir.Value:
        return _fractional(b, op_type, data)

    lower.__doc__ = f"{op_type}; on integers rounded to the nearest."
    REGISTRY.lowering(op_type, since=since, how="exact")(lower)


def _fractional(b: Builder, op_type: str, data: ir.Value) -> ir.Value:
    require(data, "data", (*FLOATS, *INTEGERS))
    bound = _NAN_AS.get(dtype_of(data)) if op_type in _PARTIAL else None

    def formula(x: ir.Value) -> ir.Value:
        value = b.op(op_type, x)
        return value if bound is None else b.op("Where", b.op("IsNaN", value), b.constant(bound, np.float32), value)

    return rounded(b, formula, data, op_types=(op_type,))


for _table, _register in ((_NUMERIC, _register_numeric), (_ROUNDING, _register_rounding)):
    for _op_type, _onnx_op in _table.items():
        _register(_op_type, _onnx_op)
for _since, _op_types in _FRACTIONAL.items():
    for _op_type in _op_types:
        _register_fractional(_op_type, _since)


@REGISTRY.lowering("Log", how="exact")
def log(b: Builder, data: ir.Value, /) -> ir.Value:
    """Log; rounded to nearest on integers; Log(Sigmoid(x)) becomes -Softplus(-x).

    ONNX Runtime's Sigmoid has an absolute error of 1e-7 and is 0 below -18, where Log gives -infinity.
    """
    producer = data.producer()
    if producer is None or (producer.domain, producer.op_type) != ("", "Sigmoid"):
        return _fractional(b, "Log", data)
    negated = b.typed(b.op("Neg", producer.inputs[0]), data.dtype, data.shape)
    return b.op("Neg", softplus_of(b, negated))


@REGISTRY.lowering("LogicalNot")
def logical_not(b: Builder, data: ir.Value, /) -> ir.Value:
    """Not; of numbers 1 where they are 0, and 0 elsewhere."""
    if data.dtype == ir.DataType.BOOL:
        return b.op("Not", data)
    require(data, "data", (*FLOATS, *INTEGERS))
    zero = scalar(b, 0, data)
    return b.op("Cast", apply(b, "Equal", data, zero, result=ir.DataType.BOOL), to=int(dtype_of(data)))


@REGISTRY.lowering("IsNaN", since=10, how="exact")
def is_nan(b: Builder, data: ir.Value, /) -> ir.Value:
    """IsNaN."""
    require(data, "data", FLOATS)
    return apply(b, "IsNaN", data, result=ir.DataType.BOOL)


@REGISTRY.lowering("IsInf", since=10, how="exact")
def is_inf(b: Builder, data: ir.Value, /, *, detect_negative: bool = True, detect_positive: bool = True) -> ir.Value:
    """IsInf."""
    require(data, "data", FLOATS)
    signs: dict[str, Any] = {"detect_negative": int(detect_negative), "detect_positive": int(detect_positive)}
    return apply(b, "IsInf", data, result=ir.DataType.BOOL, **signs)


@REGISTRY.lowering("IsFinite", since=10)
def is_finite(b: Builder, data: ir.Value, /) -> ir.Value:
    """Abs(x) < infinity, which is false for NaN."""
    require(data, "data", FLOATS)
    return compute(
        b,
        lambda x: b.op("Less", b.op("Abs", x), scalar(b, math.inf, x)),
        data,
        op_types=("Abs", "Less"),
        result=ir.DataType.BOOL,
    )


@REGISTRY.lowering("Round", since=5)
def round_(
    b: Builder, data: ir.Value, /, *, mode: Literal["half_to_even", "half_away_from_zero"] = "half_to_even"
) -> ir.Value:
    """Round, or for half_away_from_zero a formula of Floor; Identity on integers."""
    warn_of_float32_integers(b, data)
    if data.dtype in (*INTEGERS, ir.DataType.BOOL):
        return b.op("Identity", data)
    if mode == "half_to_even":
        return apply(b, "Round", data)

    def half_away(x: ir.Value) -> ir.Value:
        # Not Floor(|x| + 0.5): that sum rounds up to 1 for the largest float below 0.5.
        size = b.op("Abs", x)
        whole = b.op("Floor", size)
        up = b.op("GreaterOrEqual", b.op("Sub", size, whole), scalar(b, 0.5, x))
        return b.op("Mul", b.op("Sign", x), b.op("Add", whole, b.op("Cast", up, to=int(dtype_of(x)))))

    return compute(b, half_away, data, op_types=("Abs", "Add", "Floor", "GreaterOrEqual", "Mul", "Sign", "Sub"))
