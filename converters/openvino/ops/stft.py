"""STFT and ISTFT."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from ortconv.converters.openvino.lib.broadcasting import rank_of
from ortconv.converters.openvino.lib.compute_types import FLOATS, compute, dtype_of, require
from ortconv.converters.openvino.lib.constants import int64_vector, one_number
from ortconv.converters.openvino.lib.fourier import KERNELS, is_ours, real_inverse, real_transform
from ortconv.converters.openvino.lib.fourier_basis import LARGEST_BASIS, roots
from ortconv.converters.openvino.lib.fourier_standard import fitted
from ortconv.converters.openvino.lib.sizes import Size, calculate, counted, joined, require_sizes, size_of
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import ShapeError
from ortconv.graph.builder import Builder
from ortconv.opset.domain import DOMAIN
from ortconv.opset.ops.forward_stft import FORWARD_STFT
from ortconv.opset.ops.inverse_stft import INVERSE_STFT
from ortconv.opset.ops.overlap_add import OVERLAP_ADD

_LARGEST = 1 << 20
"""Sums of squared windows of more bytes are computed in the model, not stored."""

_MOST_TERMS = 1 << 24
"""So are sums of more terms altogether."""

_MOST_AXES = 2
"""STFT takes one signal, or a batch of them."""


@REGISTRY.lowering("STFT", since=15)
def stft(
    b: Builder,
    signal: ir.Value,
    window: ir.Value,
    frame_size: ir.Value,
    frame_step: ir.Value,
    /,
    *,
    transpose_frames: bool = False,
) -> ir.Value:
    """One-sided DFT of frames, weighted by the window: a convolution by filters, or frames that are gathered."""
    require(signal, "signal", FLOATS)
    rank = rank_of(signal, "signal")
    size, step = _number(b, frame_size), _number(b, frame_step)
    room = calculate(b, "Sub", size_of(b, signal, rank - 1), size)
    count = calculate(b, "Add", calculate(b, "Div", room, step), 1)

    def emit(x: ir.Value, weights: ir.Value) -> ir.Value:
        shaped = _centered(b, weights, size)
        known = _known_frames(size, step)
        if known is not None and rank <= _MOST_AXES:
            channels = _channels(b, x, shaped, *known)
            if channels is not None:
                return _in_order(b, channels, rank, known[0] // 2 + 1, count, transpose_frames=transpose_frames)
        frames = b.op("Mul", b.op("Gather", x, _frames(b, count, size, step), axis=rank - 1), shaped)
        shape = [_known(count), _known(size)]
        result = real_transform(b, b.typed(frames, x.dtype, [*[None] * (rank - 1), *shape]), rank)
        if not transpose_frames:
            return result
        return b.op("Transpose", result, perm=[*range(rank - 1), rank, rank - 1, rank + 1])

    return compute(b, emit, signal, window, op_types=KERNELS)


def _channels(b: Builder, x: ir.Value, window: ir.Value, size: int, step: int) -> ir.Value | None:
    """Emits the spectra [batch, 2 * bins, frames] of signals [length] or [batch, length], real parts first.

    Returns:
        None if neither ForwardSTFT nor Conv by filters computes them.
    """
    dtype, filters = dtype_of(x), None
    if not is_ours(b, size):
        filters = _filters(b, window, size, dtype)
        if filters is None:
            return None
    signal = b.op("Unsqueeze", x, b.constant([1] if rank_of(x, "signal") == 2 else [0, 1]))
    if filters is not None:
        y: ir.Value = b.op("Conv", signal, filters, strides=[step], kernel_shape=[size])
        return y
    gains = b.budget.full("frame_size", [2, size // 2 + 1], 1, dtype.numpy())
    gains[1] = -1
    attributes: dict[str, Any] = {"n_fft": size, "hop": [step], "pads": [0, 0], "parts": 0}
    y = b.op(FORWARD_STFT.name, signal, window, b.constant(gains.reshape(-1)), domain=DOMAIN, **attributes)
    return y


def _filters(b: Builder, window: ir.Value, size: int, dtype: ir.DataType) -> ir.Value | None:
    """Returns the basis of a transform times the window, [2 * bins, 1, size], if that is known and not large."""
    values, bins = b.array(window), size // 2 + 1
    nbytes = 2 * bins * size * 4
    if values is None or dtype != ir.DataType.FLOAT or nbytes > LARGEST_BASIS or not b.budget.fits(nbytes):
        return None
    b.note(f"frame_size {size}: a convolution by filters of {nbytes} bytes")
    taps: npt.NDArray[np.float64] = values.astype(np.float64)

    def made() -> ir.Value:
        turns = np.outer(b.budget.arange("frame_size", bins), b.budget.arange("frame_size", size))
        waves = roots(turns, size, inverse=False) * taps
        return b.constant(np.concatenate([waves.real, waves.imag])[:, None].astype(np.float32))

    return b.shared(("filters of STFT", taps.tobytes()), made)


def _in_order(b: Builder, channels: ir.Value, rank: int, bins: int, count: Size, *, transpose_frames: bool) -> ir.Value:
    """Returns what `_channels` returns with the axes of OpenVINO's result; `rank` is that of the signal."""
    batch = [0] * (rank - 1)  # as it is
    frames = count if isinstance(count, int) else -1
    if transpose_frames:
        parts = b.op("Reshape", channels, b.constant([*batch, 2, bins, frames]))
        return b.op("Transpose", parts, perm=[*range(rank - 1), rank, rank + 1, rank - 1])
    # Two axes at a time take an eighth of the time of one Transpose of three, which ONNX Runtime would make of two.
    by_frame = b.op("Einsum", channels, equation="bct->btc")
    parts = b.op("Reshape", by_frame, b.constant([*batch, frames, 2, bins]))
    return b.op("Transpose", parts, perm=[*range(rank), rank + 1, rank])


