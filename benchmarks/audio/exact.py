"""What a model computes, in float64: onnx's reference evaluator, with convolutions and transforms by definition."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.audio.problems import INPUT, Array

if TYPE_CHECKING:
    import onnx

__all__ = ["evaluate"]

Index = tuple[Any, ...]


def evaluate(model: onnx.ModelProto, x: Array) -> Array:
    """Returns the output of a model whose weights, data and sums are float64.

    Raises:
        TypeError: A node computes in a narrower type.
    """
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(_widened(model), new_ops=list(_operators()))
    (result,) = list(evaluator.run(None, {INPUT: x.astype(np.float64)}))
    answer = np.asarray(result)
    if answer.dtype != np.float64:
        raise TypeError(f"the answer is {answer.dtype}; allowed: float64")
    return answer


def _widened(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns the model with float64 in the place of float32."""
    import onnx
    from onnx import TensorProto, numpy_helper

    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    del wide.graph.value_info[:]
    for value in (*wide.graph.input, *wide.graph.output):
        value.type.tensor_type.elem_type = TensorProto.DOUBLE
    for tensor in wide.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))
    return wide


@functools.cache
def _operators() -> tuple[type, ...]:
    """Returns operators that the evaluator lacks, computes in float32, or computes slowly."""
    from onnx.reference.op_run import OpRun

    class Conv(OpRun):
        def _run(self, x: Array, w: Array, b: Array | None = None, **attributes: Any) -> tuple[Array]:
            return (_convolution(x, w, b, **_given(attributes)),)

    class ConvTranspose(OpRun):
        def _run(self, x: Array, w: Array, b: Array | None = None, **attributes: Any) -> tuple[Array]:
            return (_transposed_convolution(x, w, b, **_given(attributes)),)

    class STFT(OpRun):
        def _run(self, x: Array, step: Array, window: Array, onesided: int = 1) -> tuple[Array]:
            frames = np.lib.stride_tricks.sliding_window_view(x[:, :, 0], len(window), axis=1)[:, :: int(step)]
            transform = np.fft.rfft if onesided else np.fft.fft
            return (_pairs(transform(frames * window, axis=-1)),)

    class DFT(OpRun):
        def _run(
            self, x: Array, length: None = None, axis: Array | None = None, inverse: int = 0, onesided: int = 0
        ) -> tuple[Array]:
            numbers = x[..., 0] if x.shape[-1] == 1 else x[..., 0] + 1j * x[..., 1]
            transform = np.fft.ifft if inverse else np.fft.rfft if onesided else np.fft.fft
            return (_pairs(transform(numbers, axis=-2 % x.ndim if axis is None else int(axis))),)

    return Conv, ConvTranspose, STFT, DFT


def _given(attributes: dict[str, Any]) -> dict[str, Any]:
    names = ("strides", "pads", "dilations", "group", "output_padding")
    if attributes.get("auto_pad") not in (None, "NOTSET") or attributes.get("output_shape"):
        raise ValueError("auto_pad and output_shape are not supported; allowed: pads")
    return {name: attributes[name] for name in names if attributes.get(name) is not None}


def _convolution(
    x: Array, w: Array, b: Array | None, strides: Any = 1, pads: Any = None, dilations: Any = 1, group: int = 1
) -> Array:
    axes, kernel = x.ndim - 2, np.array(w.shape[2:])
    padding = np.reshape(pads or (0,) * (2 * axes), (2, axes)).T
    steps, reach = np.broadcast_to(strides, axes), np.broadcast_to(dilations, axes)
    x = np.pad(x, [(0, 0), (0, 0), *map(tuple, padding)])
    extent = tuple((kernel - 1) * reach + 1)
    windows = np.lib.stride_tricks.sliding_window_view(x, extent, axis=tuple(range(2, axes + 2)))
    taps: Index = (..., *(slice(None, None, each) for each in reach))
    places: Index = (slice(None), slice(None), *(slice(None, None, each) for each in steps))
    windows = windows[taps][places]
    taken = (1, *range(axes + 2, 2 * axes + 2))
    inner = (1, *range(2, axes + 2))
    parts = [
        np.tensordot(part, filters, (taken, inner))
        for part, filters in zip(np.split(windows, group, axis=1), np.split(w, group), strict=True)
    ]
    return _with_bias(np.moveaxis(np.concatenate(parts, axis=-1), -1, 1), b)


def _transposed_convolution(
    x: Array,
    w: Array,
    b: Array | None,
    strides: Any = 1,
    pads: Any = None,
    dilations: Any = 1,
    group: int = 1,
    output_padding: Any = 0,
) -> Array:
    axes, kernel = x.ndim - 2, np.array(w.shape[2:])
    begin, end = np.reshape(pads or (0,) * (2 * axes), (2, axes))
    steps, reach = np.broadcast_to(strides, axes), np.broadcast_to(dilations, axes)
    size = (np.array(x.shape[2:]) - 1) * steps + (kernel - 1) * reach + 1 + np.broadcast_to(output_padding, axes)
    parts = []
    for part, filters in zip(np.split(x, group, axis=1), np.split(w, group), strict=True):
        products = np.tensordot(filters, part, (0, 1))  # [M, *kernel, N, *spatial]
        result = np.zeros((filters.shape[1], len(x), *size))
        for tap in np.ndindex(*kernel):
            first = np.array(tap) * reach
            last = first + (np.array(x.shape[2:]) - 1) * steps + 1
            met: Index = (..., *(slice(*each) for each in zip(first, last, steps, strict=True)))
            result[met] += products[(slice(None), *tap)]
        parts.append(result.swapaxes(0, 1))
    kept: Index = (..., *(slice(low, each - high) for low, high, each in zip(begin, end, size, strict=True)))
    return _with_bias(np.concatenate(parts, axis=1)[kept], b)


def _with_bias(y: Array, b: Array | None) -> Array:
    return y if b is None else y + b.reshape(-1, *(1,) * (y.ndim - 2))


def _pairs(numbers: Array) -> Array:
    return np.stack([numbers.real, numbers.imag], axis=-1)
