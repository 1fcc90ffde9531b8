"""Matrices of compressed weights that OpenVINO's CPU plugin takes for others."""

from __future__ import annotations

import onnx_ir as ir

from ortconv.converters.openvino.ops.compression import COMPRESSED_TYPES, FOUR_BITS, Compressed
from ortconv.producers import made_by

__all__ = ["has_scales_of_columns", "has_uneven_groups", "is_misread"]


def _in_groups(matrix: ir.Value) -> Compressed | None:
    """Returns the compressed integers of which a Reshape made a matrix, or None."""
    weights = None if matrix.shape is None or len(matrix.shape) != 2 else made_by(matrix, "Reshape")
    compressed = None if weights is None else Compressed.of(weights)
    return compressed if compressed is not None and compressed.data.dtype in COMPRESSED_TYPES else None


def is_misread(matrix: ir.Value) -> bool:
    """Tells whether OpenVINO's CPU plugin takes a matrix of weights in groups for another one where rows are gathered.

    Of three axes that a Reshape made two of, it takes the first one for the rows, and has one scale for each group
    along the last one.
    """
    compressed = _in_groups(matrix)
    if compressed is None or len(compressed.sizes) != 3:
        return False
    assert matrix.shape is not None
    if matrix.shape[0] != compressed.sizes[0]:
        return True
    return compressed.axis == 2 if compressed.block is None else compressed.scale.shape[2] != 1


def has_uneven_groups(matrix: ir.Value) -> bool:
    """Tells whether OpenVINO's CPU plugin reads a matrix of weights in groups wrongly where few rows meet it.

    It does where there are several groups, whose size is more than 4 and no multiple of 4 with integers of 8 bits; with
    4 bits where it is odd and more than 4, or no multiple of 32 and more than that.
    """
    compressed = _in_groups(matrix)
    if compressed is None:
        return False
    assert matrix.shape is not None
    assert compressed.data.dtype is not None
    assert compressed.data.const_value is not None
    sizes, rows = compressed.sizes, matrix.shape[0]
    if len(sizes) == 2:  # the groups of all rows are one axis
        along, groups, size = 0, sizes[0] // rows if isinstance(rows, int) and rows else 1, sizes[1]
    elif len(sizes) == 3:
        along = int(rows == sizes[0])
        groups, size = sizes[along], sizes[along + 1]
    else:
        return False
    if compressed.axis != along and compressed.block is None:
        return False
    four_bits = compressed.data.dtype.bitwidth == 4 or FOUR_BITS in compressed.data.const_value.meta
    step = 4 if not four_bits else 2 if size <= 32 else 32
    return groups > 1 and size > 4 and size % step != 0


def has_scales_of_columns(matrix: ir.Value, *, transpose: bool) -> bool:
    """Tells whether each number of the data that a matrix of weights meets has a scale of its own.

    OpenVINO's CPU plugin takes them for those of the results where few rows meet the matrix, and may end the process
    where many do.

    Args:
        matrix: The weights.
        transpose: Whether they are [N, K] instead of [K, N].
    """
    compressed = Compressed.of(matrix)
    if compressed is None or len(compressed.sizes) != 2 or compressed.block is not None:
        return False
    inner = int(transpose)
    return compressed.axis == inner and compressed.sizes[1 - inner] > 1
