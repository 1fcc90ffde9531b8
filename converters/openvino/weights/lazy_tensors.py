"""Constants that are reshaped, transposed or cut along the first axis, without a copy until their data are needed."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from ortconv.graph.annotations import BYTES_IN_FILE, COMPUTED_FROM, SOURCE_HAS_4_BITS, Computed

__all__ = ["part", "rearranged"]


def rearranged(tensor: ir.TensorProtocol, sizes: Sequence[int], perm: Sequence[int] | None = None) -> ir.TensorProtocol:
    """Returns a tensor that is reshaped, or transposed where `perm` is given, when its data are first read.

    Args:
        tensor: The constant.
        sizes: The shape of the result.
        perm: The order of axes of a Transpose; None for a Reshape.
    """

    def data() -> ir.Tensor[np.ndarray]:
        array = tensor.numpy()
        moved = array.reshape(sizes) if perm is None else np.ascontiguousarray(array.transpose(perm))
        return ir.Tensor(moved, tensor.dtype)

    later = ir.LazyTensor(data, tensor.dtype, ir.Shape(sizes))
    op_type = "Reshape" if perm is None else "Transpose"
    COMPUTED_FROM.set(later, Computed(op_type, tensor, repr((list(sizes), perm))))
    SOURCE_HAS_4_BITS.copy(tensor, later)
    if perm is None:
        BYTES_IN_FILE.copy(tensor, later)
    return later


def part(tensor: ir.TensorProtocol, index: int) -> ir.TensorProtocol:
    """Returns `tensor[index]`; a view of the file where the elements of the part are contiguous bytes there."""
    sizes = tensor.shape.numpy()[1:]
    count, whole = math.prod(sizes), tensor
    made: ir.TensorProtocol
    while (computed := COMPUTED_FROM.get(whole)) is not None and computed.op_type == "Reshape":
        whole = computed.data
    if isinstance(whole, ir.PackedTensor) and count % 2 == 0:
        half = count // 2
        raw = whole.numpy_packed().reshape(-1)[index * half : (index + 1) * half]
        made = ir.PackedTensor(raw, tensor.dtype, shape=ir.Shape(sizes))
    elif isinstance(whole, ir.Tensor):
        made = ir.Tensor(whole.numpy().reshape(-1)[index * count : (index + 1) * count].reshape(sizes), tensor.dtype)
    else:
        return _later(tensor, index)
    place = BYTES_IN_FILE.get(whole)
    if place is not None:
        path, offset = place
        BYTES_IN_FILE.set(made, (path, offset + index * made.nbytes))
    return made


def _later(tensor: ir.TensorProtocol, index: int) -> ir.TensorProtocol:
    """Returns a part that is computed when its data are first read; the part of a Cast casts the part of its source."""
    computed = COMPUTED_FROM.get(tensor)
    inner = part(computed.data, index) if computed is not None and computed.op_type == "Cast" else None

    def data() -> ir.Tensor[np.ndarray]:
        array = np.ascontiguousarray(tensor.numpy()[index]) if inner is None else inner.numpy()
        return ir.Tensor(array.astype(tensor.dtype.numpy(), copy=False), tensor.dtype)

    later = ir.LazyTensor(data, tensor.dtype, ir.Shape(tensor.shape.numpy()[1:]))
    COMPUTED_FROM.set(later, Computed("part", tensor, str(index)))
    return later