@REGISTRY.lowering("ISTFT", since=16)
def istft(
    b: Builder,
    data: ir.Value,
    window: ir.Value,
    frame_size: ir.Value,
    frame_step: ir.Value,
    signal_length: ir.Value | None = None,
    /,
    *,
    center: bool = False,
    normalized: bool = False,
) -> ir.Value:
    """Inverse DFT of each frame, weighted by the window and overlap-added; divided by the sum of squared windows."""
    require(data, "data", FLOATS)
    rank = rank_of(data, "data")
    if rank not in (3, 4):
        raise ShapeError("data", data.shape, "its rank must be 3, or 4 with batches.")
    size, step = _number(b, frame_size), _number(b, frame_step)
    require_sizes(data, "data", *[None] * (rank - 3), calculate(b, "Add", calculate(b, "Div", size, 2), 1), None, 2)
    margin: Size = calculate(b, "Div", size, 2) if center else 0
    length = None if signal_length is None else _number(b, signal_length)

    def emit(x: ir.Value, weights: ir.Value) -> ir.Value:
        if rank == 3:
            x = b.typed(b.op("Unsqueeze", x, b.constant([0])), dtype_of(x), [1, *(data.shape or ())])
        shaped = _centered(b, weights, size)
        known = _known_frames(size, step)
        if known is not None and is_ours(b, size):
            result = _inverse(b, x, shaped, known, margin, length, normalized=normalized)
        else:
            result = _gathered(b, x, shaped, size, step, margin, length, normalized=normalized)
        return b.op("Squeeze", result, b.constant([0])) if rank == 3 else result

    return compute(b, emit, data, window, op_types=KERNELS)


