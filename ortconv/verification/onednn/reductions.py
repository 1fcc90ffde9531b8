"""oneDNN's reductions, softmax and MatMul in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ortconv.model_io.input_data import Array
from ortconv.verification.onednn.call import Call

__all__ = ["REDUCTIONS"]


def _reduce(function: Callable[..., Any]) -> Callable[[Call], Array]:
    def apply(call: Call) -> Array:
        src, given = call.input(0), call.optional(1)
        axes = tuple(call.ints("axes") if given is None else [int(axis) for axis in given])
        return np.asarray(function(src, axis=axes, keepdims=call.flag("keep_dims", False))) if axes else src

    return apply


def _soft_max(call: Call) -> tuple[Array, Array]:
    src, axis = call.input(0), int(call.number("axis", 1))
    largest = src.max(axis=axis, keepdims=True)
    powers = np.exp(src - largest)
    total = powers.sum(axis=axis, keepdims=True)
    dst, stats = powers / total, largest + np.log(total)
    if call.text("mode", "none") == "inf_as_zero":
        empty = largest == -np.inf
        dst, stats = np.where(empty, 0.0, dst), np.where(empty, 0.0, stats)
    return dst, stats


def _log_soft_max(call: Call) -> Array:
    src, axis = call.input(0), int(call.number("axis", -1))
    shifted = src - src.max(axis=axis, keepdims=True)
    result: Array = shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))
    return result


def _soft_max_backward(call: Call) -> Array:
    diff_dst, dst = call.input(0), call.input(1)
    total = (diff_dst * dst).sum(axis=int(call.number("axis", 1)), keepdims=True)
    return np.asarray(dst * (diff_dst - total))


def _log_soft_max_backward(call: Call) -> Array:
    diff_dst, dst = call.input(0), call.input(1)
    total = diff_dst.sum(axis=int(call.number("axis", -1)), keepdims=True)
    return np.asarray(diff_dst - np.exp(dst) * total)


def _mat_mul(call: Call) -> Array:
    left, right, bias = call.input(0), call.input(1), call.optional(2)
    if call.flag("transpose_a", False) and left.ndim > 1:
        left = np.swapaxes(left, -1, -2)
    if call.flag("transpose_b", False) and right.ndim > 1:
        right = np.swapaxes(right, -1, -2)
    product = np.asarray(np.matmul(left, right))
    return product if bias is None else product + bias


REDUCTIONS: dict[str, Callable[[Call], Array | tuple[Array, ...]]] = {
    "LogSoftmax": _log_soft_max,
    "LogSoftmaxBackward": _log_soft_max_backward,
    "MatMul": _mat_mul,
    "ReduceL1": _reduce(lambda x, **how: np.abs(x).sum(**how)),
    "ReduceL2": _reduce(lambda x, **how: np.sqrt(np.square(x).sum(**how))),
    "ReduceMax": _reduce(np.max),
    "ReduceMean": _reduce(np.mean),
    "ReduceMin": _reduce(np.min),
    "ReduceProd": _reduce(np.prod),
    "ReduceSum": _reduce(np.sum),
    "SoftMax": _soft_max,
    "SoftMaxBackward": _soft_max_backward,
}
"""Op kind -> its evaluation."""
