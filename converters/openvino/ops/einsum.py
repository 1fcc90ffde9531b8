"""Einsum."""

from __future__ import annotations

import onnx_ir as ir

from ortconv.converters.openvino.lib.compute_types import compute, dtype_of, saturated, saturates
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import UnsupportedAttributeError
from ortconv.graph.builder import Builder
from ortconv.model_io.protos import EQUATION


@REGISTRY.lowering("Einsum", since=7, how="exact")
def einsum(b: Builder, *inputs: ir.Value, equation: str) -> ir.Value:
    """Einsum."""
    if not EQUATION.fullmatch(equation.replace(" ", "")):
        raise UnsupportedAttributeError(
            "equation", equation, "terms of letters and ..., separated by commas, and perhaps -> and a term"
        )
    equation = _explicit(equation)
    if inputs and saturates(b, inputs[0].dtype):
        wide = b.op("Einsum", *(b.cast(value, ir.DataType.INT32) for value in inputs), equation=equation)
        return saturated(b, b.typed(wide, ir.DataType.INT32, None), dtype_of(inputs[0]))
    return compute(b, lambda *values: b.op("Einsum", *values, equation=equation), *inputs, op_types=("Einsum",))


def _explicit(equation: str) -> str:
    """Appends the output term if the equation has none; ONNX infers a wrong shape for ``ii`` without it."""
    equation = equation.replace(" ", "")
    if "->" in equation:
        return equation
    letters = equation.replace("...", "").replace(",", "")
    kept = sorted(letter for letter in set(letters) if letters.count(letter) == 1)
    return f"{equation}->{'...' if '...' in equation else ''}{''.join(kept)}"
