"""DFT, IDFT, RDFT, IRDFT."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from ortconv.converters.openvino.lib.broadcasting import rank_of
from ortconv.converters.openvino.lib.compute_types import FLOATS, compute, require
from ortconv.converters.openvino.lib.constants import int64_vector, known_ints, length_of, normalized
from ortconv.converters.openvino.lib.dynamic_axes import on_lines
from ortconv.converters.openvino.lib.fourier import KERNELS, even_length, real_inverse, real_transform, transform
from ortconv.converters.openvino.lib.sizes import Size, joined, size_of
from ortconv.converters.openvino.plugin_bugs.spectral import (
    AXIS_CUT,
    OWN_SIGNAL_SIZE,
    RUNTIME_SIGNAL_SIZE,
    ZEROS_APPENDED,
)
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import ConversionError, ShapeError
from ortconv.graph.builder import Builder, Ints

_CUT_WRONGLY = 3
"""The least number of axes for which OpenVINO's CPU plugin is wrong if an inverse real transform truncates data."""

_Running = tuple[ir.Value, ir.Value | None]
"""An axis and its transform size, if given: runtime values of shape [1]."""


def _register_complex(op_type: str, doc: str, *, inverse: bool) -> None:
    def lower(b: Builder, data: ir.Value, axes: ir.Value, signal_size: ir.Value | None = None, /) -> ir.Value:
        require(data, "data", FLOATS)
        rank = _complex_rank(data)
        known = known_ints(b, axes)
        if known is None:
            running = _running(b, axes, signal_size, rank)
            return compute(b, lambda x: _dft_along(b, x, running, inverse=inverse), data, op_types=KERNELS)
        along = normalized(known, rank, "axes")
        sizes = _sizes(b, data, along, signal_size)
        return compute(b, lambda x: _transformed(b, x, along, sizes, inverse=inverse), data, op_types=KERNELS)

    lower.__doc__ = doc
    REGISTRY.lowering(op_type, since=7)(lower)


_register_complex("DFT", "DFT of each axis.", inverse=False)
_register_complex("IDFT", "Inverse DFT of each axis.", inverse=True)


@REGISTRY.lowering("RDFT", since=9)
def rdft(b: Builder, data: ir.Value, axes: ir.Value, signal_size: ir.Value | None = None, /) -> ir.Value:
    """One-sided DFT of the last axis, then a DFT of each other one."""
    require(data, "data", FLOATS)
    rank = rank_of(data, "data")
    known = known_ints(b, axes)
    if known is None:
        if signal_size is not None:
            RUNTIME_SIGNAL_SIZE.warn(b)
        return _rdft_along(b, data, _running(b, axes, signal_size, rank))
    if not known:
        raise ConversionError("input axes = [] is not supported; allowed: at least one axis.")
    along = normalized(known, rank, "axes")
    sizes = _sizes(b, data, along, signal_size)
    _warn_of_sizes(b, data, signal_size, along, sizes)

    def emit(x: ir.Value) -> ir.Value:
        return _transformed(b, real_transform(b, x, along[-1], sizes[-1]), along[:-1], sizes[:-1], inverse=False)

    return compute(b, emit, data, op_types=KERNELS)


@REGISTRY.lowering("IRDFT", since=9)
def irdft(b: Builder, data: ir.Value, axes: ir.Value, signal_size: ir.Value | None = None, /) -> ir.Value:
    """Inverse DFT of each axis, the last one extended by its conjugate; the real part."""
    require(data, "data", FLOATS)
    rank = _complex_rank(data)
    known = known_ints(b, axes)
    if known is None:
        if signal_size is not None:
            RUNTIME_SIGNAL_SIZE.warn(b)
        return _irdft_along(b, data, _running(b, axes, signal_size, rank))
    along = normalized(known, rank, "axes")
    sizes = _sizes(b, data, along, signal_size, real=True)
    needed = sizes[-1] // 2 + 1 if isinstance(sizes[-1], int) and sizes[-1] >= 0 else sizes[-1]
    _warn_of_sizes(b, data, signal_size, along, [*sizes[:-1], needed])
    _warn_of_cuts(b, data, along, [*sizes[:-1], needed])

    def emit(x: ir.Value) -> ir.Value:
        x = _transformed(b, x, along[:-1], sizes[:-1], inverse=True)
        return real_inverse(b, x, along[-1], sizes[-1])

    return compute(b, emit, data, op_types=KERNELS)


