"""Elementwise arithmetic and logic of one operand."""

from __future__ import annotations

from typing import Literal

import onnx_ir as ir

from ortconv.builder import Builder
from ortconv.converters.openvino.ops.types import FLOATS, INTEGERS, apply, compute, dtype_of, require, scalar
from ortconv.converters.openvino.registry import REGISTRY

NO_FRACTIONS = "The page does not say how a result with a fraction becomes an integer."

_NUMERIC = {"Abs": "Abs", "Negative": "Neg", "Sign": "Sign"}
_ROUNDING = {"Ceiling": "Ceil", "Floor": "Floor"}
_FLOAT = {"Erf": "Erf", "Exp": "Exp", "Log": "Log", "Sigmoid": "Sigmoid", "Sqrt": "Sqrt", "Tanh": "Tanh"}


def _register_numeric(op_type: str, onnx_op: str) -> None:
    def lower(b: Builder, data: ir.Value, /) -> ir.Value:
        return apply(b, onnx_op, data, modular=onnx_op == "Neg")

    lower.__doc__ = f"{onnx_op}."
    REGISTRY.lowering(op_type)(lower)


def _register_rounding(op_type: str, onnx_op: str) -> None:
    def lower(b: Builder, data: ir.Value, /) -> ir.Value:
        return b.op("Identity", data) if data.dtype in INTEGERS else apply(b, onnx_op, data)

    lower.__doc__ = f"{onnx_op}; Identity on integers."
    REGISTRY.lowering(op_type)(lower)


def _register_float(op_type: str, onnx_op: str) -> None:
    def lower(b: Builder, data: ir.Value, /) -> ir.Value:
        require(data, "data", FLOATS, hint=NO_FRACTIONS)
        return apply(b, onnx_op, data)

    lower.__doc__ = f"{onnx_op}."
    REGISTRY.lowering(op_type)(lower)


for _table, _register in ((_NUMERIC, _register_numeric), (_ROUNDING, _register_rounding), (_FLOAT, _register_float)):
    for _op_type, _onnx_op in _table.items():
        _register(_op_type, _onnx_op)


@REGISTRY.lowering("LogicalNot")
def logical_not(b: Builder, data: ir.Value, /) -> ir.Value:
    """Not."""
    require(data, "data", [ir.DataType.BOOL])
    return b.op("Not", data)


@REGISTRY.lowering("Round", since=5)
def round_(
    b: Builder, data: ir.Value, /, *, mode: Literal["half_to_even", "half_away_from_zero"] = "half_to_even"
) -> ir.Value:
    """Round, or for half_away_from_zero a formula of Floor; Identity on integers."""
    if data.dtype in INTEGERS:
        return b.op("Identity", data)
    if mode == "half_to_even":
        return apply(b, "Round", data)

    def half_away(x: ir.Value) -> ir.Value:
        # Not Floor(|x| + 0.5): that sum rounds up to 1 for the largest float below 0.5.
        size = b.op("Abs", x)
        whole = b.op("Floor", size)
        up = b.op("GreaterOrEqual", b.op("Sub", size, whole), scalar(b, 0.5, x))
        return b.op("Mul", b.op("Sign", x), b.op("Add", whole, b.op("Cast", up, to=int(dtype_of(x)))))

    return compute(b, half_away, data, kernels=("Abs", "Add", "Floor", "GreaterOrEqual", "Mul", "Sign", "Sub"))
