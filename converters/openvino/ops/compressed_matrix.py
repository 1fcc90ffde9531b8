"""A matrix of compressed weights as integers with a scale, and perhaps a zero point, for each block of a row."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.ops.compression import Compressed, moved

__all__ = ["CompressedMatrix"]


@dataclasses.dataclass(frozen=True)
class CompressedMatrix:
    """A matrix of compressed weights.

    Attributes:
        data: The integers [N, K].
        scale: Scales [N, K / block].
        point: Zero points of that shape and of the type of the integers; None for zeros.
        block: How many integers of a row share a scale.
    """

    data: ir.TensorProtocol
    scale: np.ndarray
    point: ir.Tensor[np.ndarray] | None
    block: int

    @classmethod
    def of(cls, value: ir.Value, *, transpose: bool = False) -> CompressedMatrix | None:
        """Returns what a matrix is made of, or None where it is something else or its scales do not lie in rows.

        Args:
            value: The matrix.
            transpose: Whether its columns become the rows.
        """
        value, transpose = _before_transpose(value, transpose)
        compressed = Compressed.of(value) or _before_reshape(value)
        if compressed is None or value.shape is None or len(value.shape) != 2:
            return None
        rows, columns = value.shape.numpy()
        if rows * columns == 0:
            return None
        sizes, own = _divided(compressed, rows)
        split = next((at for at in range(len(sizes) + 1) if math.prod(sizes[:at]) == rows), None)
        if split is None:
            return None
        outer, inner = range(split), range(split, len(sizes))
        if transpose:
            outer, inner = inner, outer
        several = [axis for axis in inner if own[axis] != 1]
        last = several[-1] + 1 if several else inner.start
        if any(own[axis] != sizes[axis] for axis in range(inner.start, last)):
            return None
        count, depth = (columns, rows) if transpose else (rows, columns)
        block = math.prod(sizes[last : inner.stop])
        if block == 1 and depth > 1:
            return None  # as many scales as integers are no compression
        each = [size if axis in outer or axis < last else 1 for axis, size in enumerate(sizes)]

        def arranged(values: np.ndarray) -> np.ndarray:
            spread = np.broadcast_to(values.reshape(own), each).transpose([*outer, *inner])
            return np.ascontiguousarray(spread.reshape(count, depth // block))

        data, dtype = compressed.data.const_value, compressed.data.dtype
        assert data is not None
        assert dtype is not None
        if compressed.sizes != [rows, columns]:
            data = moved(data, [rows, columns])
        if transpose:
            data = moved(data, [columns, rows], [1, 0])
        points = None if compressed.point is None else arranged(compressed.point).astype(dtype.numpy())
        return cls(data, arranged(compressed.scale), None if points is None else ir.Tensor(points, dtype), block)


def _before_transpose(value: ir.Value, transpose: bool) -> tuple[ir.Value, bool]:
    """Returns what a Transpose was made of, and whether it is to be transposed."""
    node = value.producer()
    if node is None or (node.domain, node.op_type) != ("", "Transpose") or node.inputs[0] is None:
        return value, transpose
    return (node.inputs[0], not transpose) if list(node.attributes["perm"].as_ints()) == [1, 0] else (value, transpose)


def _before_reshape(value: ir.Value) -> Compressed | None:
    node = value.producer()
    if node is None or (node.domain, node.op_type) != ("", "Reshape") or node.inputs[0] is None:
        return None
    return Compressed.of(node.inputs[0])


def _divided(compressed: Compressed, rows: int) -> tuple[list[int], list[int]]:
    """Returns the sizes of the integers and those of their scales, one for each axis.

    An axis of which the rows of the matrix are a part is divided.
    """
    sizes = compressed.sizes
    own = [1] * len(sizes)
    if compressed.block is not None:
        own = list(compressed.scale.shape)
    elif compressed.axis is not None:
        own[compressed.axis] = sizes[compressed.axis]
    before = 1
    for axis, size in enumerate(sizes):
        part = rows // before
        if rows % before == 0 and 1 < part < size and size % part == 0:
            parts = [part, size // part]
            several = parts if own[axis] != 1 else [1, 1]
            return [*sizes[:axis], *parts, *sizes[axis + 1 :]], [*own[:axis], *several, *own[axis + 1 :]]
        before *= size
    return sizes, own
