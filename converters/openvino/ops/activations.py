"""Activation functions.

ONNX has an op for most of them; ONNX Runtime has kernels of those for float32 only, so that on float64 they become
formulas of simpler ops.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.activation_formulas import op_or_formula, softplus_formula, softplus_of
from ortconv.converters.openvino.lib.broadcasting import rank_of
from ortconv.converters.openvino.lib.compute_types import (
    FLOATS,
    INTEGERS,
    UNSIGNED,
    apply,
    compute,
    dtype_of,
    in_one_type,
    is_static,
    narrowed,
    require,
    rounded,
    rounded_op,
    saturated,
    scalar,
    warn_of_float32_integers,
)
from ortconv.converters.openvino.lib.int64_extrema import extreme
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import ShapeError, UnsupportedAttributeError
from ortconv.graph.builder import Builder

_GELU_OPSET = 20

_Formula = Callable[[Builder, ir.Value, int], ir.Value]
"""Emits a formula of the data along an axis."""


@REGISTRY.lowering("ReLU")
def relu(b: Builder, data: ir.Value, /) -> ir.Value:
    """Relu; a comparison with zero on 64-bit integers; Identity on unsigned ones."""
    warn_of_float32_integers(b, data)
    if data.dtype in UNSIGNED:
        return b.op("Identity", data)
    if data.dtype == ir.DataType.INT64:
        return extreme(b, "Max", data, scalar(b, 0, data))
    return apply(b, "Relu", data)


@REGISTRY.lowering("PReLU")
def prelu(b: Builder, data: ir.Value, slope: ir.Value, /) -> ir.Value:
    """LeakyRelu where all slopes are one number, else PRelu, a slope per channel on axis 1; a formula on float64."""
    require(data, "data", (*FLOATS, *INTEGERS))
    own = dtype_of(data)
    data, slope = in_one_type(b, data, slope)  # in old models of float16 the slope is float32
    return narrowed(b, _prelu(b, data, _per_channel(b, data, slope)), data, own)


def _prelu(b: Builder, data: ir.Value, slope: ir.Value) -> ir.Value:
    if data.dtype != ir.DataType.DOUBLE:
        slopes = b.array(slope)
        if slopes is not None and slopes.size and (slopes == slopes.flat[0]).all() and _fits(data, slopes.shape):
            alpha = float(slopes.flat[0])  # ONNX Runtime computes LeakyRelu along with a Conv, and PRelu slowly.
            return rounded_op(b, "LeakyRelu", data, alpha=alpha)
        return rounded_op(b, "PRelu", data, slope)
    return compute(
        b,
        lambda x, s: b.op("Where", b.op("Less", x, scalar(b, 0, x)), b.op("Mul", s, x), x),
        data,
        slope,
        op_types=("Less", "Mul", "Where"),
    )


def _fits(data: ir.Value, slopes: Sequence[int]) -> bool:
    """Tells whether slopes are known to broadcast onto the data; otherwise PRelu may broadcast the data instead."""
    sizes = list(data.shape or ())[-len(slopes) :] if slopes else []
    return all(slope in (1, size) for slope, size in zip(slopes, sizes, strict=True))


def _per_channel(b: Builder, data: ir.Value, slope: ir.Value) -> ir.Value:
    """Reshapes a 1-D slope with one entry per channel; other slopes broadcast onto the data as in NumPy.

    Axes of size 1 that the slope has in front of the data's are dropped, as OpenVINO's CPU plugin does.

    Where the number of channels or of entries is not known, there are as many entries, or one: others OpenVINO's CPU
    plugin does not run.

    Raises:
        ShapeError: The slope does not broadcast onto the data.
    """
    rank = rank_of(data, "data")
    slopes = rank_of(slope, "slope")
    assert slope.shape is not None
    assert data.shape is not None
    if slopes == 1 and rank > 2 and slope.shape[0] != 1:
        entries, channels = slope.shape[0], data.shape[1]
        if not isinstance(entries, int) or not isinstance(channels, int) or entries == channels:
            behind = b.constant(list(range(1, rank - 1)))
            return b.typed(b.op("Unsqueeze", slope, behind), slope.dtype, None)
    sizes, extra = list(slope.shape), max(slopes - rank, 0)
    if extra and all(size == 1 for size in sizes[:extra] if isinstance(size, int)):
        sizes, axes = sizes[extra:], b.constant(list(range(extra)))
        slope = b.typed(b.op("Squeeze", slope, axes), slope.dtype, ir.Shape(sizes))
    pairs = zip(reversed(sizes), reversed(data.shape), strict=False)
    if len(sizes) > rank or any(isinstance(a, int) and isinstance(c, int) and a not in (1, c) for a, c in pairs):
        raise ShapeError("slope", slope.shape, f"it does not broadcast onto {data.shape}.")
    return slope


@REGISTRY.lowering("Elu")
def elu(b: Builder, data: ir.Value, /, *, alpha: float) -> ir.Value:
    """Elu; a formula on float64."""

    def formula(x: ir.Value) -> ir.Value:
        below = b.op("Mul", scalar(b, alpha, x), b.op("Sub", b.op("Exp", x), scalar(b, 1, x)))
        return b.op("Where", b.op("Less", x, scalar(b, 0, x)), below, x)

    return op_or_formula(b, data, "Elu", formula, ("Exp", "Less", "Mul", "Sub", "Where"), alpha=alpha)


@REGISTRY.lowering("Selu")
def selu(b: Builder, data: ir.Value, alpha: ir.Value, lambda_: ir.Value, /) -> ir.Value:
    """Selu, or a formula where alpha or lambda is no constant or on float64."""
    require(data, "data", FLOATS)
    a, g = b.array(alpha), b.array(lambda_)
    if a is not None and g is not None and a.size == g.size == 1 and data.dtype != ir.DataType.DOUBLE:
        return apply(b, "Selu", data, alpha=float(a.item()), gamma=float(g.item()))

    def formula(x: ir.Value, alpha: ir.Value, scale: ir.Value) -> ir.Value:
        below = b.op("Mul", alpha, b.op("Sub", b.op("Exp", x), scalar(b, 1, x)))
        return b.op("Mul", scale, b.op("Where", b.op("Greater", x, scalar(b, 0, x)), x, below))

    return compute(b, formula, data, alpha, lambda_, op_types=("Exp", "Greater", "Mul", "Sub", "Where"))


@REGISTRY.lowering("Gelu", since=2)
def gelu(b: Builder, data: ir.Value, /) -> ir.Value:
    """Gelu; a formula of Erf before opset 20."""
    return gelu_7(b, data)


@REGISTRY.lowering("Gelu", since=7)
def gelu_7(b: Builder, data: ir.Value, /, *, approximation_mode: Literal["erf", "tanh"] = "erf") -> ir.Value:
    """Gelu; a formula of Erf or Tanh before opset 20."""
    require(data, "data", FLOATS)
    exact = approximation_mode == "erf"

    def formula(x: ir.Value) -> ir.Value:
        if exact:
            inner = b.op("Erf", b.op("Mul", x, scalar(b, math.sqrt(0.5), x)))
        else:
            cube = b.op("Mul", b.op("Mul", x, x), b.op("Mul", x, scalar(b, 0.044715, x)))
            inner = b.op("Tanh", b.op("Mul", b.op("Add", x, cube), scalar(b, math.sqrt(2 / math.pi), x)))
        return b.op("Mul", b.op("Mul", x, scalar(b, 0.5, x)), b.op("Add", inner, scalar(b, 1, x)))

    if b.options.opset >= _GELU_OPSET and data.dtype != ir.DataType.DOUBLE:
        return apply(b, "Gelu", data, approximate="none" if exact else "tanh")
    return compute(b, formula, data, op_types=("Add", "Mul", "Erf" if exact else "Tanh"))


@REGISTRY.lowering("HSwish", since=4)
def hswish(b: Builder, data: ir.Value, /) -> ir.Value:
    """HardSwish; a formula on float64."""
    return op_or_formula(b, data, "HardSwish", lambda x: b.op("Mul", x, _relu6(b, x)), ("Add", "Clip", "Mul", "Div"))


@REGISTRY.lowering("HSigmoid", since=5)
def hsigmoid(b: Builder, data: ir.Value, /) -> ir.Value:
    """HardSigmoid with alpha 1/6 and beta 1/2; a formula on float64."""
    return op_or_formula(b, data, "HardSigmoid", lambda x: _relu6(b, x), ("Add", "Clip", "Div"), alpha=1 / 6, beta=0.5)


def _relu6(b: Builder, x: ir.Value) -> ir.Value:
    clipped = b.op("Clip", b.op("Add", x, scalar(b, 3, x)), scalar(b, 0, x), scalar(b, 6, x))
    return b.op("Div", clipped, scalar(b, 6, x))


@REGISTRY.lowering("HardSigmoid")
def hard_sigmoid(b: Builder, data: ir.Value, alpha: ir.Value, beta: ir.Value, /) -> ir.Value:
    """HardSigmoid, or a formula where alpha or beta is no constant or on float64."""
    require(data, "data", (*FLOATS, *INTEGERS))
    alpha, beta = _not_zero(b, "alpha", alpha, 0.2), _not_zero(b, "beta", beta, 0.5)
    slope, shift = b.array(alpha), b.array(beta)
    if slope is not None and shift is not None and slope.size == shift.size == 1 and data.dtype != ir.DataType.DOUBLE:
        return rounded_op(b, "HardSigmoid", data, alpha=float(slope.item()), beta=float(shift.item()))
    return rounded(
        b,
        lambda x, a, c: b.op("Clip", b.op("Add", b.op("Mul", x, a), c), scalar(b, 0, x), scalar(b, 1, x)),
        data,
        alpha,
        beta,
        op_types=("Add", "Clip", "Mul"),
    )


def _not_zero(b: Builder, input: str, value: ir.Value, default: float) -> ir.Value:
    """Returns a constant; a zero is replaced by the value that OpenVINO's CPU plugin uses instead."""
    known = b.array(value)
    if known is None or known.any():
        return value
    b.follow(f"follows OpenVINO's CPU plugin: uses {input} = {default} instead of 0")
    return b.constant(np.full_like(known, default, np.float64 if known.dtype == np.float64 else np.float32))


