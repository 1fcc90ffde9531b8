"""Activations as one ONNX op, or as formulas in float64, for which ONNX Runtime has no kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_ir as ir

from ortconv.converters.openvino.lib.compute_types import FLOATS, INTEGERS, compute, require, rounded_op, scalar
from ortconv.graph.builder import Builder

__all__ = ["op_or_formula", "softplus_formula", "softplus_of"]


def op_or_formula(
    b: Builder,
    x: ir.Value,
    onnx_op: str,
    formula: Callable[[ir.Value], ir.Value],
    op_types: tuple[str, ...],
    **attributes: Any,
) -> ir.Value:
    """Emits the ONNX op, or on float64 the formula."""
    require(x, "data", (*FLOATS, *INTEGERS))
    if x.dtype == ir.DataType.DOUBLE:
        return compute(b, formula, x, op_types=op_types)
    return rounded_op(b, onnx_op, x, **attributes)


def softplus_of(b: Builder, data: ir.Value) -> ir.Value:
    """Emits Softplus, or its formula in float64."""
    op_types = ("Abs", "Add", "Exp", "Log", "Max", "Neg")
    return op_or_formula(b, data, "Softplus", lambda x: softplus_formula(b, x), op_types)


def softplus_formula(b: Builder, x: ir.Value) -> ir.Value:
    """Emits log(1 + exp(x)) without overflow."""
    small = b.op("Log", b.op("Add", b.op("Exp", b.op("Neg", b.op("Abs", x))), scalar(b, 1, x)))
    return b.op("Add", b.op("Max", x, scalar(b, 0, x)), small)
