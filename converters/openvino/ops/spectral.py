"""Fourier transforms: DFT, IDFT, RDFT, IRDFT, STFT, ISTFT. Each axis is a DFT of ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.broadcasting import rank_of
from ortconv.converters.openvino.lib.compute_types import FLOATS, compute, dtype_of, require
from ortconv.converters.openvino.lib.constants import int64_vector, known_ints, length_of, normalized, one_number
from ortconv.converters.openvino.lib.dynamic_axes import on_lines
from ortconv.converters.openvino.lib.sizes import Size, calculate, counted, joined, size_of
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import ConversionError, ShapeError
from ortconv.graph.builder import Builder, Ints

_AXIS_IS_INPUT = 20
"""The opset since which a DFT takes its axis as an input."""

_CUT_WRONGLY = 3
"""From how many axes on OpenVINO's CPU plugin goes wrong where an inverse real transform cuts its data."""

_KERNELS = ("DFT",)
_Running = tuple[ir.Value, ir.Value | None]
"""An axis, and the size of its transform if that is given, as vectors of one entry that are known at run time only."""


@REGISTRY.lowering("DFT", since=7)
def dft(b: Builder, data: ir.Value, axes: ir.Value, signal_size: ir.Value | None = None, /) -> ir.Value:
    """DFT of each axis."""
    return _complex(b, data, axes, signal_size, inverse=False)


@REGISTRY.lowering("IDFT", since=7)
def idft(b: Builder, data: ir.Value, axes: ir.Value, signal_size: ir.Value | None = None, /) -> ir.Value:
    """Inverse DFT of each axis."""
    return _complex(b, data, axes, signal_size, inverse=True)


@REGISTRY.lowering("RDFT", since=9)
def rdft(b: Builder, data: ir.Value, axes: ir.Value, signal_size: ir.Value | None = None, /) -> ir.Value:
    """One-sided DFT of the last axis, then a DFT of each other one."""
    require(data, "data", FLOATS)
    rank = rank_of(data, "data")
    known = known_ints(b, axes)
    if known is None:
        if signal_size is not None:
            _warn_of_open_sizes(b)
        return _rdft_along(b, data, _running(b, axes, signal_size, rank))
    along = _along(known, rank)
    sizes = _sizes(b, data, along, signal_size)
    _warn_of_own_sizes(b, signal_size, sizes)
    _warn_of_zeros(b, data, along, sizes)

    def emit(x: ir.Value) -> ir.Value:
        for axis, size in zip(along, sizes, strict=True):
            x = _fitted(b, x, axis, size)
        x = _dft(b, b.op("Unsqueeze", x, b.constant([rank])), along[-1], one_sided=True)
        for axis in along[:-1]:
            x = _dft(b, x, axis)
        return x

    return compute(b, emit, data, kernels=_KERNELS)


