"""Checks that tensors hold as much data as their shapes and types require, in the model or in external files."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable

import onnx_ir as ir
from onnx import TensorProto

from ortconv.errors import CheckError, shown
from ortconv.frontend.source_graph import MAX_RANK
from ortconv.model_io.regular_files import open_inside

__all__ = ["check_tensor", "check_total", "is_external", "read_external"]

_MAX_BYTES = 1 << 62

_MAX_DIGITS = 19
"""The digits of numbers below 2^63."""

_SHARING = 4
"""How many tensors may refer to each byte of a file on average; of tied weights, two do."""

_SMALL = 1 << 26
"""The number of bytes below which `_SHARING` does not apply."""

_FIELDS: dict[int, str] = {
    TensorProto.FLOAT: "float_data",
    TensorProto.COMPLEX64: "float_data",
    TensorProto.DOUBLE: "double_data",
    TensorProto.COMPLEX128: "double_data",
    TensorProto.INT64: "int64_data",
    TensorProto.UINT32: "uint64_data",
    TensorProto.UINT64: "uint64_data",
    TensorProto.STRING: "string_data",
}
"""Element type -> the field of its elements; int32_data for others."""

_TYPED = (*sorted(set(_FIELDS.values())), "int32_data")
_PAIRS = (TensorProto.COMPLEX64, TensorProto.COMPLEX128)


def is_external(tensor: TensorProto) -> bool:
    """Returns whether a tensor has external data."""
    return tensor.data_location == TensorProto.EXTERNAL


def check_tensor(tensor: TensorProto, name: str, folder: str) -> None:
    """Checks a tensor.

    Args:
        tensor: The tensor.
        name: The model's name in messages.
        folder: The model's folder.

    Raises:
        CheckError: The tensor is malformed, or its external data is not allowed.
    """
    subject = f"tensor {shown(tensor.name)}"
    elements, size = _extent(tensor, name, subject)
    if tensor.HasField("segment"):
        raise CheckError(name, f"{subject} is a segment; allowed: whole tensors.")
    if tensor.data_location not in (TensorProto.DEFAULT, TensorProto.EXTERNAL):
        raise CheckError(name, f"{subject} has data_location {tensor.data_location}; allowed: 0 and 1.")
    if is_external(tensor):
        _check_reference(tensor, size, name, subject, folder)
        return
    if tensor.external_data:
        raise CheckError(name, f"{subject} has external_data beside data_location 0; allowed: one of them.")
    filled = {field: count for field in _TYPED if (count := len(getattr(tensor, field)))}
    raw = len(tensor.raw_data)
    if filled and tensor.HasField("raw_data"):
        raise CheckError(name, f"{subject} has raw_data beside {', '.join(filled)}; allowed: one of them.")
    if raw or (elements and not filled):
        if tensor.data_type == TensorProto.STRING or raw != size:
            raise CheckError(name, f"{subject} has {raw} bytes of raw_data; allowed: {_wanted(tensor, size)}.")
        return
    field = _FIELDS.get(int(tensor.data_type), "int32_data")
    per_entry = 8 // _bits(tensor) if _bits(tensor) in (2, 4) else 1
    count = 2 * elements if tensor.data_type in _PAIRS else -(-elements // per_entry)
    if filled and filled != {field: count}:
        found = ", ".join(f"{number} entries of {each}" for each, number in filled.items())
        raise CheckError(name, f"{subject} has {found}; allowed: {count} of {field}.")


def check_total(tensors: Iterable[TensorProto], name: str, folder: str) -> None:
    """Checks that tensors do not share external data so often that a small file fills the memory.

    Raises:
        CheckError: They do.
    """
    total, files = 0, set()
    for tensor in tensors:
        if is_external(tensor):
            location, _, length = _reference(tensor)
            total += length
            files.add(os.path.normpath(location))
    there = sum(os.path.getsize(os.path.join(folder, each)) for each in files)
    if total > _SHARING * there + _SMALL:
        raise CheckError(
            name,
            f"its tensors refer to {total} bytes in files of {there}; allowed: {_SHARING} times as many and "
            f"{_SMALL >> 20} MiB.",
        )


def read_external(tensor: TensorProto, name: str, folder: str) -> None:
    """Reads the external data of a tensor that `check_tensor` has checked into the tensor.

    Raises:
        CheckError: The file has changed since.
    """
    location, offset, length = _reference(tensor)
    try:
        with open_inside(folder, location) as file:
            file.seek(offset)
            data = file.read(length)
    except OSError as error:
        raise CheckError(name, f"tensor {shown(tensor.name)}: {shown(location)} {error.strerror or error}.") from error
    if len(data) != length:
        raise CheckError(
            name, f"tensor {shown(tensor.name)}: {shown(location)} has become shorter since it was checked."
        )
    tensor.ClearField("external_data")
    tensor.ClearField("data_location")
    tensor.raw_data = data


def _extent(tensor: TensorProto, name: str, subject: str) -> tuple[int, int]:
    """Returns the number of elements and of bytes of a tensor."""
    try:
        dtype = ir.DataType(tensor.data_type)
    except ValueError:
        dtype = ir.DataType.UNDEFINED
    if dtype == ir.DataType.UNDEFINED:
        raise CheckError(name, f"{subject} has the element type {tensor.data_type}; allowed: those of ONNX.")
    dims = list(tensor.dims)
    if len(dims) > MAX_RANK:
        raise CheckError(name, f"{subject} has {len(dims)} axes; allowed: up to {MAX_RANK}.")
    if any(dim < 0 for dim in dims):
        raise CheckError(name, f"{subject} has shape {shown(dims)}; allowed: sizes of 0 and more.")
    bits = _bits(tensor)
    if math.prod(max(dim, 1) for dim in dims) * bits // 8 > _MAX_BYTES:
        raise CheckError(name, f"{subject} has shape {shown(dims)}; allowed: up to 2^62 bytes.")
    elements = math.prod(dims)
    return elements, -(-elements * bits // 8)


def _bits(tensor: TensorProto) -> int:
    return 8 if tensor.data_type == TensorProto.STRING else ir.DataType(tensor.data_type).bitwidth


def _wanted(tensor: TensorProto, size: int) -> str:
    if tensor.data_type == TensorProto.STRING:
        return "string_data"
    return f"{size}, as its shape {shown(list(tensor.dims))} and type {ir.DataType(tensor.data_type).name} say"


def _check_reference(tensor: TensorProto, size: int, name: str, subject: str, folder: str) -> None:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    if len(entries) != len(tensor.external_data) or tensor.data_type == TensorProto.STRING:
        raise CheckError(name, f"{subject}: its external data is ambiguous; allowed: numbers, with one location.")
    location = entries.get("location", "")
    numbers = {}
    for key, default in (("offset", 0), ("length", size)):
        text = entries.get(key)
        if text is not None and not (text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS):
            raise CheckError(name, f"{subject}: external {key} {shown(text)}; allowed: whole numbers of 0 and more.")
        numbers[key] = default if text is None else int(text)
    if numbers["length"] != size:
        raise CheckError(name, f"{subject}: external length {numbers['length']}; allowed: {_wanted(tensor, size)}.")
    try:
        with open_inside(folder, location) as file:
            there = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise CheckError(
            name,
            f"{subject}: its external data {shown(location)} cannot be read: {error.strerror or error}; "
            "allowed: a regular file in the model's folder, without links.",
        ) from error
    if numbers["offset"] + size > there:
        raise CheckError(
            name,
            f"{subject}: its external data are the bytes {numbers['offset']} to {numbers['offset'] + size} of "
            f"{shown(location)}; allowed: up to {there}, the size of that file.",
        )


def _reference(tensor: TensorProto) -> tuple[str, int, int]:
    """Returns location, offset and length of external data that `check_tensor` has checked."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    length = -(-math.prod(tensor.dims) * _bits(tensor) // 8)
    return entries["location"], int(entries.get("offset", 0)), length
