"""Schema entries and shape checks that the operators for convolutions of 8-bit integers share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx.defs
from onnx import TensorProto

from ortconv.opset.bodies import quantized_convolutions
from ortconv.opset.convolution_terms import ACTIVATION
from ortconv.opset.inferred_node import Dim, InferredNode, differ
from ortconv.opset.operator import Attribute, Formal, Type

__all__ = [
    "ACTIVATED",
    "ACTIVATION_NUMBERS",
    "INTEGERS",
    "QUANTIZED",
    "RESULT",
    "TYPES",
    "check_numbers",
    "data_and_weights",
    "operands",
    "quantize",
]

INTEGERS = (TensorProto.UINT8, TensorProto.INT8)

TYPES = {
    "T1": Type(INTEGERS, "Integers of the data."),
    "T2": Type(INTEGERS, "Integers of the weights."),
    "T3": Type(INTEGERS, "Integers of the result."),
    "F": Type((TensorProto.FLOAT,), "Floats."),
}

ACTIVATED = "the activation: times slope if negative, then clipped"
QUANTIZED = """divided by y_scale, rounded to the nearest integer, ties to even, plus y_zero_point, and saturated, as
QuantizeLinear does."""

ACTIVATION_NUMBERS = Attribute(
    ACTIVATION, onnx.defs.OpSchema.AttrType.FLOATS, "[slope, minimum, maximum]; [1, -inf, inf] changes nothing."
)
RESULT = (Formal("y_scale", "F", "One number."), Formal("y_zero_point", "T3", "One number."))


def operands(weights: str) -> tuple[Formal, ...]:
    """Returns the first inputs of an operator, with weights of this shape."""
    return (
        Formal("X", "T1", "Data [N, C, spatial...], of three to eight axes."),
        Formal("x_scale", "F", "One number: a scalar, or [1]."),
        Formal("x_zero_point", "T1", "One number."),
        Formal("W", "T2", f"Weights {weights}."),
        Formal("w_scale", "F", "One number, or one for each output channel: [M]."),
        Formal("w_zero_point", "T2", "One number."),
    )


def data_and_weights(node: InferredNode, index: int) -> tuple[list[Dim], list[Dim], bool]:
    """Checks the ranks of X and W and the sizes of the kernel.

    Args:
        node: The node, whose strides say how many axes there are.
        index: The position of W.

    Returns:
        The shapes of X and W, with None for what is not known, and whether the rank of one of them is.
    """
    rank = len(node.integers("strides")) + 2
    if not 3 <= rank <= 8:
        raise node.fail(f"attribute strides has {rank - 2} integers; allowed: 1 to 6, one for each spatial axis")
    x, w = node.dims(0), node.dims(index)
    for name, dims in (("X", x), ("W", w)):
        if dims is not None and len(dims) != rank:
            raise node.fail(f"{name} has rank {len(dims)}; allowed: {rank}, as strides says")
    unknown: list[Dim] = [None] * rank
    for axis, taps in enumerate((w or unknown)[2:]):
        if isinstance(taps, int) and taps < 1:
            raise node.fail(f"spatial axis {axis}: the kernel has size {taps}; allowed: at least 1")
    return x or unknown, w or unknown, x is not None or w is not None


def check_numbers(node: InferredNode, index: int, name: str, count: Dim) -> None:
    """Refuses the shape of an input that is not one number, or one for each of `count` channels: [count]."""
    given = node.dims(index)
    if given is None or len(given) == 0 or (len(given) == 1 and not (differ(given[0], 1) and differ(given[0], count))):
        return
    allowed = "one number" if count == 1 else f"one number, or [{'M' if count is None else count}]"
    raise node.fail(f"{name} has shape {given}; allowed: {allowed}")


def quantize(attributes: Mapping[str, Any], sums: np.dtype[Any]) -> str:
    """Returns the nodes of an `Epilogue` that quantizes."""
    return quantized_convolutions.quantized("sums")
