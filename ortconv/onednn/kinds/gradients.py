"""Gradients of oneDNN's elementwise ops in float64, written from their specification."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ortconv.onednn.call import Array, Call
from ortconv.onednn.kinds.elementwise import erf, sigmoid
from ortconv.onednn.op_schema import define
from ortconv.onednn.shape_rules import Attributes, Shape, channel_axis, like

_Slope = Callable[[Call, Array], Array]


def _times(kind: str, slope: _Slope, attributes: str = "", first: str = "src") -> None:
    """Defines the product of diff_dst and a slope at the first input; a slope of 0 gives 0 whatever diff_dst is."""

    def gradient(call: Call) -> Array:
        at = slope(call, call.input(0))
        return np.where(at == 0.0, 0.0, at * call.input(1))

    define(kind, f"{first} diff_dst", "diff_src", attributes)(gradient)


def _at_dst(kind: str, slope: Callable[[Array], Array], forward: Callable[[Array], Array]) -> None:
    """Defines a gradient by a slope in terms of the forward result, the input of the op unless use_dst is false."""
    _times(kind, lambda call, x: slope(x if call.flag("use_dst", True) else forward(x)), "use_dst?", "src_or_dst")


def _inside(x: Array, low: float, high: float) -> Array:
    result: Array = (x > low) & (x < high)
    return result


def _elu(call: Call, x: Array) -> Array:
    alpha = call.number("alpha")
    return np.where(x > 0.0, 1.0, x + alpha if call.flag("use_dst", True) else alpha * np.exp(x))


def _gelu(call: Call, x: Array) -> Array:
    if call.text("mode", "gelu_erf") == "gelu_tanh":
        scale = math.sqrt(2.0 / math.pi)
        t = np.tanh(scale * (x + 0.044715 * x**3))
        inner: Array = scale * (1.0 + 3.0 * 0.044715 * x * x)
        return 0.5 * (1.0 + t) * (1.0 + x * (1.0 - t) * inner)
    bell = np.exp(-x * x / 2.0) / math.sqrt(2.0 * math.pi)
    return 0.5 * (1.0 + erf(x / math.sqrt(2.0))) + x * bell


def _hard_sigmoid(call: Call, x: Array) -> Array:
    alpha = call.number("alpha")
    return np.where(_inside(alpha * x + call.number("beta"), 0.0, 1.0), alpha, 0.0)


def _hard_swish(call: Call, x: Array) -> Array:
    return np.where(x <= -3.0, 0.0, np.where(x >= 3.0, 1.0, x / 3.0 + 0.5))


def _mish(call: Call, x: Array) -> Array:
    t = np.tanh(np.logaddexp(0.0, x))
    result: Array = t + x * sigmoid(x) * (1.0 - t * t)
    return result


@define("PReLUBackward", "src slope diff_dst", "diff_src diff_slope", "data_format?", shapes=like(0, 1), other_dtype=0)
def _prelu(call: Call) -> tuple[Array, Array]:
    src, slope, diff_dst = (call.input(index) for index in range(3))
    aligned = call.channel_vector(slope, src.ndim)
    each = np.where(src > 0.0, 0.0, diff_dst * src)
    shape = (1,) * (src.ndim - aligned.ndim) + aligned.shape
    summed = each.sum(axis=tuple(axis for axis, size in enumerate(shape) if size == 1), keepdims=True)
    return np.where(src > 0.0, diff_dst, diff_dst * aligned), summed.reshape(slope.shape)


def _bias_shape(inputs: Sequence[Shape], attributes: Attributes) -> Shape:
    diff_dst = inputs[0]
    return None if diff_dst is None or len(diff_dst) < 2 else (diff_dst[channel_axis(attributes)],)


@define("BiasAddBackward", "diff_dst", "diff_bias", "data_format?", shapes=_bias_shape)
def _bias(call: Call) -> Array:
    diff_dst = call.ncx(call.input(0))
    result: Array = diff_dst.sum(axis=tuple(axis for axis in range(diff_dst.ndim) if axis != 1))
    return result


def _relu(call: Call, x: Array) -> Array:
    return np.where(x > 0.0, 1.0, 0.0)


def _clamp(call: Call, x: Array) -> Array:
    return np.where(_inside(x, call.number("min"), call.number("max")), 1.0, 0.0)


_times("AbsBackward", lambda call, x: np.sign(x))
_times("ClampBackward", _clamp, "min max use_dst?", "src_or_dst")
_times("EluBackward", _elu, "alpha use_dst?", "src_or_dst")
_times("GELUBackward", _gelu, "mode?")
_times("HardSigmoidBackward", _hard_sigmoid, "alpha beta")
_times("HardSwishBackward", _hard_swish)
_times("MishBackward", _mish)
_times("ReLUBackward", _relu, "use_dst?", "src_or_dst")
_times("SoftPlusBackward", lambda call, x: sigmoid(call.number("beta", 1.0) * x), "beta?")
_at_dst("SigmoidBackward", lambda y: y * (1.0 - y), sigmoid)
_at_dst("SqrtBackward", lambda y: 0.5 / y, np.sqrt)
_at_dst("TanhBackward", lambda y: 1.0 - y * y, np.tanh)
