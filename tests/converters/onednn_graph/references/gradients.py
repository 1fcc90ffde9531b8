"""Gradients of elementwise ops: the derivative by hand, times diff_dst."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tests.converters.onednn_graph.references.call import Call
from tests.converters.onednn_graph.references.elementwise import channel_vector, erf, sigmoid

Derivative = Callable[[Call, np.ndarray], np.ndarray]


def _by(derivative: Derivative) -> Callable[[Call], np.ndarray]:
    """Multiplies a derivative, of the first input, by the second; where it is 0 so is the gradient."""

    def gradient(call: Call) -> np.ndarray:
        slope, diff_dst = derivative(call, call.x(0)), call.x(1)
        return np.where(slope == 0, 0, slope * diff_dst)

    return gradient


def _of_dst(of_dst: Callable[[np.ndarray], np.ndarray], forward: Callable[[np.ndarray], np.ndarray]) -> Derivative:
    """A derivative in terms of the forward result, which is the first input unless use_dst is false."""
    return lambda call, x: of_dst(x if call.get("use_dst", True) else forward(x))


def _elu(call: Call, x: np.ndarray) -> np.ndarray:
    alpha = call.attributes["alpha"]
    return np.where(x > 0, 1, x + alpha if call.get("use_dst", True) else alpha * np.exp(np.minimum(x, 0)))


def _gelu(call: Call, x: np.ndarray) -> np.ndarray:
    if call.get("mode", "gelu_erf") == "gelu_erf":
        return 0.5 * (1 + erf(x / math.sqrt(2))) + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    a = math.sqrt(2 / math.pi)
    t = np.tanh(a * (x + 0.044715 * x**3))
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * a * (1 + 3 * 0.044715 * x * x)


def _hard_sigmoid(call: Call, x: np.ndarray) -> np.ndarray:
    alpha, beta = call.attributes["alpha"], call.attributes["beta"]
    line = np.float32(alpha) * x + np.float32(beta)
    return np.where((line > 0) & (line < 1), alpha, 0)


def _hard_swish(call: Call, x: np.ndarray) -> np.ndarray:
    return np.where(x <= -3, 0, np.where(x >= 3, 1, x / 3 + 0.5))


def _mish(call: Call, x: np.ndarray) -> np.ndarray:
    t = np.tanh(np.logaddexp(0.0, x))
    return t + x * sigmoid(x) * (1 - t * t)


def _prelu(call: Call) -> tuple[np.ndarray, np.ndarray]:
    x, slope, g = call.x(0), call.x(1), call.x(2)
    aligned = channel_vector(call, slope, x.ndim)
    diff_src = np.where(x > 0, g, g * aligned)
    each = np.where(x > 0, 0, g * x)
    full = (1,) * (x.ndim - aligned.ndim) + aligned.shape
    axes = tuple(axis for axis in range(x.ndim) if full[axis] == 1)
    return diff_src, each.sum(axis=axes, keepdims=True).reshape(slope.shape)


def _bias(call: Call) -> np.ndarray:
    g = np.moveaxis(call.x(), call.channel_axis, 0)
    return g.reshape(g.shape[0], -1).sum(axis=1)


OPS: dict[str, Callable[[Call], np.ndarray | tuple[np.ndarray, ...]]] = {
    "AbsBackward": _by(lambda call, x: np.sign(x)),
    "BiasAddBackward": _bias,
    "ClampBackward": _by(
        lambda call, x: 1.0 * (x > np.float32(call.attributes["min"])) * (x < np.float32(call.attributes["max"]))
    ),
    "EluBackward": _by(_elu),
    "GELUBackward": _by(_gelu),
    "HardSigmoidBackward": _by(_hard_sigmoid),
    "HardSwishBackward": _by(_hard_swish),
    "MishBackward": _by(_mish),
    "PReLUBackward": _prelu,
    "ReLUBackward": _by(lambda call, x: (x > 0) * 1.0),
    "SigmoidBackward": _by(_of_dst(lambda y: y * (1 - y), sigmoid)),
    "SoftPlusBackward": _by(lambda call, x: sigmoid(call.get("beta", 1.0) * x)),
    "SqrtBackward": _by(_of_dst(lambda y: 0.5 / y, np.sqrt)),
    "TanhBackward": _by(_of_dst(lambda y: 1 - y * y, np.tanh)),
}
