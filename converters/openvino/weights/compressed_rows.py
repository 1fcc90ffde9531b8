"""Rows of compressed matrices, such as tables of embeddings: gathered first, and dequantized then.

ONNX Runtime would dequantize the whole matrix every time that the model runs.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.weights.codebook import Coded
from ortconv.converters.openvino.weights.compressed_matrix import CompressedMatrix
from ortconv.graph.builder import Builder
from ortconv.graph.constant_folding import ORIGIN
from ortconv.graph.int4 import FOUR_BITS
from ortconv.graph.match import made_by

__all__ = ["gathered_rows"]

_BLOCKS_OPSET = 21
"""The first in which scales that are computed may be several along several axes."""


def gathered_rows(b: Builder, table: ir.Value, indices: ir.Value) -> ir.Value | None:
    """Returns rows of a matrix of compressed weights, or None where it is no such, or the opset cannot say so."""
    stored = made_by(table, "Reshape") or table
    coded = Coded.of(stored)
    if coded is not None and coded.of_halves:
        weights = coded.gathered.emit(b)
        if stored is not table and table.shape is not None:
            sizes = table.shape.numpy()
            weights = b.typed(b.op("Reshape", weights, b.constant(list(sizes))), weights.dtype, sizes)
        rows = gathered_rows(b, weights, indices)
        return b.op("Gather", weights, indices) if rows is None else rows
    matrix = CompressedMatrix.of(table) if b.options.opset >= _BLOCKS_OPSET else None
    if matrix is None or not indices.shape:
        return None  # of one index a row might have one scale, for which ONNX Runtime refuses blocks
    rank, columns = len(indices.shape), matrix.data.shape.numpy()[1]
    point = matrix.point
    if matrix.data.dtype not in FOUR_BITS:
        data = b.op("Gather", b.constant(matrix.data), indices)
    elif columns % 2 == 0:
        data = _unpacked(b, b.op("Gather", b.constant(_pairs(matrix.data)), indices), matrix.data.dtype)
        data = b.op("Reshape", data, b.constant([0] * rank + [columns]))
        point = None if point is None else ir.Tensor(point.numpy().astype(_bytes_of(matrix.data.dtype).numpy()))
    else:
        return None  # every other row begins within a byte
    scale = b.op("Gather", b.constant(matrix.scale), indices)
    if matrix.table is not None:
        return b.typed(_looked_up(b, matrix, data, scale, rank), table.dtype, [*indices.shape, columns])
    points = None if point is None else b.op("Gather", b.constant(point), indices)
    data = b.typed(data, _bytes_of(matrix.data.dtype), [*indices.shape, columns])
    rows = b.op("DequantizeLinear", data, scale, points, axis=rank, block_size=matrix.block)
    return b.typed(rows, table.dtype, data.shape)


def _bytes_of(dtype: ir.DataType) -> ir.DataType:
    """Returns the type of 8 bits that holds integers of a type."""
    return ir.DataType.INT8 if dtype in (ir.DataType.INT4, ir.DataType.INT8) else ir.DataType.UINT8


def _pairs(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    """Returns the bytes of 4-bit integers, two in each, once somebody asks for them."""
    rows, columns = tensor.shape.numpy()

    def data() -> ir.Tensor[np.ndarray]:
        return ir.Tensor(np.frombuffer(tensor.tobytes(), np.uint8).reshape(rows, columns // 2))

    pairs = ir.LazyTensor(data, ir.DataType.UINT8, ir.Shape([rows, columns // 2]))
    pairs.meta[ORIGIN] = "bytes", tensor, ""
    return pairs


def _unpacked(b: Builder, pairs: ir.Value, dtype: ir.DataType) -> ir.Value:
    """Returns the integers of bytes along a new axis, the one in the lower half first."""
    low = b.op("BitwiseAnd", pairs, b.constant(15, np.uint8))
    high = b.op("BitShift", pairs, b.constant(4, np.uint8), direction="RIGHT")
    halves = [b.op("Unsqueeze", half, b.constant([-1])) for half in (low, high)]
    integers = b.typed(b.op("Concat", *halves, axis=-1), ir.DataType.UINT8, None)
    if dtype == ir.DataType.UINT4:
        return integers
    # From 8 on they stand for negative numbers.
    turned = b.typed(b.op("BitwiseXor", integers, b.constant(8, np.uint8)), ir.DataType.UINT8, None)
    return b.op("Sub", b.cast(turned, ir.DataType.INT8), b.constant(8, np.int8))


def _looked_up(b: Builder, matrix: CompressedMatrix, codes: ir.Value, scale: ir.Value, rank: int) -> ir.Value:
    """Returns rows [rank indices, columns] of codes as the numbers of a table, times the scales of their blocks."""
    assert matrix.table is not None
    columns, leading = matrix.data.shape.numpy()[1], [0] * rank
    numbers = b.op("Gather", b.constant(matrix.table.astype(matrix.scale.dtype)), b.cast(codes, ir.DataType.INT32))
    blocks = b.op("Reshape", numbers, b.constant([*leading, columns // matrix.block, matrix.block]))
    scaled = b.op("Mul", blocks, b.op("Unsqueeze", scale, b.constant([-1])))
    return b.op("Reshape", scaled, b.constant([*leading, columns]))
