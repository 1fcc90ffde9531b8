"""Compressed weights: constant integers that are converted, shifted and scaled become one DequantizeLinear.

It computes (data - point) * scale with one rounding, which is what the single ops do: differences of small integers
are exact. Of a matrix that is dequantized and multiplied ONNX Runtime makes a MatMulNBits, which by default rounds the
other operand to 8 bits. It does not look behind a Reshape: weights in groups keep the axis of the groups, and a matrix
gets one axis more. Where our own op may be emitted it computes such products instead: see `compressed_products`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.weights.lookup_tables import HALVES, evaluated
from ortconv.graph.builder import Builder
from ortconv.graph.constant_folding import FILE, ORIGIN
from ortconv.graph.match import made_by

__all__ = [
    "COMPRESSED_TYPES",
    "FOUR_BITS",
    "Compressed",
    "dequantized",
    "moved",
    "multiplied",
    "reshaped",
    "retyped",
    "transposed",
]

COMPRESSED_TYPES = (ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT4, ir.DataType.UINT4)
"""Types of compressed integers."""
_SCALES = (ir.DataType.FLOAT, ir.DataType.FLOAT16)
_FLOAT8 = (ir.DataType.FLOAT8E4M3FN, ir.DataType.FLOAT8E5M2)
_BLOCKS_OPSET = 21
"""The first with 4-bit integers and blocks."""
_SIGNED = frozenset({ir.DataType.INT4, ir.DataType.INT8})
"""Types whose zero points are stated though they are zeros.

ONNX Runtime before 1.28 repeats the scale behind a Reshape or Transpose, in a QuantizeLinear to uint8 if it has none.
"""

FOUR_BITS = "ortconv.four_bits"
"""Key among the notes of a constant of 8 bits that has 4 in the source."""


@dataclasses.dataclass(frozen=True)
class Compressed:
    """A DequantizeLinear of constants.

    Attributes:
        data: The integers.
        scale: Their scales.
        point: Their zero points, of the scales' shape; None for zeros.
        axis: Along which there are several scales; None for one scale.
        block: How many integers along the axis share a scale; None where each has its own.
    """

    data: ir.Value
    scale: np.ndarray
    point: np.ndarray | None
    axis: int | None
    block: int | None

    @classmethod
    def of(cls, value: ir.Value) -> Compressed | None:
        """Returns what a value is made of, or None where it is something else."""
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
        """The shape."""
        assert self.data.shape is not None
        return list(self.data.shape.numpy())

    def transposed(self, b: Builder, perm: Sequence[int]) -> Compressed:
        """Returns the same with other axes."""
        scale, point = self.scale, self.point
        if self.block is not None:
            scale, point = scale.transpose(perm), None if point is None else point.transpose(perm)
        return dataclasses.replace(
            self,
            data=self._moved(b, [self.sizes[axis] for axis in perm], perm),
            scale=scale,
            point=point,
            axis=None if self.axis is None else list(perm).index(self.axis),
        )

    def raised(self, b: Builder) -> Compressed:
        """Returns the same with one axis more in front."""
        scale, point = self.scale, self.point
        if self.block is not None:
            scale, point = scale[np.newaxis], None if point is None else point[np.newaxis]
        return dataclasses.replace(
            self,
            data=self._moved(b, [1, *self.sizes], None),
            scale=scale,
            point=point,
            axis=None if self.axis is None else self.axis + 1,
        )

    def reshaped(self, b: Builder, sizes: Sequence[int]) -> Compressed | None:
        """Returns the same in another shape, or None where one has no axis that the scales belong to."""
        if self.block is not None:
            return None
        axis = None if self.axis is None else self._place(sizes)
        if self.axis is not None and axis is None:
            return None
        return dataclasses.replace(self, data=self._moved(b, sizes, None), axis=axis)

    def _place(self, sizes: Sequence[int]) -> int | None:
        """Returns which axis of another shape the axis of the scales becomes, whole and alone; None for none."""
        assert self.axis is not None
        size, before = self.sizes[self.axis], math.prod(self.sizes[: self.axis])
        places = (at for at, other in enumerate(sizes) if other == size and math.prod(sizes[:at]) == before)
        return next(places, None)

    def _moved(self, b: Builder, sizes: Sequence[int], perm: Sequence[int] | None) -> ir.Value:
        assert self.data.const_value is not None
        return b.constant(moved(self.data.const_value, sizes, perm))

    def emit(self, b: Builder) -> ir.Value:
        """Emits the node."""
        dtype = self.data.dtype
        assert dtype is not None
        points = self.point
        if points is None and self.block is None and dtype in _SIGNED:
            points = np.zeros_like(self.scale, np.float64)
        point = None if points is None else b.constant(ir.Tensor(points.astype(dtype.numpy()), dtype))
        scale = b.constant(self.scale)
        value = b.op("DequantizeLinear", self.data, scale, point, axis=self.axis, block_size=self.block)
        return b.typed(value, scale.dtype, self.data.shape)


def dequantized(b: Builder, left: ir.Value, right: ir.Value) -> ir.Value | None:
    """Returns a product as one DequantizeLinear, where one factor is constant integers, the other their scales."""
    for value, scale in ((left, right), (right, left)):
        scales = b.array(scale)
        if scales is None or scale.dtype not in _SCALES or value.const_value is not None:
            continue
        found = _integers(b, value)
        if found is None:
            continue
        data, points = found
        if points is not None and not points.any():
            points = None
        if not _broadcast(scales, points):
            return None
        layout = _layout(b, data, scales, points)
        return _by_leading_axes(b, data, scales, points) if layout is None else layout.emit(b)
    return None


def retyped(b: Builder, value: ir.Value, to: ir.DataType) -> ir.Value | None:
    """Returns compressed weights of f16 as f32, or None; like OpenVINO's CPU plugin it does not round to f16 before."""
    node = value.producer()
    if node is not None and (node.domain, node.op_type) == ("", "Reshape") and node.inputs[0] is not None:
        inner = retyped(b, node.inputs[0], to)
        return None if inner is None else b.typed(b.op("Reshape", inner, node.inputs[1]), to, value.shape)
    if value.dtype != ir.DataType.FLOAT16 or to != ir.DataType.FLOAT:
        return None
    weights = Compressed.of(value)
    if weights is None:
        return _scaled(b, value)
    return dataclasses.replace(weights, scale=weights.scale.astype(np.float32)).emit(b)


