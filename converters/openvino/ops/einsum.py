"""Einsum."""

from __future__ import annotations

import onnx_ir as ir

from ortconv.converters.openvino.lib.broadcasting import rank_of
from ortconv.converters.openvino.lib.compute_types import compute, dtype_of, saturated, saturates
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import ShapeError, UnsupportedAttributeError
from ortconv.graph.builder import Builder
from ortconv.model_io.protos import EQUATION


@REGISTRY.lowering("Einsum", since=7, how="exact")
def einsum(b: Builder, *inputs: ir.Value, equation: str) -> ir.Value:
    """Einsum, of inputs whose ellipses cover as many axes."""
    if not EQUATION.fullmatch(equation.replace(" ", "")):
        raise UnsupportedAttributeError(
            "equation", equation, "terms of letters and ..., separated by commas, and perhaps -> and a term"
        )
    equation = _explicit(equation)
    inputs = _with_equal_ellipses(b, inputs, equation)
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


def _with_equal_ellipses(b: Builder, inputs: tuple[ir.Value, ...], equation: str) -> tuple[ir.Value, ...]:
    """Puts axes of size 1 before those that shorter ellipses cover; in ONNX all have to cover as many.

    Inputs are not changed where a rank is not known.

    Raises:
        ShapeError: An input has fewer axes than its term has letters.
    """
    terms = equation.split("->")[0].split(",")
    if len(terms) != len(inputs) or any(value.shape is None for value in inputs):
        return inputs
    covered = []
    for number, (term, value) in enumerate(zip(terms, inputs, strict=True)):
        letters = len(term.replace("...", ""))
        own = rank_of(value, f"input {number}") - letters
        if own < 0:
            raise ShapeError(f"input {number}", value.shape, f"term {term} needs at least {letters} axes.")
        covered.append(own if "..." in term else 0)
    return tuple(
        _unsqueezed(b, value, term.index("..."), max(covered) - own) if "..." in term and own < max(covered) else value
        for term, value, own in zip(terms, inputs, covered, strict=True)
    )


def _unsqueezed(b: Builder, value: ir.Value, first: int, count: int) -> ir.Value:
    """Puts axes of size 1 in front of axis `first` of a value of known rank."""
    assert value.shape is not None
    axes = list(range(first, first + count))
    shape = [*value.shape[:first], *[1] * count, *value.shape[first:]]
    return b.typed(b.op("Unsqueeze", value, b.constant(axes)), dtype_of(value), ir.Shape(shape))