@REGISTRY.lowering("IRDFT", since=9)
def irdft(b: Builder, data: ir.Value, axes: ir.Value, signal_size: ir.Value | None = None, /) -> ir.Value:
    """Inverse DFT of each axis, the last one completed by its conjugate; the real part."""
    require(data, "data", FLOATS)
    rank = _complex_rank(data)
    known = known_ints(b, axes)
    if known is None:
        if signal_size is not None:
            _warn_of_open_sizes(b)
        return _irdft_along(b, data, _running(b, axes, signal_size, rank))
    along = normalized(known, rank, "axes")
    sizes = _sizes(b, data, along, signal_size, real=True)
    _warn_of_own_sizes(b, signal_size, sizes)
    needed = sizes[-1] // 2 + 1 if isinstance(sizes[-1], int) and sizes[-1] >= 0 else sizes[-1]
    _warn_of_zeros(b, data, along, [*sizes[:-1], needed])
    _warn_of_cuts(b, data, along, [*sizes[:-1], needed])

    def emit(x: ir.Value) -> ir.Value:
        for axis, size in zip(along[:-1], sizes, strict=False):
            x = _dft(b, _fitted(b, x, axis, size), axis, inverse=True)
        return _real_inverse(b, x, along[-1], sizes[-1])

    return compute(b, emit, data, kernels=_KERNELS)


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
    """One-sided DFT of frames, gathered and weighted by the window."""
    require(signal, "signal", FLOATS)
    rank = rank_of(signal, "signal")
    size, step = _number(b, frame_size), _number(b, frame_step)
    room = calculate(b, "Sub", size_of(b, signal, rank - 1), size)
    count = calculate(b, "Add", calculate(b, "Div", room, step), 1)
    places = _frames(b, count, size, step)

    def emit(x: ir.Value, weights: ir.Value) -> ir.Value:
        frames = b.op("Mul", b.op("Gather", x, places, axis=rank - 1), _centered(b, weights, size))
        result = _dft(b, b.op("Unsqueeze", frames, b.constant([rank + 1])), rank, one_sided=True)
        if not transpose_frames:
            return result
        return b.op("Transpose", result, perm=[*range(rank - 1), rank, rank - 1, rank + 1])

    return compute(b, emit, signal, window, kernels=_KERNELS)


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
    """Inverse DFT of each frame, weighted by the window and added up; divided by the added squares of the window."""
    require(data, "data", FLOATS)
    rank = rank_of(data, "data")
    if rank not in (3, 4):
        raise ShapeError("data", data.shape, "its rank must be 3, or 4 with batches.")
    size, step = _number(b, frame_size), _number(b, frame_step)
    count = size_of(b, data, rank - 2)
    places = b.op("Reshape", _frames(b, count, size, step), b.constant([-1, 1]))
    total = calculate(b, "Add", calculate(b, "Mul", calculate(b, "Sub", count, 1), step), size)

    def emit(x: ir.Value, weights: ir.Value) -> ir.Value:
        dtype = dtype_of(x)
        if rank == 3:
            x = b.op("Unsqueeze", x, b.constant([0]))
        shaped = _centered(b, weights, size)
        by_frame = b.typed(b.op("Transpose", x, perm=[0, 2, 1, 3]), dtype, None)
        frames = b.op("Mul", _real_inverse(b, by_frame, 2, size), shaped)
        if normalized:
            width = b.op("Cast", b.op("Squeeze", joined(b, [size]), b.constant([0])), to=int(dtype))
            frames = b.op("Mul", frames, b.op("Sqrt", width))
        batch = b.op("Shape", x, start=0, end=1)
        rows = b.op("Reshape", frames, b.op("Concat", batch, b.constant([-1]), axis=0))
        columns = b.op("Transpose", rows, perm=[1, 0])
        zero = b.constant(0, dtype.numpy())
        start = b.op("Expand", zero, b.op("Concat", joined(b, [total]), batch, axis=0))
        added = b.op("ScatterND", start, places, columns, reduction="add")
        squares = b.op("Expand", b.op("Mul", shaped, shaped), joined(b, [count, size]))
        weight = b.op(
            "ScatterND",
            b.op("Expand", zero, joined(b, [total, 1])),
            places,
            b.op("Reshape", squares, b.constant([-1, 1])),
            reduction="add",
        )
        one = b.constant(1, dtype.numpy())
        divided = b.op("Div", added, b.op("Where", b.op("Equal", weight, zero), one, weight))
        result = b.op("Transpose", divided, perm=[1, 0])
        margin: Size = calculate(b, "Div", size, 2) if center else 0
        if signal_length is not None:
            length = _number(b, signal_length)
            inner = b.op("Slice", result, joined(b, [margin]), b.constant([2**63 - 1]), b.constant([1]))
            result = _fitted(b, inner, 1, length)
        elif center:
            end = calculate(b, "Sub", total, margin)
            result = b.op("Slice", result, joined(b, [margin]), joined(b, [end]), b.constant([1]))
        return b.op("Squeeze", result, b.constant([0])) if rank == 3 else result

    return compute(b, emit, data, window, kernels=_KERNELS)


def _complex(b: Builder, data: ir.Value, axes: ir.Value, signal_size: ir.Value | None, *, inverse: bool) -> ir.Value:
    require(data, "data", FLOATS)
    rank = _complex_rank(data)
    known = known_ints(b, axes)
    if known is None:
        running = _running(b, axes, signal_size, rank)
        return compute(b, lambda x: _dft_along(b, x, running, inverse=inverse), data, kernels=_KERNELS)
    along = normalized(known, rank, "axes")
    sizes = _sizes(b, data, along, signal_size)

    def emit(x: ir.Value) -> ir.Value:
        for axis, size in zip(along, sizes, strict=True):
            x = _dft(b, _fitted(b, x, axis, size), axis, inverse=inverse)
        return x

    return compute(b, emit, data, kernels=_KERNELS)


def _running(b: Builder, axes: ir.Value, signal_size: ir.Value | None, rank: int) -> list[_Running]:
    """Returns each axis that is known at run time only, counted from the front of `rank` axes, and its size."""
    places = int64_vector(b, axes)
    places = b.op("Where", b.op("Less", places, b.constant([0])), b.op("Add", places, b.constant([rank])), places)
    goals = None if signal_size is None else int64_vector(b, signal_size)
    entries = [(b.constant([number]), b.constant([number + 1])) for number in range(length_of(axes, "axes"))]
    return [
        (b.op("Slice", places, *entry), None if goals is None else b.op("Slice", goals, *entry)) for entry in entries
    ]


