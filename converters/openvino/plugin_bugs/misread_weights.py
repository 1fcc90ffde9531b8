"""Matrices of compressed weights that OpenVINO's CPU plugin takes for others."""

from __future__ import annotations

import onnx_ir as ir

from ortconv.converters.openvino.weights.codebook import CodebookWeights
from ortconv.converters.openvino.weights.dequantization import QUANTIZED_TYPES
from ortconv.converters.openvino.weights.quantized_weights import QuantizedWeights
from ortconv.graph.annotations import CODEBOOK, SOURCE_HAS_4_BITS
from ortconv.graph.match import operand_of

__all__ = ["has_odd_rows", "has_scales_of_columns", "has_uneven_groups", "is_misread"]

_LEAST_ODD = 16
"""Up to this many columns OpenVINO's CPU plugin reads an odd number of them rightly."""


def _in_groups(matrix: ir.Value) -> QuantizedWeights | None:
    """Returns the compressed integers of which a Reshape made a matrix, or None."""
    weights = None if matrix.shape is None or len(matrix.shape) != 2 else operand_of(matrix, "Reshape")
    compressed = None if weights is None else QuantizedWeights.of(weights)
    return compressed if compressed is not None and compressed.data.dtype in QUANTIZED_TYPES else None


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
    return compressed.axis == 2 if compressed.block_size is None else compressed.scale.shape[2] != 1


def has_uneven_groups(matrix: ir.Value) -> bool:
    """Tells whether OpenVINO's CPU plugin reads a matrix of weights in groups wrongly where few rows meet it.

    It does where there are several groups, whose size is more than 4 and no multiple of 4 with integers of 8 bits; with
    4 bits where it is odd and more than 4, or no multiple of 32 and more than that.
    """
    compressed = _in_groups(matrix) or _codes_of_a_type(operand_of(matrix, "Reshape"))
    if compressed is None or matrix.shape is None or len(matrix.shape) != 2:
        return False
    sizes, rows = compressed.sizes, matrix.shape[0]
    if len(sizes) == 2:  # the groups of all rows are one axis
        along, groups, size = 0, sizes[0] // rows if isinstance(rows, int) and rows else 1, sizes[1]
    elif len(sizes) == 3:
        along = int(rows == sizes[0])
        groups, size = sizes[along], sizes[along + 1]
    else:
        return False
    if isinstance(compressed, CodebookWeights):
        shares_scales = compressed.scale.shape[along] == 1
    else:
        shares_scales = compressed.axis != along and compressed.block_size is None
    if shares_scales:
        return False
    step = 4 if not _has_four_bits(compressed) else 2 if size <= 32 else 32
    return groups > 1 and size > 4 and size % step != 0


def has_scales_of_columns(matrix: ir.Value, *, transpose: bool) -> bool:
    """Tells whether each number of the data that a matrix of weights meets has a scale of its own.

    OpenVINO's CPU plugin takes them for those of the results where few rows meet the matrix, and may end the process
    where many do.

    Args:
        matrix: The weights.
        transpose: Whether they are [N, K] instead of [K, N].
    """
    inner = int(transpose)
    if (coded := _codes_of_a_type(matrix)) is not None:
        own = coded.scale.shape
        return len(own) == 2 and own[inner] > 1 and own[1 - inner] == 1 < coded.sizes[1 - inner]
    compressed = QuantizedWeights.of(matrix)
    if compressed is None or len(compressed.sizes) != 2 or compressed.block_size is not None:
        return False
    return compressed.axis == inner and compressed.sizes[1 - inner] > 1


def has_odd_rows(matrix: ir.Value, *, transpose: bool) -> bool:
    """Tells whether OpenVINO's CPU plugin reads a matrix of 4 bits wrongly where more than 4 rows meet it.

    It does where the rows of the data have an odd length of more than 16, unless the matrix gives one column.

    Args:
        matrix: The weights.
        transpose: Whether they are [N, K] instead of [K, N].
    """
    stored = operand_of(matrix, "Reshape") or matrix
    compressed = QuantizedWeights.of(stored) or _codes_of_a_type(stored)
    if compressed is None or matrix.shape is None or len(matrix.shape) != 2 or not _has_four_bits(compressed):
        return False
    columns, depth = matrix.shape[1 - int(transpose)], matrix.shape[int(transpose)]
    if not isinstance(columns, int) or not isinstance(depth, int):
        return False
    return columns > 1 and depth > _LEAST_ODD and depth % 2 == 1


def _codes_of_a_type(weights: ir.Value | None) -> CodebookWeights | None:
    """Returns codes that are a type of OpenVINO's; it takes those of a codebook for no compressed weights."""
    coded = None if weights is None else CodebookWeights.of(weights)
    if coded is None:
        return None
    assert coded.data.const_value is not None
    return coded if CODEBOOK.get(coded.data.const_value) else None


def _has_four_bits(compressed: CodebookWeights | QuantizedWeights) -> bool:
    assert compressed.data.dtype is not None
    assert compressed.data.const_value is not None
    return compressed.data.dtype.bitwidth == 4 or bool(SOURCE_HAS_4_BITS.get(compressed.data.const_value))
