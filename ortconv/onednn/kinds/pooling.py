"""oneDNN's pooling, interpolation and their gradients in float64: sums over taps, and one matrix per axis."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ortconv.onednn.call import Array, Call
from ortconv.onednn.op_schema import define
from ortconv.onednn.shape_rules import given, interpolated, pooled

_POOL = "strides pads_begin pads_end kernel auto_pad? data_format?"
_RESIZE = "mode sizes? scales? coordinate_transformation_mode? data_format?"


@dataclasses.dataclass(frozen=True)
class _Axis:
    """The windows along a spatial axis.

    Attributes:
        taps: Positions of every window, [windows, kernel]; outside of the tensor where they are negative or too large.
        size: Size of the tensor.
    """

    taps: Array
    size: int

    @property
    def inside(self) -> Array:
        """Whether each position lies inside the tensor."""
        result: Array = (self.taps >= 0) & (self.taps < self.size)
        return result


def _axes(call: Call, sizes: Sequence[int], counts: Sequence[int] | None = None) -> list[_Axis]:
    rule, rounds_up = call.text("auto_pad", "none"), call.text("rounding_type", "floor") == "ceil"
    dilations = call.ints("dilations") or [1] * len(sizes)
    axes = []
    for at, size in enumerate(sizes):
        kernel, stride, dilation = call.ints("kernel")[at], call.ints("strides")[at], dilations[at]
        begin, end = (call.ints(name)[at] if call.ints(name) else 0 for name in ("pads_begin", "pads_end"))
        extent = (kernel - 1) * dilation + 1
        if rule != "none":
            total = 0 if rule == "valid" else max(extent - (size % stride or stride), 0)
            begin = total // 2 if rule == "same_upper" else total - total // 2
            end = total - begin
        room = size + begin + end - extent
        count = (-(-room // stride) if rounds_up else room // stride) + 1 if counts is None else counts[at]
        starts = np.arange(count)[:, None] * stride - begin
        axes.append(_Axis(starts + np.arange(kernel)[None] * dilation, size))
    return axes


def _taps(axes: Sequence[_Axis]) -> Iterator[tuple[Any, Array]]:
    """Yields each tap of all windows: an index into [N, C, spatial...], and whether it lies inside."""
    for tap in itertools.product(*(range(axis.taps.shape[1]) for axis in axes)):
        where = [np.clip(axis.taps[:, k], 0, axis.size - 1) for axis, k in zip(axes, tap, strict=True)]
        inside = np.ones((), bool)
        for axis, k in zip(axes, tap, strict=True):
            inside = inside[..., None] & axis.inside[:, k]
        yield (slice(None), slice(None), *np.ix_(*where)), inside


def _divisor(call: Call, axes: Sequence[_Axis]) -> Array:
    """Returns the number of elements that each window averages."""
    if not call.flag("exclude_pad", False):
        return np.array(math.prod(axis.taps.shape[1] for axis in axes))
    counts = np.ones(())
    for axis in axes:
        counts = counts[..., None] * axis.inside.sum(axis=1)
    return counts


@define("MaxPool", "src", "dst", f"{_POOL} dilations? rounding_type?", shapes=pooled)
def _max_pool(call: Call) -> Array:
    src = call.ncx(call.input(0))
    axes = _axes(call, src.shape[2:])
    source = call.node.inputs[0]
    assert source is not None
    lowest = float(ml_dtypes.finfo(source.dtype.numpy()).min)  # type: ignore[no-untyped-call]
    best = np.full((*src.shape[:2], *(len(axis.taps) for axis in axes)), lowest)
    for where, inside in _taps(axes):
        best = np.maximum(best, np.where(inside, src[where], lowest))
    return call.own(best)


@define("AvgPool", "src", "dst", f"{_POOL} exclude_pad rounding_type?", shapes=pooled)
def _avg_pool(call: Call) -> Array:
    src = call.ncx(call.input(0))
    axes = _axes(call, src.shape[2:])
    total = np.zeros((*src.shape[:2], *(len(axis.taps) for axis in axes)))
    for where, inside in _taps(axes):
        total += np.where(inside, src[where], 0.0)
    return call.own(total / _divisor(call, axes))


@define(
    "AvgPoolBackward",
    "diff_dst src_shape?",
    "diff_src",
    f"{_POOL} exclude_pad src_shape?",
    shapes=given("src_shape", 1),
)
def _avg_pool_backward(call: Call) -> Array:
    diff_dst = call.ncx(call.input(0))
    diff_src = call.ncx(np.zeros(call.target("src_shape", 1)))
    axes = _axes(call, diff_src.shape[2:], diff_dst.shape[2:])
    share = diff_dst / _divisor(call, axes)
    for where, inside in _taps(axes):
        np.add.at(diff_src, where, np.where(inside, share, 0.0))
    return call.own(diff_src)


@define("MaxPoolBackward", "src diff_dst", "diff_src", f"{_POOL} dilations?")
def _max_pool_backward(call: Call) -> Array:
    src, diff_dst = call.ncx(call.input(0)), call.ncx(call.input(1))
    axes = _axes(call, src.shape[2:], diff_dst.shape[2:])
    best, winner = np.full(diff_dst.shape, -np.inf), np.full(diff_dst.shape, -1)
    for number, (where, inside) in enumerate(_taps(axes)):
        values = np.where(inside, src[where], -np.inf)
        better = inside & ((values > best) | (winner < 0))
        best, winner = np.where(better, values, best), np.where(better, number, winner)
    diff_src = np.zeros(src.shape)
    for number, (where, _) in enumerate(_taps(axes)):
        np.add.at(diff_src, where, np.where(winner == number, diff_dst, 0.0))
    return call.own(diff_src)


def _matrix(call: Call, small: int, large: int) -> Array:
    """Returns the matrix that resizes an axis from `small` to `large` elements; rounds ties up."""
    matrix, rows = np.zeros((large, small)), np.arange(large)
    # A coordinate is numerator / denominator, so that ties are exact.
    if call.text("coordinate_transformation_mode", "half_pixel") == "half_pixel":
        numerator, denominator = (2 * rows + 1) * small - large, 2 * large
    else:
        numerator, denominator = rows * (small - 1), max(large - 1, 1)
    if call.text("mode", "") == "nearest":
        matrix[rows, np.clip((2 * numerator + denominator) // (2 * denominator), 0, small - 1)] = 1.0
        return matrix
    below = numerator // denominator
    weight = numerator / denominator - below
    for position, share in ((below, 1.0 - weight), (below + 1, weight)):
        np.add.at(matrix, (rows, np.clip(position, 0, small - 1)), share)
    return matrix


@define("Interpolate", "src sizes?", "dst", _RESIZE, shapes=interpolated)
def _interpolate(call: Call) -> Array:
    array, given = call.ncx(call.input(0)), call.optional(1)
    sizes = call.ints("sizes") if given is None else [int(size) for size in given]
    if not sizes:
        scales = np.array(call.node.attributes["scales"], np.float32)
        sizes = [int(np.float32(dim) * scale) for dim, scale in zip(array.shape[2:], scales, strict=True)]
    for axis, size in enumerate(sizes, 2):
        array = np.moveaxis(np.moveaxis(array, axis, -1) @ _matrix(call, array.shape[axis], size).T, -1, axis)
    return call.own(array)


@define("InterpolateBackward", "src diff_dst sizes?", "diff_src", _RESIZE)
def _interpolate_backward(call: Call) -> Array:
    src, array = call.ncx(call.input(0)), call.ncx(call.input(1))
    for axis in range(2, src.ndim):
        matrix = _matrix(call, src.shape[axis], array.shape[axis])
        array = np.moveaxis(np.moveaxis(array, axis, -1) @ matrix, -1, axis)
    return call.own(array)
