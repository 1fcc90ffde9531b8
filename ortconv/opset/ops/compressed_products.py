"""The operators of ours that multiply by compressed weights."""

from __future__ import annotations

from ortconv.opset.ops.compressed_product import CompressedProduct
from ortconv.opset.ops.gather_matmul_codebook import GATHER_MATMUL_CODEBOOK
from ortconv.opset.ops.gather_matmul_compressed import GATHER_MATMUL_COMPRESSED
from ortconv.opset.ops.matmul_codebook import MATMUL_CODEBOOK
from ortconv.opset.ops.matmul_compressed import MATMUL_COMPRESSED

__all__ = ["PRODUCTS"]

PRODUCTS: dict[str, CompressedProduct] = {
    op.name: op for op in (MATMUL_COMPRESSED, GATHER_MATMUL_COMPRESSED, MATMUL_CODEBOOK, GATHER_MATMUL_CODEBOOK)
}
"""Op type -> operator."""
