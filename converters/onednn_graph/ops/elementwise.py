"""Elementwise ops. Specification: https://uxlfoundation.github.io/oneDNN/graph_supported_operations.html."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
import onnx_ir as ir

from ortconv.converters.onednn_graph.lib.data_format import (
    DataFormat,
    Dims,
    broken_vector,
    channels_of,
    known_dims,
    rank_of,
)
from ortconv.converters.onednn_graph.lib.dtypes import FLOATS, check_type, computed, dtype_name, one_type
from ortconv.converters.onednn_graph.registry import REGISTRY
from ortconv.errors import ShapeError, UnsupportedAttributeError
from ortconv.graph.builder import Builder

__all__ = ["check_one_way", "per_channel"]

Broadcast = Literal["numpy", "none"]

_SAME_NAME = ("Abs", "Exp", "HardSwish", "Log", "Mish", "Reciprocal", "Round", "Sigmoid", "Sqrt", "Tanh")
_UNARY = {kind: kind for kind in _SAME_NAME} | {"ReLU": "Relu"}
_BINARY = {
    "Add": "Add",
    "Divide": "Div",
    "Maximum": "Max",
    "Minimum": "Min",
    "Multiply": "Mul",
    "Subtract": "Sub",
}
_INTEGERS_TOO = ("Add", "Subtract")
_S32 = (-(2.0**31), 2.0**31 - 128)
"""The smallest and largest float32 that an s32 holds."""


@REGISTRY.lowering(*_UNARY, how="exact")
def unary(b: Builder, src: ir.Value, /) -> ir.Value:
    """Lowers to the ai.onnx op of the same name; bf16 is computed in float32 and rounded once."""
    return _map(b, src, lambda x: b.op(_UNARY[b.node.ref.op_type], x))


@REGISTRY.lowering("Elu", "LeakyReLU", how="exact")
def with_alpha(b: Builder, src: ir.Value, /, *, alpha: float) -> ir.Value:
    """Lowers to ai.onnx Elu or LeakyRelu."""
    op_type = {"Elu": "Elu", "LeakyReLU": "LeakyRelu"}[b.node.ref.op_type]
    return _map(b, src, lambda x: b.op(op_type, x, alpha=alpha))


@REGISTRY.lowering("HardSigmoid", how="exact")
def hard_sigmoid(b: Builder, src: ir.Value, /, *, alpha: float, beta: float) -> ir.Value:
    """Lowers to ai.onnx HardSigmoid."""
    return _map(b, src, lambda x: b.op("HardSigmoid", x, alpha=alpha, beta=beta))


@REGISTRY.lowering("Clamp", how="exact")
def clamp(b: Builder, src: ir.Value, /, *, min: float, max: float) -> ir.Value:
    """Lowers to ai.onnx Clip."""
    if min > max:
        raise UnsupportedAttributeError("min", min, f"at most max, which is {max}")
    return _map(b, src, lambda x: b.op("Clip", x, _like(b, x, min), _like(b, x, max)))


@REGISTRY.lowering("GELU", how="exact")
def gelu(b: Builder, src: ir.Value, /, *, mode: Literal["gelu_erf", "gelu_tanh"] = "gelu_erf") -> ir.Value:
    """Lowers to ai.onnx Gelu, or to its definition with Erf or Tanh before opset 20."""
    if b.options.opset >= 20:
        approximate = "tanh" if mode == "gelu_tanh" else "none"
        return _map(b, src, lambda x: b.op("Gelu", x, approximate=approximate))

    def definition(x: ir.Value) -> ir.Value:
        if mode == "gelu_erf":
            inner = b.op("Erf", b.op("Mul", x, _like(b, x, math.sqrt(0.5))))
        else:
            cube = b.op("Mul", b.op("Mul", x, x), b.op("Mul", x, _like(b, x, 0.044715)))
            inner = b.op("Tanh", b.op("Mul", b.op("Add", x, cube), _like(b, x, math.sqrt(2 / math.pi))))
        half = b.op("Mul", x, _like(b, x, 0.5))
        return b.op("Mul", half, b.op("Add", inner, _like(b, x, 1.0)))

    return _map(b, src, definition, exact=False)


@REGISTRY.lowering("SoftPlus")
def soft_plus(b: Builder, src: ir.Value, /, *, beta: float = 1.0) -> ir.Value:
    """Lowers to ai.onnx Softplus, with Mul and Div if beta is not 1."""
    if beta == 1:
        return _map(b, src, lambda x: b.op("Softplus", x))
    if beta == 0:
        raise UnsupportedAttributeError("beta", beta, "a number other than 0")

    def scaled(x: ir.Value) -> ir.Value:
        return b.op("Div", b.op("Softplus", b.op("Mul", x, _like(b, x, beta))), _like(b, x, beta))

    return _map(b, src, scaled, exact=False)


@REGISTRY.lowering("Square", how="exact")
def square(b: Builder, src: ir.Value, /) -> ir.Value:
    """Lowers to ai.onnx Mul."""
    return _map(b, src, lambda x: b.op("Mul", x, x))


@REGISTRY.lowering("Pow", how="exact")
def power(b: Builder, src: ir.Value, /, *, beta: float) -> ir.Value:
    """Lowers to ai.onnx Pow with the attribute beta as exponent."""
    return _map(b, src, lambda x: b.op("Pow", x, _like(b, x, beta)))


@REGISTRY.lowering(*_BINARY, how="exact")
def binary(b: Builder, src_0: ir.Value, src_1: ir.Value, /, *, auto_broadcast: Broadcast = "numpy") -> ir.Value:
    """Lowers to the ai.onnx op of the same meaning; mixed types are computed in float32 and rounded once."""
    kind = b.node.ref.op_type
    allowed = (*FLOATS, "s32") if kind in _INTEGERS_TOO else FLOATS
    types = {"src_0": src_0.dtype, "src_1": src_1.dtype, "dst": b.node.outputs[0].dtype}
    for name, dtype in types.items():
        check_type(name, dtype, allowed)
    shape = broadcast(src_0, src_1, auto_broadcast)
    if types["dst"] == ir.DataType.INT32 and len(set(types.values())) > 1:
        return b.typed(_rounded_to_s32(b, _BINARY[kind], src_0, src_1), None, shape)
    return b.typed(computed(b, (src_0, src_1), lambda x, y: b.op(_BINARY[kind], x, y)), None, shape)


def _rounded_to_s32(b: Builder, op_type: str, *inputs: ir.Value) -> ir.Value:
    """Computes in float32, rounds to nearest even and saturates."""
    result = b.op(op_type, *(b.cast(value, ir.DataType.FLOAT) for value in inputs))
    low, high = (b.constant(limit, np.float32) for limit in _S32)
    return b.op("Cast", b.op("Clip", b.op("Round", result), low, high), to=int(ir.DataType.INT32))


@REGISTRY.lowering("SquaredDifference")
def squared_difference(
    b: Builder, src_0: ir.Value, src_1: ir.Value, /, *, auto_broadcast: Broadcast = "numpy"
) -> ir.Value:
    """Lowers to ai.onnx Sub and Mul."""
    one_type(b, src_0=src_0, src_1=src_1)
    shape = broadcast(src_0, src_1, auto_broadcast)

    def definition(x: ir.Value, y: ir.Value) -> ir.Value:
        difference = b.op("Sub", x, y)
        return b.op("Mul", difference, difference)

    return b.typed(computed(b, (src_0, src_1), definition, exact=False), None, shape)


@REGISTRY.lowering("GreaterEqual", how="exact")
def greater_equal(b: Builder, src_0: ir.Value, src_1: ir.Value, /, *, auto_broadcast: Broadcast = "numpy") -> ir.Value:
    """Lowers to ai.onnx GreaterOrEqual."""
    for name, value in (("src_0", src_0), ("src_1", src_1)):
        check_type(name, value.dtype, (*FLOATS, "s32"))
    check_type("src_1", src_1.dtype, [dtype_name(src_0.dtype)])
    check_type("dst", b.node.outputs[0].dtype, ["boolean"])
    shape = broadcast(src_0, src_1, auto_broadcast)
    wide = src_0.dtype if src_0.dtype == ir.DataType.INT32 else ir.DataType.FLOAT
    return b.typed(b.op("GreaterOrEqual", b.cast(src_0, wide), b.cast(src_1, wide)), None, shape)


@REGISTRY.lowering("Select", how="exact")
def select(
    b: Builder, cond: ir.Value, src_0: ir.Value, src_1: ir.Value, /, *, auto_broadcast: Broadcast = "numpy"
) -> ir.Value:
    """Lowers to ai.onnx Where; cond broadcasts to the shape of src_0 and src_1 combined, not the reverse."""
    check_type("cond", cond.dtype, ["boolean"])
    one_type(b, src_0=src_0, src_1=src_1)
    shape = broadcast(src_0, src_1, auto_broadcast)
    if auto_broadcast == "none":
        broadcast(src_0, cond, auto_broadcast, "cond")
    check_one_way("cond", cond, "src_0 and src_1", shape)
    return b.typed(computed(b, (src_0, src_1), lambda x, y: b.op("Where", cond, x, y)), None, shape)


@REGISTRY.lowering("BiasAdd", how="exact")
def bias_add(b: Builder, src: ir.Value, bias: ir.Value, /, *, data_format: DataFormat = "NXC") -> ir.Value:
    """Lowers to ai.onnx Add, with the bias reshaped to the channel axis."""
    one_type(b, src=src, bias=bias)
    dims, channels = known_dims(bias), channels_of("src", src, data_format)
    if dims is not None and broken_vector(dims, channels):
        raise ShapeError("bias", dims, f"[{channels}] is required: src has {channels} channels in {data_format}.")
    if data_format == "NCX":
        bias = b.typed(b.op("Reshape", bias, b.constant([-1] + [1] * (rank_of("src", src) - 2))), bias.dtype, None)
    return b.typed(computed(b, (src, bias), lambda x, y: b.op("Add", x, y)), None, src.shape)


@REGISTRY.lowering("PReLU", how="exact")
def prelu(
    b: Builder,
    src: ir.Value,
    slope: ir.Value,
    /,
    *,
    data_format: DataFormat = "NXC",
    per_channel_broadcast: bool = True,
) -> ir.Value:
    """Lowers to ai.onnx PRelu; a vector of slopes is reshaped to the channel axis."""
    one_type(b, src=src, slope=slope)
    aligned = per_channel(b, "slope", slope, src, data_format) if per_channel_broadcast else slope
    check_one_way("slope", aligned, "src", known_dims(src))
    return b.typed(computed(b, (src, aligned), lambda x, a: b.op("PRelu", x, a)), None, src.shape)


def per_channel(b: Builder, argument: str, vector: ir.Value, src: ir.Value, data_format: DataFormat) -> ir.Value:
    """Reshapes a vector with one entry per channel so that it broadcasts against src; other shapes are not changed.

    Raises:
        ShapeError: The length of a vector is neither 1 nor the number of channels.
    """
    dims = known_dims(vector)
    if dims is None or len(dims) != 1 or dims[0] == 1:
        return vector
    channels = channels_of("src", src, data_format)
    if broken_vector(dims, channels):
        raise ShapeError(argument, dims, f"[{channels}] or [1] is required: one entry per channel in {data_format}.")
    rank = rank_of("src", src)
    if data_format == "NXC" or rank == 2:
        return vector
    reshaped = b.op("Reshape", vector, b.constant([-1] + [1] * (rank - 2)))
    return b.typed(reshaped, vector.dtype, [*dims, *[1] * (rank - 2)])


def broadcast(src_0: ir.Value, other: ir.Value, rule: Broadcast, argument: str = "src_1") -> Dims | None:
    """Returns the shape to which two inputs are broadcast, or None if a rank is unknown.

    Raises:
        ShapeError: The shapes do not broadcast, or differ although `rule` requires equal shapes.
    """
    first, second = known_dims(src_0), known_dims(other)
    if first is None or second is None:
        return None
    joined = _join(first, second, rule)
    if joined is None:
        how = "be equal (auto_broadcast is none)" if rule == "none" else "broadcast"
        raise ShapeError(argument, second, f"does not {how} with src_0, which has shape {first}.")
    return joined


def check_one_way(argument: str, value: ir.Value, target: str, dims: Dims | None) -> None:
    """Checks that a value broadcasts to a shape without changing that shape.

    Raises:
        ShapeError: It does not.
    """
    found = known_dims(value)
    if found is None or dims is None:
        return
    joined = _join(dims, found, "numpy")
    if joined is None or len(joined) > len(dims) or any(x == 1 != y for x, y in zip(dims, joined, strict=True)):
        raise ShapeError(argument, found, f"it must broadcast to {target}, which has shape {dims}.")


def _join(first: Dims, second: Dims, rule: Broadcast) -> Dims | None:
    if rule == "none" and len(first) != len(second):
        return None
    rank = max(len(first), len(second))
    result: Dims = []
    for x, y in zip([*[1] * (rank - len(first)), *first], [*[1] * (rank - len(second)), *second], strict=True):
        if x == y:
            result.append(x)
        elif rule == "numpy" and 1 in (x, y):
            result.append(y if x == 1 else x)
        elif isinstance(x, int) and isinstance(y, int):
            return None
        else:
            result.append(x if isinstance(x, int) else y if isinstance(y, int) else None)
    return result


def _map(b: Builder, src: ir.Value, function: Callable[[ir.Value], ir.Value], *, exact: bool = True) -> ir.Value:
    one_type(b, src=src)
    return b.typed(computed(b, (src,), function, exact=exact), None, src.shape)


def _like(b: Builder, value: ir.Value, number: float) -> ir.Value:
    """Returns a scalar constant of a value's type."""
    assert value.dtype is not None
    return b.constant(number, value.dtype.numpy())