def _scaled(b: Builder, value: ir.Value) -> ir.Value | None:
    """Returns a product of f16 scales and constants of few bits as f32, or None."""
    node = value.producer()
    if node is None or (node.domain, node.op_type) != ("", "Mul"):
        return None
    for numbers, scale in (node.inputs, node.inputs[::-1]):
        scales, single = evaluated(scale), None if numbers is None else _single(b, numbers)
        if scales is not None and single is not None:
            product = b.op("Mul", single, b.constant(scales.astype(np.float32)))
            product.meta[HALVES] = True
            return b.typed(product, single.dtype, value.shape)
    return None


def _single(b: Builder, numbers: ir.Value) -> ir.Value | None:
    """Returns as f32 what constants stand for: numbers of a table, floats of 8 bits, or integers less zero points."""
    looked_up = made_by(numbers, "Cast")
    codes = made_by(made_by(looked_up, "Gather", 1), "Cast")
    if looked_up is not None and codes is not None and codes.const_value is not None:
        return looked_up
    if looked_up is not None and looked_up.const_value is not None and looked_up.dtype in _FLOAT8:
        return b.cast(looked_up, ir.DataType.FLOAT)
    if _is_looked_up(numbers):
        return b.cast(numbers, ir.DataType.FLOAT)
    found = _integers(b, numbers)
    if found is None:
        return None
    data, points = found
    integers = b.cast(data, ir.DataType.FLOAT)
    if points is None:
        return integers
    return b.typed(b.op("Sub", integers, b.constant(points.astype(np.float32))), integers.dtype, numbers.shape)


def _is_looked_up(numbers: ir.Value) -> bool:
    """Tells whether constant codes choose numbers from a constant table."""
    table, codes = made_by(numbers, "Gather"), made_by(numbers, "Gather", 1)
    for part in (table, codes):
        while part is not None and part.const_value is None:
            part = made_by(part, "Cast")
        if part is None:
            return False
    return True


def transposed(b: Builder, value: ir.Value, perm: Sequence[int]) -> ir.Value | None:
    """Returns compressed weights with other axes, or None."""
    weights = Compressed.of(value)
    if weights is None or sorted(perm) != list(range(len(weights.sizes))):
        return None
    return weights.transposed(b, perm).emit(b)


def reshaped(b: Builder, value: ir.Value, sizes: Sequence[object]) -> ir.Value | None:
    """Returns compressed weights in another shape, where its sizes are all known and a DequantizeLinear can have it."""
    known = [size for size in sizes if isinstance(size, int) and size > 0]
    if len(known) < len(sizes):
        return None
    before = made_by(value, "Reshape")
    weights = Compressed.of(value if before is None else before)
    if weights is None or math.prod(known) != math.prod(weights.sizes):
        return None
    moved = weights.reshaped(b, known)
    return None if moved is None else moved.emit(b)


def multiplied(b: Builder, value: ir.Value, *, transpose: bool) -> ir.Value | None:
    """Returns a matrix of compressed weights, possibly transposed, so that its products are exact; or None."""
    perm = [1, 0] if transpose else [0, 1]
    node = value.producer()
    if node is not None and (node.domain, node.op_type) == ("", "Transpose") and node.inputs[0] is not None:
        before = node.attributes.get_ints("perm", ())
        if len(before) != len(perm):
            return None
        value, perm = node.inputs[0], [before[axis] for axis in perm]
    weights = Compressed.of(value)
    if weights is None or len(weights.sizes) != len(perm):
        return None
    if perm != [0, 1]:
        weights = weights.transposed(b, perm)
    matrix = b.op("Reshape", weights.raised(b).emit(b), b.constant(weights.sizes))
    return b.typed(matrix, value.dtype, weights.sizes)


