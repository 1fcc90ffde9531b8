"""8-bit weights of transposed convolutions, through whatever dequantizes and reshapes them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from ortconv.graph.constant_values import constant

__all__ = ["IntegerWeights", "integer_weights"]

Array = npt.NDArray[Any]

_BYTES = (ir.DataType.INT8, ir.DataType.UINT8)
_MOST_NODES = 8


@dataclasses.dataclass(frozen=True)
class _Dequantized:
    """Values (data - point) * scale: arrays of one shape, or of shapes that broadcast to that of the data.

    The data are constants, or the value of a run where nothing moves them.
    """

    data: Array | ir.Value
    scale: Array
    point: Array

    @property
    def shape(self) -> tuple[int, ...]:
        if not isinstance(self.data, ir.Value):
            return tuple(self.data.shape)
        assert self.data.shape is not None
        return tuple(self.data.shape.numpy())


@dataclasses.dataclass(frozen=True)
class IntegerWeights:
    """The weights (data - point) * scale of a transposed convolution.

    Attributes:
        data: [C, M/group, kernel...], int8 or uint8; or a value of a run, which `perm` lays out so.
        dtype: Their type.
        perm: ``transpose(data, perm)`` is [C, M/group, kernel...], where the data are a value.
        scale: [M], float32.
        point: The zero point, one for all.
    """

    data: Array | ir.Value
    dtype: ir.DataType
    perm: tuple[int, ...]
    scale: npt.NDArray[np.float32]
    point: int


def integer_weights(value: ir.Value, perm: Sequence[int], group: int) -> IntegerWeights | str:
    """Returns the weights that a value holds, or why they are not those of integers.

    Args:
        value: Weights in float32.
        perm: ``transpose(value, perm)`` is [C, M/group, kernel...].
        group: The number of groups.
    """
    found = _dequantized(value, _MOST_NODES)
    if found is None:
        return "its weights are not dequantized from 8 bits by constants"
    scale, point = (np.transpose(np.broadcast_to(each, found.shape), perm) for each in (found.scale, found.point))
    if scale.shape[0] % group or not scale.size:
        return "its weights do not fit its groups"
    if (point != point.flat[0]).any():
        return "its weights have several zero points"
    data, dtype = found.data, ir.DataType.INT8
    if isinstance(data, ir.Value):
        assert data.dtype is not None
        dtype = data.dtype
    else:
        data, dtype = np.ascontiguousarray(np.transpose(data, perm)), ir.DataType.from_numpy(data.dtype)
    limits, zero = np.iinfo(dtype.numpy()), float(point.flat[0])
    if not zero.is_integer() or not limits.min <= zero <= limits.max:
        return f"the zero point {zero:g} of its weights is no integer of their type"
    grouped = scale.reshape(group, scale.shape[0] // group, scale.shape[1], -1)
    channels = grouped[:, :1, :, :1]
    if (grouped != channels).any():
        return "its weights have other scales than one for each output channel"
    return IntegerWeights(data, dtype, tuple(perm), channels.astype(np.float32).reshape(-1), int(zero))


def _dequantized(value: ir.Value | None, most: int) -> _Dequantized | None:
    """Returns what nodes in front of a value dequantize, if scales and zero points are constants."""
    node = None if value is None else value.producer()
    if node is None or node.domain or not most or any(each.is_ref() for each in node.attributes.values()):
        return None
    match node.op_type:
        case "DequantizeLinear":
            return _of_dequantize_linear(node)
        case "Cast":
            data = _integers(node.inputs[0])
            is_float = node.attributes.get_int("to", 0) == ir.DataType.FLOAT
            one, zero = np.ones((), np.float32), np.zeros((), np.float32)
            return None if data is None or not is_float else _Dequantized(data, one, zero)
        case "Sub" | "Mul":
            found, other = _dequantized(node.inputs[0], most - 1), _floats(node.inputs[1])
            if found is None or other is None or not _broadcasts(other, found.shape):
                return None
            if node.op_type == "Mul":
                return dataclasses.replace(found, scale=found.scale * other)
            is_plain = bool((found.scale == 1).all() and not found.point.any())
            return dataclasses.replace(found, point=other) if is_plain else None
        case "Reshape" | "Transpose":
            found = _dequantized(node.inputs[0], most - 1)
            return None if found is None else _moved(node, found)
    return None


def _of_dequantize_linear(node: ir.Node) -> _Dequantized | None:
    data, scale = _integers(node.inputs[0]), _floats(node.inputs[1])
    zero = node.inputs[2] if len(node.inputs) > 2 else None
    point = np.zeros((), np.uint8) if zero is None else _bytes(zero)
    if data is None or scale is None or point is None or int(node.attributes.get_int("block_size", 0)):
        return None
    if int(node.attributes.get_int("output_dtype", 0)) not in (0, ir.DataType.FLOAT):
        return None
    if scale.size > 1:
        sizes = _Dequantized(data, scale, point).shape
        axis = int(node.attributes.get_int("axis", 1)) % len(sizes)
        column = [-1 if each == axis else 1 for each in range(len(sizes))]
        if scale.size != sizes[axis]:
            return None
        scale, point = scale.reshape(column), point.reshape(column if point.size > 1 else ())
    return _Dequantized(data, scale.reshape(()) if scale.size == 1 else scale, point)


def _moved(node: ir.Node, found: _Dequantized) -> _Dequantized | None:
    if isinstance(found.data, ir.Value):
        return None
    arrays = [np.broadcast_to(each, found.shape) for each in (found.data, found.scale, found.point)]
    if node.op_type == "Transpose":
        perm = node.attributes.get_ints("perm", tuple(reversed(range(len(found.shape)))))
        return _Dequantized(*(np.transpose(each, perm) for each in arrays))
    shape = constant(node.inputs[1])
    if shape is None:
        return None
    sizes = [found.shape[i] if size == 0 else int(size) for i, size in enumerate(shape.numpy())]
    return _Dequantized(*(each.reshape(sizes) for each in arrays))


def _integers(value: ir.Value | None) -> Array | ir.Value | None:
    """Returns constants, or a value of a run whose sizes are known."""
    data = _bytes(value)
    if data is not None or value is None or value.dtype not in _BYTES:
        return data
    return value if value.shape is not None and value.shape.is_static() else None


def _bytes(value: ir.Value | None) -> Array | None:
    data = constant(value)
    return data.numpy() if data is not None and data.dtype in _BYTES else None


def _floats(value: ir.Value | None) -> Array | None:
    data = constant(value)
    return data.numpy() if data is not None and data.dtype == ir.DataType.FLOAT else None


def _broadcasts(array: Array, shape: tuple[int, ...]) -> bool:
    """Tells whether an array broadcasts to a shape."""
    return array.ndim <= len(shape) and all(
        size in (1, whole) for size, whole in zip(reversed(array.shape), reversed(shape), strict=False)
    )