def _inverse(
    b: Builder,
    x: ir.Value,
    window: ir.Value,
    known: tuple[int, int],
    margin: Size,
    length: Size | None,
    *,
    normalized: bool,
) -> ir.Value:
    """Emits InverseSTFT of spectra [batch, bins, frames, 2], divided by the sum of squared windows."""
    size, step = known
    dtype, bins = dtype_of(x), size // 2 + 1
    count = size_of(b, x, 2)
    total = _total(b, count, size, step)
    trim = _trim(total, margin, length)
    attributes: dict[str, Any] = {"domain": DOMAIN, "hop": [step], "pads": trim[:2], "output_padding": trim[2:]}
    by_part = b.op("Transpose", x, perm=[0, 3, 1, 2])
    frames = count if isinstance(count, int) else -1
    channels = b.op("Reshape", by_part, b.constant([0, 2 * bins, frames]))
    gains = b.constant(_inverse_gains(b, size, normalized=normalized).astype(dtype.numpy()))
    added = b.op(INVERSE_STFT.name, channels, window, gains, n_fft=size, parts=0, **attributes)
    divisor = _known_divisor(b, window, step, count, trim)
    if divisor is None:
        one = b.constant(1, dtype.numpy())
        ones = b.op("Expand", one, joined(b, [1, size, count]))
        sums = b.op(OVERLAP_ADD.name, ones, b.op("Mul", window, window), **attributes)
        divisor = _or_one(b, sums, dtype)
    shape = [None, total - trim[0] - trim[1] + trim[2] if isinstance(total, int) else None]
    result = b.typed(b.op("Squeeze", b.op("Div", added, divisor), b.constant([1])), dtype, shape)
    return result if length is None else fitted(b, result, 1, length)