@REGISTRY.lowering("Swish", since=4)
def swish(b: Builder, data: ir.Value, beta: ir.Value | None = None, /) -> ir.Value:
    """Mul of the data and the Sigmoid of beta times the data."""
    require(data, "data", FLOATS)
    return compute(
        b,
        lambda x, beta: b.op("Mul", x, b.op("Sigmoid", x if beta is None else b.op("Mul", x, beta))),
        data,
        beta,
        op_types=("Mul", "Sigmoid"),
    )


@REGISTRY.lowering("SoftPlus", since=4)
def softplus(b: Builder, data: ir.Value, /) -> ir.Value:
    """Softplus; a formula on float64."""
    return softplus_of(b, data)


@REGISTRY.lowering("Mish", since=4)
def mish(b: Builder, data: ir.Value, /) -> ir.Value:
    """Mish; a formula on float64."""
    op_types = ("Abs", "Add", "Exp", "Log", "Max", "Mul", "Neg", "Tanh")
    return op_or_formula(b, data, "Mish", lambda x: b.op("Mul", x, b.op("Tanh", softplus_formula(b, x))), op_types)


@REGISTRY.lowering("SoftSign", since=9)
def softsign(b: Builder, data: ir.Value, /) -> ir.Value:
    """Softsign; a formula on float64."""
    return op_or_formula(
        b,
        data,
        "Softsign",
        lambda x: b.op("Div", x, b.op("Add", b.op("Abs", x), scalar(b, 1, x))),
        ("Abs", "Add", "Div"),
    )


