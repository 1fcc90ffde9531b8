"""The matrices with which the data of Fourier transforms are multiplied."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from ortconv.converters.openvino.lib.sizes import Size, calculate, counted, joined, reshaped
from ortconv.graph.builder import Builder

__all__ = [
    "LARGEST_BASIS",
    "LENGTH",
    "REAL",
    "REAL_INVERSE",
    "Kind",
    "basis_bytes",
    "basis_of",
    "count_of",
    "half_size",
    "known_weights",
    "roots",
]

LARGEST_BASIS = 1 << 22
"""The most bytes that a constant basis may have."""

LENGTH = "the length of a transform"
"""What asks for constants, in errors."""

_F64 = ir.DataType.DOUBLE


@dataclasses.dataclass(frozen=True)
class Kind:
    """What a transform takes and gives.

    Attributes:
        parts: How many numbers an element of the data has: 1 if it is real, 2 if it is complex.
        results: How many numbers an element of the result has.
        is_inverse: Whether it is the inverse transform, which is divided by its length.
    """

    parts: int
    results: int
    is_inverse: bool

    @property
    def is_one_sided(self) -> bool:
        """Whether one side of a spectrum stands for both."""
        return self.parts != self.results


REAL = Kind(1, 2, is_inverse=False)
REAL_INVERSE = Kind(2, 1, is_inverse=True)


def basis_of(b: Builder, length: Size, used: Size, count: Size, kind: Kind, dtype: ir.DataType) -> ir.Value:
    """Returns the matrix [used * parts, count * results] of a transform, rounded once from float64.

    Args:
        b: The builder.
        length: The length of the transform.
        used: How many elements of the data it reads.
        count: How many elements its result has.
        kind: What it takes and gives.
        dtype: The type of the matrix.
    """
    if isinstance(length, int) and isinstance(used, int) and isinstance(count, int):
        rows, columns = used * kind.parts, count * kind.results
        b.note(f"length {length}: a product with a basis [{rows}, {columns}]")
        key = "Fourier basis", length, used, kind, dtype
        return b.shared(key, lambda: b.constant(_known_basis(b, length, used, count, kind).astype(dtype.numpy())))
    table, weights = _runtime_waves(b, length, kind), _runtime_weights(b, length, used, kind)
    phases = b.op("Mul", b.op("Unsqueeze", counted(b, used), b.constant([1])), counted(b, count))
    whole = b.op("Gather", table, b.op("Mod", phases, joined(b, [length])), axis=0)
    if weights is not None:
        whole = b.op("Mul", whole, weights)
    whole = b.typed(b.op("Transpose", whole, perm=[0, 2, 1, 3]), _F64, [None] * 4)
    shape = [calculate(b, "Mul", used, kind.parts), calculate(b, "Mul", count, kind.results)]
    return reshaped(b, b.cast(whole, dtype), shape)


def _known_basis(b: Builder, length: int, used: int, count: int, kind: Kind) -> npt.NDArray[np.float64]:
    """Returns the matrix of `basis_of` for sizes that are known."""
    waves = _waves(b.budget.arange(LENGTH, length), length, kind)
    turns = np.outer(b.budget.arange(LENGTH, used), b.budget.arange(LENGTH, count))
    basis = (waves[turns % length] * known_weights(b, length, used, kind)).transpose(0, 2, 1, 3)
    matrix: npt.NDArray[np.float64] = basis.reshape(used * kind.parts, count * kind.results)
    return matrix


def basis_bytes(length: int, kind: Kind, dtype: ir.DataType) -> int:
    """Returns the most bytes that the basis of a transform of known length has."""
    entries = length * (length // 2 + 1 if kind.is_one_sided else length)
    return entries * kind.parts * kind.results * np.dtype(dtype.numpy()).itemsize


def roots(numbers: npt.NDArray[np.int64], length: int, *, inverse: bool) -> npt.NDArray[np.complex128]:
    """Returns exp(-2 pi i numbers / length), with 2 pi i for the inverse transform."""
    numbers = numbers % length
    angles = numbers * (2 * np.pi / length)
    sines = np.where(2 * numbers % length == 0, 0.0, np.sin(angles))
    found: npt.NDArray[np.complex128] = np.cos(angles) + (1j if inverse else -1j) * sines
    return found


def known_weights(b: Builder, length: int, used: int, kind: Kind) -> npt.NDArray[np.float64]:
    """Returns a factor for each element of the data, [used or 1, 1, 1, 1]."""
    if not kind.is_inverse:
        return np.array([[[[1.0]]]])
    if not kind.is_one_sided:
        return np.array([[[[1 / length]]]])
    is_single = 2 * b.budget.arange(LENGTH, used) % length == 0
    return (np.where(is_single, 1.0, 2.0) / length).reshape(-1, 1, 1, 1)


def _waves(numbers: npt.NDArray[np.int64], length: int, kind: Kind) -> npt.NDArray[np.float64]:
    """Returns what each part of the data contributes to each part of the result, [numbers, parts, results]."""
    waves = roots(numbers, length, inverse=kind.is_inverse)
    table = np.stack([waves.real, waves.imag, -waves.imag, waves.real], -1).reshape(-1, 2, 2)
    return table[:, : kind.parts, : kind.results]


def _runtime_waves(b: Builder, length: Size, kind: Kind) -> ir.Value:
    """Emits what `_waves` returns, for a whole turn."""
    whole = b.op("Cast", joined(b, [length]), to=int(_F64))
    unit = b.op("Div", b.constant(2 * np.pi, np.float64), whole)
    angles = b.op("Mul", b.op("Cast", counted(b, length), to=int(_F64)), unit)
    cosines, sines = b.op("Cos", angles), b.op("Sin", angles)
    negative = b.op("Neg", sines)
    turned, opposite = (sines, negative) if kind.is_inverse else (negative, sines)
    rows = [[cosines, turned], [opposite, cosines]][: kind.parts]
    columns = [b.op("Unsqueeze", each, b.constant([1])) for row in rows for each in row[: kind.results]]
    table = b.op("Concat", *columns, axis=1)
    return b.op("Reshape", table, b.constant([-1, kind.parts, kind.results]))


def _runtime_weights(b: Builder, length: Size, used: Size, kind: Kind) -> ir.Value | None:
    """Emits what `known_weights` returns, None for factors of 1."""
    if not kind.is_inverse:
        return None
    whole = b.op("Cast", joined(b, [length]), to=int(_F64))
    one = b.constant(1.0, np.float64)
    if not kind.is_one_sided:
        return b.op("Div", one, whole)
    twice = b.op("Mod", b.op("Mul", counted(b, used), b.constant(2)), joined(b, [length]))
    times = b.op("Where", b.op("Equal", twice, b.constant(0)), one, b.constant(2.0, np.float64))
    return b.op("Unsqueeze", b.op("Div", times, whole), b.constant([1, 2, 3]))


def half_size(b: Builder, length: Size) -> Size:
    """Returns the number of bins of a one-sided spectrum."""
    return calculate(b, "Add", calculate(b, "Div", length, 2), 1)


def count_of(b: Builder, length: Size, kind: Kind) -> Size:
    """Returns the size of the axis of the result."""
    return half_size(b, length) if kind == REAL else length
