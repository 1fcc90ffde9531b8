"""Data for the constants of a oneDNN graph; its file holds no tensor data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import ml_dtypes
import numpy as np
import onnx_ir as ir

from ortconv.errors import ModelFormatError, shown
from ortconv.onednn import Tensor

__all__ = ["ELEMENTS", "name_of", "pick"]

ELEMENTS: dict[str, ir.DataType] = {
    "undef": ir.DataType.UNDEFINED,
    "f32": ir.DataType.FLOAT,
    "f16": ir.DataType.FLOAT16,
    "bf16": ir.DataType.BFLOAT16,
    "f64": ir.DataType.DOUBLE,
    "s64": ir.DataType.INT64,
    "s32": ir.DataType.INT32,
    "s8": ir.DataType.INT8,
    "u8": ir.DataType.UINT8,
    "s4": ir.DataType.INT4,
    "u4": ir.DataType.UINT4,
    "boolean": ir.DataType.BOOL,
    "f8_e5m2": ir.DataType.FLOAT8E5M2,
    "f8_e4m3": ir.DataType.FLOAT8E4M3FN,
    "e8m0": ir.DataType.FLOAT8E8M0,
    "f4_e2m1": ir.DataType.FLOAT4E2M1,
}
"""oneDNN element type -> ONNX element type."""

_CARRIERS: dict[str, np.dtype] = {
    **dict.fromkeys(("f16", "bf16", "f8_e5m2", "f8_e4m3", "e8m0", "f4_e2m1"), np.dtype(np.float32)),
    "s4": np.dtype(np.int8),
    "u4": np.dtype(np.uint8),
}
"""Element type without a NumPy type -> NumPy type in which its values may be given."""


def name_of(tensor: Tensor) -> str:
    """Returns the name of a tensor in the ONNX model."""
    return tensor.name or f"tensor_{tensor.id}"


def pick(path: str, inputs: Iterable[Tensor], given: Mapping[str, np.ndarray]) -> dict[int, ir.TensorProtocol]:
    """Matches the user's arrays with the inputs of a graph.

    Args:
        path: The graph's file, for messages.
        inputs: The inputs of the graph.
        given: Arrays by tensor id, as text, or name.

    Returns:
        Data by tensor id.

    Raises:
        ModelFormatError: A key names no input, two keys name the same input, or the shape or type of an array
            differs from the file. `where` names the key.
    """
    by_key = {key: tensor for tensor in inputs for key in (name_of(tensor), str(tensor.id))}
    picked: dict[int, ir.TensorProtocol] = {}
    for key, array in given.items():
        where = f"tensors[{shown(key)}]"
        if key not in by_key:
            known = ", ".join(sorted({name_of(tensor) for tensor in by_key.values()}))
            raise ModelFormatError(path, where, f"is not an input of the graph; allowed, by name or id: {known}.")
        tensor = by_key[key]
        if tensor.id in picked:
            raise ModelFormatError(path, where, f"is tensor {tensor.id}, which another key gives already.")
        try:
            picked[tensor.id] = _data(tensor, np.asarray(array))
        except ValueError as error:
            raise ModelFormatError(path, where, f"{error}.") from error
    return picked


def _data(tensor: Tensor, array: np.ndarray) -> ir.TensorProtocol:
    """Checks an array against a tensor.

    Raises:
        ValueError: Shape or type differ.
    """
    if tensor.shape is not None and (
        len(tensor.shape) != array.ndim
        or any(dim not in (None, size) for dim, size in zip(tensor.shape, array.shape, strict=True))
    ):
        raise ValueError(f"has shape {list(array.shape)}, the graph declares {list(tensor.shape)}")
    dtype = ELEMENTS[tensor.dtype]
    if dtype == ir.DataType.UNDEFINED:
        raise ValueError("is given for a tensor of unknown type")
    wanted = np.dtype(dtype.numpy())
    return ir.tensor(_elements(array, wanted, _CARRIERS.get(tensor.dtype), tensor.dtype), dtype=dtype)


def _elements(array: np.ndarray, wanted: np.dtype, carrier: np.dtype | None, declared: str) -> np.ndarray:
    found = array.dtype.newbyteorder("=")
    if found == wanted:
        return np.asarray(array, wanted, order="C")  # keeps a scalar, unlike ascontiguousarray
    if found.kind == "V" and found.names is None and found.itemsize == wanted.itemsize:
        # An .npz file stores ml_dtypes data as raw bytes without the type.
        return np.asarray(array, order="C").view(wanted)
    if carrier is None or found != carrier:
        allowed = f"{wanted} or {carrier}" if carrier else str(wanted)
        raise ValueError(f"has type {found}, the graph declares {declared}; allowed: {allowed}")
    values = np.asarray(array, carrier, order="C")
    with np.errstate(over="ignore", invalid="ignore"):
        converted = values.astype(wanted)
        same = (converted.astype(carrier) == values) | (values != values)
    if not same.all():
        first = float(values[~same].flat[0])
        raise ValueError(f"has the value {first!r}, which {declared} cannot hold; round the data to {declared} first")
    return converted


assert ml_dtypes  # importing it registers the narrow types with NumPy
