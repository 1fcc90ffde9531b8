"""The operator ``QLinearConvolution``: a convolution of 8-bit integers with what ONNX's QLinearConv lacks.

That is a bias for each element, an activation, HardSwish among them, and a scale and a bias for each output channel
behind it, before the result is quantized. Its function body convolves the integers as floats.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx
import onnx.defs
import onnx_ir as ir
from onnx import TensorProto

from ortconv.opset.bodies import quantized_convolutions
from ortconv.opset.convolution_terms import HARD_SIGMOID, NO_HARD_SIGMOID
from ortconv.opset.inferred_node import Dim, InferredNode, differ
from ortconv.opset.operator import Attribute, Epilogue, Formal, Operator, Switches
from ortconv.opset.ops.convolution import direct_sizes
from ortconv.opset.ops.convolution_family import DILATIONS, GROUP, PADS, STRIDES, check_activation, direct_channels
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
from ortconv.opset.reference.quantized_convolutions import affine_sums, qlinear_convolution

__all__ = ["QLINEAR_CONVOLUTION"]

_DOC = f"""V = (the sum over taps of (X - x_zero_point) * (W - w_zero_point)) * (x_scale * w_scale) + B, where W is
[M, C/group, kernel...], and scale and bias are those of output channel M. The sums are exact in 32 bits, which wrap;
positions of the padding count as x_zero_point, so they add nothing. Y is V after {ACTIVATED};
then, with hard_sigmoid, times max(0, min(1, itself * alpha + beta)); then times factor, plus addend; then it is
{QUANTIZED} Every operation after the sums is rounded to float."""

_INPUTS = (
    *operands("[M, C/group, kernel...]"),
    *RESULT,
    Formal("B", "F", "Bias of each output channel: [M, 1, ...]; or of each element: [M, spatial...], as Y has them."),
    Formal("factor", "F", "[M]."),
    Formal("addend", "F", "[M]."),
)
_AT = {each.name: index for index, each in enumerate(_INPUTS)}


def _infer(node: InferredNode) -> list[Dim] | None:
    """Checks a node; returns the shape of Y, or None if its rank is not known."""
    check_activation(node, allowed=True)
    _check_hard_sigmoid(node)
    data, weights, is_known = data_and_weights(node, _AT["W"])
    channels = direct_channels(node, data[1], weights, node.positive("group"))
    for name, index in _AT.items():
        if name.endswith(("_scale", "_zero_point")):
            check_numbers(node, index, name, channels if name == "w_scale" else 1)
    sizes = direct_sizes(node, data[2:], weights[2:])
    for name in ("factor", "addend"):
        given = node.dims(_AT[name])
        if given is not None and (len(given) != 1 or differ(given[0], channels)):
            raise node.fail(f"{name} has shape {given}; allowed: [{'M' if channels is None else channels}]")
    _check_biases(node, [channels, *sizes])
    return [data[0], channels, *sizes] if is_known else None


def _check_biases(node: InferredNode, image: list[Dim]) -> None:
    given = node.dims(_AT["B"])
    plain: list[Dim] = [image[0], *[1] * (len(image) - 1)]
    if given is None:
        return
    for allowed in (plain, image):
        if len(given) == len(allowed) and not any(map(differ, given, allowed)):
            return
    raise node.fail(f"B has shape {given}; allowed: {plain}, or {image}")


def _check_hard_sigmoid(node: InferredNode) -> None:
    if node.ctx.get_attribute(HARD_SIGMOID) is None:
        return
    numbers = list(node.attribute(HARD_SIGMOID, onnx.AttributeProto.FLOATS))
    if len(numbers) != len(NO_HARD_SIGMOID) or not all(map(math.isfinite, numbers)):
        raise node.fail(f"attribute {HARD_SIGMOID} = {numbers} is not allowed; allowed: a finite alpha, a finite beta")


def _unify(nodes: Sequence[ir.Node], graph: ir.Graph) -> Switches:
    """Gives all nodes a HardSigmoid if one has one; `graph` is not changed."""
    if not any(HARD_SIGMOID in node.attributes for node in nodes):
        return frozenset()
    for node in nodes:
        node.attributes.setdefault(HARD_SIGMOID, ir.AttrFloat32s(HARD_SIGMOID, NO_HARD_SIGMOID))
    return frozenset({HARD_SIGMOID})


QLINEAR_CONVOLUTION = Operator(
    name="QLinearConvolution",
    doc=_DOC,
    types=TYPES,
    inputs=_INPUTS,
    output=Formal("Y", "T3", "The result [N, M, spatial...]."),
    attributes=(
        STRIDES,
        PADS,
        DILATIONS,
        GROUP,
        ACTIVATION_NUMBERS,
        Attribute(
            HARD_SIGMOID,
            onnx.defs.OpSchema.AttrType.FLOATS,
            "[alpha, beta]; [0, 1], the default, changes nothing, and [1/6, 0.5] makes HardSwish of the activation.",
            required=False,
        ),
    ),
    accumulation=dict.fromkeys(INTEGERS, TensorProto.FLOAT),
    infer=_infer,
    oldest_opset=quantized_convolutions.OLDEST,
    text=lambda opset, switches: quantized_convolutions.convolution(hard_sigmoid=HARD_SIGMOID in switches),
    reference=qlinear_convolution,
    switches=(HARD_SIGMOID,),
    unify=_unify,
    epilogue=Epilogue(affine_sums, (), quantize, tuple(each.name for each in RESULT)),
)
