"""SoftMax, LogSoftmax and their gradients."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.converters.onednn_graph.references.call import Call


def _log_sum(x: np.ndarray, axis: int) -> np.ndarray:
    largest = x.max(axis=axis, keepdims=True)
    return largest + np.log(np.exp(x - largest).sum(axis=axis, keepdims=True))


def _soft_max(call: Call) -> tuple[np.ndarray, np.ndarray]:
    x, axis = call.x(), call.get("axis", 1)
    stats = _log_sum(x, axis)
    dst = np.exp(x - x.max(axis=axis, keepdims=True))
    dst = dst / dst.sum(axis=axis, keepdims=True)
    if call.get("mode", "none") == "inf_as_zero":
        empty = (x == -np.inf).all(axis=axis, keepdims=True)
        dst, stats = np.where(empty, 0, dst), np.where(empty, 0, stats)
    return dst, stats


def _log_soft_max(call: Call) -> np.ndarray:
    x = call.x()
    return x - _log_sum(x, call.get("axis", -1))


def _soft_max_backward(call: Call) -> np.ndarray:
    g, y = call.x(0), call.x(1)
    return y * (g - (g * y).sum(axis=call.get("axis", 1), keepdims=True))


def _log_soft_max_backward(call: Call) -> np.ndarray:
    g, y = call.x(0), call.x(1)
    return g - np.exp(y) * g.sum(axis=call.get("axis", -1), keepdims=True)


OPS: dict[str, Callable[[Call], np.ndarray | tuple[np.ndarray, ...]]] = {
    "LogSoftmax": _log_soft_max,
    "LogSoftmaxBackward": _log_soft_max_backward,
    "SoftMax": _soft_max,
    "SoftMaxBackward": _soft_max_backward,
}