@REGISTRY.lowering("Clamp")
def clamp(b: Builder, data: ir.Value, /, *, min: float, max: float) -> ir.Value:
    """Clip; on integers min is rounded up, max down, and both into the type's range; comparisons on 64-bit ones."""
    require(data, "data", (*FLOATS, *INTEGERS))
    if min > max:
        raise UnsupportedAttributeError("min", min, f"at most max, {max}")
    dtype = dtype_of(data)
    if dtype in INTEGERS:
        info = np.iinfo(dtype.numpy())
        inner = _whole(min, math.ceil), _whole(max, math.floor)
        if dtype.bitwidth == 8 and is_static(data):
            cut = _whole(min, math.trunc), _whole(max, math.trunc)
            if cut != inner:
                b.follow("follows OpenVINO's CPU plugin: truncates the bounds of 8-bit data of static shape")
            inner = cut
        low, high = (_into(bound, info.min, info.max) for bound in inner)
        if low > high:
            raise UnsupportedAttributeError(
                "min", min, f"a value with an integer of {dtype} between it and max = {max}"
            )
        bounds = [b.constant(np.array(bound, dtype.numpy())) for bound in (low, high)]
    else:
        with np.errstate(over="ignore"):
            bounds = [scalar(b, bound, data) for bound in (min, max)]
    if dtype == ir.DataType.INT64:
        return extreme(b, "Min", b.typed(extreme(b, "Max", data, bounds[0]), dtype, data.shape), bounds[1])
    return apply(b, "Clip", data, *bounds)


