"""Products by compressed matrices as nodes of our own, which never have the weights as floats.

ONNX Runtime dequantizes the whole matrix every time that the model runs, which takes longer than the product does.
"""

from __future__ import annotations

import onnx_ir as ir

from ortconv.converters.openvino.weights.compressed_matrix import CompressedMatrix
from ortconv.graph.builder import Builder
from ortconv.opset.inferred_node import DOMAIN
from ortconv.opset.ops.compressed_product import OLDEST_OPSET
from ortconv.opset.ops.matmul_codebook import MATMUL_CODEBOOK
from ortconv.opset.ops.matmul_compressed import MATMUL_COMPRESSED

__all__ = ["product"]

_FLOATS = (ir.DataType.FLOAT, ir.DataType.FLOAT16)


def product(b: Builder, x: ir.Value, weights: ir.Value, *, transpose: bool) -> ir.Value | None:
    """Returns the product by a matrix of compressed weights, or None where our ops are not wanted or compute others.

    Args:
        b: The builder.
        x: Data; our ops take two axes or more.
        weights: The matrix.
        transpose: Whether its rows, not its columns, meet those of the data.
    """
    if b.options.target == "onnx" or b.options.opset < OLDEST_OPSET:
        return None
    if x.dtype not in _FLOATS or weights.dtype != x.dtype or x.shape is None or len(x.shape) < 2:
        return None
    matrix = CompressedMatrix.of(weights, transpose=not transpose)
    if matrix is None:
        return None
    op = MATMUL_COMPRESSED if matrix.table is None else MATMUL_CODEBOOK
    last = matrix.point if matrix.table is None else matrix.table
    y = b.op(
        op.name,
        x,
        b.constant(matrix.data),
        b.constant(matrix.scale),
        None if last is None else b.constant(last),
        domain=DOMAIN,
        block_size=matrix.block,
    )
    return b.typed(y, x.dtype, ir.Shape([*x.shape[:-1], matrix.data.shape.numpy()[0]]))
