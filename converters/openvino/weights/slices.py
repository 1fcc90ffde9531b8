"""Parts of constants along their first axis, such as the matrix of one expert; without a copy where possible."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.weights.dequantization import Compressed
from ortconv.graph.builder import Builder
from ortconv.graph.constant_folding import FILE, ORIGIN

__all__ = ["compressed_part", "part"]


def part(tensor: ir.TensorProtocol, index: int) -> ir.TensorProtocol:
    """Returns the part of a tensor that an index of its first axis selects."""
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
    """Returns a part of a tensor that is computed when somebody asks for it; what a Cast makes, from its own part."""
    op_type, source, _ = tensor.meta.get(ORIGIN, ("", tensor, ""))
    inner = part(source, index) if op_type == "Cast" else None

    def data() -> ir.Tensor[np.ndarray]:
        array = np.ascontiguousarray(tensor.numpy()[index]) if inner is None else inner.numpy()
        return ir.Tensor(array.astype(tensor.dtype.numpy(), copy=False), tensor.dtype)

    later = ir.LazyTensor(data, tensor.dtype, ir.Shape(tensor.shape.numpy()[1:]))
    later.meta[ORIGIN] = "part", tensor, str(index)
    return later


def compressed_part(b: Builder, weights: Compressed, index: int) -> Compressed | None:
    """Returns the part of compressed weights that an index of their first axis selects, or None.

    There is none where numbers of several parts share a scale with some of another.
    """
    data = weights.data.const_value
    assert data is not None
    scale, point, axis = weights.scale, weights.point, weights.axis
    if weights.block is not None:
        if axis == 0:
            return None
        at = index if scale.shape[0] > 1 else 0
        scale, point = scale[at], None if point is None else point[at]
    elif axis == 0:
        scale, point, axis = scale[index], None if point is None else point[index], None
    return dataclasses.replace(
        weights,
        data=b.constant(part(data, index)),
        scale=np.asarray(scale),
        point=None if point is None else np.asarray(point),
        axis=None if axis is None else axis - 1,
    )
