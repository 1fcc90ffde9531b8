"""Quantized weights: a DequantizeLinear of constants, and the same weights transposed, reshaped or cut."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.weights.lazy_tensors import part, rearranged
from ortconv.graph.builder import Builder

__all__ = ["QuantizedWeights"]

_SIGNED = frozenset({ir.DataType.INT4, ir.DataType.INT8})
"""Types whose zero points are stated even if they are zero.

ONNX Runtime before 1.28 repeats the scale behind a Reshape or Transpose, in a QuantizeLinear to uint8 if it has none.
"""


@dataclasses.dataclass(frozen=True)
class QuantizedWeights:
    """The operands of a DequantizeLinear of constants.

    Attributes:
        data: The quantized values: int8, uint8, int4 or uint4.
        scale: Scales: of shape () for one, [n] for one per entry of `axis`, of the data's rank for blocks.
        zero_point: Zero points, of the shape of the scales; None for zeros.
        axis: The axis of per-channel scales or of blocks; None for one scale.
        block_size: How many values along the axis share a scale; None for per-channel scales.
    """

    data: ir.Value
    scale: np.ndarray
    zero_point: np.ndarray | None
    axis: int | None
    block_size: int | None

    @classmethod
    def of(cls, value: ir.Value) -> QuantizedWeights | None:
        """Returns the weights that a value dequantizes, or None if it is something else."""
        node = value.producer()
        if node is None or (node.domain, node.op_type) != ("", "DequantizeLinear"):
            return None
        data, scale, *point = node.inputs
        if data is None or data.const_value is None or scale is None or scale.const_value is None:
            return None
        scales, points = scale.const_value.numpy(), None
        if point and point[0] is not None:
            if point[0].const_value is None:
                return None
            points = point[0].const_value.numpy() if point[0].const_value.numpy().any() else None
        axis, block = (node.attributes.get(name) for name in ("axis", "block_size"))
        along = axis.as_int() if axis is not None and scales.ndim else None
        return cls(data, scales, points, along, None if block is None else block.as_int())

    @property
    def sizes(self) -> list[int]:
        """The shape of the data."""
        assert self.data.shape is not None
        return list(self.data.shape.numpy())

    def transposed(self, b: Builder, perm: Sequence[int]) -> QuantizedWeights:
        """Returns the weights with their axes in another order."""
        data = self._rearranged(b, [self.sizes[axis] for axis in perm], perm)
        axis = None if self.axis is None else list(perm).index(self.axis)
        return self._changed(data, axis, lambda blocks: blocks.transpose(perm))

    def unsqueezed(self, b: Builder) -> QuantizedWeights:
        """Returns the weights with a new first axis of size 1."""
        data = self._rearranged(b, [1, *self.sizes], None)
        return self._changed(data, None if self.axis is None else self.axis + 1, lambda blocks: blocks[np.newaxis])

    def reshaped(self, b: Builder, sizes: Sequence[int]) -> QuantizedWeights | None:
        """Returns the weights in another shape; None with blocks, or if the scales' axis is split or merged."""
        if self.block_size is not None:
            return None
        axis = None if self.axis is None else self._axis_in(sizes)
        if self.axis is not None and axis is None:
            return None
        return dataclasses.replace(self, data=self._rearranged(b, sizes, None), axis=axis)

    def part(self, b: Builder, index: int) -> QuantizedWeights | None:
        """Returns the weights at an index of the first axis; None if a block of that axis shares a scale."""
        data = self.data.const_value
        assert data is not None
        scale, point, axis = self.scale, self.zero_point, self.axis
        if self.block_size is not None:
            if axis == 0:
                return None
            at = index if scale.shape[0] > 1 else 0
            scale, point = scale[at], None if point is None else point[at]
        elif axis == 0:
            scale, point, axis = scale[index], None if point is None else point[index], None
        return dataclasses.replace(
            self,
            data=b.constant(part(data, index)),
            scale=np.asarray(scale),
            zero_point=None if point is None else np.asarray(point),
            axis=None if axis is None else axis - 1,
        )

    def emit(self, b: Builder) -> ir.Value:
        """Emits the DequantizeLinear."""
        dtype = self.data.dtype
        assert dtype is not None
        points = self.zero_point
        if points is None and self.block_size is None and dtype in _SIGNED:
            points = np.zeros_like(self.scale, np.float64)
        point = None if points is None else b.constant(ir.Tensor(points.astype(dtype.numpy()), dtype))
        scale = b.constant(self.scale)
        value = b.op("DequantizeLinear", self.data, scale, point, axis=self.axis, block_size=self.block_size)
        return b.typed(value, scale.dtype, self.data.shape)

    def _changed(
        self, data: ir.Value, axis: int | None, rearrange: Callable[[np.ndarray], np.ndarray]
    ) -> QuantizedWeights:
        """Returns the weights with other data and another axis; scales and zero points of blocks are rearranged."""
        scale, point = self.scale, self.zero_point
        if self.block_size is not None:
            scale, point = rearrange(scale), None if point is None else rearrange(point)
        return dataclasses.replace(self, data=data, scale=scale, zero_point=point, axis=axis)

    def _axis_in(self, sizes: Sequence[int]) -> int | None:
        """Returns the axis of another shape that holds exactly the axis of the scales, or None."""
        assert self.axis is not None
        size, before = self.sizes[self.axis], math.prod(self.sizes[: self.axis])
        places = (at for at, other in enumerate(sizes) if other == size and math.prod(sizes[:at]) == before)
        return next(places, None)

    def _rearranged(self, b: Builder, sizes: Sequence[int], perm: Sequence[int] | None) -> ir.Value:
        assert self.data.const_value is not None
        return b.constant(rearranged(self.data.const_value, sizes, perm))