def _dft_along(b: Builder, x: ir.Value, running: list[_Running], *, inverse: bool) -> ir.Value:
    for axis, goal in running:

        def transformed(line: ir.Value, goal: ir.Value | None = goal) -> ir.Value:
            return _dft(b, _resized(b, line, goal), 1, inverse=inverse)

        x = on_lines(b, x, axis, 2, transformed)
    return x


def _rdft_along(b: Builder, data: ir.Value, running: list[_Running]) -> ir.Value:
    def emit(x: ir.Value) -> ir.Value:
        single = b.typed(b.op("Unsqueeze", x, b.constant([-1])), x.dtype, [None] * (rank_of(data, "data") + 1))
        axis, goal = running[-1]
        half = on_lines(b, single, axis, 1, lambda line: _dft(b, _resized(b, line, goal), 1, one_sided=True))
        return _dft_along(b, half, running[:-1], inverse=False)

    return compute(b, emit, data, kernels=_KERNELS)


def _irdft_along(b: Builder, data: ir.Value, running: list[_Running]) -> ir.Value:
    def emit(x: ir.Value) -> ir.Value:
        x = _dft_along(b, x, running[:-1], inverse=True)
        axis, goal = running[-1]

        def real(line: ir.Value) -> ir.Value:
            size: Size = -1 if goal is None else _or_own(b, goal, _even_length(b, size_of(b, line, 1)))
            return b.typed(b.op("Unsqueeze", _real_inverse(b, line, 1, size), b.constant([-1])), line.dtype, [None] * 4)

        return b.op("Squeeze", on_lines(b, x, axis, 2, real), b.constant([-1]))

    return compute(b, emit, data, kernels=_KERNELS)


def _resized(b: Builder, line: ir.Value, goal: ir.Value | None) -> ir.Value:
    return line if goal is None else _fitted(b, line, 1, _or_own(b, goal, size_of(b, line, 1)))


def _complex_rank(data: ir.Value) -> int:
    """Returns the rank without the last axis, which holds the real and the imaginary part."""
    rank = rank_of(data, "data")
    assert data.shape is not None
    parts = data.shape[-1] if rank else None
    if rank < 2 or (isinstance(parts, int) and parts != 2):
        raise ShapeError("data", data.shape, "its last dimension must be 2.")
    return rank - 1


def _sizes(b: Builder, data: ir.Value, along: Ints, signal_size: ir.Value | None, *, real: bool = False) -> list[Size]:
    """Returns the length of each transform; -1 for that of the data, or if `real` for the even one that it makes."""
    if signal_size is None:
        return [-1] * len(along)
    known = known_ints(b, signal_size)
    if known is not None:
        if len(known) != len(along):
            raise ShapeError("signal_size", signal_size.shape, f"axes has {len(along)} entries.")
        return list(known)
    parts = b.op("Split", int64_vector(b, signal_size), outputs=len(along), axis=0, num_outputs=len(along))
    own = [size_of(b, data, axis) for axis in along]
    if real:
        own[-1] = _even_length(b, own[-1])
    return [_or_own(b, size, length) for size, length in zip(parts, own, strict=True)]


def _or_own(b: Builder, size: ir.Value, own: Size) -> ir.Value:
    """Returns a size that is known at run time only, or another one where it is -1."""
    return b.op("Where", b.op("Equal", size, b.constant([-1])), joined(b, [own]), size)


def _even_length(b: Builder, size: Size) -> Size:
    """Returns the even length of the real data of which a one-sided transform has so many entries."""
    return calculate(b, "Mul", calculate(b, "Sub", size, 1), 2)


def _warn_of_own_sizes(b: Builder, signal_size: ir.Value | None, sizes: Sequence[Size]) -> None:
    """Warns where a real transform is asked for the data's own size by -1."""
    if signal_size is not None and -1 in sizes:
        b.warn(
            "signal_size -1 is the data's own size, as the page says; with it OpenVINO's CPU plugin fails or gives a "
            "result of another shape"
        )


def _warn_of_zeros(b: Builder, data: ir.Value, axes: Sequence[int], sizes: Sequence[Size]) -> None:
    """Warns where the data of a real transform is known to be filled up with zeros."""
    for axis, size in zip(axes, sizes, strict=True):
        have = None if data.shape is None else data.shape[axis]
        if isinstance(size, int) and isinstance(have, int):
            if size > have:
                b.warn(
                    f"axis {axis} is filled up with zeros to {size}; OpenVINO's CPU plugin reads beyond the data "
                    "instead"
                )
        elif size != -1:
            _warn_of_open_sizes(b)
            return


