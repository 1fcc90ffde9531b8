"""Gradients of the elementwise ops. Specification: https://uxlfoundation.github.io/oneDNN/graph_supported_operations.html.

Where the specification does not define the gradient at a boundary, the lowering follows oneDNN: the gradient at 0 is
that of negative inputs, and the gradient at both limits of Clamp is 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import onnx_ir as ir

from ortconv.converters.onednn_graph.lib.data_format import (
    DataFormat,
    Dims,
    all_but_channels,
    channels_of,
    known_dims,
    rank_of,
    same_dims,
)
from ortconv.converters.onednn_graph.lib.dtypes import check_type, computed, dtype_name, one_type
from ortconv.converters.onednn_graph.ops.elementwise import per_channel
from ortconv.converters.onednn_graph.registry import REGISTRY
from ortconv.errors import ShapeError, UnsupportedAttributeError
from ortconv.graph.builder import Builder

_Gradient = Callable[["_Math", ir.Value, ir.Value], ir.Value]


class _Math:
    """Emits ONNX ops on values of one float type and on Python numbers, which become constants of this type."""

    def __init__(self, b: Builder, dtype: ir.DataType) -> None:
        self._b = b
        self._dtype = dtype

    def __call__(self, op_type: str, *operands: ir.Value | float) -> ir.Value:
        return self._b.op(op_type, *(self._value(operand) for operand in operands))

    def _value(self, operand: ir.Value | float) -> ir.Value:
        return operand if isinstance(operand, ir.Value) else self._b.constant(operand, self._dtype.numpy())


def _gradient(b: Builder, name: str, data: ir.Value, diff_dst: ir.Value, gradient: _Gradient) -> ir.Value:
    """Emits `gradient` of diff_dst and `data`: the forward op's source or result, whose argument name is `name`."""
    one_type(b, **{name: data, "diff_dst": diff_dst})
    same_dims("diff_dst", diff_dst, name, data)

    def emit(x: ir.Value, g: ir.Value) -> ir.Value:
        assert x.dtype is not None
        return gradient(_Math(b, x.dtype), x, g)

    return b.typed(computed(b, (data, diff_dst), emit, exact=False), None, data.shape)


def _inside(m: _Math, x: ir.Value, low: float, high: float) -> ir.Value:
    return m("And", m("Greater", x, low), m("Less", x, high))


def _sigmoid_derivative(m: _Math, x: ir.Value) -> ir.Value:
    """Emits the derivative of the sigmoid, in a form without cancellation."""
    e = m("Exp", m("Neg", m("Abs", x)))
    sigmoid = m("Reciprocal", m("Add", e, 1.0))
    return m("Mul", m("Mul", e, sigmoid), sigmoid)


@REGISTRY.lowering("AbsBackward")
def abs_backward(b: Builder, src: ir.Value, diff_dst: ir.Value, /) -> ir.Value:
    """Lowers to Where on the sign of src; the result is 0 where src is 0."""

    def gradient(m: _Math, x: ir.Value, g: ir.Value) -> ir.Value:
        return m("Where", m("Greater", x, 0.0), g, m("Where", m("Less", x, 0.0), m("Neg", g), 0.0))

    return _gradient(b, "src", src, diff_dst, gradient)


@REGISTRY.lowering("ClampBackward")
def clamp_backward(
    b: Builder, src_or_dst: ir.Value, diff_dst: ir.Value, /, *, min: float, max: float, use_dst: bool = True
) -> ir.Value:
    """Lowers to Where: diff_dst where src or dst, whichever is given, lies strictly between min and max; else 0."""
    if min > max:
        raise UnsupportedAttributeError("min", min, f"at most max, which is {max}")
    return _gradient(b, "src_or_dst", src_or_dst, diff_dst, lambda m, x, g: m("Where", _inside(m, x, min, max), g, 0.0))


@REGISTRY.lowering("EluBackward")
def elu_backward(
    b: Builder, src_or_dst: ir.Value, diff_dst: ir.Value, /, *, alpha: float, use_dst: bool = True
) -> ir.Value:
    """Lowers to Where: diff_dst for positive input, else diff_dst * alpha * exp(src), or diff_dst * (dst + alpha)."""
    if use_dst and alpha < 0:
        raise UnsupportedAttributeError(
            "alpha", alpha, "at least 0 where use_dst is set: otherwise dst does not determine the sign of src"
        )

    def gradient(m: _Math, x: ir.Value, g: ir.Value) -> ir.Value:
        slope = m("Add", x, alpha) if use_dst else m("Mul", m("Exp", x), alpha)
        return m("Where", m("Greater", x, 0.0), g, m("Mul", g, slope))

    return _gradient(b, "src_or_dst", src_or_dst, diff_dst, gradient)


