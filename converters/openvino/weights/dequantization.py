"""Recognizes quantized weights: constants that a Convert, a Subtract and a Multiply dequantize.

They become one DequantizeLinear, which computes (data - zero point) * scale with one rounding, as the single ops do:
differences of small integers are exact. From a DequantizeLinear that MatMul consumes directly, ONNX Runtime makes a
MatMulNBits, which by default rounds the other operand to 8 bits. It does not look through a Reshape: weights in blocks
keep their block axis, and a matrix gets a further axis and a Reshape (`as_matmul_operand`). Where operators of ours are
allowed, they compute the product instead: see `matmul`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.weights.codebook_lookup import evaluated
from ortconv.converters.openvino.weights.lazy_tensors import rearranged
from ortconv.converters.openvino.weights.quantized_weights import QuantizedWeights
from ortconv.graph.annotations import FLOAT16_PRODUCT
from ortconv.graph.builder import Builder
from ortconv.graph.match import operand_of

__all__ = ["QUANTIZED_TYPES", "as_matmul_operand", "dequantized", "reshaped", "to_float32", "transposed"]

QUANTIZED_TYPES = (ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT4, ir.DataType.UINT4)
"""Types of quantized values."""
_SCALES = (ir.DataType.FLOAT, ir.DataType.FLOAT16)
_FLOAT8 = (ir.DataType.FLOAT8E4M3FN, ir.DataType.FLOAT8E5M2)
_BLOCKS_OPSET = 21
"""The first opset with 4-bit integers and blocks."""
_RESIDUE = 2 * 127 * np.finfo(np.float32).eps
"""How far a zero point may be from an integer: two roundings of the largest number of 8 bits, whatever its scale."""


def dequantized(b: Builder, left: ir.Value, right: ir.Value) -> ir.Value | None:
    """Emits a product as one DequantizeLinear if one factor is quantized constants and the other their scales."""
    for value, scale in ((left, right), (right, left)):
        scales = b.array(scale)
        if scales is None or scale.dtype not in _SCALES or value.const_value is not None:
            continue
        found = _integers(b, value)
        if found is None:
            continue
        data, points = found
        if not _broadcast(scales, points):
            return None
        if points is not None:
            points = _without_residues(points)
            points = points if points.any() else None
        layout = _layout(b, data, scales, points)
        return _by_leading_axes(b, data, scales, points) if layout is None else layout.emit(b)
    return None


def to_float32(b: Builder, value: ir.Value, to: ir.DataType) -> ir.Value | None:
    """Emits float16 weights that are dequantized as float32; None for other values.

    Like OpenVINO's CPU plugin, it does not round them to float16 first.
    """
    node = value.producer()
    if node is not None and (node.domain, node.op_type) == ("", "Reshape") and node.inputs[0] is not None:
        inner = to_float32(b, node.inputs[0], to)
        return None if inner is None else b.typed(b.op("Reshape", inner, node.inputs[1]), to, value.shape)
    if value.dtype != ir.DataType.FLOAT16 or to != ir.DataType.FLOAT:
        return None
    weights = QuantizedWeights.of(value)
    if weights is None:
        return _scaled(b, value)
    return dataclasses.replace(weights, scale=weights.scale.astype(np.float32)).emit(b)


def _scaled(b: Builder, value: ir.Value) -> ir.Value | None:
    """Emits the product of float16 scales and quantized constants in float32; None for other values."""
    node = value.producer()
    if node is None or (node.domain, node.op_type) != ("", "Mul"):
        return None
    for numbers, scale in (node.inputs, node.inputs[::-1]):
        scales, single = evaluated(scale), None if numbers is None else _single(b, numbers)
        if scales is not None and single is not None:
            product = b.op("Mul", single, b.constant(scales.astype(np.float32)))
            FLOAT16_PRODUCT.set(product, True)
            return b.typed(product, single.dtype, value.shape)
    return None


def _single(b: Builder, numbers: ir.Value) -> ir.Value | None:
    """Emits quantized constants as float32, unscaled: codebook entries, float8, or integers minus zero points."""
    inner = operand_of(numbers, "Cast")
    codes = operand_of(operand_of(inner, "Gather", 1), "Cast")
    if inner is not None and codes is not None and codes.const_value is not None:
        return inner
    if inner is not None and inner.const_value is not None and inner.dtype in _FLOAT8:
        return b.cast(inner, ir.DataType.FLOAT)
    if _is_codebook_lookup(numbers):
        return b.cast(numbers, ir.DataType.FLOAT)
    found = _integers(b, numbers)
    if found is None:
        return None
    data, points = found
    integers = b.cast(data, ir.DataType.FLOAT)
    if points is None:
        return integers
    return b.typed(b.op("Sub", integers, b.constant(points.astype(np.float32))), integers.dtype, numbers.shape)


def _is_codebook_lookup(numbers: ir.Value) -> bool:
    """Tells whether a value gathers from a constant codebook with constant indices."""
    table, codes = operand_of(numbers, "Gather"), operand_of(numbers, "Gather", 1)
    for part in (table, codes):
        while part is not None and part.const_value is None:
            part = operand_of(part, "Cast")
        if part is None:
            return False
    return True


def transposed(b: Builder, value: ir.Value, perm: Sequence[int]) -> ir.Value | None:
    """Emits quantized weights with their axes in another order; None for other values."""
    weights = QuantizedWeights.of(value)
    if weights is None or sorted(perm) != list(range(len(weights.sizes))):
        return None
    return weights.transposed(b, perm).emit(b)


def reshaped(b: Builder, value: ir.Value, sizes: Sequence[object]) -> ir.Value | None:
    """Emits quantized weights in another shape; None for others, dynamic shapes and shapes that split the scales."""
    known = [size for size in sizes if isinstance(size, int) and size > 0]
    if len(known) < len(sizes):
        return None
    before = operand_of(value, "Reshape")
    weights = QuantizedWeights.of(value if before is None else before)
    if weights is None or math.prod(known) != math.prod(weights.sizes):
        return None
    other = weights.reshaped(b, known)
    return None if other is None else other.emit(b)


def as_matmul_operand(b: Builder, value: ir.Value, *, transpose: bool) -> ir.Value | None:
    """Emits a quantized matrix, possibly transposed, such that ONNX Runtime makes no MatMulNBits of it; or None."""
    perm = [1, 0] if transpose else [0, 1]
    node = value.producer()
    if node is not None and (node.domain, node.op_type) == ("", "Transpose") and node.inputs[0] is not None:
        before = node.attributes.get_ints("perm", ())
        if len(before) != len(perm):
            return None
        value, perm = node.inputs[0], [before[axis] for axis in perm]
    weights = QuantizedWeights.of(value)
    if weights is None or len(weights.sizes) != len(perm):
        return None
    if perm != [0, 1]:
        weights = weights.transposed(b, perm)
    matrix = b.op("Reshape", weights.unsqueezed(b).emit(b), b.constant(weights.sizes))
    return b.typed(matrix, value.dtype, weights.sizes)


def _integers(b: Builder, value: ir.Value) -> tuple[ir.Value, np.ndarray | None] | None:
    """Returns the quantized constant that a value is converted from, and the zero points subtracted from it."""
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
    if data is None or data.const_value is None or data.dtype not in QUANTIZED_TYPES:
        return None
    return data, points


def _constant(b: Builder, value: ir.Value | None) -> np.ndarray | None:
    """Returns the data of a constant, also of one that is converted."""
    if value is None:
        return None
    node = value.producer()
    if node is not None and (node.domain, node.op_type) == ("", "Cast"):
        value = node.inputs[0]
    array = b.array(value)
    return None if array is None else array.astype(np.float64)


def _broadcast(scales: np.ndarray, points: np.ndarray | None) -> bool:
    """Tells whether the shapes of scales and zero points broadcast with each other."""
    pairs = zip(reversed(scales.shape), reversed(() if points is None else points.shape), strict=False)
    return all(one == other or 1 in (one, other) for one, other in pairs)


def _without_residues(points: np.ndarray) -> np.ndarray:
    """Returns zero points as integers where none differs from one by more than a rounding of the largest number.

    Quantizers that compute zero points in float32 leave 2^-17 instead of 0: the spacing of float32 at 127.
    """
    whole = np.round(points)
    return whole if (np.abs(points - whole) <= _RESIDUE).all() else points


def _layout(b: Builder, data: ir.Value, scales: np.ndarray, points: np.ndarray | None) -> QuantizedWeights | None:
    """Returns a DequantizeLinear with these scales and zero points; None if ONNX cannot express them."""
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
    return QuantizedWeights(data, spread[0], spread[1], axis, block)


def _by_leading_axes(b: Builder, data: ir.Value, scales: np.ndarray, points: np.ndarray | None) -> ir.Value | None:
    """Emits weights with scales along several leading axes, as in a grouped convolution, which a Reshape merges."""
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
    rows = b.constant(rearranged(data.const_value, flat))
    shape = [flat[0], *[1] * (len(flat) - 1)]
    layout = _layout(b, rows, spread[0].reshape(shape), None if spread[1] is None else spread[1].reshape(shape))
    return None if layout is None else b.op("Reshape", layout.emit(b), b.constant(sizes))
