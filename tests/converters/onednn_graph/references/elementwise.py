"""Elementwise ops."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tests.converters.onednn_graph.references.call import Call

_ERF = np.vectorize(math.erf, otypes=[np.float64])


def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x)) without overflow."""
    return np.exp(-np.logaddexp(0.0, -x))


def erf(x: np.ndarray) -> np.ndarray:
    """The error function; NumPy has none."""
    return _ERF(x) if x.size else x


def channel_vector(call: Call, vector: np.ndarray, rank: int) -> np.ndarray:
    """Shapes [C] so that it broadcasts along the channels; one number stays."""
    if vector.ndim != 1 or vector.size == 1:
        return vector
    shape = [1] * rank
    shape[call.channel_axis] = -1
    return vector.reshape(shape)


def _gelu(call: Call) -> np.ndarray:
    x = call.x()
    if call.get("mode", "gelu_erf") == "gelu_tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + erf(x / math.sqrt(2)))


def _prelu(call: Call) -> np.ndarray:
    x, slope = call.x(0), call.x(1)
    if call.get("per_channel_broadcast", True):
        slope = channel_vector(call, slope, x.ndim)
    return np.where(x > 0, x, x * slope)


def _elu(call: Call) -> np.ndarray:
    x = call.x()
    return np.where(x > 0, x, call.get("alpha", None) * np.expm1(np.minimum(x, 0)))


def _binary(function: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Callable[[Call], np.ndarray]:
    def apply(call: Call) -> np.ndarray:
        first, second = call.inputs[:2]
        if first.dtype == second.dtype == np.int32:
            return function(first.astype(np.int64), second.astype(np.int64))
        return function(call.x(0), call.x(1))

    return apply


def _unary(function: Callable[[np.ndarray], np.ndarray]) -> Callable[[Call], np.ndarray]:
    return lambda call: function(call.x())


OPS: dict[str, Callable[[Call], np.ndarray]] = {
    "Abs": _unary(np.abs),
    "Add": _binary(np.add),
    "BiasAdd": lambda call: call.x(0) + channel_vector(call, call.x(1), call.inputs[0].ndim),
    "Clamp": lambda call: np.minimum(np.maximum(call.x(), call.attributes["min"]), call.attributes["max"]),
    "Divide": _binary(np.divide),
    "Elu": _elu,
    "Exp": _unary(np.exp),
    "GELU": _gelu,
    "GreaterEqual": _binary(np.greater_equal),
    "HardSigmoid": lambda call: np.clip(call.attributes["alpha"] * call.x() + call.attributes["beta"], 0, 1),
    "HardSwish": _unary(lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    "LeakyReLU": lambda call: np.where(call.x() > 0, call.x(), call.attributes["alpha"] * call.x()),
    "Log": _unary(np.log),
    "Maximum": _binary(np.maximum),
    "Minimum": _binary(np.minimum),
    "Mish": _unary(lambda x: x * np.tanh(np.logaddexp(0.0, x))),
    "Multiply": _binary(np.multiply),
    "PReLU": _prelu,
    "Pow": lambda call: np.power(call.x(), call.attributes["beta"]),
    "ReLU": _unary(lambda x: np.maximum(x, 0)),
    "Reciprocal": _unary(lambda x: 1 / x),
    "Round": _unary(np.rint),
    "Select": lambda call: np.where(call.inputs[0], call.x(1), call.x(2)),
    "Sigmoid": _unary(sigmoid),
    "SoftPlus": lambda call: np.logaddexp(0.0, call.get("beta", 1.0) * call.x()) / call.get("beta", 1.0),
    "Sqrt": _unary(np.sqrt),
    "Square": _unary(np.square),
    "SquaredDifference": _binary(lambda x, y: np.square(x - y)),
    "Subtract": _binary(np.subtract),
    "Tanh": _unary(np.tanh),
}