@REGISTRY.lowering("GELUBackward")
def gelu_backward(
    b: Builder, src: ir.Value, diff_dst: ir.Value, /, *, mode: Literal["gelu_erf", "gelu_tanh"] = "gelu_erf"
) -> ir.Value:
    """Lowers to the derivative of GELU: with Erf and Exp, or with Exp, which is accurate where Tanh is near -1."""

    def by_erf(m: _Math, x: ir.Value, g: ir.Value) -> ir.Value:
        v = m("Mul", x, math.sqrt(0.5))
        density_term = m("Mul", m("Mul", v, 2 / math.sqrt(math.pi)), m("Exp", m("Neg", m("Mul", v, v))))
        return m("Mul", m("Mul", g, 0.5), m("Add", m("Add", m("Erf", v), 1.0), density_term))

    def by_tanh(m: _Math, x: ir.Value, g: ir.Value) -> ir.Value:
        limited = m("Min", m("Max", x, -9.0), 9.0)  # beyond, the derivative is 0 or 1
        scale, square = math.sqrt(8 / math.pi), m("Mul", limited, limited)
        v = m("Mul", m("Mul", limited, -scale), m("Add", m("Mul", square, 0.044715), 1.0))
        e = m("Exp", v)
        sigmoid = m("Reciprocal", m("Add", e, 1.0))  # (1 + tanh) / 2, and e * sigmoid is (1 - tanh) / 2
        inner = m("Mul", m("Mul", limited, scale), m("Add", m("Mul", square, 3 * 0.044715), 1.0))
        return m("Mul", m("Mul", g, sigmoid), m("Add", m("Mul", m("Mul", e, sigmoid), inner), 1.0))

    return _gradient(b, "src", src, diff_dst, by_tanh if mode == "gelu_tanh" else by_erf)


@REGISTRY.lowering("HardSigmoidBackward")
def hard_sigmoid_backward(b: Builder, src: ir.Value, diff_dst: ir.Value, /, *, alpha: float, beta: float) -> ir.Value:
    """Lowers to Where: alpha * diff_dst where alpha * src + beta lies strictly between 0 and 1."""

    def gradient(m: _Math, x: ir.Value, g: ir.Value) -> ir.Value:
        line = m("Add", m("Mul", x, alpha), beta)
        return m("Where", _inside(m, line, 0.0, 1.0), m("Mul", g, alpha), 0.0)

    return _gradient(b, "src", src, diff_dst, gradient)


@REGISTRY.lowering("HardSwishBackward")
def hard_swish_backward(b: Builder, src: ir.Value, diff_dst: ir.Value, /) -> ir.Value:
    """Lowers to Where: 0 for src <= -3, diff_dst for src >= 3, else diff_dst * (src / 3 + 1 / 2)."""

    def gradient(m: _Math, x: ir.Value, g: ir.Value) -> ir.Value:
        between = m("Mul", g, m("Add", m("Mul", x, 1 / 3), 0.5))
        above = m("Where", m("GreaterOrEqual", x, 3.0), g, between)
        return m("Where", m("LessOrEqual", x, -3.0), 0.0, above)

    return _gradient(b, "src", src, diff_dst, gradient)


@REGISTRY.lowering("MishBackward")
def mish_backward(b: Builder, src: ir.Value, diff_dst: ir.Value, /) -> ir.Value:
    """Lowers to the quotient of exponentials in the specification of MishBackward; src is clipped against overflow."""

    def gradient(m: _Math, x: ir.Value, g: ir.Value) -> ir.Value:
        limited = m("Min", m("Max", x, -100.0), 20.0)
        e = m("Exp", limited)
        square = m("Mul", e, e)
        tail = m("Add", m("Mul", e, m("Add", m("Mul", limited, 4.0), 6.0)), m("Mul", m("Add", limited, 1.0), 4.0))
        omega = m("Add", m("Mul", square, m("Add", e, 4.0)), tail)
        delta = m("Add", m("Add", square, m("Mul", e, 2.0)), 2.0)
        return m("Mul", g, m("Div", m("Mul", m("Div", e, delta), omega), delta))

    return _gradient(b, "src", src, diff_dst, gradient)


@REGISTRY.lowering("ReLUBackward")
def relu_backward(b: Builder, src_or_dst: ir.Value, diff_dst: ir.Value, /, *, use_dst: bool = True) -> ir.Value:
    """Lowers to Where: diff_dst where src or dst, whichever is given, is positive; else 0."""
    return _gradient(b, "src_or_dst", src_or_dst, diff_dst, lambda m, x, g: m("Where", m("Greater", x, 0.0), g, 0.0))


