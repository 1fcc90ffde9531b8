"""oneDNN's elementwise ops in float64, written from their specification."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ortconv.model_io.input_data import Array
from ortconv.verification.onednn.call import Call

__all__ = ["ELEMENTWISE", "erf", "sigmoid"]


def _unary(function: Callable[[Array], Array]) -> Callable[[Call], Array]:
    return lambda call: function(call.input(0))


def _binary(function: Callable[[Array, Array], Array]) -> Callable[[Call], Array]:
    return lambda call: function(call.input(0), call.input(1))


def sigmoid(x: Array) -> Array:
    """Returns 1 / (1 + exp(-x)) without overflow."""
    result: Array = np.exp(-np.logaddexp(0.0, -x))
    return result


def erf(x: Array) -> Array:
    """Returns the error function, which NumPy lacks."""
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x)).reshape(x.shape)


def _clamp(call: Call) -> Array:
    return np.maximum(np.minimum(call.input(0), call.number("max")), call.number("min"))


def _elu(call: Call) -> Array:
    x = call.input(0)
    return np.where(x > 0.0, x, call.number("alpha") * np.expm1(x))


def _gelu(call: Call) -> Array:
    x = call.input(0)
    if call.text("mode", "gelu_erf") == "gelu_tanh":
        inner = np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3))
    else:
        inner = erf(x / math.sqrt(2.0))
    result: Array = 0.5 * x * (1.0 + inner)
    return result


def _hard_sigmoid(call: Call) -> Array:
    return np.clip(call.number("alpha") * call.input(0) + call.number("beta"), 0.0, 1.0)


def _leaky_relu(call: Call) -> Array:
    x = call.input(0)
    return np.where(x > 0.0, x, call.number("alpha") * x)


def _prelu(call: Call) -> Array:
    src, slope = call.input(0), call.input(1)
    if call.flag("per_channel_broadcast", True):
        slope = call.channel_vector(slope, src.ndim)
    return np.where(src > 0.0, src, slope * src)


def _select(call: Call) -> Array:
    return np.where(call.input(0), call.input(1), call.input(2))


def _soft_plus(call: Call) -> Array:
    beta = call.number("beta", 1.0)
    return np.logaddexp(0.0, beta * call.input(0)) / beta


ELEMENTWISE: dict[str, Callable[[Call], Array]] = {
    "Abs": _unary(np.abs),
    "Add": _binary(np.add),
    "Clamp": _clamp,
    "Divide": _binary(np.divide),
    "Elu": _elu,
    "Exp": _unary(np.exp),
    "GELU": _gelu,
    "GreaterEqual": _binary(np.greater_equal),
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _unary(lambda x: x * np.clip(x / 6.0 + 0.5, 0.0, 1.0)),
    "LeakyReLU": _leaky_relu,
    "Log": _unary(np.log),
    "Maximum": _binary(np.maximum),
    "Minimum": _binary(np.minimum),
    "Mish": _unary(lambda x: x * np.tanh(np.logaddexp(0.0, x))),
    "Multiply": _binary(np.multiply),
    "PReLU": _prelu,
    "Pow": lambda call: np.power(call.input(0), call.number("beta")),
    "ReLU": _unary(lambda x: np.maximum(x, 0.0)),
    "Reciprocal": _unary(lambda x: 1.0 / x),
    "Round": _unary(np.rint),
    "Select": _select,
    "Sigmoid": _unary(sigmoid),
    "SoftPlus": _soft_plus,
    "Sqrt": _unary(np.sqrt),
    "Square": _unary(np.square),
    "SquaredDifference": _binary(lambda a, b: np.square(a - b)),
    "Subtract": _binary(np.subtract),
    "Tanh": _unary(np.tanh),
}
"""Op kind -> its evaluation; binary ops broadcast as numpy does."""
