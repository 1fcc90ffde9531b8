"""The operators for transposed convolutions of 8-bit integers.

``TransposedConvolutionIntegerToFloat`` scales its exact sums to float, ``QLinearTransposedConvolution`` quantizes them
again, as ONNX's QLinearConv does, and ``QLinearTransposedConvolutionAdd`` adds a quantized residual before. Their
function bodies convolve the integers as floats.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy.typing as npt
from onnx import TensorProto

from ortconv.opset.bodies import quantized_convolutions
from ortconv.opset.inferred_node import Dim, InferredNode, differ
from ortconv.opset.operator import Epilogue, Formal, Operator
from ortconv.opset.ops.convolution_family import (
    GRID,
    PADDED,
    check_activation,
    merged_residual,
    transposed_channels,
    transposed_sizes,
)
from ortconv.opset.ops.quantized_terms import (
    ACTIVATED,
    ACTIVATION_NUMBERS,
    INTEGERS,
    QUANTIZED,
    RESULT,
    TYPES,
    check_numbers,
    data_and_weights,
    operands,
    quantize,
)
from ortconv.opset.reference.quantized_convolutions import (
    qlinear_transposed_convolution,
    qlinear_transposed_convolution_add,
    sums_with_residual,
    transposed_convolution_integer_to_float,
)

__all__ = [
    "QLINEAR_TRANSPOSED_CONVOLUTION",
    "QLINEAR_TRANSPOSED_CONVOLUTION_ADD",
    "TRANSPOSED_CONVOLUTION_INTEGER_TO_FLOAT",
]

_SUMS = """V = (the sum over taps of (X - x_zero_point) * (W - w_zero_point)) * (x_scale * w_scale) + B, where W is
[C, M/group, kernel...], and scale and bias are those of output channel M. The sums are those of TransposedConvolution
with the same attributes, exact in 32 bits, which wrap; positions that no kernel tap reaches are 0. Every operation
after them is rounded to float."""
_ATTRIBUTES = (*GRID, *PADDED, ACTIVATION_NUMBERS)
_OPERANDS = operands("[C, M/group, kernel...]")
_BIAS = Formal("B", "F", "Bias [M].")
_RESIDUAL = (
    Formal("R", "T3", "Residual, of the shape of Y."),
    Formal("r_scale", "F", "One number."),
    Formal("r_zero_point", "T3", "One number."),
)


def _operator(
    name: str,
    doc: str,
    inputs: tuple[Formal, ...],
    result: Formal,
    reference: Callable[..., npt.NDArray[Any]],
    sums: Callable[..., npt.NDArray[Any]] | None = None,
) -> Operator:
    """Returns an operator with these inputs after those of the sums; `sums` is its reference before it quantizes."""
    formals = (*_OPERANDS, *inputs)
    names = tuple(each.name for each in formals)

    def infer(node: InferredNode) -> list[Dim] | None:
        return _infer(node, names)

    return Operator(
        name=name,
        doc=f"{_SUMS} {doc}",
        types={name: type_ for name, type_ in TYPES.items() if any(each.type == name for each in formals)},
        inputs=formals,
        output=result,
        attributes=_ATTRIBUTES,
        accumulation=dict.fromkeys(INTEGERS, TensorProto.FLOAT),
        infer=infer,
        oldest_opset=quantized_convolutions.OLDEST,
        text=lambda opset, switches: quantized_convolutions.transposed_convolution(
            opset, is_quantized="y_scale" in names, residual="R" in names
        ),
        reference=reference,
        epilogue=None if sums is None else Epilogue(sums, (), quantize, tuple(each.name for each in RESULT)),
    )


def _infer(node: InferredNode, names: tuple[str, ...]) -> list[Dim] | None:
    """Checks a node; returns the shape of Y, or None if its rank is not known."""
    check_activation(node, allowed=True)
    data, weights, is_known = data_and_weights(node, names.index("W"))
    channels = transposed_channels(node, data[1], weights, node.positive("group"))
    for index, name in enumerate(names):
        if name.endswith(("_scale", "_zero_point")):
            check_numbers(node, index, name, channels if name == "w_scale" else 1)
    bias = node.dims(names.index("B"))
    if bias is not None and (len(bias) != 1 or differ(bias[0], channels)):
        raise node.fail(f"B has shape {bias}; allowed: [{'M' if channels is None else channels}]")
    y = [data[0], channels, *transposed_sizes(node, data[2:], weights[2:])]
    if "R" in names:
        return merged_residual(node, y, names.index("R"))
    return y if is_known else None


TRANSPOSED_CONVOLUTION_INTEGER_TO_FLOAT = _operator(
    "TransposedConvolutionIntegerToFloat",
    f"Y is V after {ACTIVATED}.",
    (_BIAS,),
    Formal("Y", "F", "The result [N, M, spatial...]."),
    transposed_convolution_integer_to_float,
)
QLINEAR_TRANSPOSED_CONVOLUTION = _operator(
    "QLinearTransposedConvolution",
    f"Y is V after {ACTIVATED}; then it is {QUANTIZED}",
    (*RESULT, _BIAS),
    Formal("Y", "T3", "The result [N, M, spatial...]."),
    qlinear_transposed_convolution,
    transposed_convolution_integer_to_float,
)
QLINEAR_TRANSPOSED_CONVOLUTION_ADD = _operator(
    "QLinearTransposedConvolutionAdd",
    f"Y is V + (R - r_zero_point) * r_scale after {ACTIVATED}; then it is {QUANTIZED}",
    (*RESULT, _BIAS, *_RESIDUAL),
    Formal("Y", "T3", "The result [N, M, spatial...]."),
    qlinear_transposed_convolution_add,
    sums_with_residual,
)
