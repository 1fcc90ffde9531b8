"""oneDNN's reductions, softmax and MatMul in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ortconv.onednn.call import Array, Call
from ortconv.onednn.op_schema import define
from ortconv.onednn.shape_rules import Attributes, Shape, broadcast


def _reduced_shape(inputs: Sequence[Shape], attributes: Attributes) -> Shape:
    src, axes = inputs[0], attributes.get("axes", ())
    if src is None or len(inputs) > 1 or "axes" not in attributes:
        return None
    if any(not -len(src) <= axis < len(src) for axis in axes):
        return None
    gone = {axis % len(src) for axis in axes}
    if attributes.get("keep_dims", False):
        return tuple(1 if axis in gone else dim for axis, dim in enumerate(src))
    return tuple(dim for axis, dim in enumerate(src) if axis not in gone)


def _reduction(kind: str, function: Callable[..., Any]) -> None:
    def reduce(call: Call) -> Array:
        src, given = call.input(0), call.optional(1)
        axes = tuple(call.ints("axes") if given is None else [int(axis) for axis in given])
        return np.asarray(function(src, axis=axes, keepdims=call.flag("keep_dims", False))) if axes else src

    define(kind, "src axes?", "dst", "axes? keep_dims:bool?", shapes=_reduced_shape)(reduce)


_reduction("ReduceL1", lambda x, **how: np.abs(x).sum(**how))
_reduction("ReduceL2", lambda x, **how: np.sqrt(np.square(x).sum(**how)))
_reduction("ReduceMax", np.max)
_reduction("ReduceMean", np.mean)
_reduction("ReduceMin", np.min)
_reduction("ReduceProd", np.prod)
_reduction("ReduceSum", np.sum)


def _soft_max_shapes(inputs: Sequence[Shape], attributes: Attributes) -> list[Shape]:
    src, axis = inputs[0], attributes.get("axis", 1)
    if src is None or not -len(src) <= axis < len(src):
        return [src]
    return [src, tuple(1 if at == axis % len(src) else dim for at, dim in enumerate(src))]


@define("SoftMax", "src", "dst stats?", "axis? mode?", shapes=_soft_max_shapes)
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


@define("LogSoftmax", "src", "dst", "axis?")
def _log_soft_max(call: Call) -> Array:
    src, axis = call.input(0), int(call.number("axis", -1))
    shifted = src - src.max(axis=axis, keepdims=True)
    result: Array = shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))
    return result


@define("SoftMaxBackward", "diff_dst dst", "diff_src", "axis?")
def _soft_max_backward(call: Call) -> Array:
    diff_dst, dst = call.input(0), call.input(1)
    total = (diff_dst * dst).sum(axis=int(call.number("axis", 1)), keepdims=True)
    return np.asarray(dst * (diff_dst - total))


@define("LogSoftmaxBackward", "diff_dst dst", "diff_src", "axis?")
def _log_soft_max_backward(call: Call) -> Array:
    diff_dst, dst = call.input(0), call.input(1)
    total = diff_dst.sum(axis=int(call.number("axis", -1)), keepdims=True)
    return np.asarray(diff_dst - np.exp(dst) * total)


def _product_shape(inputs: Sequence[Shape], attributes: Attributes) -> Shape:
    left, right = inputs[0], inputs[1]
    if left is None or right is None or not left or not right:
        return None
    if attributes.get("transpose_a") and len(left) > 1:
        left = (*left[:-2], left[-1], left[-2])
    if attributes.get("transpose_b") and len(right) > 1:
        right = (*right[:-2], right[-1], right[-2])
    inner = right[0] if len(right) == 1 else right[-2]
    if None not in (left[-1], inner) and left[-1] != inner:
        return None
    batch = broadcast([left[:-2], right[:-2]], attributes)
    if batch is None:
        return None
    return (*batch, *left[:-1][-1:], *(right[-1:] if len(right) > 1 else ()))


@define(
    "MatMul",
    "src weights bias?",
    "dst",
    "transpose_a:bool? transpose_b:bool? accumulation_mode:string?",
    shapes=_product_shape,
)
def _mat_mul(call: Call) -> Array:
    left, right, bias = call.input(0), call.input(1), call.optional(2)
    if call.flag("transpose_a", False) and left.ndim > 1:
        left = np.swapaxes(left, -1, -2)
    if call.flag("transpose_b", False) and right.ndim > 1:
        right = np.swapaxes(right, -1, -2)
    product = np.asarray(np.matmul(left, right))
    return product if bias is None else product + bias
