"""The operator ``GatherMatMulCodebook``: MatMul by codebook weights with a per-row expert index.

Its function body looks all matrices up at once, which ONNX Runtime does once for constants: a lookup takes longer than
the product.
"""

from __future__ import annotations

from ortconv.opset.inferred_node import Dim, InferredNode
from ortconv.opset.operator import Formal
from ortconv.opset.ops.compressed_weights import check_codebook, compressed_product
from ortconv.opset.ops.gather_matmul_compressed import NAMED_PRODUCTS, infer_products
from ortconv.opset.ops.matmul_codebook import LOOKUP
from ortconv.opset.reference.compressed_weights import gather_matmul_codebook

__all__ = ["GATHER_MATMUL_CODEBOOK"]

_DOC = """Y[t, j] = W[index[t, j]] X[t, j], where X [T, J, K] may have 1 in the place of J, whose row then serves all j.
W [E, N, K] is

    W[e, n, k] = codebook[data[e, n, k]] * scale[e, n, b] with b = k / block_size, rounded down.

Where an index is negative, or E or more, Y[t, j] is zeros.

Products and sums are formed in float, in any order; a scale may be applied to the sum over its block. Y is rounded to
its type at the end. Where that is not float, W may be rounded to it; nothing else is rounded, in particular not X."""

_COLUMNS = """
  turned = Transpose <perm = [0, 2, 1]> (weights)
"""


def _infer(node: InferredNode, block: int) -> list[Dim] | None:
    check_codebook(node, 4)
    return infer_products(node, block)


GATHER_MATMUL_CODEBOOK = compressed_product(
    name="GatherMatMulCodebook",
    inputs=(
        Formal("X", "T", "Data [T, J, K] or [T, 1, K]."),
        Formal("data", "N", "Codebook indices [E, N, K]."),
        Formal("scale", "T", "Scales [E, N, K / block_size]."),
        Formal("index", "I", "Expert index: which of E matrices, [T, J]."),
        Formal("codebook", "F", "The codebook [16]."),
    ),
    output="The products [T, J, N].",
    doc=_DOC,
    text=LOOKUP + _COLUMNS + NAMED_PRODUCTS % "    columns = Gather (turned, e)",
    infer=_infer,
    reference=gather_matmul_codebook,
)
