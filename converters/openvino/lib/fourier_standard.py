"""Fourier transforms by standard nodes.

A transform whose length is a power of two is a DFT node. Any other one is a product with a basis, as ONNX Runtime's DFT
is inexact at these lengths, or if that would be large, Bluestein's convolution by DFT nodes of a power of two.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from ortconv.converters.openvino.lib.broadcasting import rank_of
from ortconv.converters.openvino.lib.compute_types import dtype_of
from ortconv.converters.openvino.lib.fourier_basis import (
    LARGEST_BASIS,
    LENGTH,
    REAL_INVERSE,
    Kind,
    basis_bytes,
    basis_of,
    count_of,
    half_size,
    known_weights,
    roots,
)
from ortconv.converters.openvino.lib.sizes import Size, calculate, joined, size_of
from ortconv.graph.builder import Builder

__all__ = ["fitted", "standard_transform", "with_parts", "with_size"]

_AXIS_IS_INPUT = 20
"""The opset since which a DFT takes its axis as an input."""


def standard_transform(b: Builder, x: ir.Value, axis: int, length: Size, kind: Kind, *, fit: bool) -> ir.Value:
    """Emits a transform along an axis, counted from the front.

    Args:
        b: The builder.
        x: Data [..., 2] or, if they are real, [...].
        axis: The axis.
        length: The length of the transform.
        kind: What it takes and gives; real results have no axis of parts.
        fit: Whether the size of the axis may differ from what the length asks for.
    """
    if isinstance(length, int):
        if length & (length - 1) == 0:
            return _by_dft(b, x, axis, length, kind)
        nbytes = basis_bytes(length, kind, dtype_of(x))
        if nbytes > LARGEST_BASIS or not b.budget.fits(nbytes):
            return _by_convolution(b, x, axis, length, kind)
    return _by_product(b, x, axis, length, kind, fit=fit)


def fitted(b: Builder, x: ir.Value, axis: int, size: Size) -> ir.Value:
    """Truncates an axis to a size, or pads it with zeros; -1 keeps it."""
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
    return b.typed(cut, dtype, with_size(x, axis, size))


def _by_dft(b: Builder, x: ir.Value, axis: int, length: int, kind: Kind) -> ir.Value:
    """Emits DFT nodes; those of ONNX Runtime have no real inverse."""
    dtype = dtype_of(x)
    if kind != REAL_INVERSE:
        x = fitted(b, x, axis, length)
        return _dft(b, x if kind.parts == 2 else with_parts(b, x), axis, kind)
    half = length // 2 + 1
    near = fitted(b, x, axis, half)
    far = b.op("Slice", near, b.constant([length - half]), b.constant([0]), b.constant([axis]), b.constant([-1]))
    conjugate = b.op("Mul", far, b.constant(np.array([1, -1], dtype.numpy())))
    whole = b.typed(b.op("Concat", near, conjugate, axis=axis), dtype, with_size(x, axis, length))
    result = _dft(b, whole, axis, Kind(2, 2, is_inverse=True))
    shape = with_size(x, axis, length)
    return b.typed(b.op("Gather", result, b.constant(0), axis=-1), dtype, None if shape is None else shape[:-1])


def _dft(b: Builder, x: ir.Value, axis: int, kind: Kind, length: int | None = None) -> ir.Value:
    """Emits a DFT of data [..., 1 or 2]; the axis is an attribute or an input by the opset.

    Args:
        b: The builder.
        x: The data.
        axis: The axis.
        kind: What the transform takes and gives.
        length: Its length, if it is not the size of the axis: zeros are added.
    """
    flags: dict[str, Any] = {"inverse": int(kind.is_inverse) or None, "onesided": int(kind.is_one_sided) or None}
    size = None if length is None else b.constant(length)
    if b.options.opset >= _AXIS_IS_INPUT:
        result = b.op("DFT", x, size, b.constant(axis), **flags)
    else:
        result = b.op("DFT", x, size, axis=axis, **flags)
    shape = with_size(x, axis, count_of(b, size_of(b, x, axis) if length is None else length, kind))
    return b.typed(result, x.dtype, None if shape is None else [*shape[:-1], 2])


def _by_product(b: Builder, x: ir.Value, axis: int, length: Size, kind: Kind, *, fit: bool) -> ir.Value:
    """Emits a product with the basis of the transform."""
    used = _used(b, x, axis, length, kind)
    count = count_of(b, length, kind)
    basis = basis_of(b, length, used, count, kind, dtype_of(x))
    rank = rank_of(x, "data")
    axes = rank - (kind.parts == 2)
    shape = [*(with_size(x, axis, count) or ())[:axes], *[kind.results][: kind.results - 1]]
    if fit or isinstance(used, int):
        x = fitted(b, x, axis, used)
    order = [*(each for each in range(axes) if each != axis), axis]
    if axis != axes - 1:
        x = b.op("Transpose", x, perm=[*order, *range(axes, rank)])
    before: list[Size] = [0] * (axes - 1)  # as they are
    if kind.parts == 2:
        x = b.op("Reshape", x, joined(b, [*before, calculate(b, "Mul", used, 2)]))
    result = b.op("MatMul", x, basis)
    back = [order.index(each) for each in range(axes)]
    if kind.results == 2:
        result = b.op("Reshape", result, joined(b, [*before, count, 2]))
        back.append(axes)
    if axis != axes - 1:
        result = b.op("Transpose", result, perm=back)
    return b.typed(result, basis.dtype, shape)


def _used(b: Builder, x: ir.Value, axis: int, length: Size, kind: Kind) -> Size:
    """Returns how many elements of the axis a transform reads, zeros included where its size is not known."""
    have, most = size_of(b, x, axis), half_size(b, length) if kind == REAL_INVERSE else length
    return min(have, most) if isinstance(have, int) and isinstance(most, int) else most


def _by_convolution(b: Builder, x: ir.Value, axis: int, length: int, kind: Kind) -> ir.Value:
    """Emits Bluestein's algorithm: 2 f k is f^2 + k^2 - (f - k)^2, so a transform is a convolution by a chirp."""
    dtype, used, count = dtype_of(x), _used(b, x, axis, length, kind), count_of(b, length, kind)
    assert isinstance(used, int)
    assert isinstance(count, int)
    size = 1 << (used + count - 2).bit_length()
    b.note(f"length {length}: a convolution by DFT of length {size}, as a basis would be large")
    numbers = b.budget.arange(LENGTH, max(used, count))
    chirp = roots(numbers * numbers, 2 * length, inverse=kind.is_inverse)
    filters = b.budget.full(LENGTH, [size], 0, np.complex128)
    filters[:count] = chirp[:count].conj()
    filters[size - used + 1 :] = chirp[used - 1 : 0 : -1].conj()
    weights = known_weights(b, length, used, kind).reshape(-1)
    x = fitted(b, x, axis, used)
    behind = [1] * (rank_of(x, "data") - (kind.parts == 2) - axis - 1)
    y = with_parts(b, x) if kind.parts == 1 else x
    y = _times(b, y, chirp[:used] * weights, behind, parts=kind.parts)
    shape = [*_dims(x)[: axis + 1 + len(behind)], 2]
    spectrum = _dft(b, b.typed(y, dtype, shape), axis, Kind(2, 2, is_inverse=False), size)
    y = b.typed(_times(b, spectrum, np.fft.fft(filters), behind), dtype, spectrum.shape)
    y = fitted(b, _dft(b, y, axis, Kind(2, 2, is_inverse=True)), axis, count)
    shape[axis] = count
    y = b.typed(_times(b, y, chirp[:count], behind), dtype, shape)
    return y if kind.results == 2 else b.typed(b.op("Gather", y, b.constant(0), axis=-1), dtype, shape[:-1])


