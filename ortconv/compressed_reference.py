"""The numpy oracle of ``MatMulCompressed``."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

__all__ = ["matmul_compressed"]

Array = npt.NDArray[Any]

_FLOATS = (np.dtype(np.float32), np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))


def matmul_compressed(
    x: Array, data: Array, scale: Array, zero_point: Array | None = None, *, block_size: int
) -> Array:
    """Multiplies by a matrix of small integers.

    Args:
        x: Data [..., K] of float32, float16 or bfloat16, of two axes or more.
        data: Integers [N, K], in any type that holds them.
        scale: Scales [N, K / block_size] of the type of the data.
        zero_point: Zero points of that shape; None for zeros.
        block_size: How many columns of data share a scale.

    Returns:
        The product [..., N], formed in float32 and rounded to that type.

    Raises:
        ValueError: Types or shapes do not fit, or block_size does not divide K.
    """
    if x.dtype not in _FLOATS:
        raise ValueError(f"X has type {x.dtype}; allowed: {', '.join(map(str, _FLOATS))}")
    if scale.dtype != x.dtype:
        raise ValueError(f"scale has type {scale.dtype}; allowed: {x.dtype}, as X has")
    if block_size < 1:
        raise ValueError(f"block_size = {block_size}; allowed: integers >= 1")
    if data.ndim != 2 or data.shape[1] < 1 or data.shape[1] % block_size:
        raise ValueError(f"data has shape {list(data.shape)}; allowed: [N, K], K a multiple of {block_size}")
    rows, depth = data.shape
    for name, blocks in (("scale", scale), ("zero_point", zero_point)):
        if blocks is not None and blocks.shape != (rows, depth // block_size):
            raise ValueError(f"{name} has shape {list(blocks.shape)}; allowed: {[rows, depth // block_size]}")
    if x.ndim < 2 or x.shape[-1] != depth:
        raise ValueError(f"X has shape {list(x.shape)}; allowed: rank 2 or more, and {depth} columns")
    integers = data.astype(np.int32)
    if zero_point is not None:
        integers -= zero_point.astype(np.int32).repeat(block_size, 1)
    weights = integers.astype(np.float32) * scale.astype(np.float32).repeat(block_size, 1)
    product: Array = x.astype(np.float32) @ weights.T
    return product.astype(x.dtype)
