"""The six convolution ops as views of one bilinear map.

``small[n, a, p]`` meets ``big[n, b, p*s - begin + k*d]`` through ``weights[a, b, k]``; channels of both sides are split
into groups in order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tests.converters.onednn_graph.references.call import Call
from tests.converters.onednn_graph.references.windows import Axis, axes_of, same

Ints = Sequence[int]


def _first(call: Call, weights: np.ndarray) -> np.ndarray:
    """Takes weights to [a, b, kernel...]: XIO and XOI hold the kernel, b, a."""
    return np.moveaxis(weights, (-1, -2), (0, 1)) if _kernel_first(call) else weights


def _kernel_first(call: Call) -> bool:
    return call.get("weights_format", "X").startswith("X")


def _terms(axes: Sequence[Axis], small: Ints, big: Ints, kernel: Ints) -> Iterator[Any]:
    """Iterates over taps, with the positions of the small side and of the big side that meet there, as slices."""
    for tap in np.ndindex(*kernel):
        at, to = [], []
        for axis, k, count, size in zip(axes, tap, small, big, strict=True):
            shift = k * axis.dilation - axis.begin
            inside = [p for p in range(count) if 0 <= p * axis.stride + shift < size]
            if not inside:
                break
            first, last = inside[0], inside[-1]
            at.append(slice(first, last + 1))
            to.append(slice(first * axis.stride + shift, last * axis.stride + shift + 1, axis.stride))
        else:
            yield at, to, tap


def _groups(call: Call, a: int, b: int) -> list[tuple[slice, slice]]:
    count = call.get("groups", 1)
    return [
        (slice(g * a // count, (g + 1) * a // count), slice(g * b // count, (g + 1) * b // count)) for g in range(count)
    ]


def _small(call: Call, big: np.ndarray, weights: np.ndarray) -> np.ndarray:
    axes = axes_of(call, big.shape[2:], weights.shape[2:])
    counts = [axis.count(size) for axis, size in zip(axes, big.shape[2:], strict=True)]
    small = np.zeros((big.shape[0], weights.shape[0], *counts))
    for at, to, tap in _terms(axes, counts, big.shape[2:], weights.shape[2:]):
        for a, b in _groups(call, weights.shape[0], big.shape[1]):
            small[:, a, *at] += np.tensordot(weights[a, :, *tap], big[:, b, *to], (1, 1)).swapaxes(0, 1)
    return small


def _big(call: Call, small: np.ndarray, weights: np.ndarray, axes: Sequence[Axis], sizes: Ints) -> np.ndarray:
    channels = weights.shape[1] * call.get("groups", 1)
    big = np.zeros((small.shape[0], channels, *sizes))
    for at, to, tap in _terms(axes, small.shape[2:], sizes, weights.shape[2:]):
        for a, b in _groups(call, small.shape[1], channels):
            big[:, b, *to] += np.tensordot(weights[a, :, *tap], small[:, a, *at], (0, 1)).swapaxes(0, 1)
    return big


def _weights(call: Call, big: np.ndarray, small: np.ndarray, axes: Sequence[Axis], kernel: Ints) -> np.ndarray:
    weights = np.zeros((small.shape[1], big.shape[1] // call.get("groups", 1), *kernel))
    summed = [0, *range(2, small.ndim)]
    for at, to, tap in _terms(axes, small.shape[2:], big.shape[2:], kernel):
        for a, b in _groups(call, small.shape[1], big.shape[1]):
            weights[a, :, *tap] += np.tensordot(small[:, a, *at], big[:, b, *to], (summed, summed))
    return np.moveaxis(weights, (0, 1), (-1, -2)) if _kernel_first(call) else weights


def _with_bias(call: Call, result: np.ndarray) -> np.ndarray:
    if call.has(2):
        result = result + call.x(2).reshape(1, -1, *[1] * (result.ndim - 2))
    return call.own(result)


def _convolution(call: Call) -> np.ndarray:
    return _with_bias(call, _small(call, call.ncx(call.x()), _first(call, call.x(1))))


def _conv_transpose_backward_data(call: Call) -> np.ndarray:
    return call.own(_small(call, call.ncx(call.x()), _first(call, call.x(1))))


def _transposed_axes(call: Call, kernel: Ints) -> list[Axis]:
    """The windows of ConvTranspose: under same_* the total padding is the extent less the stride."""
    auto_pad = call.get("auto_pad", "None").casefold()
    axes = []
    for axis, k in enumerate(kernel):
        s, d = call.attributes["strides"][axis], call.attributes["dilations"][axis]
        begin, end = call.attributes["pads_begin"][axis], call.attributes["pads_end"][axis]
        if auto_pad == "valid":
            begin = end = 0
        elif auto_pad.startswith("same"):
            begin, end = same(auto_pad, (k - 1) * d + 1 - s)
        axes.append(Axis(k, s, d, begin, end))
    return axes


def _conv_transpose(call: Call) -> np.ndarray:
    src, weights = call.ncx(call.x()), _first(call, call.x(1))
    axes = _transposed_axes(call, weights.shape[2:])
    extra = call.get("output_padding", [0] * len(axes))
    sizes = [
        axis.stride * (x - 1) + axis.extent - axis.begin - axis.end + more
        for axis, x, more in zip(axes, src.shape[2:], extra, strict=True)
    ]
    return _with_bias(call, _big(call, src, weights, axes, sizes))


def _convolution_backward_data(call: Call) -> np.ndarray:
    diff_dst, weights = call.ncx(call.x()), _first(call, call.x(1))
    shape = _target(call, "dst_shape")
    sizes = shape[2:] if call.channel_axis == 1 else shape[1:-1]
    axes = axes_of(call, sizes, weights.shape[2:])
    auto_pad = call.get("auto_pad", "None").casefold()
    if call.semantics == "spec" and auto_pad.startswith("same"):
        axes = [
            Axis(k, s, d, *_specification_same(auto_pad, s * (x - 1) + (k - 1) * d + 1 - size + extra))
            for k, s, d, x, size, extra in zip(
                weights.shape[2:],
                call.attributes["strides"],
                call.attributes["dilations"],
                diff_dst.shape[2:],
                sizes,
                call.get("output_padding", [0] * len(sizes)),
                strict=True,
            )
        ]
    return call.own(_big(call, diff_dst, weights, axes, sizes))


def _specification_same(auto_pad: str, total: int) -> tuple[int, int]:
    """The specification of ConvolutionBackwardData swaps same_upper and same_lower."""
    total = max(total, 0)
    begin = total // 2 if auto_pad == "same_lower" else math.ceil(total / 2)
    return begin, total - begin


def _convolution_backward_weights(call: Call) -> np.ndarray:
    big, small = call.ncx(call.x()), call.ncx(call.x(1))
    kernel = _kernel(call)
    return _weights(call, big, small, axes_of(call, big.shape[2:], kernel), kernel)


def _conv_transpose_backward_weights(call: Call) -> np.ndarray:
    small, big = call.ncx(call.x()), call.ncx(call.x(1))
    kernel = _kernel(call)
    library = call.semantics == "runtime"
    axes = axes_of(call, small.shape[2:], kernel) if library else _transposed_axes(call, kernel)
    return _weights(call, big, small, axes, kernel)


def _kernel(call: Call) -> list[int]:
    shape = _target(call, "weights_shape")
    return shape[:-2] if _kernel_first(call) else shape[2:]


def _target(call: Call, name: str) -> list[int]:
    """The shape that a gradient is told: its input, its attribute, or what the result is declared as."""
    if call.has(2):
        return [int(size) for size in call.inputs[2]]
    return list(call.get(name, None) or call.outputs[0].shape or ())


OPS = {
    "ConvTranspose": _conv_transpose,
    "ConvTransposeBackwardData": _conv_transpose_backward_data,
    "ConvTransposeBackwardWeights": _conv_transpose_backward_weights,
    "Convolution": _convolution,
    "ConvolutionBackwardData": _convolution_backward_data,
    "ConvolutionBackwardWeights": _convolution_backward_weights,
}
