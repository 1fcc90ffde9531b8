"""Schema entries, shape inference and the choice of a function body of the four convolution operators.

Notation, per spatial axis: X size of the input, K kernel, s stride, d dilation, E = (K-1)*d + 1 the kernel's extent,
F = s*(X-1) + E the full size of a transposed convolution, b its begin padding, Y the size of the output.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx.defs
import onnx_ir as ir
from onnx import TensorProto

from ortconv.convolution_arithmetic import AutoPad, conv_transpose_size
from ortconv.errors import ConversionError
from ortconv.opset.bodies import convolutions
from ortconv.opset.bodies.convolutions import EXACT, OLDEST
from ortconv.opset.convolution_terms import ACCUMULATION, ACTIVATION, NO_ACTIVATION
from ortconv.opset.inferred_node import Dim, InferredNode, differ
from ortconv.opset.operator import ACCUMULATION_TYPE, Attribute, Epilogue, Formal, Operator, Switches, Type
from ortconv.opset.reference.operands import checked_activation

__all__ = [
    "BIAS",
    "DATA",
    "DILATIONS",
    "GRID",
    "GROUP",
    "OUTPUT_SHAPE",
    "PADDED",
    "PADS",
    "RESIDUAL",
    "STRIDES",
    "WEIGHTS",
    "Sizes",
    "check_activation",
    "convolution_operator",
    "direct_channels",
    "is_same_padded",
    "merged_residual",
    "non_negative",
    "transposed_channels",
    "transposed_sizes",
]

_Kind = onnx.defs.OpSchema.AttrType

DATA = Formal("X", "T", "Data.")
WEIGHTS = Formal("W", "T", "Weights.")
RESIDUAL = Formal("R", "T", "Residual, of the shape of Y.")
OUTPUT_SHAPE = Formal("output_shape", "S", "Spatial sizes of Y.")
BIAS = Formal("B", "T", "Bias [M].", optional=True)

STRIDES = Attribute("strides", _Kind.INTS, "Stride per spatial axis, at least 1.")
DILATIONS = Attribute("dilations", _Kind.INTS, "Dilation per spatial axis, at least 1.")
GROUP = Attribute("group", _Kind.INT, "Number of groups; divides the channels of input and output.")
PADS = Attribute("pads", _Kind.INTS, "Begin paddings of all spatial axes, then end paddings; none negative.")

GRID = (STRIDES, DILATIONS, GROUP)
PADDED = (
    PADS,
    Attribute(
        "output_padding",
        _Kind.INTS,
        "Positions added at the end of each spatial axis, not limited by the stride; a negative number removes some.",
    ),
)

Sizes = Callable[[InferredNode, list[Dim], list[Dim]], list[Dim]]
"""Returns the spatial sizes of Y for those of X and of the kernel."""


def convolution_operator(
    *,
    name: str,
    doc: str,
    inputs: tuple[Formal, ...],
    attributes: tuple[Attribute, ...],
    sizes: Sizes,
    text: Callable[[int, Switches], str],
    reference: Callable[..., npt.NDArray[Any]],
    transposed: bool,
    reference_without_residual: Callable[..., npt.NDArray[Any]] | None = None,
) -> Operator:
    """Returns a convolution operator.

    Args:
        name: Op type.
        doc: What it computes.
        inputs: Formal inputs.
        attributes: Its attributes without those of layout, accumulation and activation.
        sizes: Infers the spatial sizes of Y.
        text: Nodes of its function body.
        reference: Its NumPy reference.
        transposed: Whether the weights are [C, M/group, kernel...], as in transposed convolutions.
        reference_without_residual: The reference of the operator without its residual, if it has one.
    """
    residual = RESIDUAL in inputs
    weights = "[C, M/group, kernel...]" if transposed else "[M, C/group, kernel...]"
    types = {"T": Type(tuple(ACCUMULATION), "Numbers."), "S": Type((TensorProto.INT64,), "Sizes.")}
    return Operator(
        name=name,
        doc=doc,
        types={each: type_ for each, type_ in types.items() if any(formal.type == each for formal in inputs)},
        inputs=inputs,
        output=Formal("Y", "T", "The result."),
        attributes=(
            *attributes,
            Attribute("x_perm", _Kind.INTS, "Transpose(X, perm=x_perm) has the layout [N, C, spatial...]."),
            Attribute("w_perm", _Kind.INTS, f"Transpose(W, perm=w_perm) has the layout {weights}."),
            Attribute("y_perm", _Kind.INTS, "Y is Transpose(result, perm=y_perm), result being [N, M, spatial...]."),
            Attribute(ACCUMULATION_TYPE, _Kind.INT, "Element type of products and sums: the one that belongs to T."),
            Attribute(
                ACTIVATION,
                _Kind.FLOATS,
                "[slope, minimum, maximum], by default [1, -inf, inf], which types that do not accumulate in float "
                "require. Every element v of the result, in type T, becomes v * slope if it is negative, is clipped, "
                "and is converted to T again.",
                required=False,
            ),
        ),
        accumulation=ACCUMULATION,
        infer=functools.partial(
            _infer,
            sizes=sizes,
            transposed=transposed,
            bias=inputs.index(BIAS),
            residual=inputs.index(RESIDUAL) if residual else None,
        ),
        oldest_opset=OLDEST,
        text=text,
        reference=reference,
        switches=(BIAS.name, EXACT, ACTIVATION),
        unify=functools.partial(_unify, name=name, bias=inputs.index(BIAS)),
        epilogue=Epilogue(
            reference_without_residual or reference,
            (ACTIVATION,),
            functools.partial(_epilogue, residual=residual),
            (RESIDUAL.name,) if residual else (),
        ),
    )


def _epilogue(attributes: Mapping[str, Any], sums: np.dtype[Any], *, residual: bool) -> str:
    activation = checked_activation(attributes.get(ACTIVATION), sums)
    return convolutions.epilogue(residual=residual, activation=activation is not None)


def _unify(nodes: Sequence[ir.Node], graph: ir.Graph, *, name: str, bias: int) -> Switches:
    """Gives all nodes a bias if one has, and all an activation if one has; else removes the empty input of the bias.

    Raises:
        ConversionError: A bias of zeros is needed and the number of output channels is not known, or an activation
            where a type does not accumulate in float.
    """
    switches = set()
    if any(_has(node, bias) for node in nodes):
        switches.add(BIAS.name)
        for node in nodes:
            _add_zero_bias(node, bias, graph)
    else:
        for node in nodes:
            node.resize_inputs(bias)
    if any(ACCUMULATION[_element(node)] != ir.DataType.FLOAT for node in nodes):
        switches.add(EXACT)
    if any(ACTIVATION in node.attributes for node in nodes):
        switches.add(ACTIVATION)
        if EXACT in switches:
            raise ConversionError(f"{name} has nodes with an activation beside nodes that do not accumulate in float.")
        for node in nodes:
            node.attributes.setdefault(ACTIVATION, ir.AttrFloat32s(ACTIVATION, NO_ACTIVATION))
    return frozenset(switches)


def _has(node: ir.Node, index: int) -> bool:
    return len(node.inputs) > index and node.inputs[index] is not None


def _element(node: ir.Node) -> ir.DataType:
    value = node.inputs[0]
    assert value is not None
    assert value.dtype is not None, f"{node.name}: the type of {value.name} is not known"
    return value.dtype


def _add_zero_bias(node: ir.Node, index: int, graph: ir.Graph) -> None:
    if _has(node, index):
        return
    shape, perm = node.outputs[0].shape, node.attributes["y_perm"].as_ints()
    channels = None if shape is None else shape[list(perm).index(1)]
    if not isinstance(channels, int):
        raise ConversionError(
            f"node {node.name} needs a bias of zeros beside nodes that have one; its channel count is not known."
        )
    zeros = ir.tensor(np.zeros(channels, _element(node).numpy()), dtype=_element(node), name=f"{node.name}/zero_bias")
    value = ir.Value(name=zeros.name, type=ir.TensorType(zeros.dtype), shape=ir.Shape([channels]), const_value=zeros)
    graph.initializers[f"{node.name}/zero_bias"] = value
    node.resize_inputs(index + 1)
    node.replace_input_with(index, value)


def _infer(node: InferredNode, *, sizes: Sizes, transposed: bool, bias: int, residual: int | None) -> list[Dim] | None:
    element = node.element(0)
    sums = node.integer(ACCUMULATION_TYPE)
    if element in ACCUMULATION and sums != ACCUMULATION[element]:
        raise node.fail(
            f"attribute {ACCUMULATION_TYPE} = {sums} is not allowed; "
            f"allowed for tensor({TensorProto.DataType.Name(element).lower()}): {ACCUMULATION[element]}"
        )
    check_activation(node, ACCUMULATION.get(element) == TensorProto.FLOAT)
    x, w = node.dims(0), node.dims(1)
    rank = len(x) if x is not None else len(w) if w is not None else len(node.integers("strides")) + 2
    if not 3 <= rank <= 8:
        raise node.fail(f"X has rank {rank}; allowed: 3 to 8")
    for name, dims in (("X", x), ("W", w)):
        if dims is not None and len(dims) != rank:
            raise node.fail(f"{name} has rank {len(dims)}; allowed: {rank}, as X or the attributes have")
    unknown: list[Dim] = [None] * rank
    xn = [(x or unknown)[axis] for axis in node.perm("x_perm", rank)]
    wn = [(w or unknown)[axis] for axis in node.perm("w_perm", rank)]
    group = node.positive("group")
    channels = transposed_channels(node, xn[1], wn, group) if transposed else direct_channels(node, xn[1], wn, group)
    given = node.dims(bias) if node.has(bias) else None
    if given is not None and (len(given) != 1 or differ(given[0], channels)):
        raise node.fail(f"B has shape {given}; allowed: [{channels if channels is not None else 'M'}]")
    result = [xn[0], channels, *sizes(node, xn[2:], wn[2:])]
    y = [result[axis] for axis in node.perm("y_perm", rank)]
    return y if residual is None else merged_residual(node, y, residual)


def check_activation(node: InferredNode, allowed: bool) -> None:
    """Checks the activation of a node; one that changes nothing is always allowed."""
    has_activation = node.ctx.get_attribute(ACTIVATION) is not None
    values = tuple(node.attribute(ACTIVATION, onnx.AttributeProto.FLOATS)) if has_activation else NO_ACTIVATION
    if len(values) != 3 or not math.isfinite(values[0]) or not values[1] <= values[2]:
        raise node.fail(
            f"attribute {ACTIVATION} = {list(values)} is not allowed; allowed: a finite slope, a minimum, a maximum"
        )
    if values != NO_ACTIVATION and not allowed:
        raise node.fail(
            f"attribute {ACTIVATION} = {list(values)} is not allowed; allowed for types that do not accumulate in "
            f"float: {list(NO_ACTIVATION)}"
        )


def merged_residual(node: InferredNode, y: list[Dim], index: int) -> list[Dim]:
    """Checks the shape of the residual, which is that of Y, and returns what is known of either."""
    given = node.dims(index)
    if given is None:
        return y
    if len(given) != len(y) or any(map(differ, given, y)):
        raise node.fail(f"R has shape {given}; allowed: {y}, as Y has")
    return [mine if isinstance(mine, int) or theirs is None else theirs for mine, theirs in zip(y, given, strict=True)]


def direct_channels(node: InferredNode, c: Dim, weights: list[Dim], group: int) -> Dim:
    """Checks the channel counts and returns M."""
    total, per_group = weights[:2]
    if isinstance(total, int) and total % group:
        raise node.fail(f"W has {total} output channels; allowed: a multiple of group = {group}")
    if isinstance(per_group, int) and differ(c, per_group * group):
        raise node.fail(f"X has {c} channels; allowed: {per_group * group}, as W and group = {group} say")
    return total


def transposed_channels(node: InferredNode, c: Dim, weights: list[Dim], group: int) -> Dim:
    """Checks the channel counts of a transposed convolution and returns M."""
    total, per_group = weights[:2]
    if differ(c, total):
        raise node.fail(f"X has {c} channels; allowed: {total}, as W says")
    known = c if isinstance(c, int) else total
    if isinstance(known, int) and known % group:
        raise node.fail(f"X has {known} channels; allowed: a multiple of group = {group}")
    return per_group * group if isinstance(per_group, int) else None


def transposed_sizes(node: InferredNode, x: list[Dim], kernel: list[Dim]) -> list[Dim]:
    """Infers spatial sizes from ``pads`` and ``output_padding``."""
    count = len(x)
    strides, dilations = node.ints("strides", count, 1), node.ints("dilations", count, 1)
    pads, extra = node.ints("pads", 2 * count, 0), node.ints("output_padding", count)
    result: list[Dim] = []
    for axis, (size, taps) in enumerate(zip(x, kernel, strict=True)):
        if isinstance(size, int) and isinstance(taps, int):
            full = max(conv_transpose_size(size, taps, strides[axis], dilations[axis]), 0)
            result.append(non_negative(node, axis, full - pads[axis] - pads[axis + count] + extra[axis]))
        else:
            result.append(None)
    return result


def is_same_padded(node: InferredNode, pads: Sequence[int]) -> bool:
    """Returns whether ``auto_pad`` is one of the SAME rules, beside which all pads must be zero."""
    auto_pad = node.integer("auto_pad")
    if auto_pad not in list(AutoPad):
        raise node.fail(f"attribute auto_pad = {auto_pad} is not allowed; allowed: 0 to 2")
    if auto_pad and any(pads):
        raise node.fail(f"pads {list(pads)} stand beside auto_pad = {auto_pad}; allowed: zeros")
    return bool(auto_pad)


def non_negative(node: InferredNode, axis: int, size: int) -> int:
    """Returns a size that is at least 0."""
    if size < 0:
        raise node.fail(f"spatial axis {axis}: the padding leaves a size of {size}; allowed: at least 0")
    return size
