"""The NumPy references of the operators that multiply by compressed weights."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

__all__ = ["gather_matmul_codebook", "gather_matmul_compressed", "matmul_codebook", "matmul_compressed"]

Array = npt.NDArray[Any]

_FLOATS = (np.dtype(np.float32), np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))
_CODEBOOK_SIZE = 16
"""How many entries 4 bits can index."""


def matmul_compressed(
    x: Array, data: Array, scale: Array, zero_point: Array | None = None, *, block_size: int
) -> Array:
    """Multiplies by a matrix of int8 or int4 weights.

    Args:
        x: Data [..., K] of float32, float16 or bfloat16, of two axes or more.
        data: Quantized weights [N, K], in any integer type.
        scale: Scales [N, K / block_size] of the type of the data.
        zero_point: Zero points of that shape; None for zeros.
        block_size: How many columns of data share a scale.

    Returns:
        The product [..., N], formed in float32 and rounded to that type.

    Raises:
        ValueError: Types or shapes do not fit, or block_size does not divide K.
    """
    if data.ndim != 2:
        raise ValueError(f"data has shape {list(data.shape)}; allowed: [N, K]")
    return _product(x, _weights(x, data, scale, zero_point, block_size))


def matmul_codebook(x: Array, data: Array, scale: Array, codebook: Array, *, block_size: int) -> Array:
    """Multiplies by a matrix of indices into a codebook.

    Args:
        x: Data as in `matmul_compressed`.
        data: Codebook indices [N, K] from 0 to 15, in any integer type.
        scale: Scales as in `matmul_compressed`.
        codebook: 16 entries of float32.
        block_size: How many columns of data share a scale.

    Returns:
        The product [..., N], formed in float32 and rounded to the type of the data.

    Raises:
        ValueError: Types or shapes do not fit, or block_size does not divide K.
    """
    if data.ndim != 2:
        raise ValueError(f"data has shape {list(data.shape)}; allowed: [N, K]")
    return _product(x, _looked_up(x, data, scale, codebook, block_size))


def _product(x: Array, weights: Array) -> Array:
    """Multiplies by a matrix [N, K]."""
    if x.ndim < 2 or x.shape[-1] != weights.shape[-1]:
        raise ValueError(f"X has shape {list(x.shape)}; allowed: rank 2 or more, and {weights.shape[-1]} columns")
    with np.errstate(all="ignore"):
        product: Array = x.astype(np.float32) @ weights.T
        return product.astype(x.dtype)


def gather_matmul_compressed(
    x: Array, data: Array, scale: Array, index: Array, zero_point: Array | None = None, *, block_size: int
) -> Array:
    """Multiplies each row by the int8 or int4 matrix that its expert index names.

    Args:
        x: Data [T, J, K] or [T, 1, K] of float32, float16 or bfloat16.
        data: Quantized weights [E, N, K], in any integer type.
        scale: Scales [E, N, K / block_size] of the type of the data.
        index: Expert index [T, J]; a number outside [0, E) gives zeros.
        zero_point: Zero points of the shape of the scales; None for zeros.
        block_size: How many columns of data share a scale.

    Returns:
        The products [T, J, N], formed in float32 and rounded to that type.

    Raises:
        ValueError: Types or shapes do not fit, or block_size does not divide K.
    """
    if data.ndim != 3:
        raise ValueError(f"data has shape {list(data.shape)}; allowed: [E, N, K]")
    return _gathered(x, _weights(x, data, scale, zero_point, block_size), index)


def gather_matmul_codebook(
    x: Array, data: Array, scale: Array, index: Array, codebook: Array, *, block_size: int
) -> Array:
    """Multiplies each row by the codebook matrix that its expert index names.

    Args:
        x: Data as in `gather_matmul_compressed`.
        data: Codebook indices [E, N, K] from 0 to 15, in any integer type.
        scale: Scales as in `gather_matmul_compressed`.
        index: Expert index [T, J]; a number outside [0, E) gives zeros.
        codebook: 16 entries of float32.
        block_size: How many columns of data share a scale.

    Returns:
        The products [T, J, N], formed in float32 and rounded to the type of the data.

    Raises:
        ValueError: Types or shapes do not fit, or block_size does not divide K.
    """
    if data.ndim != 3:
        raise ValueError(f"data has shape {list(data.shape)}; allowed: [E, N, K]")
    return _gathered(x, _looked_up(x, data, scale, codebook, block_size), index)


def _gathered(x: Array, weights: Array, index: Array) -> Array:
    """Multiplies each row by the matrix of [E, N, K] that its expert index names."""
    if index.ndim != 2:
        raise ValueError(f"index has shape {list(index.shape)}; allowed: [T, J]")
    (rows, slots), (matrices, columns, depth) = index.shape, weights.shape
    if x.shape not in ((rows, slots, depth), (rows, 1, depth)):
        raise ValueError(f"X has shape {list(x.shape)}; allowed: {[rows, slots, depth]}, or 1 along axis 1")
    spread = np.broadcast_to(x, (rows, slots, depth)).astype(np.float32)
    product = np.zeros((rows, slots, columns), np.float32)
    with np.errstate(all="ignore"):
        for t, j in np.ndindex(rows, slots):
            if 0 <= index[t, j] < matrices:
                product[t, j] = weights[index[t, j]] @ spread[t, j]
        return product.astype(x.dtype)


def _weights(x: Array, data: Array, scale: Array, zero_point: Array | None, block_size: int) -> Array:
    """Checks types, scales and zero points, and returns the weights as float32."""
    _check(x, data, block_size, scale=scale, zero_point=zero_point)
    integers = data.astype(np.int32)
    if zero_point is not None:
        integers -= zero_point.astype(np.int32).repeat(block_size, -1)
    weights: Array = integers.astype(np.float32) * scale.astype(np.float32).repeat(block_size, -1)
    return weights


def _looked_up(x: Array, data: Array, scale: Array, codebook: Array, block_size: int) -> Array:
    """Checks types, scales and codebook, and returns the weights as float32."""
    _check(x, data, block_size, scale=scale)
    if codebook.dtype != np.float32 or codebook.shape != (_CODEBOOK_SIZE,):
        raise ValueError(
            f"codebook has type {codebook.dtype} and shape {list(codebook.shape)}; allowed: float32, [{_CODEBOOK_SIZE}]"
        )
    with np.errstate(all="ignore"):
        weights: Array = codebook[data.astype(np.int32)] * scale.astype(np.float32).repeat(block_size, -1)
    return weights


def _check(x: Array, data: Array, block_size: int, *, scale: Array, zero_point: Array | None = None) -> None:
    """Checks types, and shapes against that of data."""
    if x.dtype not in _FLOATS:
        raise ValueError(f"X has type {x.dtype}; allowed: {', '.join(map(str, _FLOATS))}")
    if scale.dtype != x.dtype:
        raise ValueError(f"scale has type {scale.dtype}; allowed: {x.dtype}, as X has")
    if block_size < 1:
        raise ValueError(f"block_size = {block_size}; allowed: integers >= 1")
    *matrices, depth = data.shape
    if depth < 1 or depth % block_size:
        raise ValueError(f"data has {depth} columns; allowed: a multiple of {block_size}")
    blocks = (*matrices, depth // block_size)
    for name, found in (("scale", scale), ("zero_point", zero_point)):
        if found is not None and found.shape != blocks:
            raise ValueError(f"{name} has shape {list(found.shape)}; allowed: {list(blocks)}")
