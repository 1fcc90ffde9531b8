"""The operators for transposed convolutions of 8-bit integers.

``TransposedConvolutionIntegerToFloat`` scales its exact sums to float, ``QLinearTransposedConvolution`` quantizes them
again, as ONNX's QLinearConv does, and ``QLinearTransposedConvolutionAdd`` adds a quantized residual before. Their
function bodies convolve the integers as floats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx.defs
from onnx import TensorProto

from ortconv.opset.bodies import quantized_convolutions
from ortconv.opset.convolution_terms import ACTIVATION
from ortconv.opset.inferred_node import Dim, InferredNode, differ
from ortconv.opset.operator import Attribute, Epilogue, Formal, Operator, Type
from ortconv.opset.ops.convolution_family import (
    GRID,
    PADDED,
    check_activation,
    merged_residual,
    transposed_channels,
    transposed_sizes,
)
from ortconv.opset.reference.quantized_convolutions import (
    qlinear_transposed_convolution,
    qlinear_transposed_convolution_add,
    sums_with_residual,
    transposed_convolution_integer_to_float,
)

__all__ = [
    "ACTIVATED",
    "QLINEAR_TRANSPOSED_CONVOLUTION",
    "QLINEAR_TRANSPOSED_CONVOLUTION_ADD",
    "QUANTIZED",
    "RESULT",
    "TRANSPOSED_CONVOLUTION_INTEGER_TO_FLOAT",
    "TYPES",
    "check_numbers",
    "quantize",
]

_SUMS = """V = (the sum over taps of (X - x_zero_point) * (W - w_zero_point)) * (x_scale * w_scale) + B, where W is
[C, M/group, kernel...], and scale and bias are those of output channel M. The sums are those of TransposedConvolution
with the same attributes, exact in 32 bits, which wrap; positions that no kernel tap reaches are 0. Every operation
after them is rounded to float."""
ACTIVATED = "the activation: times slope if negative, then clipped"
QUANTIZED = "quantized as QuantizeLinear does: V / y_scale, rounded to the nearest, ties to even, + y_zero_point."

_INTEGERS = (TensorProto.UINT8, TensorProto.INT8)
_Kind = onnx.defs.OpSchema.AttrType

_ATTRIBUTES = (
    *GRID,
    *PADDED,
    Attribute(ACTIVATION, _Kind.FLOATS, "[slope, minimum, maximum]; [1, -inf, inf] changes nothing."),
)
_OPERANDS = (
    Formal("X", "T1", "Data [N, C, spatial...], of three to eight axes."),
    Formal("x_scale", "F", "One number: a scalar, or [1]."),
    Formal("x_zero_point", "T1", "One number."),
    Formal("W", "T2", "Weights [C, M/group, kernel...]."),
    Formal("w_scale", "F", "One number, or one for each output channel: [M]."),
    Formal("w_zero_point", "T2", "One number."),
)
RESULT = (Formal("y_scale", "F", "One number."), Formal("y_zero_point", "T3", "One number."))
_BIAS = Formal("B", "F", "Bias [M].")
TYPES = {
    "T1": Type(_INTEGERS, "Integers of the data."),
    "T2": Type(_INTEGERS, "Integers of the weights."),
    "T3": Type(_INTEGERS, "Integers of the result."),
    "F": Type((TensorProto.FLOAT,), "Floats."),
}
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
        accumulation=dict.fromkeys(_INTEGERS, TensorProto.FLOAT),
        infer=infer,
        oldest_opset=quantized_convolutions.OLDEST,
        text=lambda opset, switches: quantized_convolutions.transposed_convolution(
            opset, is_quantized="y_scale" in names, residual="R" in names
        ),
        reference=reference,
        epilogue=None if sums is None else Epilogue(sums, (), quantize, tuple(each.name for each in RESULT)),
    )


def quantize(attributes: Mapping[str, Any], sums: np.dtype[Any]) -> str:
    """Returns the nodes of an `Epilogue` that quantizes."""
    return quantized_convolutions.quantized("sums")


def _infer(node: InferredNode, names: tuple[str, ...]) -> list[Dim] | None:
    """Checks a node; returns the shape of Y, or None if its rank is not known."""
    rank = len(node.integers("strides")) + 2
    if not 3 <= rank <= 8:
        raise node.fail(f"attribute strides has {rank - 2} integers; allowed: 1 to 6, one for each spatial axis")
    check_activation(node, allowed=True)
    x, w = node.dims(0), node.dims(names.index("W"))
    for name, dims in (("X", x), ("W", w)):
        if dims is not None and len(dims) != rank:
            raise node.fail(f"{name} has rank {len(dims)}; allowed: {rank}, as strides says")
    unknown: list[Dim] = [None] * rank
    data, weights = x or unknown, w or unknown
    channels = transposed_channels(node, data[1], weights, node.positive("group"))
    for index, name in enumerate(names):
        if name.endswith(("_scale", "_zero_point")):
            check_numbers(node, index, name, channels if name == "w_scale" else 1)
    bias = node.dims(names.index("B"))
    if bias is not None and (len(bias) != 1 or differ(bias[0], channels)):
        raise node.fail(f"B has shape {bias}; allowed: [{'M' if channels is None else channels}]")
    for axis, taps in enumerate(weights[2:]):
        if isinstance(taps, int) and taps < 1:
            raise node.fail(f"spatial axis {axis}: the kernel has size {taps}; allowed: at least 1")
    y = [data[0], channels, *transposed_sizes(node, data[2:], weights[2:])]
    if "R" in names:
        return merged_residual(node, y, names.index("R"))
    return None if x is None and w is None else y


def check_numbers(node: InferredNode, index: int, name: str, count: Dim) -> None:
    """Refuses the shape of an input that is not one number, or one for each of `count` channels: [count]."""
    given = node.dims(index)
    if given is None or len(given) == 0 or (len(given) == 1 and not (differ(given[0], 1) and differ(given[0], count))):
        return
    allowed = "one number" if count == 1 else f"one number, or [{'M' if count is None else count}]"
    raise node.fail(f"{name} has shape {given}; allowed: {allowed}")


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
