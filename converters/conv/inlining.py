"""Inlines function bodies of ``org.ortconv`` operators, folding what is known about sizes and attributes."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from ortconv.graph.builder import Builder
from ortconv.opset.bodies.convolutions import EXACT
from ortconv.opset.convolution_terms import ACCUMULATION
from ortconv.opset.operator import Operator, Switches
from ortconv.opset.ops.convolution_family import BIAS

__all__ = ["inline_body"]

_BOOL = frozenset({"And", "Equal", "Greater", "GreaterOrEqual", "Less"})
_ELEMENTWISE = _BOOL | {"Add", "Div", "Max", "Min", "Mod", "Mul", "Sub", "Where"}
_NEUTRAL = {"Add": 0, "Mul": 1}
_SAME_RANK = frozenset({"Conv", "ConvTranspose", "Pad", "Slice"})
"""Ops whose result has as many axes as their first input."""


@functools.cache
def _body(op: Operator, opset: int, switches: Switches) -> ir.Function:
    return ir.serde.deserialize_function(op.body(opset, switches))


def inline_body(b: Builder, op: Operator, inputs: Sequence[ir.Value | None], attributes: Mapping[str, Any]) -> ir.Value:
    """Emits the function body of an operator instead of a node.

    Args:
        b: The builder.
        op: The operator.
        inputs: Its inputs, the bias last; None where there is none.
        attributes: Its attributes.
    """
    x, bias = inputs[0], inputs[-1]
    assert x is not None
    exact = ACCUMULATION[x.dtype or ir.DataType.UNDEFINED] != ir.DataType.FLOAT
    switches = frozenset({EXACT} if exact else ()) | frozenset({BIAS.name} if bias is not None else ())
    function = _body(op, b.options.opset, switches)
    values: dict[ir.Value | None, ir.Value | None] = dict(zip(function.inputs, inputs, strict=False))
    for node in function:
        given = [values.get(value) for value in node.inputs]
        stated = {
            name: attributes[str(attribute.ref_attr_name)] if attribute.is_ref() else attribute.value
            for name, attribute in node.attributes.items()
        }
        values.update(zip(node.outputs, _emit(b, node.op_type, given, stated, len(node.outputs)), strict=True))
    result = values[function.outputs[0]]
    assert result is not None
    return result


def _emit(
    b: Builder, op_type: str, inputs: Sequence[ir.Value | None], attributes: Mapping[str, Any], outputs: int
) -> Sequence[ir.Value]:
    if op_type == "Constant":
        (data,) = attributes.values()
        return [b.constant(data if isinstance(data, ir.TensorProtocol) else np.array(data, np.int64))]
    same = _unchanged(b, op_type, inputs, attributes)
    if same is not None:
        return [same]
    dtype = _dtype(op_type, inputs, attributes)
    if op_type == "CastLike":
        op_type, inputs, attributes = "Cast", inputs[:1], {"to": int(dtype or ir.DataType.UNDEFINED)}
    if outputs > 1:
        made = b.op(op_type, *inputs, outputs=outputs, **attributes)
    else:
        made = (b.op(op_type, *inputs, **attributes),)
    return [b.typed(value, dtype, _shape(b, op_type, inputs, value)) for value in made]


def _unchanged(
    b: Builder, op_type: str, inputs: Sequence[ir.Value | None], attributes: Mapping[str, Any]
) -> ir.Value | None:
    """Returns the input that a node would return unchanged, None if it changes it."""
    first = inputs[0]
    if op_type == "Transpose":
        return first if list(attributes["perm"]) == sorted(attributes["perm"]) else None
    if op_type in ("Cast", "CastLike"):
        return first if first is not None and first.dtype == _dtype(op_type, inputs, attributes) else None
    for value, other in (inputs, inputs[::-1]) if op_type in _NEUTRAL else ():
        assert value is not None
        assert other is not None
        known = b.array(other)
        if known is not None and np.all(known == _NEUTRAL[op_type]) and value.dtype == other.dtype:
            sizes = _broadcast(inputs)
            if value.shape is not None and sizes == value.shape.numpy():
                return value
    return None


def _dtype(op_type: str, inputs: Sequence[ir.Value | None], attributes: Mapping[str, Any]) -> ir.DataType | None:
    if op_type == "Shape":
        return ir.DataType.INT64
    if op_type in _BOOL:
        return ir.DataType.BOOL
    if op_type == "Cast":
        return ir.DataType(attributes["to"])
    value = inputs[op_type in ("CastLike", "Where")]
    return None if value is None else value.dtype


def _shape(b: Builder, op_type: str, inputs: Sequence[ir.Value | None], made: ir.Value) -> Sequence[int | None] | None:
    """Returns as much of the shape as later nodes need: the length of a vector of sizes, the rank of a tensor."""
    sizes, first = b.entries(made), inputs[0]
    if sizes is not None:
        return list(sizes.entries.shape)
    if op_type in _ELEMENTWISE:
        return _broadcast(inputs)
    if op_type == "Reshape":
        target = b.array(inputs[1])
        return None if target is None or np.any(target < 0) else target.tolist()
    return (
        [None] * len(first.shape) if op_type in _SAME_RANK and first is not None and first.shape is not None else None
    )


def _broadcast(inputs: Sequence[ir.Value | None]) -> tuple[int, ...] | None:
    """Returns the output shape of an elementwise node, None unless all input shapes are static."""
    shapes = [None if value is None else value.shape for value in inputs]
    known = [shape.numpy() for shape in shapes if shape is not None and shape.is_static()]
    return np.broadcast_shapes(*known) if len(known) == len(shapes) else None