def _times(
    b: Builder, x: ir.Value, factors: npt.NDArray[np.complex128], behind: list[int], *, parts: int = 2
) -> ir.Value:
    """Multiplies data [..., size, behind..., parts] by complex factors [size]."""
    real, imaginary = (
        part.reshape(-1, *behind, 1).astype(dtype_of(x).numpy()) for part in (factors.real, factors.imag)
    )
    if parts == 1:
        return b.op("Mul", x, b.constant(np.concatenate([real, imaginary], -1)))
    turned = b.op(
        "Mul", b.op("Gather", x, b.constant([1, 0]), axis=-1), b.constant(np.concatenate([-imaginary, imaginary], -1))
    )
    return b.op("Add", b.op("Mul", x, b.constant(real)), turned)


def with_parts(b: Builder, x: ir.Value) -> ir.Value:
    """Gives real data an axis of one part."""
    rank = rank_of(x, "data")
    assert x.shape is not None
    return b.typed(b.op("Unsqueeze", x, b.constant([rank])), x.dtype, [*_dims(x), 1])


def _dims(x: ir.Value) -> list[int | None]:
    assert x.shape is not None
    return [dim if isinstance(dim, int) else None for dim in x.shape]


def with_size(x: ir.Value, axis: int, size: Size) -> list[int | None] | None:
    """Returns the shape of a value whose axis has another size."""
    if x.shape is None:
        return None
    shape = _dims(x)
    shape[axis] = size if isinstance(size, int) else None
    return shape
