"""Bugs of weight-only quantized matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.plugin_bugs.bug import Bug, Live, random
from ortconv.converters.openvino.weights.codebook import CodebookWeights
from ortconv.converters.openvino.weights.dequantization import QUANTIZED_TYPES
from ortconv.converters.openvino.weights.quantized_weights import QuantizedWeights
from ortconv.graph.annotations import CODEBOOK, SOURCE_HAS_4_BITS
from ortconv.graph.match import operand_of

__all__ = [
    "GATHERED_BLOCKS",
    "ODD_ROWS",
    "SCALE_PER_INPUT_COLUMN",
    "UNEVEN_BLOCKS",
    "has_odd_rows",
    "has_scale_per_input_column",
    "has_uneven_blocks",
    "misreads_gathered_blocks",
]

_LEAST_ODD = 16
"""The longest odd row that is read rightly."""


def _in_blocks(matrix: ir.Value) -> QuantizedWeights | None:
    """Returns the quantized weights that a Reshape makes a matrix of, or None."""
    weights = None if matrix.shape is None or len(matrix.shape) != 2 else operand_of(matrix, "Reshape")
    compressed = None if weights is None else QuantizedWeights.of(weights)
    return compressed if compressed is not None and compressed.data.dtype in QUANTIZED_TYPES else None


def misreads_gathered_blocks(matrix: ir.Value) -> bool:
    """Tells whether the plugin gathers wrong rows from a matrix of weights in blocks.

    It assumes that a Reshape merges the last two of three axes, and that each block of the last axis has one scale.
    """
    compressed = _in_blocks(matrix)
    if compressed is None or len(compressed.sizes) != 3:
        return False
    assert matrix.shape is not None
    if matrix.shape[0] != compressed.sizes[0]:
        return True
    return compressed.axis == 2 if compressed.block_size is None else compressed.scale.shape[2] != 1


def has_uneven_blocks(matrix: ir.Value) -> bool:
    """Tells whether the plugin reads blocks of a matrix wrongly when few rows of data are multiplied by it.

    It does with several blocks of a size above 4: with 8 bits, if it is no multiple of 4; with 4 bits, if it is odd, or
    above 32 and no multiple of 32.
    """
    compressed = _in_blocks(matrix) or _typed_codebook(operand_of(matrix, "Reshape"))
    if compressed is None or matrix.shape is None or len(matrix.shape) != 2:
        return False
    sizes, rows = compressed.sizes, matrix.shape[0]
    if len(sizes) == 2:  # blocks of all rows along one axis
        along, blocks, size = 0, sizes[0] // rows if isinstance(rows, int) and rows else 1, sizes[1]
    elif len(sizes) == 3:
        along = int(rows == sizes[0])
        blocks, size = sizes[along], sizes[along + 1]
    else:
        return False
    if isinstance(compressed, CodebookWeights):
        shares_scales = compressed.scale.shape[along] == 1
    else:
        shares_scales = compressed.axis != along and compressed.block_size is None
    if shares_scales:
        return False
    step = 4 if not _has_four_bits(compressed) else 2 if size <= 32 else 32
    return blocks > 1 and size > 4 and size % step != 0


def has_scale_per_input_column(matrix: ir.Value, *, transpose: bool) -> bool:
    """Tells whether a matrix has one scale for each column of the data.

    The plugin uses them as scales of the results with few rows of data, and may crash with many.

    Args:
        matrix: The weights [K, N].
        transpose: Whether they are [N, K] instead.
    """
    inner = int(transpose)
    if (coded := _typed_codebook(matrix)) is not None:
        own = coded.scale.shape
        return len(own) == 2 and own[inner] > 1 and own[1 - inner] == 1 < coded.sizes[1 - inner]
    compressed = QuantizedWeights.of(matrix)
    if compressed is None or len(compressed.sizes) != 2 or compressed.block_size is not None:
        return False
    return compressed.axis == inner and compressed.sizes[1 - inner] > 1


def has_odd_rows(matrix: ir.Value, *, transpose: bool) -> bool:
    """Tells whether the plugin reads a 4-bit matrix wrongly when more than 4 rows of data are multiplied by it.

    It does if K is odd and above 16, and N is above 1.

    Args:
        matrix: The weights [K, N].
        transpose: Whether they are [N, K] instead.
    """
    stored = operand_of(matrix, "Reshape") or matrix
    compressed = QuantizedWeights.of(stored) or _typed_codebook(stored)
    if compressed is None or matrix.shape is None or len(matrix.shape) != 2 or not _has_four_bits(compressed):
        return False
    columns, depth = matrix.shape[1 - int(transpose)], matrix.shape[int(transpose)]
    if not isinstance(columns, int) or not isinstance(depth, int):
        return False
    return columns > 1 and depth > _LEAST_ODD and depth % 2 == 1


def _typed_codebook(weights: ir.Value | None) -> CodebookWeights | None:
    """Returns codebook weights of an element type such as nf4; with a custom codebook, the plugin has no such bugs."""
    coded = None if weights is None else CodebookWeights.of(weights)
    if coded is None:
        return None
    assert coded.data.const_value is not None
    return coded if CODEBOOK.get(coded.data.const_value) else None


def _has_four_bits(compressed: CodebookWeights | QuantizedWeights) -> bool:
    assert compressed.data.dtype is not None
    assert compressed.data.const_value is not None
    return compressed.data.dtype.bitwidth == 4 or bool(SOURCE_HAS_4_BITS.get(compressed.data.const_value))


def _weights(ov: Any, shape: Sequence[int], scales: Sequence[int], element: str) -> Any:
    held = ov.op.Constant(getattr(ov.Type, element), ov.Shape(list(shape)), _integers(shape).ravel().tolist())
    return ov.opset1.multiply(ov.opset1.convert(held, "f32"), random(*scales, low=0.01, high=0.1))


def _integers(shape: Sequence[int]) -> np.ndarray:
    return np.round(random(*shape, low=0, high=7)).astype(np.int32)


def _dequantized(shape: Sequence[int], scales: Sequence[int]) -> np.ndarray:
    numbers: np.ndarray = _integers(shape) * random(*scales, low=0.01, high=0.1)
    return numbers


def _product(
    rows: int,
    shape: Sequence[int],
    scales: Sequence[int],
    element: str,
    *,
    transpose: bool = True,
    steady: bool = True,
) -> Live:
    """Makes a model of the product of data and weights, whose axes behind the first one are merged."""
    matrix = _dequantized(shape, scales).reshape(shape[0], -1)
    right = matrix.T if transpose else matrix
    data = random(rows, len(right))

    def build(ov: Any, x: Any) -> Any:
        weights = _weights(ov, shape, scales, element)
        if len(shape) > 2:
            weights = ov.opset1.reshape(weights, np.array(matrix.shape), False)
        return ov.opset1.matmul(x, weights, False, transpose)

    return Live(build, [data], data @ right, steady=steady)


GATHERED_BLOCKS = Bug(
    op="Gather",
    case="weight-only quantized matrix whose blocks do not lie along the last axis of the rows",
    fault="gathers other rows",
    live=Live(
        lambda ov, x: ov.opset8.gather(
            ov.opset1.reshape(_weights(ov, (2, 3, 8), (2, 3, 1), "u8"), np.array([6, 8]), False), x, np.array(0)
        ),
        [np.array([0, 5, 1])],
        _dequantized((2, 3, 8), (2, 3, 1)).reshape(6, 8)[[0, 5, 1]],
    ),
)

UNEVEN_BLOCKS = Bug(
    op="MatMul",
    case="weight-only quantized matrix with a block size that the plugin does not support, such as 7",
    fault="returns wrong products with few rows of data",
    live=_product(2, (6, 3, 7), (6, 3, 1), "u8", steady=False),
)

SCALE_PER_INPUT_COLUMN = Bug(
    op="MatMul",
    case="weight-only quantized matrix with one scale for each column of the data",
    fault="returns wrong products or crashes",
    live=_product(3, (16, 24), (16, 1), "u8", transpose=False, steady=False),
)

ODD_ROWS = Bug(
    op="MatMul",
    case="int4 matrix with an odd number of columns of the data above 16",
    fault="returns wrong products with more than 4 rows of data",
    live=_product(5, (24, 17), (24, 1), "u4"),
)
