"""STFT and ISTFT."""

from __future__ import annotations

import onnx_ir as ir

from ortconv.converters.openvino.lib.broadcasting import rank_of
from ortconv.converters.openvino.lib.compute_types import FLOATS, compute, dtype_of, require
from ortconv.converters.openvino.lib.constants import int64_vector, one_number
from ortconv.converters.openvino.lib.fourier import KERNELS, dft_along_axis, fitted, real_inverse
from ortconv.converters.openvino.lib.sizes import Size, calculate, counted, joined, size_of
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import ShapeError
from ortconv.graph.builder import Builder


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
        result = dft_along_axis(b, b.op("Unsqueeze", frames, b.constant([rank + 1])), rank, one_sided=True)
        if not transpose_frames:
            return result
        return b.op("Transpose", result, perm=[*range(rank - 1), rank, rank - 1, rank + 1])

    return compute(b, emit, signal, window, op_types=KERNELS)


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
    count = size_of(b, data, rank - 2)
    places = b.op("Reshape", _frames(b, count, size, step), b.constant([-1, 1]))
    total = calculate(b, "Add", calculate(b, "Mul", calculate(b, "Sub", count, 1), step), size)

    def emit(x: ir.Value, weights: ir.Value) -> ir.Value:
        dtype = dtype_of(x)
        if rank == 3:
            x = b.op("Unsqueeze", x, b.constant([0]))
        shaped = _centered(b, weights, size)
        by_frame = b.typed(b.op("Transpose", x, perm=[0, 2, 1, 3]), dtype, None)
        frames = b.op("Mul", real_inverse(b, by_frame, 2, size), shaped)
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
            result = fitted(b, inner, 1, length)
        elif center:
            end = calculate(b, "Sub", total, margin)
            result = b.op("Slice", result, joined(b, [margin]), joined(b, [end]), b.constant([1]))
        return b.op("Squeeze", result, b.constant([0])) if rank == 3 else result

    return compute(b, emit, data, window, op_types=KERNELS)


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
