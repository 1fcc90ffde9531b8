"""Gather from quantized matrices, such as embedding tables: rows are gathered first, and then dequantized.

In the other order, ONNX Runtime dequantizes the whole matrix on every run.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.weights.codebook import CodebookWeights
from ortconv.converters.openvino.weights.compressed_matrix import CompressedMatrix
from ortconv.graph.annotations import COMPUTED_FROM, Computed
from ortconv.graph.builder import Builder
from ortconv.graph.int4 import FOUR_BITS
from ortconv.graph.match import operand_of

__all__ = ["compressed_gather"]

_BLOCKS_OPSET = 21
"""The first opset with blocks in DequantizeLinear."""


def compressed_gather(b: Builder, table: ir.Value, indices: ir.Value) -> ir.Value | None:
    """Emits the rows of a quantized matrix.

    Args:
        b: The builder.
        table: The dequantized matrix [rows, columns].
        indices: Rows to gather, of any rank but 0.

    Returns:
        None for other tables, and if the opset has no blocks.
    """
    stored = operand_of(table, "Reshape") or table
    coded = CodebookWeights.of(stored)
    if coded is not None and coded.of_halves:
        weights = coded.gathered.emit(b)
        if stored is not table and table.shape is not None:
            sizes = table.shape.numpy()
            weights = b.typed(b.op("Reshape", weights, b.constant(list(sizes))), weights.dtype, sizes)
        rows = compressed_gather(b, weights, indices)
        return b.op("Gather", weights, indices) if rows is None else rows
    matrix = CompressedMatrix.of(table) if b.options.opset >= _BLOCKS_OPSET else None
    if matrix is None or not indices.shape:
        return None  # the row of a scalar index may have one scale, for which ONNX Runtime refuses blocks
    rank, columns = len(indices.shape), matrix.data.shape.numpy()[1]
    point = matrix.zero_point
    if matrix.data.dtype not in FOUR_BITS:
        data = b.op("Gather", b.constant(matrix.data), indices)
    elif columns % 2 == 0:
        data = _unpacked(b, b.op("Gather", b.constant(_pairs(matrix.data)), indices), matrix.data.dtype)
        data = b.op("Reshape", data, b.constant([0] * rank + [columns]))
        point = None if point is None else ir.Tensor(point.numpy().astype(_bytes_of(matrix.data.dtype).numpy()))
    else:
        return None  # every second row begins inside a byte
    scale = b.op("Gather", b.constant(matrix.scale), indices)
    if matrix.codebook is not None:
        return b.typed(_looked_up(b, matrix, data, scale, rank), table.dtype, [*indices.shape, columns])
    points = None if point is None else b.op("Gather", b.constant(point), indices)
    data = b.typed(data, _bytes_of(matrix.data.dtype), [*indices.shape, columns])
    rows = b.op("DequantizeLinear", data, scale, points, axis=rank, block_size=matrix.block_size)
    return b.typed(rows, table.dtype, data.shape)


def _bytes_of(dtype: ir.DataType) -> ir.DataType:
    """Returns the 8-bit type of the same sign."""
    return ir.DataType.INT8 if dtype in (ir.DataType.INT4, ir.DataType.INT8) else ir.DataType.UINT8


def _pairs(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    """Returns 4-bit integers packed in uint8, two in each, when their data are first read."""
    rows, columns = tensor.shape.numpy()

    def data() -> ir.Tensor[np.ndarray]:
        return ir.Tensor(np.frombuffer(tensor.tobytes(), np.uint8).reshape(rows, columns // 2))

    pairs = ir.LazyTensor(data, ir.DataType.UINT8, ir.Shape([rows, columns // 2]))
    COMPUTED_FROM.set(pairs, Computed("bytes", tensor, ""))
    return pairs


def _unpacked(b: Builder, pairs: ir.Value, dtype: ir.DataType) -> ir.Value:
    """Emits the two integers of each byte along a new last axis, the lower half first."""
    low = b.op("BitwiseAnd", pairs, b.constant(15, np.uint8))
    high = b.op("BitShift", pairs, b.constant(4, np.uint8), direction="RIGHT")
    halves = [b.op("Unsqueeze", half, b.constant([-1])) for half in (low, high)]
    integers = b.typed(b.op("Concat", *halves, axis=-1), ir.DataType.UINT8, None)
    if dtype == ir.DataType.UINT4:
        return integers
    # Sign extension: 8 to 15 are -8 to -1.
    turned = b.typed(b.op("BitwiseXor", integers, b.constant(8, np.uint8)), ir.DataType.UINT8, None)
    return b.op("Sub", b.cast(turned, ir.DataType.INT8), b.constant(8, np.int8))


def _looked_up(b: Builder, matrix: CompressedMatrix, indices: ir.Value, scale: ir.Value, rank: int) -> ir.Value:
    """Emits codebook entries of rows [indices..., columns], times the scales of their blocks."""
    assert matrix.codebook is not None
    columns, leading = matrix.data.shape.numpy()[1], [0] * rank
    numbers = b.op("Gather", b.constant(matrix.codebook.astype(matrix.scale.dtype)), b.cast(indices, ir.DataType.INT32))
    blocks = b.op("Reshape", numbers, b.constant([*leading, columns // matrix.block_size, matrix.block_size]))
    scaled = b.op("Mul", blocks, b.op("Unsqueeze", scale, b.constant([-1])))
    return b.op("Reshape", scaled, b.constant([*leading, columns]))