def _integers(b: Builder, value: ir.Value) -> tuple[ir.Value, np.ndarray | None] | None:
    """Returns the constant that a value is converted from, and the zero points that are subtracted."""
    points: np.ndarray | None = None
    node = value.producer()
    if node is not None and (node.domain, node.op_type) == ("", "Sub"):
        subtracted = _constant(b, node.inputs[1])
        if subtracted is None or node.inputs[0] is None:
            return None
        points, node = subtracted, node.inputs[0].producer()
    if node is None or (node.domain, node.op_type) != ("", "Cast"):
        return None
    data = node.inputs[0]
    if data is None or data.const_value is None or data.dtype not in COMPRESSED_TYPES:
        return None
    return data, points


def _constant(b: Builder, value: ir.Value | None) -> np.ndarray | None:
    """Returns the data of a constant, or of one that is only converted."""
    if value is None:
        return None
    node = value.producer()
    if node is not None and (node.domain, node.op_type) == ("", "Cast"):
        value = node.inputs[0]
    array = b.array(value)
    return None if array is None else array.astype(np.float64)


def _broadcast(scales: np.ndarray, points: np.ndarray | None) -> bool:
    """Tells whether scales and zero points have shapes that fit together."""
    pairs = zip(reversed(scales.shape), reversed(() if points is None else points.shape), strict=False)
    return all(one == other or 1 in (one, other) for one, other in pairs)


def _layout(b: Builder, data: ir.Value, scales: np.ndarray, points: np.ndarray | None) -> Compressed | None:
    """Finds out along which axis there are several scales and zero points; None where ONNX cannot say so."""
    assert data.dtype is not None
    assert data.shape is not None
    sizes = list(data.shape.numpy())
    rank = len(sizes)
    if max(scales.ndim, 0 if points is None else points.ndim) > rank:
        return None
    if points is not None and (points != points.astype(data.dtype.numpy()).astype(np.float64)).any():
        return None
    own = np.broadcast_shapes(scales.shape, () if points is None else points.shape)
    aligned = [1] * (rank - len(own)) + list(own)
    if any(have not in (1, size) for have, size in zip(aligned, sizes, strict=True)):
        return None
    if data.dtype.bitwidth < 8 and b.options.opset < _BLOCKS_OPSET:
        return None
    several = [axis for axis in range(rank) if aligned[axis] != 1]
    shared = [axis for axis in range(rank) if aligned[axis] == 1 and sizes[axis] != 1]
    axis: int | None = None
    block: int | None = None
    shape: list[int] = []
    if len(several) == 1:
        axis, shape = several[0], [aligned[several[0]]]
    elif several:
        if len(shared) != 1 or b.options.opset < _BLOCKS_OPSET:
            return None
        axis, block, shape = shared[0], sizes[shared[0]], aligned
    spread = [None if each is None else np.broadcast_to(each, own).reshape(shape) for each in (scales, points)]
    assert spread[0] is not None
    return Compressed(data, spread[0], spread[1], axis, block)


def _by_leading_axes(b: Builder, data: ir.Value, scales: np.ndarray, points: np.ndarray | None) -> ir.Value | None:
    """Returns weights with scales along several leading axes, as in a grouped convolution, dequantized as one axis."""
    assert data.shape is not None
    assert data.const_value is not None
    sizes = list(data.shape.numpy())
    own = np.broadcast_shapes(scales.shape, () if points is None else points.shape)
    count = sum(size != 1 for size in own)
    leading = [*sizes[:count], *[1] * (len(sizes) - count)]
    if not 2 <= count < len(sizes) or list(own) != leading:
        return None
    spread = [None if each is None else np.broadcast_to(each, own).reshape(-1) for each in (scales, points)]
    assert spread[0] is not None
    flat = [math.prod(sizes[:count]), *sizes[count:]]
    rows = b.constant(moved(data.const_value, flat))
    shape = [flat[0], *[1] * (len(flat) - 1)]
    layout = _layout(b, rows, spread[0].reshape(shape), None if spread[1] is None else spread[1].reshape(shape))
    return None if layout is None else b.op("Reshape", layout.emit(b), b.constant(sizes))


def moved(tensor: ir.TensorProtocol, sizes: Sequence[int], perm: Sequence[int] | None = None) -> ir.TensorProtocol:
    """Returns a tensor reshaped or transposed, once somebody asks for its data."""

    def data() -> ir.Tensor[np.ndarray]:
        array = tensor.numpy()
        moved = array.reshape(sizes) if perm is None else np.ascontiguousarray(array.transpose(perm))
        return ir.Tensor(moved, tensor.dtype)

    moved = ir.LazyTensor(data, tensor.dtype, ir.Shape(sizes))
    moved.meta[ORIGIN] = "Reshape" if perm is None else "Transpose", tensor, repr((list(sizes), perm))
    for key in (FILE, FOUR_BITS) if perm is None else (FOUR_BITS,):
        if key in tensor.meta:
            moved.meta[key] = tensor.meta[key]
    return moved