def _whole(bound: float, rounding: Callable[[float], int]) -> float:
    return bound if math.isinf(bound) else rounding(bound)


def _into(bound: float, low: int, high: int) -> int:
    return low if bound < low else high if bound > high else int(bound)


def _register_softmax(op_type: str, onnx_op: str, since: int, until: int, whole: _Formula | None = None) -> None:
    def lower(b: Builder, data: ir.Value, /, *, axis: int | None = None) -> ir.Value:
        require(data, "data", (*FLOATS, *INTEGERS))
        if axis is None:
            axis = 1 if b.node.version > 1 else 0
            if not axis:
                b.follow("follows OpenVINO: axis is missing and defaults to 0; the specification says 1")
        if whole is not None and data.dtype in INTEGERS:
            return _along_axis(b, data, axis, whole)
        return rounded(
            b,
            lambda x: _along_axis(b, x, axis, lambda b, x, axis: b.op(onnx_op, x, axis=axis)),
            data,
            op_types=(onnx_op,),
        )

    lower.__doc__ = f"{onnx_op}."
    REGISTRY.lowering(op_type, since=since, until=until)(lower)


def _along_axis(b: Builder, data: ir.Value, axis: int, formula: _Formula) -> ir.Value:
    """Emits a formula along an axis; the specification treats a scalar as a vector of one element."""
    if data.shape is None or len(data.shape):
        return formula(b, data, axis)
    only = b.constant([0])
    vector = b.typed(b.op("Unsqueeze", data, only), data.dtype, [1])
    return b.op("Squeeze", formula(b, vector, 0), only)


def _whole_log_softmax(b: Builder, data: ir.Value, axis: int) -> ir.Value:
    """Emits x - max - round(log(count of the maximum)): all other exponentials round to 0."""
    dtype = dtype_of(data)
    b.follow(
        "integers: follows OpenVINO's CPU plugin, which rounds after each step, so that smaller entries do not "
        "count in the sum; the specification does not define it. Beyond 2^24 the plugin may differ"
    )
    x = b.cast(data, ir.DataType.INT32)
    axes = b.constant([axis])
    largest = b.op("ReduceMax", x, axes, keepdims=1)
    equal = b.op("Cast", b.op("Equal", x, largest), to=int(ir.DataType.FLOAT))
    count = b.op("ReduceSum", equal, axes, keepdims=1)
    if dtype == ir.DataType.INT8:
        count = b.op("Min", count, b.constant(127, np.float32))  # the sum saturates
    logarithm = b.op("Cast", b.op("Round", b.op("Log", count)), to=int(ir.DataType.INT32))
    whole = b.typed(b.op("Sub", b.op("Sub", x, largest), logarithm), ir.DataType.INT32, data.shape)
    return saturated(b, whole, dtype) if dtype.bitwidth == 8 else b.cast(whole, dtype)


_register_softmax("SoftMax", "Softmax", 1, 8)
_register_softmax("LogSoftmax", "LogSoftmax", 5, 5, _whole_log_softmax)
