"""Data for a model's inputs: given data, and random data for the rest."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from ortconv.errors import InputError, shown
from ortconv.frontend.source_graph import Dim

__all__ = ["Array", "Input", "fill", "fit", "is_float", "random_data"]

Array = npt.NDArray[Any]

_INTEGERS = (-10, 10)
"""Range of random integers, both included; small, so that sums of products do not saturate."""

_MAX_BYTES = 1 << 34
"""Larger random data is refused, so that a wrong shape does not exhaust memory."""


@dataclasses.dataclass(frozen=True)
class Input:
    """An input that a model declares.

    Attributes:
        name: Its name.
        dtype: Its element type.
        shape: Its dimensions, or None if its rank is not known.
        state: For a state, the output with its next value, or "" if it never changes; None for other inputs.
    """

    name: str
    dtype: ir.DataType
    shape: tuple[Dim, ...] | None
    state: str | None = None

    @property
    def is_known(self) -> bool:
        """Whether all dimensions are static."""
        return self.shape is not None and all(isinstance(dim, int) for dim in self.shape)

    @property
    def declared(self) -> str:
        """The shape as text: [N, 3, ?, ?]."""
        if self.shape is None:
            return "of any rank"
        return f"[{', '.join('?' if dim is None else str(dim) for dim in self.shape)}]"


def is_float(array: Array) -> bool:
    """Tells whether an array holds floating-point numbers, those of `ml_dtypes` included."""
    return ir.DataType.from_numpy(array.dtype).is_floating_point()


def fill(
    inputs: Sequence[Input],
    given: Mapping[str, Array],
    shapes: Mapping[str, Sequence[int]],
    seed: int,
) -> dict[str, Array]:
    """Returns an array for every input: the given data, else random data.

    Random floats are standard normal, integers lie between -10 and 10 (0 and 10 if unsigned); both depend on nothing
    but the seed, the input's name and its shape. A symbolic dimension has one value in all inputs.

    Args:
        inputs: The model's inputs.
        given: Data by input name, which `fit` converts to the declared type.
        shapes: Shapes of random data by input name.
        seed: Seed of the random numbers.

    Raises:
        InputError: A name is unknown, data or a shape does not fit, or a dimension is not known.
    """
    names = {each.name for each in inputs}
    for name in (*given, *shapes):
        if name not in names:
            raise InputError(name, f"the model has no such input; it has {', '.join(sorted(names)) or 'none'}.")
    symbols: dict[str, tuple[int, str]] = {}
    arrays: dict[str, Array] = {}
    for each in inputs:
        if each.name in given:
            arrays[each.name] = fit(given[each.name], each.dtype, each.name)
            _match(each, arrays[each.name].shape, symbols)
            if each.name in shapes and tuple(shapes[each.name]) != arrays[each.name].shape:
                raise InputError(
                    each.name,
                    f"the data has the shape {shown(list(arrays[each.name].shape))}, and "
                    f"{shown(list(shapes[each.name]))} is asked for; a shape is for random data.",
                )
        elif each.name in shapes:
            _match(each, tuple(shapes[each.name]), symbols)
    chosen = {
        each.name: shapes[each.name] if each.name in shapes else _resolve(each, symbols)
        for each in inputs
        if each.name not in arrays
    }
    unknown = [each for each in inputs if each.name in chosen and chosen[each.name] is None]
    if unknown:
        raise _unknown_shapes(unknown, symbols)
    for each in inputs:
        shape = chosen.get(each.name)
        if shape is not None:
            arrays[each.name] = random_data(each, shape, seed)
    return {each.name: arrays[each.name] for each in inputs}


def fit(array: Array, dtype: ir.DataType, name: str) -> Array:
    """Converts an array to an element type without changing a value.

    Raises:
        InputError: A value would change.
    """
    wanted = dtype.numpy()
    if array.dtype == wanted:
        return array
    floats = array.dtype.kind == "f" or array.dtype == ml_dtypes.bfloat16
    if not floats and array.dtype.kind not in "biu":
        raise InputError(name, f"the data has type {array.dtype}; numbers are required.")
    with np.errstate(all="ignore"):
        converted = array.astype(wanted)
        back = converted.astype(array.dtype)
    if not np.array_equal(array, back, equal_nan=floats):
        raise InputError(
            name,
            f"the data has type {array.dtype}, and not all of it is representable as {wanted}; "
            "convert it (astype) if rounding is meant.",
        )
    return converted


def _match(each: Input, shape: tuple[int, ...], symbols: dict[str, tuple[int, str]]) -> None:
    """Checks a shape against the declared one, and binds symbolic dimensions."""
    if each.shape is None:
        return
    fits = len(shape) == len(each.shape) and all(
        dim == size for dim, size in zip(each.shape, shape, strict=True) if isinstance(dim, int)
    )
    if not fits:
        raise InputError(each.name, f"shape {shown(list(shape))} does not fit; the model declares {each.declared}.")
    for dim, size in zip(each.shape, shape, strict=True):
        if isinstance(dim, str):
            bound, by = symbols.setdefault(dim, (size, each.name))
            if bound != size:
                raise InputError(
                    each.name, f"dimension {dim} is {size} in shape {shown(list(shape))}, and {bound} in that of {by}."
                )


def _resolve(each: Input, symbols: Mapping[str, tuple[int, str]]) -> list[int] | None:
    """Returns a shape for random data, or None if a dimension is not known."""
    sizes = _sizes(each, symbols)
    known = [size for size in sizes or () if size is not None]
    return known if sizes is not None and len(known) == len(sizes) else None


def _sizes(each: Input, symbols: Mapping[str, tuple[int, str]]) -> list[int | None] | None:
    """Returns the sizes of an input, with None for unknown ones; or None if the rank is not known."""
    if each.shape is None:
        return None
    return [
        dim if isinstance(dim, int) else symbols[dim][0] if isinstance(dim, str) and dim in symbols else None
        for dim in each.shape
    ]


def _unknown_shapes(unknown: Sequence[Input], symbols: Mapping[str, tuple[int, str]]) -> InputError:
    """Returns an error that names all inputs of unknown shapes, and how to set them."""
    examples = {}
    for each in unknown:
        sizes = _sizes(each, symbols)
        examples[each.name] = (
            "1x3x8x8" if sizes is None else "x".join("8" if size is None else str(size) for size in sizes)
        )
    options = " ".join(f"--shape {name}={example}" for name, example in examples.items())
    first = unknown[0]
    if len(unknown) == 1:
        return InputError(
            first.name,
            f"its shape is dynamic ({first.declared}); give a shape or data (on the command line {options} "
            f"or --input {first.name}=FILE.npy).",
        )
    return InputError(
        ", ".join(each.name for each in unknown),
        f"their shapes are dynamic ({', '.join(each.declared for each in unknown)}); give shapes or data (on "
        f"the command line {options}, or --input {first.name}=FILE.npy and so on).",
    )


def random_data(each: Input, shape: Sequence[int], seed: int) -> Array:
    """Returns random data as `fill` does.

    Raises:
        InputError: It would exceed 16 GiB, or the type is not numeric.
    """
    dtype = each.dtype.numpy()
    if int(np.prod([float(size) for size in shape])) * dtype.itemsize > _MAX_BYTES:
        raise InputError(
            each.name, f"random data of shape {shown(list(shape))} takes more than {_MAX_BYTES >> 30} GiB."
        )
    random = np.random.default_rng([seed, zlib.crc32(each.name.encode())])
    if each.dtype.is_floating_point():
        return random.standard_normal(shape, np.float32).astype(dtype)
    if each.dtype == ir.DataType.BOOL:
        return random.integers(0, 2, shape).astype(dtype)
    if not each.dtype.is_integer():
        raise InputError(each.name, f"there is no random data of type {each.dtype}.")
    low, high = _INTEGERS
    signed = each.dtype.is_signed()
    bits = each.dtype.bitwidth - int(signed)
    high = min(high, (1 << bits) - 1)
    low = max(low, -(1 << bits)) if signed else 0
    return random.integers(low, high, shape, endpoint=True).astype(dtype)
