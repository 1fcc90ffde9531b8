"""The operator ``MatMulCodebook``: MatMul by weights that are indices into a codebook, with a scale per block.

The codebook is no optional input of ``MatMulCompressed``, since a function body that reads it needs it.
"""

from __future__ import annotations

from ortconv.opset.inferred_node import Dim, InferredNode
from ortconv.opset.operator import Formal
from ortconv.opset.ops.compressed_weights import check_codebook, compressed_product
from ortconv.opset.ops.matmul_compressed import infer_product
from ortconv.opset.reference.compressed_weights import matmul_codebook

__all__ = ["LOOKUP", "MATMUL_CODEBOOK"]

_DOC = """Y = MatMul(X, Transpose(W)) of X [..., K] and W [N, K], where

    W[n, k] = codebook[data[n, k]] * scale[n, b] with b = k / block_size, rounded down.

Products and sums are formed in float, in any order; a scale may be applied to the sum over its block. Y is rounded to
its type at the end. Where that is not float, W may be rounded to it; nothing else is rounded, in particular not X."""

LOOKUP = """
  codes = Cast <to = 6> (data)
  numbers = Gather <axis = 0> (codebook, codes)
  wide_scale = Cast <to = 1> (scale)
  block_count = Shape (wide_scale)
  block = Constant <value_int: int = @block_size> ()
  front = Constant <value_ints = [0]> ()
  block_length = Unsqueeze (block, front)
  in_blocks = Concat <axis = 0> (block_count, block_length)
  divided = Reshape <allowzero: int = 1> (numbers, in_blocks)
  behind = Constant <value_ints = [-1]> ()
  factors = Unsqueeze (wide_scale, behind)
  scaled = Mul (divided, factors)
  whole = Shape (numbers)
  weights = Reshape <allowzero: int = 1> (scaled, whole)
"""
"""Nodes of a body that compute the weights. ONNX Runtime evaluates them once for constants."""

_BODY = f"""{LOOKUP}
  columns = Transpose <perm = [1, 0]> (weights)
  wide = Cast <to = 1> (X)
  product = MatMul (wide, columns)
  Y = CastLike (product, X)
"""


def _infer(node: InferredNode, block: int) -> list[Dim] | None:
    check_codebook(node, 3)
    return infer_product(node, block)


MATMUL_CODEBOOK = compressed_product(
    name="MatMulCodebook",
    inputs=(
        Formal("X", "T", "Data [..., K], of two axes or more."),
        Formal("data", "N", "Codebook indices [N, K]."),
        Formal("scale", "T", "Scales [N, K / block_size]."),
        Formal("codebook", "F", "The codebook [16]."),
    ),
    output="The product [..., N].",
    doc=_DOC,
    text=_BODY,
    infer=_infer,
    reference=matmul_codebook,
)
