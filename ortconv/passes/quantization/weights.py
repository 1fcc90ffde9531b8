"""Constant 8-bit weights with scales and a zero point, as a DequantizeLinear or MatMulCompressed has them."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from ortconv.graph.match import producer
from ortconv.opset.domain import DOMAIN
from ortconv.opset.ops.matmul_compressed import MATMUL_COMPRESSED

__all__ = ["QuantizedWeights"]

_TYPES = frozenset({ir.DataType.INT8, ir.DataType.UINT8})


@dataclasses.dataclass(frozen=True)
class QuantizedWeights:
    """The weights (data - point) * scale.

    Attributes:
        value: The quantized weights, int8 or uint8: a constant.
        data: Its data.
        scale: One scale, or one per entry of an axis.
        point: The zero point, one for all.
        axis: The axis of the scales; None for one scale.
    """

    value: ir.Value
    data: npt.NDArray[np.integer]
    scale: npt.NDArray[np.float32]
    point: int
    axis: int | None

    @classmethod
    def of(cls, value: ir.Value | None) -> QuantizedWeights | None:
        """Returns the weights that a value holds dequantized; None of anything else, and where zero points differ."""
        reshape = producer(value, "Reshape")
        node = producer(value if reshape is None else reshape.inputs[0], "DequantizeLinear")
        if value is None or node is None or int(node.attributes.get_int("block_size", 0)):
            return None
        found = _stored(*node.inputs)
        if found is None:
            return None
        quantized, data, scale, point = found
        axis = None if scale.size == 1 else int(node.attributes.get_int("axis", 1)) % data.ndim
        if reshape is not None:
            # Lowerings add a leading axis of size 1 to a matrix, so that ONNX Runtime does not fuse it.
            if value.shape is None or list(data.shape) != [1, *value.shape] or axis == 0:
                return None
            data, axis = data[0], None if axis is None else axis - 1
        return cls(quantized, data, scale.reshape(() if axis is None else -1), point, axis)

    @classmethod
    def of_product(cls, node: ir.Node) -> QuantizedWeights | None:
        """Returns the matrix [K, N] of a MatMulCompressed with one scale per column; None of anything else."""
        if (node.domain, node.op_type) != (DOMAIN, MATMUL_COMPRESSED.name):
            return None
        found = _stored(*node.inputs[1:])
        if found is None or found[2].shape[1] != 1:
            return None
        quantized, data, scale, point = found
        return cls(quantized, data.T, scale.reshape(-1), point, 1)

    @property
    def dtype(self) -> ir.DataType:
        """The quantized type: int8 or uint8."""
        return ir.DataType.from_numpy(self.data.dtype)

    def scales(self, axis: int) -> npt.NDArray[np.float32] | None:
        """Returns one scale per entry of an axis; None where the scales belong to another axis."""
        if self.axis not in (None, axis):
            return None
        return np.broadcast_to(self.scale, self.data.shape[axis : axis + 1])

    def sums(self, axis: int) -> npt.NDArray[np.float64]:
        """Returns the sum of the weights of each entry of an axis, which has the scales."""
        scales = self.scales(axis)
        assert scales is not None
        others = tuple(other for other in range(self.data.ndim) if other != axis)
        whole = (self.data.astype(np.int64) - self.point).sum(axis=others)
        sums: npt.NDArray[np.float64] = np.multiply(whole, scales, dtype=np.float64)
        return sums

    def without_tiny_zeros(self) -> QuantizedWeights:
        """Returns filters where those of zeros alone have the largest scale, which changes no number."""
        scales = self.scales(0)
        assert scales is not None
        zeros = (self.data == self.point).all(axis=tuple(range(1, self.data.ndim)))
        if zeros.all() or not zeros.any():
            return self
        return dataclasses.replace(self, scale=np.where(zeros, scales.max(), scales), axis=0)


def _stored(
    quantized: ir.Value | None, scale: ir.Value | None, point: ir.Value | None = None
) -> tuple[ir.Value, npt.NDArray[Any], npt.NDArray[np.float32], int] | None:
    """Returns the quantized weights as value and array, their scales and the one zero point, if all are constants."""
    if quantized is None or quantized.dtype not in _TYPES or scale is None or scale.dtype != ir.DataType.FLOAT:
        return None
    constants = [None if each is None else each.const_value for each in (quantized, scale, point)]
    data, scales, points = (None if each is None else each.numpy() for each in constants)
    if data is None or scales is None or (point is not None and points is None):
        return None
    zero = 0 if points is None or not points.size else int(points.flat[0])
    if points is not None and (points != zero).any():
        return None
    return quantized, data, scales, zero
