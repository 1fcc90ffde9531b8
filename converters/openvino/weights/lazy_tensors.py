"""Constants that are reshaped, transposed or cut along the first axis, without a copy until their data are needed."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from ortconv.graph.constant_folding import FILE, ORIGIN

__all__ = ["SOURCE_HAS_4_BITS", "part", "rearranged"]

SOURCE_HAS_4_BITS = "ortconv.four_bits"
"""Key in the metadata of an 8-bit constant whose source has 4 bits, which opsets before 21 cannot store."""


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
    later.meta[ORIGIN] = "Reshape" if perm is None else "Transpose", tensor, repr((list(sizes), perm))
    for key in (FILE, SOURCE_HAS_4_BITS) if perm is None else (SOURCE_HAS_4_BITS,):
        if key in tensor.meta:
            later.meta[key] = tensor.meta[key]
    return later


def part(tensor: ir.TensorProtocol, index: int) -> ir.TensorProtocol:
    """Returns `tensor[index]`; a view of the file where the elements of the part are contiguous bytes there."""
    sizes = tensor.shape.numpy()[1:]
    count, whole = math.prod(sizes), tensor
    made: ir.TensorProtocol
    while whole.meta.get(ORIGIN, ("",))[0] == "Reshape":
        whole = whole.meta[ORIGIN][1]
    if isinstance(whole, ir.PackedTensor) and count % 2 == 0:
        half = count // 2
        raw = whole.numpy_packed().reshape(-1)[index * half : (index + 1) * half]
        made = ir.PackedTensor(raw, tensor.dtype, shape=ir.Shape(sizes))
    elif isinstance(whole, ir.Tensor):
        made = ir.Tensor(whole.numpy().reshape(-1)[index * count : (index + 1) * count].reshape(sizes), tensor.dtype)
    else:
        return _later(tensor, index)
    if FILE in whole.meta:
        path, offset = whole.meta[FILE]
        made.meta[FILE] = path, offset + index * made.nbytes
    return made


def _later(tensor: ir.TensorProtocol, index: int) -> ir.TensorProtocol:
    """Returns a part that is computed when its data are first read; the part of a Cast casts the part of its source."""
    op_type, source, _ = tensor.meta.get(ORIGIN, ("", tensor, ""))
    inner = part(source, index) if op_type == "Cast" else None

    def data() -> ir.Tensor[np.ndarray]:
        array = np.ascontiguousarray(tensor.numpy()[index]) if inner is None else inner.numpy()
        return ir.Tensor(array.astype(tensor.dtype.numpy(), copy=False), tensor.dtype)

    later = ir.LazyTensor(data, tensor.dtype, ir.Shape(tensor.shape.numpy()[1:]))
    later.meta[ORIGIN] = "part", tensor, str(index)
    return later