def _inverse_gains(b: Builder, size: int, *, normalized: bool) -> npt.NDArray[np.float64]:
    """Returns the gains of the cosine channels and of the sine channels; bins with another conjugate count twice."""
    pairs = 2 * b.budget.arange("frame_size", size // 2 + 1) % size != 0
    gains = np.concatenate([np.where(pairs, 2, 1), np.where(pairs, -2, 0)]) / size
    return gains * np.sqrt(size) if normalized else gains


def _trim(total: Size, margin: Size, length: Size | None) -> tuple[int, int, int]:
    """Returns how many positions are removed at the begin and at the end, and how many zeros are added at the end.

    If that is not known, the end stays as it is.
    """
    assert isinstance(margin, int)
    if length is None:
        return margin, margin, 0
    if not isinstance(length, int) or not isinstance(total, int) or length < 0:
        return margin, 0, 0
    missing = length - (total - margin)
    return margin, max(-missing, 0), max(missing, 0)


def _gathered(
    b: Builder,
    x: ir.Value,
    window: ir.Value,
    size: Size,
    step: Size,
    margin: Size,
    length: Size | None,
    *,
    normalized: bool,
) -> ir.Value:
    """Emits standard nodes that compute what `_inverse` computes."""
    dtype, count = dtype_of(x), size_of(b, x, 2)
    total = _total(b, count, size, step)
    places = b.op("Reshape", _frames(b, count, size, step), b.constant([-1, 1]))
    by_frame = b.typed(b.op("Transpose", x, perm=[0, 2, 1, 3]), dtype, [None, None, _known(size_of(b, x, 1)), 2])
    frames = b.op("Mul", real_inverse(b, by_frame, 2, size), window)
    if normalized:
        width = b.op("Cast", b.op("Squeeze", joined(b, [size]), b.constant([0])), to=int(dtype))
        frames = b.op("Mul", frames, b.op("Sqrt", width))
    batch = b.op("Shape", x, start=0, end=1)
    rows = b.op("Reshape", frames, b.op("Concat", batch, b.constant([-1]), axis=0))
    columns = b.op("Transpose", rows, perm=[1, 0])
    zero = b.constant(0, dtype.numpy())
    start = b.op("Expand", zero, b.op("Concat", joined(b, [total]), batch, axis=0))
    added = b.op("ScatterND", start, places, columns, reduction="add")
    divisor = _known_divisor(b, window, step, count, (0, 0, 0))
    if divisor is not None:
        divisor = b.op("Reshape", divisor, b.constant([-1, 1]))
    else:
        squares = b.op("Expand", b.op("Mul", window, window), joined(b, [count, size]))
        sums = b.op(
            "ScatterND",
            b.op("Expand", zero, joined(b, [total, 1])),
            places,
            b.op("Reshape", squares, b.constant([-1, 1])),
            reduction="add",
        )
        divisor = _or_one(b, sums, dtype)
    result = b.op("Transpose", b.op("Div", added, divisor), perm=[1, 0])
    if length is not None:
        inner = b.op("Slice", result, joined(b, [margin]), b.constant([2**63 - 1]), b.constant([1]))
        return fitted(b, b.typed(inner, dtype, [None, None]), 1, length)
    if margin == 0:
        return result
    end = calculate(b, "Sub", total, margin)
    return b.op("Slice", result, joined(b, [margin]), joined(b, [end]), b.constant([1]))


def _known_divisor(
    b: Builder, window: ir.Value, step: Size, count: Size, trim: tuple[int, int, int]
) -> ir.Value | None:
    """Returns the sums of squared windows, 1 where they are 0, if they are known and not many.

    Args:
        b: The builder.
        window: The window.
        step: The distance of frames.
        count: The number of frames.
        trim: See `_trim`.
    """
    values = b.array(window)
    if values is None or not isinstance(step, int) or not isinstance(count, int) or step < 1 or count < 1:
        return None
    begin, end, more = trim
    total = (count - 1) * step + values.size
    nbytes = max(total, total + more - begin - end) * values.itemsize
    if nbytes > _LARGEST or count * values.size > _MOST_TERMS or not b.budget.fits(nbytes):
        return None
    sums = b.budget.full("frame_step", [total + more], 0, np.float64)
    for frame in range(count):
        sums[frame * step : frame * step + values.size] += values * values
    trimmed = sums[begin : total + more - end].astype(values.dtype)
    return b.constant(np.where(trimmed == 0, values.dtype.type(1), trimmed))


def _or_one(b: Builder, sums: ir.Value, dtype: ir.DataType) -> ir.Value:
    """Returns sums of squared windows with 1 where they are 0."""
    zero, one = (b.constant(number, dtype.numpy()) for number in (0, 1))
    return b.op("Where", b.op("Equal", sums, zero), one, sums)


def _known_frames(size: Size, step: Size) -> tuple[int, int] | None:
    """Returns size and distance of frames if both are known."""
    if not isinstance(size, int) or not isinstance(step, int) or min(size, step) < 1:
        return None
    return size, step


def _known(size: Size) -> int | None:
    return size if isinstance(size, int) else None


def _total(b: Builder, count: Size, size: Size, step: Size) -> Size:
    """Returns how many positions the frames cover."""
    return calculate(b, "Add", calculate(b, "Mul", calculate(b, "Sub", count, 1), step), size)


def _number(b: Builder, value: ir.Value) -> Size:
    known = one_number(b, value, str(value.name))
    return int64_vector(b, value) if known is None else int(known)


def _frames(b: Builder, count: Size, size: Size, step: Size) -> ir.Value:
    """Returns the indices of the elements of each frame, [frame, element]."""
    starts = b.op("Mul", counted(b, count), joined(b, [step]))
    return b.op("Add", b.op("Unsqueeze", starts, b.constant([1])), counted(b, size))


def _centered(b: Builder, window: ir.Value, size: Size) -> ir.Value:
    """Pads a window with zeros on both sides."""
    length = size_of(b, window, 0)
    if length == size and isinstance(size, int):
        return window
    missing = calculate(b, "Sub", size, length)
    before = calculate(b, "Div", missing, 2)
    after = calculate(b, "Sub", missing, before)
    return b.typed(b.op("Pad", window, joined(b, [before, after])), window.dtype, None)