@REGISTRY.lowering("SigmoidBackward")
def sigmoid_backward(b: Builder, src_or_dst: ir.Value, diff_dst: ir.Value, /, *, use_dst: bool = True) -> ir.Value:
    """Lowers to diff_dst * dst * (1 - dst); if src is given, to the same derivative computed with Exp."""

    def gradient(m: _Math, x: ir.Value, g: ir.Value) -> ir.Value:
        return m("Mul", g, m("Mul", x, m("Sub", 1.0, x)) if use_dst else _sigmoid_derivative(m, x))

    return _gradient(b, "src_or_dst", src_or_dst, diff_dst, gradient)


@REGISTRY.lowering("SoftPlusBackward")
def soft_plus_backward(b: Builder, src: ir.Value, diff_dst: ir.Value, /, *, beta: float = 1.0) -> ir.Value:
    """Lowers to diff_dst * sigmoid(beta * src)."""
    return _gradient(b, "src", src, diff_dst, lambda m, x, g: m("Mul", g, m("Sigmoid", m("Mul", x, beta))))


@REGISTRY.lowering("SqrtBackward")
def sqrt_backward(b: Builder, src_or_dst: ir.Value, diff_dst: ir.Value, /, *, use_dst: bool = True) -> ir.Value:
    """Lowers to diff_dst / (2 * dst)."""

    def gradient(m: _Math, x: ir.Value, g: ir.Value) -> ir.Value:
        return m("Div", g, m("Mul", x if use_dst else m("Sqrt", x), 2.0))

    return _gradient(b, "src_or_dst", src_or_dst, diff_dst, gradient)


@REGISTRY.lowering("TanhBackward")
def tanh_backward(b: Builder, src_or_dst: ir.Value, diff_dst: ir.Value, /, *, use_dst: bool = True) -> ir.Value:
    """Lowers to diff_dst * (1 - dst) * (1 + dst); if src is given, to the same derivative computed with Exp."""

    def gradient(m: _Math, x: ir.Value, g: ir.Value) -> ir.Value:
        if use_dst:
            return m("Mul", m("Mul", g, m("Sub", 1.0, x)), m("Add", x, 1.0))
        return m("Mul", m("Mul", g, 4.0), _sigmoid_derivative(m, m("Mul", x, 2.0)))

    return _gradient(b, "src_or_dst", src_or_dst, diff_dst, gradient)


@REGISTRY.lowering("PReLUBackward")
def prelu_backward(
    b: Builder, src: ir.Value, slope: ir.Value, diff_dst: ir.Value, /, *, data_format: DataFormat = "NXC"
) -> tuple[ir.Value, ir.Value]:
    """Lowers to Where, and for diff_slope to ReduceSum over the axes along which slope is broadcast."""
    dtype = one_type(b, src=src, slope=slope, diff_dst=diff_dst)
    for output in b.node.outputs[1:]:
        check_type("diff_slope", output.dtype, [dtype_name(dtype)])
    same_dims("diff_dst", diff_dst, "src", src)
    rank, shape = rank_of("src", src), known_dims(slope)
    dims = known_dims(src)
    if shape is None or dims is None or any(not isinstance(dim, int) for dim in shape):
        raise ShapeError("slope", shape, "a known shape is required: diff_slope is reduced to it.")
    x, g = (b.cast(value, ir.DataType.FLOAT) for value in (src, diff_dst))
    aligned = per_channel(b, "slope", b.cast(slope, ir.DataType.FLOAT), src, data_format)
    broadcast = known_dims(aligned) or []
    sizes: Dims = [*[1] * (rank - len(broadcast)), *broadcast]
    summed = [axis for axis in range(rank) if sizes[axis] == 1 and dims[axis] != 1]
    m = _Math(b, ir.DataType.FLOAT)
    positive = m("Greater", x, 0.0)
    diff_src = m("Where", positive, g, m("Mul", g, aligned))
    diff_slope = m("Where", positive, 0.0, m("Mul", g, x))
    if summed:
        diff_slope = b.op("ReduceSum", diff_slope, b.constant(summed), keepdims=1)
    if sizes != shape:
        diff_slope = b.op("Reshape", diff_slope, b.constant([dim for dim in shape if isinstance(dim, int)]))
    results = (b.typed(diff_src, ir.DataType.FLOAT, src.shape), b.typed(diff_slope, ir.DataType.FLOAT, slope.shape))
    return b.cast(results[0], dtype), b.cast(results[1], dtype)


@REGISTRY.lowering("BiasAddBackward")
def bias_add_backward(b: Builder, diff_dst: ir.Value, /, *, data_format: DataFormat = "NXC") -> ir.Value:
    """Lowers to ReduceSum over all axes but that of the channels."""
    one_type(b, diff_dst=diff_dst)
    axes = all_but_channels(rank_of("diff_dst", diff_dst), data_format)
    channels = channels_of("diff_dst", diff_dst, data_format)
    result = computed(b, (diff_dst,), lambda x: b.op("ReduceSum", x, b.constant(axes), keepdims=0), exact=False)
    return b.typed(result, None, [channels])
