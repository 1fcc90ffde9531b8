"""The schemas of the operators of ``org.ortconv`` for ``onnx.defs``, with shape inference."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import onnx
import onnx.defs
import onnx.reference.op_run  # refuses to be imported once two domains have an op of one name, as ours and ONNX's do
import onnx.shape_inference
from onnx import TensorProto

from ortconv.opset.inferred_node import DOMAIN, VERSION, Dim, InferredNode, differ
from ortconv.opset.operators import (
    ACCUMULATION,
    ACTIVATION,
    ACTIVATION_ATTRIBUTE,
    CONV,
    CONV_TRANSPOSE,
    CONV_TRANSPOSE_ADD,
    CONV_TRANSPOSE_TO_SHAPE,
    NO_ACTIVATION,
    OPS,
    AutoPad,
    Op,
)
from ortconv.opset.ops.compressed_products import PRODUCTS
from ortconv.opset.ops.conv_integer_to_float import CONV_INTEGER_TO_FLOAT

__all__ = ["register_schemas"]

_TYPES = {
    TensorProto.FLOAT: "tensor(float)",
    TensorProto.FLOAT16: "tensor(float16)",
    TensorProto.BFLOAT16: "tensor(bfloat16)",
    TensorProto.DOUBLE: "tensor(double)",
    **{
        getattr(TensorProto, name.upper()): f"tensor({name})"
        for name in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
    },
}

_Schema = onnx.defs.OpSchema


def register_schemas() -> None:
    """Registers the schemas with ``onnx.defs``, so that ``onnx.checker`` knows the ops; harmless when repeated."""
    for product in PRODUCTS.values():
        product.register_schema()
    CONV_INTEGER_TO_FLOAT.register_schema()
    inference = {
        CONV_TRANSPOSE.name: _conv_transpose_sizes,
        CONV_TRANSPOSE_TO_SHAPE.name: _to_shape_sizes,
        CONV.name: _conv_sizes,
        CONV_TRANSPOSE_ADD.name: _conv_transpose_sizes,
    }
    for op in OPS:
        if onnx.defs.has(op.name, VERSION, DOMAIN):
            continue
        schema = _Schema(
            op.name,
            DOMAIN,
            VERSION,
            doc=op.doc,
            inputs=[_formal(name) for name in op.inputs],
            outputs=[_Schema.FormalParameter("Y", "T", "The result.")],
            type_constraints=[("T", list(_TYPES.values()), "Numbers."), ("S", ["tensor(int64)"], "Sizes.")][
                : 2 if "output_shape" in op.inputs else 1
            ],
            attributes=[
                _Schema.Attribute(name, kind, text.format(weights=_weights_layout(op)), required=True)
                for name, kind, text in op.attributes
            ]
            + [_Schema.Attribute(*ACTIVATION_ATTRIBUTE, required=False)],
        )
        schema.set_type_and_shape_inference_function(_inference(op, inference[op.name]))
        onnx.defs.register_schema(schema)


def _formal(name: str) -> onnx.defs.OpSchema.FormalParameter:
    options = onnx.defs.OpSchema.FormalParameterOption
    return _Schema.FormalParameter(
        name,
        "S" if name == "output_shape" else "T",
        {
            "X": "Data.",
            "W": "Weights.",
            "B": "Bias [M].",
            "R": "Residual, of the shape of Y.",
            "output_shape": "Spatial sizes of Y.",
        }[name],
        param_option=options.Optional if name == "B" else options.Single,
    )


def _weights_layout(op: Op) -> str:
    return "[M, C/group, kernel...]" if op is CONV else "[C, M/group, kernel...]"


class _Node(InferredNode):
    """A node of a convolution under inference."""

    def __init__(self, op: Op, ctx: Any) -> None:
        super().__init__(op.name, ctx)
        self.op = op


_Sizes = Callable[[_Node, list[Dim], list[Dim]], list[Dim]]


def _inference(op: Op, sizes: _Sizes) -> Callable[[Any], None]:
    def infer(ctx: Any) -> None:
        node = _Node(op, ctx)
        element = node.element(0)
        sums = node.integer("accumulation_type")
        if element in ACCUMULATION and sums != ACCUMULATION[element]:
            raise node.fail(
                f"attribute accumulation_type = {sums} is not allowed; "
                f"allowed for {_TYPES[element]}: {ACCUMULATION[element]}"
            )
        _check_activation(node, ACCUMULATION.get(element) == TensorProto.FLOAT)
        node.set_output(element, _shape(node, sizes))

    return infer


def _check_activation(node: _Node, allowed: bool) -> None:
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


def _shape(node: _Node, sizes: _Sizes) -> list[Dim] | None:
    """Returns the dims of Y, None where unknown, or None when not even the rank is known."""
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
    group = node.integer("group")
    if group < 1:
        raise node.fail(f"attribute group = {group} is not allowed; allowed: integers >= 1")
    channels = _channels(node, xn[1], wn, group)
    bias = len(node.op.inputs) - 1
    if node.has(bias):
        given = node.dims(bias)
        if given is not None and (len(given) != 1 or differ(given[0], channels)):
            raise node.fail(f"B has shape {given}; allowed: [{channels if channels is not None else 'M'}]")
    result = [xn[0], channels, *sizes(node, xn[2:], wn[2:])]
    y = [result[axis] for axis in node.perm("y_perm", rank)]
    return _checked_residual(node, y) if node.op is CONV_TRANSPOSE_ADD else y


def _checked_residual(node: _Node, y: list[Dim]) -> list[Dim]:
    """Checks the shape of R, which is that of Y, and returns what both say of it."""
    given = node.dims(node.op.inputs.index("R"))
    if given is None:
        return y
    if len(given) != len(y) or any(map(differ, given, y)):
        raise node.fail(f"R has shape {given}; allowed: {y}, as Y has")
    return [mine if isinstance(mine, int) or theirs is None else theirs for mine, theirs in zip(y, given, strict=True)]


def _channels(node: _Node, c: Dim, wn: list[Dim], group: int) -> Dim:
    """Checks the channel counts and returns M."""
    if node.op is CONV:
        per_group, total = wn[1], wn[0]
        if isinstance(total, int) and total % group:
            raise node.fail(f"W has {total} output channels; allowed: a multiple of group = {group}")
        if isinstance(per_group, int) and differ(c, per_group * group):
            raise node.fail(f"X has {c} channels; allowed: {per_group * group}, as W and group = {group} say")
        return total
    if differ(c, wn[0]):
        raise node.fail(f"X has {c} channels; allowed: {wn[0]}, as W says")
    known = c if isinstance(c, int) else wn[0]
    if isinstance(known, int) and known % group:
        raise node.fail(f"X has {known} channels; allowed: a multiple of group = {group}")
    return wn[1] * group if isinstance(wn[1], int) else None


def _conv_transpose_sizes(node: _Node, x: list[Dim], kernel: list[Dim]) -> list[Dim]:
    count = len(x)
    strides, dilations = node.ints("strides", count, 1), node.ints("dilations", count, 1)
    pads, extra = node.ints("pads", 2 * count, 0), node.ints("output_padding", count)
    result: list[Dim] = []
    for axis in range(count):
        size, taps = x[axis], kernel[axis]
        if isinstance(size, int) and isinstance(taps, int):
            full = max(strides[axis] * (size - 1) + (taps - 1) * dilations[axis] + 1, 0)
            result.append(_positive(node, axis, full - pads[axis] - pads[axis + count] + extra[axis]))
        else:
            result.append(None)
    return result


def _to_shape_sizes(node: _Node, x: list[Dim], kernel: list[Dim]) -> list[Dim]:
    count = len(x)
    node.ints("strides", count, 1)
    node.ints("dilations", count, 1)
    node.ints("output_padding", count, 0)
    _check_auto_pad(node, node.ints("pads_begin", count, 0))
    data = node.ctx.get_input_data(2)
    if data is None:
        given = node.dims(2)
        if given is not None and (len(given) != 1 or differ(given[0], count)):
            raise node.fail(f"output_shape has shape {given}; allowed: [{count}]")
        return [None] * count
    values = onnx.numpy_helper.to_array(data).tolist()
    if len(values) != count or any(value < 0 for value in values):
        raise node.fail(f"output_shape = {values} is not allowed; allowed: {count} integers >= 0")
    return list(values)


def _conv_sizes(node: _Node, x: list[Dim], kernel: list[Dim]) -> list[Dim]:
    count = len(x)
    strides, dilations = node.ints("strides", count, 1), node.ints("dilations", count, 1)
    pads = node.ints("pads", 2 * count, 0)
    same = _check_auto_pad(node, pads)
    result: list[Dim] = []
    for axis in range(count):
        size, taps = x[axis], kernel[axis]
        if isinstance(size, int) and same:
            result.append(-(-size // strides[axis]))
        elif isinstance(size, int) and isinstance(taps, int):
            extent = (taps - 1) * dilations[axis] + 1
            padded = size + pads[axis] + pads[axis + count]
            if extent > padded:
                raise node.fail(f"spatial axis {axis}: the kernel covers {extent}, the padded input {padded}")
            result.append((padded - extent) // strides[axis] + 1)
        else:
            result.append(None)
    return result


def _check_auto_pad(node: _Node, pads: Sequence[int]) -> bool:
    """Returns whether a SAME rule applies; refuses pads beside one."""
    auto_pad = node.attribute("auto_pad", onnx.AttributeProto.INT)
    if auto_pad not in list(AutoPad):
        raise node.fail(f"attribute auto_pad = {auto_pad} is not allowed; allowed: 0 to 2")
    if auto_pad and any(pads):
        raise node.fail(f"pads {list(pads)} stand beside auto_pad = {auto_pad}; allowed: zeros")
    return bool(auto_pad)


def _positive(node: _Node, axis: int, size: int) -> int:
    if size < 0:
        raise node.fail(f"spatial axis {axis}: the padding leaves a size of {size}; allowed: at least 0")
    return size
