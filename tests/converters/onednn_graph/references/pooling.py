"""Pools and their gradients, window by window."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import ml_dtypes
import numpy as np

from tests.converters.onednn_graph.references.call import Call
from tests.converters.onednn_graph.references.windows import Axis, axes_of, windows


def _max_pool(call: Call) -> np.ndarray:
    lowest = float(ml_dtypes.finfo(call.inputs[0].dtype).min)
    return _pooled(call, lambda values, _: values.max(axis=-1, initial=lowest))


def _avg_pool(call: Call) -> np.ndarray:
    return _pooled(call, lambda values, axes: values.sum(axis=-1) / _divisor(call, axes, values.shape[-1]))


def _pooled(call: Call, reduce: Callable[[np.ndarray, Sequence[Axis]], np.ndarray]) -> np.ndarray:
    src = call.ncx(call.x())
    sizes = src.shape[2:]
    axes = axes_of(call, sizes, call.attributes["kernel"])
    ceil = call.get("rounding_type", "floor") == "ceil"
    counts = [axis.count(size, ceil=ceil) for axis, size in zip(axes, sizes, strict=True)]
    dst = np.zeros((*src.shape[:2], *counts))
    for at, covered in windows(axes, counts, sizes):
        values = np.stack([src[:, :, *q] for q in covered], axis=-1) if covered else np.zeros((*src.shape[:2], 0))
        dst[:, :, *at] = reduce(values, axes)
    return call.own(dst)


def _divisor(call: Call, axes: Sequence[Axis], inside: int) -> int:
    return inside if call.attributes["exclude_pad"] else math.prod(axis.kernel for axis in axes)


def _avg_pool_backward(call: Call) -> np.ndarray:
    diff_dst = call.ncx(call.x())
    shape = [int(size) for size in call.inputs[1]] if call.has(1) else call.get("src_shape", call.outputs[0].shape)
    diff_src = call.ncx(np.zeros(shape))
    axes = axes_of(call, diff_src.shape[2:], call.attributes["kernel"])
    for at, covered in windows(axes, diff_dst.shape[2:], diff_src.shape[2:]):
        for q in covered:
            diff_src[:, :, *q] += diff_dst[:, :, *at] / _divisor(call, axes, len(covered))
    return call.own(diff_src)


def _max_pool_backward(call: Call) -> np.ndarray:
    src, diff_dst = call.ncx(call.x()), call.ncx(call.x(1))
    diff_src = np.zeros(src.shape)
    axes = axes_of(call, src.shape[2:], call.attributes["kernel"])
    for at, covered in windows(axes, diff_dst.shape[2:], src.shape[2:]):
        for n, c in np.ndindex(*src.shape[:2]):
            values = [src[n, c, *q] for q in covered]
            if values:
                diff_src[n, c, *covered[int(np.argmax(values))]] += diff_dst[n, c, *at]
    return call.own(diff_src)


OPS = {
    "AvgPool": _avg_pool,
    "AvgPoolBackward": _avg_pool_backward,
    "MaxPool": _max_pool,
    "MaxPoolBackward": _max_pool_backward,
}