def _warn_of_open_sizes(b: Builder) -> None:
    b.warn(
        "the page is followed: where sizes that are known at run time fill an axis up with zeros, OpenVINO's CPU "
        "plugin reads beyond the data instead"
    )


def _along(axes: Ints, rank: int) -> Ints:
    """Returns axes counted from the front.

    Raises:
        ConversionError: There are none, or one is out of range.
    """
    if not axes:
        raise ConversionError("input axes = [] is not supported; allowed: at least one axis.")
    return normalized(axes, rank, "axes")


def _warn_of_cuts(b: Builder, data: ir.Value, axes: Sequence[int], sizes: Sequence[Size]) -> None:
    """Warns where an inverse real transform of several axes may cut its data along another axis than the first one."""
    if len(axes) < _CUT_WRONGLY or data.shape is None:
        return
    for axis, size in zip(axes, sizes, strict=True):
        have = data.shape[axis]
        if axis and size != -1 and not (isinstance(size, int) and isinstance(have, int) and size >= have):
            b.warn(f"the page is followed: where axis {axis} is cut, OpenVINO's CPU plugin reads other memory")


def _number(b: Builder, value: ir.Value) -> Size:
    known = one_number(b, value, str(value.name))
    return int64_vector(b, value) if known is None else int(known)


def _dft(b: Builder, x: ir.Value, axis: int, *, inverse: bool = False, one_sided: bool = False) -> ir.Value:
    flags: dict[str, Any] = {"inverse": int(inverse) or None, "onesided": int(one_sided) or None}
    if b.options.opset >= _AXIS_IS_INPUT:
        result = b.op("DFT", x, None, b.constant(axis), **flags)
    else:
        result = b.op("DFT", x, axis=axis, **flags)
    return b.typed(result, x.dtype, None)


def _fitted(b: Builder, x: ir.Value, axis: int, size: Size) -> ir.Value:
    """Cuts an axis to a size, or fills it up with zeros; -1 leaves it."""
    if size == -1:
        return x
    dtype = x.dtype
    current = size_of(b, x, axis)
    if isinstance(size, int) and isinstance(current, int):
        if size == current:
            return x
        missing: Size = max(size - current, 0)
    else:
        missing = b.op("Max", joined(b, [calculate(b, "Sub", size, current)]), b.constant([0]))
    along = b.constant([axis])
    cut = b.op("Slice", x, b.constant([0]), joined(b, [size]), along)
    if missing != 0:
        cut = b.op("Pad", cut, b.op("Concat", b.constant([0]), joined(b, [missing]), axis=0), None, along)
    return b.typed(cut, dtype, None)


def _real_inverse(b: Builder, x: ir.Value, axis: int, size: Size) -> ir.Value:
    """Inverts a one-sided transform, whose other side is the conjugate; -1 stands for an even length."""
    if size == -1:
        size = _even_length(b, size_of(b, x, axis))
    half = calculate(b, "Add", calculate(b, "Div", size, 2), 1)
    dtype = dtype_of(x)
    near = _fitted(b, x, axis, half)
    behind = joined(b, [calculate(b, "Sub", size, half)])
    far = b.op("Slice", near, behind, b.constant([0]), b.constant([axis]), b.constant([-1]))
    conjugate = b.op("Mul", far, b.constant(np.array([1, -1], dtype.numpy())))
    whole = b.typed(b.op("Concat", near, conjugate, axis=axis), dtype, None)
    result = _dft(b, whole, axis, inverse=True)
    real = b.op("Gather", result, b.constant(0), axis=-1)
    return b.typed(real, dtype, None)


def _frames(b: Builder, count: Size, size: Size, step: Size) -> ir.Value:
    """Returns where the elements of each frame stand, [frame, element]."""
    starts = b.op("Mul", counted(b, count), joined(b, [step]))
    return b.op("Add", b.op("Unsqueeze", starts, b.constant([1])), counted(b, size))


def _centered(b: Builder, window: ir.Value, size: Size) -> ir.Value:
    """Fills a window up with zeros on both sides."""
    length = size_of(b, window, 0)
    if length == size and isinstance(size, int):
        return window
    missing = calculate(b, "Sub", size, length)
    before = calculate(b, "Div", missing, 2)
    after = calculate(b, "Sub", missing, before)
    return b.typed(b.op("Pad", window, joined(b, [before, after])), window.dtype, None)