def _transformed(b: Builder, x: ir.Value, axes: Ints, sizes: Sequence[Size], *, inverse: bool) -> ir.Value:
    """Emits a DFT of a size along each of the axes."""
    for axis, size in zip(axes, sizes, strict=True):
        x = transform(b, x, axis, size, inverse=inverse)
    return x


def _running(b: Builder, axes: ir.Value, signal_size: ir.Value | None, rank: int) -> list[_Running]:
    """Returns each runtime axis, counted from the front of `rank` axes, and its size."""
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
            return transform(b, line, 1, _goal(b, line, goal), inverse=inverse)

        x = on_lines(b, x, axis, 2, transformed)
    return x


def _rdft_along(b: Builder, data: ir.Value, running: list[_Running]) -> ir.Value:
    def emit(x: ir.Value) -> ir.Value:
        single = b.typed(b.op("Unsqueeze", x, b.constant([-1])), x.dtype, [None] * (rank_of(data, "data") + 1))
        axis, goal = running[-1]

        def half(line: ir.Value) -> ir.Value:
            real = b.typed(b.op("Squeeze", line, b.constant([-1])), line.dtype, [None] * 3)
            return real_transform(b, real, 1, _goal(b, line, goal))

        half_spectrum = on_lines(b, single, axis, 1, half)
        return _dft_along(b, half_spectrum, running[:-1], inverse=False)

    return compute(b, emit, data, op_types=KERNELS)


def _irdft_along(b: Builder, data: ir.Value, running: list[_Running]) -> ir.Value:
    def emit(x: ir.Value) -> ir.Value:
        x = _dft_along(b, x, running[:-1], inverse=True)
        axis, goal = running[-1]

        def real(line: ir.Value) -> ir.Value:
            size: Size = -1 if goal is None else _or_own(b, goal, even_length(b, size_of(b, line, 1)))
            return b.typed(b.op("Unsqueeze", real_inverse(b, line, 1, size), b.constant([-1])), line.dtype, [None] * 4)

        return b.op("Squeeze", on_lines(b, x, axis, 2, real), b.constant([-1]))

    return compute(b, emit, data, op_types=KERNELS)


def _goal(b: Builder, line: ir.Value, goal: ir.Value | None) -> Size:
    return -1 if goal is None else _or_own(b, goal, size_of(b, line, 1))


def _complex_rank(data: ir.Value) -> int:
    """Returns the rank without the last axis, which holds the real and the imaginary part."""
    rank = rank_of(data, "data")
    assert data.shape is not None
    parts = data.shape[-1] if rank else None
    if rank < 2 or (isinstance(parts, int) and parts != 2):
        raise ShapeError("data", data.shape, "its last dimension must be 2.")
    return rank - 1


def _sizes(b: Builder, data: ir.Value, along: Ints, signal_size: ir.Value | None, *, real: bool = False) -> list[Size]:
    """Returns the length of each transform; -1 for that of the data, or if `real` for the even output length."""
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
        own[-1] = even_length(b, own[-1])
    return [_or_own(b, size, length) for size, length in zip(parts, own, strict=True)]


def _or_own(b: Builder, size: ir.Value, own: Size) -> ir.Value:
    """Returns a runtime size, or a default where it is -1."""
    return b.op("Where", b.op("Equal", size, b.constant([-1])), joined(b, [own]), size)


def _warn_of_sizes(
    b: Builder, data: ir.Value, signal_size: ir.Value | None, axes: Sequence[int], sizes: Sequence[Size]
) -> None:
    """Warns of signal_size -1 in a real transform, and if its data is known to be padded with zeros."""
    if signal_size is not None and -1 in sizes:
        OWN_SIGNAL_SIZE.warn(b)
    for axis, size in zip(axes, sizes, strict=True):
        have = None if data.shape is None else data.shape[axis]
        if isinstance(size, int) and isinstance(have, int):
            if size > have:
                ZEROS_APPENDED.warn(b, f"axis {axis} from {have} to {size}")
        elif size != -1:
            RUNTIME_SIGNAL_SIZE.warn(b)
            return


def _warn_of_cuts(b: Builder, data: ir.Value, axes: Sequence[int], sizes: Sequence[Size]) -> None:
    """Warns if an inverse real transform of several axes may truncate data along an axis other than the first."""
    if len(axes) < _CUT_WRONGLY or data.shape is None:
        return
    for axis, size in zip(axes, sizes, strict=True):
        have = data.shape[axis]
        if axis and size != -1 and not (isinstance(size, int) and isinstance(have, int) and size >= have):
            AXIS_CUT.warn(b, f"axis {axis}")
