"""Weight-only quantized matrices, with a scale and optionally a zero point for each block of a row."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.weights.codebook import CodebookWeights
from ortconv.converters.openvino.weights.lazy_tensors import rearranged
from ortconv.converters.openvino.weights.quantized_weights import QuantizedWeights
from ortconv.graph.builder import Builder
from ortconv.graph.match import operand_of
from ortconv.opset.domain import DOMAIN
from ortconv.opset.operator import Operator

__all__ = ["CompressedMatrix"]


@dataclasses.dataclass(frozen=True)
class CompressedMatrix:
    """A weight-only quantized matrix, or one for each expert.

    Attributes:
        data: Quantized values, or uint4 indices into a codebook, [N, K] or [E, N, K].
        scale: Scales [N, K / block_size] or [E, N, K / block_size].
        zero_point: Zero points of the scales' shape and the data's type; None for zeros.
        block_size: How many values of a row share a scale.
        codebook: Floats [16]; None for quantized values.
    """

    data: ir.TensorProtocol
    scale: np.ndarray
    zero_point: ir.Tensor[np.ndarray] | None
    block_size: int
    codebook: np.ndarray | None = None

    @classmethod
    def of(cls, value: ir.Value, *, transpose: bool = False, rank: int = 2) -> CompressedMatrix | None:
        """Returns the matrix that a value dequantizes; None for other values, and if scales are not per block of a row.

        Args:
            value: The dequantized matrix.
            transpose: Whether the result is its transpose.
            rank: 2 for a matrix, 3 for one for each expert.
        """
        value, transpose = _before_transpose(value, transpose)
        compressed = _stored(value) or _stored(operand_of(value, "Reshape"))
        if compressed is None or value.shape is None or len(value.shape) != rank:
            return None
        *several_of, rows, columns = value.shape.numpy()
        matrices = math.prod(several_of)
        sizes, own = compressed.sizes, _own_sizes(compressed)
        if matrices * rows * columns == 0 or matrices * rows * columns != math.prod(sizes):
            return None
        for before in (matrices, matrices * rows):
            sizes, own = _divided(sizes, own, before)
        ends = [_split(sizes, before) for before in (matrices, matrices * rows)]
        if ends[0] is None or ends[1] is None:
            return None
        lead, outer, inner = range(ends[0]), range(ends[0], ends[1]), range(ends[1], len(sizes))
        if transpose:
            outer, inner = inner, outer
        several = [axis for axis in inner if own[axis] != 1]
        last = several[-1] + 1 if several else inner.start
        if any(own[axis] != sizes[axis] for axis in range(inner.start, last)):
            return None
        count, depth = (columns, rows) if transpose else (rows, columns)
        block = math.prod(sizes[last : inner.stop])
        if block == 1 and depth > 1:
            return None  # as many scales as values
        each = [size if axis not in inner or axis < last else 1 for axis, size in enumerate(sizes)]

        def arranged(values: np.ndarray) -> np.ndarray:
            spread = np.broadcast_to(values.reshape(own), each).transpose([*lead, *outer, *inner])
            return np.ascontiguousarray(spread.reshape(*several_of, count, depth // block))

        data, dtype = compressed.data.const_value, compressed.data.dtype
        assert data is not None
        assert dtype is not None
        if compressed.sizes != [*several_of, rows, columns]:
            data = rearranged(data, [*several_of, rows, columns])
        if transpose:
            axes = range(len(several_of))
            data = rearranged(data, [*several_of, columns, rows], [*axes, len(axes) + 1, len(axes)])
        scale = arranged(compressed.scale)
        if isinstance(compressed, CodebookWeights):
            return cls(data, scale, None, block, compressed.codebook)
        points = None if compressed.zero_point is None else arranged(compressed.zero_point).astype(dtype.numpy())
        return cls(data, scale, None if points is None else ir.Tensor(points, dtype), block)

    def product(
        self, b: Builder, by_values: Operator, by_codebook: Operator, data: ir.Value, *index: ir.Value
    ) -> ir.Value:
        """Emits a product of data and the matrix.

        Args:
            b: The builder.
            by_values: The operator for quantized values.
            by_codebook: The operator for codebooks.
            data: The data.
            *index: Further inputs in front of the zero point or codebook.
        """
        op, last = (by_values, self.zero_point) if self.codebook is None else (by_codebook, self.codebook)
        return b.op(
            op.name,
            data,
            b.constant(self.data),
            b.constant(self.scale),
            *index,
            None if last is None else b.constant(last),
            domain=DOMAIN,
            block_size=self.block_size,
        )


def _before_transpose(value: ir.Value, transpose: bool) -> tuple[ir.Value, bool]:
    """Returns the input of a Transpose of the last two axes instead of its output, and the opposite of `transpose`."""
    node = value.producer()
    if node is None or (node.domain, node.op_type) != ("", "Transpose") or node.inputs[0] is None:
        return value, transpose
    turns = list(node.attributes.get_ints("perm", ())) in ([1, 0], [0, 2, 1])
    return (node.inputs[0], not transpose) if turns else (value, transpose)


def _stored(value: ir.Value | None) -> QuantizedWeights | CodebookWeights | None:
    return None if value is None else QuantizedWeights.of(value) or CodebookWeights.of(value)


def _own_sizes(compressed: QuantizedWeights | CodebookWeights) -> list[int]:
    """Returns the shape of the scales, aligned with that of the data."""
    own = [1] * len(compressed.sizes)
    if isinstance(compressed, CodebookWeights) or compressed.block_size is not None:
        own = list(compressed.scale.shape)
    elif compressed.axis is not None:
        own[compressed.axis] = compressed.sizes[compressed.axis]
    return own


def _split(sizes: list[int], count: int) -> int | None:
    """Returns how many leading axes have `count` elements together, or None."""
    return next((at for at in range(len(sizes) + 1) if math.prod(sizes[:at]) == count), None)


def _divided(sizes: list[int], own: list[int], rows: int) -> tuple[list[int], list[int]]:
    """Returns the shapes of data and scales, with the axis divided in which a group of `rows` leading rows ends."""
    before = 1
    for axis, size in enumerate(sizes):
        part = rows // before
        if rows % before == 0 and 1 < part < size and size % part == 0:
            parts = [part, size // part]
            several = parts if own[axis] != 1 else [1, 1]
            return [*sizes[:axis], *parts, *sizes[axis + 1 :]], [*own[:axis], *several, *own[axis + 1 :]]
        before *= size
    return sizes, own
