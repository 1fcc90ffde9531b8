"""Interpolation and its gradient, as one matrix per spatial axis."""

from __future__ import annotations

import math

import numpy as np

from tests.converters.onednn_graph.references.call import Call


def _matrix(call: Call, small: int, large: int) -> np.ndarray:
    """Takes `small` elements to `large`; either may be the larger one, of course."""
    matrix = np.zeros((large, small))
    for i in range(large):
        if call.get("coordinate_transformation_mode", "half_pixel") == "half_pixel":
            numerator, denominator = (2 * i + 1) * small - large, 2 * large
        else:
            numerator, denominator = i * (small - 1), max(large - 1, 1)
        if call.attributes["mode"] == "nearest":
            nearest = (2 * numerator + denominator) // (2 * denominator)
            matrix[i, min(max(nearest, 0), small - 1)] = 1
            continue
        below = numerator // denominator
        weight = numerator / denominator - below
        for q, share in ((below, 1 - weight), (below + 1, weight)):
            matrix[i, min(max(q, 0), small - 1)] += share
    return matrix


def _interpolate(call: Call) -> np.ndarray:
    array = call.ncx(call.x())
    for axis, size in enumerate(_sizes(call, 1, array.shape[2:]), 2):
        array = np.moveaxis(np.moveaxis(array, axis, -1) @ _matrix(call, array.shape[axis], size).T, -1, axis)
    return call.own(array)


def _interpolate_backward(call: Call) -> np.ndarray:
    src, array = call.ncx(call.x()), call.ncx(call.x(1))
    assert tuple(_sizes(call, 2, src.shape[2:])) == array.shape[2:]
    for axis in range(2, src.ndim):
        matrix = _matrix(call, src.shape[axis], array.shape[axis])
        array = np.moveaxis(np.moveaxis(array, axis, -1) @ matrix, -1, axis)
    return call.own(array)


def _sizes(call: Call, index: int, src: tuple[int, ...]) -> list[int]:
    if call.has(index):
        return [int(size) for size in call.inputs[index]]
    # The library multiplies in float32.
    scales = np.array(call.get("scales", []), np.float32)
    return call.get("sizes", None) or [math.floor(np.float32(x) * scale) for x, scale in zip(src, scales, strict=True)]


OPS = {"Interpolate": _interpolate, "InterpolateBackward": _interpolate_backward}
