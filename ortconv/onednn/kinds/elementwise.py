"""oneDNN's elementwise ops in float64, written from their specification."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ortconv.onednn.call import Array, Call
from ortconv.onednn.op_schema import define
from ortconv.onednn.shape_rules import broadcast

__all__ = ["erf", "sigmoid"]


def _unary(kind: str, function: Callable[[Array], Array]) -> None:
    define(kind, "src", "dst")(lambda call: function(call.input(0)))


def _binary(kind: str, function: Callable[[Array, Array], Array], dtype: int | str = 0) -> None:
    """Defines an op that broadcasts as NumPy does."""
    register = define(kind, "src_0 src_1", "dst", "auto_broadcast?", shapes=broadcast, dtype=dtype)
    register(lambda call: function(call.input(0), call.input(1)))


def sigmoid(x: Array) -> Array:
    """Returns 1 / (1 + exp(-x)) without overflow."""
    result: Array = np.exp(-np.logaddexp(0.0, -x))
    return result


def erf(x: Array) -> Array:
    """Returns the error function, which NumPy lacks."""
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x)).reshape(x.shape)


@define("Clamp", "src", "dst", "min max")
def _clamp(call: Call) -> Array:
    return np.maximum(np.minimum(call.input(0), call.number("max")), call.number("min"))


@define("Elu", "src", "dst", "alpha")
def _elu(call: Call) -> Array:
    x = call.input(0)
    return np.where(x > 0.0, x, call.number("alpha") * np.expm1(x))


@define("GELU", "src", "dst", "mode?")
def _gelu(call: Call) -> Array:
    x = call.input(0)
    if call.text("mode", "gelu_erf") == "gelu_tanh":
        inner = np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3))
    else:
        inner = erf(x / math.sqrt(2.0))
    result: Array = 0.5 * x * (1.0 + inner)
    return result


@define("HardSigmoid", "src", "dst", "alpha beta")
def _hard_sigmoid(call: Call) -> Array:
    return np.clip(call.number("alpha") * call.input(0) + call.number("beta"), 0.0, 1.0)


@define("LeakyReLU", "src", "dst", "alpha")
def _leaky_relu(call: Call) -> Array:
    x = call.input(0)
    return np.where(x > 0.0, x, call.number("alpha") * x)


@define("PReLU", "src slope", "dst", "data_format? per_channel_broadcast:bool?")
def _prelu(call: Call) -> Array:
    src, slope = call.input(0), call.input(1)
    if call.flag("per_channel_broadcast", True):
        slope = call.channel_vector(slope, src.ndim)
    return np.where(src > 0.0, src, slope * src)


@define("Select", "cond src_0 src_1", "dst", "auto_broadcast?", shapes=broadcast)
def _select(call: Call) -> Array:
    return np.where(call.input(0), call.input(1), call.input(2))


@define("SoftPlus", "src", "dst", "beta?")
def _soft_plus(call: Call) -> Array:
    beta = call.number("beta", 1.0)
    return np.logaddexp(0.0, beta * call.input(0)) / beta


@define("Pow", "src", "dst", "beta")
def _pow(call: Call) -> Array:
    return np.power(call.input(0), call.number("beta"))


@define("BiasAdd", "src bias", "dst", "data_format?")
def _bias_add(call: Call) -> Array:
    return call.input(0) + call.per_channel(call.input(1), call.input(0).ndim)


_unary("Abs", np.abs)
_unary("Exp", np.exp)
_unary("HardSwish", lambda x: x * np.clip(x / 6.0 + 0.5, 0.0, 1.0))
_unary("Log", np.log)
_unary("Mish", lambda x: x * np.tanh(np.logaddexp(0.0, x)))
_unary("ReLU", lambda x: np.maximum(x, 0.0))
_unary("Reciprocal", lambda x: 1.0 / x)
_unary("Round", np.rint)
_unary("Sigmoid", sigmoid)
_unary("Sqrt", np.sqrt)
_unary("Square", np.square)
_unary("Tanh", np.tanh)

_binary("Add", np.add)
_binary("Divide", np.divide)
_binary("GreaterEqual", np.greater_equal, "boolean")
_binary("Maximum", np.maximum)
_binary("Minimum", np.minimum)
_binary("Multiply", np.multiply)
_binary("SquaredDifference", lambda a, b: np.square(a - b))
_binary("Subtract", np.subtract)
