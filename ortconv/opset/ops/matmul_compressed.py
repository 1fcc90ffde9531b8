"""The operator ``MatMulCompressed``: MatMul by int8 or int4 weights with a scale and zero point per block.

With its function body, ONNX Runtime dequantizes the whole matrix in every run.
"""

from __future__ import annotations

from ortconv.opset.inferred_node import Dim, InferredNode
from ortconv.opset.operator import Formal
from ortconv.opset.ops.compressed_weights import check_columns, check_scales, compressed_product
from ortconv.opset.reference.compressed_weights import matmul_compressed

__all__ = ["MATMUL_COMPRESSED", "infer_product"]

_RANK = 2
"""The rank of data, and the least rank of X."""

_DOC = """Y = MatMul(X, Transpose(W)) of X [..., K] and W [N, K], where W is

    DequantizeLinear(data, scale, zero_point, axis=1, block_size=block_size):
    W[n, k] = (data[n, k] - zero_point[n, b]) * scale[n, b] with b = k / block_size, rounded down.

The difference is exact. Products and sums are formed in float, in any order; a scale may be applied to the sum over its
block. Y is rounded to its type at the end. Where that is not float, W may be rounded to it; nothing else is rounded, in
particular not X."""

# ONNX Runtime fuses a dequantized matrix and its product into MatMulNBits, which by default rounds the data to 8 bits.
# A Reshape in between, even to the same shape, prevents that. On the CPU it has neither operator for bfloat16; casts of
# float to float are removed.
_BODY = """
  wide_scale = Cast <to = 1> (scale)
%s
  sizes = Shape (dequantized)
  rows = Reshape (dequantized, sizes)
  columns = Transpose <perm = [1, 0]> (rows)
  wide = Cast <to = 1> (X)
  product = MatMul (wide, columns)
  Y = CastLike (product, X)
"""
_DEQUANTIZED = """
  dequantized = DequantizeLinear <axis: int = 1, block_size: int = @block_size> (data, wide_scale, zero_point)
"""

# If session.x64quantprecision tells ONNX Runtime to convert int8 to uint8, it fails without zero points. QuantizeLinear
# of zeros returns the zero points, or zeros if there are none. For int4 this would be slower.
_DEQUANTIZED_INT8 = """
  blocks = Shape (scale)
  zeros = ConstantOfShape (blocks)
  ones = ConstantOfShape <value = float[1] {1.0}> (blocks)
  given = QuantizeLinear <axis: int = 1, block_size: int = 1> (zeros, ones, zero_point)
  points = CastLike (given, data)
  dequantized = DequantizeLinear <axis: int = 1, block_size: int = @block_size> (data, wide_scale, points)
"""


def infer_product(node: InferredNode, block: int) -> list[Dim] | None:
    """Checks X [..., K], data [N, K] and scale, the first three inputs of a product; returns the shape of Y or None."""
    x, data = node.dims(0), node.dims(1)
    if x is not None and len(x) < _RANK:
        raise node.fail(f"X has rank {len(x)}; allowed: at least {_RANK}")
    if data is not None and len(data) != _RANK:
        raise node.fail(f"data has rank {len(data)}; allowed: {_RANK}")
    rows, depth = data or [None, None]
    check_columns(node, block, x, depth)
    check_scales(node, block, data or [None, None], (2, "scale"))
    return None if x is None else [*x[:-1], rows]


def _infer(node: InferredNode, block: int) -> list[Dim] | None:
    shape = infer_product(node, block)
    check_scales(node, block, node.dims(1) or [None, None], (3, "zero_point"))
    return shape


MATMUL_COMPRESSED = compressed_product(
    name="MatMulCompressed",
    inputs=(
        Formal("X", "T", "Data [..., K], of two axes or more."),
        Formal("data", "C", "Integers [N, K]."),
        Formal("scale", "T", "Scales [N, K / block_size]."),
        Formal("zero_point", "C", "Zero points [N, K / block_size]; none is 0.", optional=True),
    ),
    output="The product [..., N].",
    doc=_DOC,
    text=_BODY % _DEQUANTIZED,
    text_of_int8=_BODY % _DEQUANTIZED_INT8,
    infer=_infer,
    reference=matmul_compressed,
)
