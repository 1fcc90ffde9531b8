"""Gradients of oneDNN's elementwise ops in float64, written from their specification."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ortconv.model_io.input_data import Array
from ortconv.verification.onednn.call import Call
from ortconv.verification.onednn.elementwise import erf, sigmoid

__all__ = ["GRADIENTS"]

_Slope = Callable[[Call, Array], Array]


def _times(slope: _Slope) -> Callable[[Call], Array]:
    """Multiplies diff_dst by a slope at the first input; a slope of 0 gives 0 whatever diff_dst is."""

    def gradient(call: Call) -> Array:
        at = slope(call, call.input(0))
        return np.where(at == 0.0, 0.0, at * call.input(1))

    return gradient


def _at_dst(slope: Callable[[Array], Array], forward: Callable[[Array], Array]) -> _Slope:
    """Returns a gradient by a slope in terms of the forward result, the input of the op unless use_dst is false."""
    return lambda call, x: slope(x if call.flag("use_dst", True) else forward(x))


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


def _prelu(call: Call) -> tuple[Array, Array]:
    src, slope, diff_dst = (call.input(index) for index in range(3))
    aligned = call.channel_vector(slope, src.ndim)
    each = np.where(src > 0.0, 0.0, diff_dst * src)
    shape = (1,) * (src.ndim - aligned.ndim) + aligned.shape
    summed = each.sum(axis=tuple(axis for axis, size in enumerate(shape) if size == 1), keepdims=True)
    return np.where(src > 0.0, diff_dst, diff_dst * aligned), summed.reshape(slope.shape)


def _bias(call: Call) -> Array:
    diff_dst = call.ncx(call.input(0))
    result: Array = diff_dst.sum(axis=tuple(axis for axis in range(diff_dst.ndim) if axis != 1))
    return result


GRADIENTS: dict[str, Callable[[Call], Array | tuple[Array, ...]]] = {
    "AbsBackward": _times(lambda call, x: np.sign(x)),
    "BiasAddBackward": _bias,
    "ClampBackward": _times(lambda call, x: np.where(_inside(x, call.number("min"), call.number("max")), 1.0, 0.0)),
    "EluBackward": _times(_elu),
    "GELUBackward": _times(_gelu),
    "HardSigmoidBackward": _times(_hard_sigmoid),
    "HardSwishBackward": _times(_hard_swish),
    "MishBackward": _times(_mish),
    "PReLUBackward": _prelu,
    "ReLUBackward": _times(lambda call, x: np.where(x > 0.0, 1.0, 0.0)),
    "SigmoidBackward": _times(_at_dst(lambda y: y * (1.0 - y), sigmoid)),
    "SoftPlusBackward": _times(lambda call, x: sigmoid(call.number("beta", 1.0) * x)),
    "SqrtBackward": _times(_at_dst(lambda y: 0.5 / y, np.sqrt)),
    "TanhBackward": _times(_at_dst(lambda y: 1.0 - y * y, np.tanh)),
}
"""Op kind -> its evaluation."""
