"""The operators of ours that multiply by small integers with scales."""

from __future__ import annotations

from ortconv.compressed_product import CompressedProduct
from ortconv.gather_matmul_compressed import GATHER_MATMUL_COMPRESSED
from ortconv.matmul_compressed import MATMUL_COMPRESSED

__all__ = ["PRODUCTS"]

PRODUCTS: dict[str, CompressedProduct] = {op.name: op for op in (MATMUL_COMPRESSED, GATHER_MATMUL_COMPRESSED)}
"""Op type -> operator."""
