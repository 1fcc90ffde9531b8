"""The operators of ``org.ortconv``, one module each or for a few that differ little."""

from __future__ import annotations

from collections.abc import Mapping

from ortconv.opset.operator import Operator
from ortconv.opset.ops.conv_integer_to_float import CONV_INTEGER_TO_FLOAT
from ortconv.opset.ops.convolution import CONVOLUTION
from ortconv.opset.ops.forward_stft import FORWARD_STFT
from ortconv.opset.ops.fourier_transform import FOURIER_TRANSFORM
from ortconv.opset.ops.gather_matmul_codebook import GATHER_MATMUL_CODEBOOK
from ortconv.opset.ops.gather_matmul_compressed import GATHER_MATMUL_COMPRESSED
from ortconv.opset.ops.inverse_stft import INVERSE_STFT
from ortconv.opset.ops.matmul_codebook import MATMUL_CODEBOOK
from ortconv.opset.ops.matmul_compressed import MATMUL_COMPRESSED
from ortconv.opset.ops.overlap_add import OVERLAP_ADD
from ortconv.opset.ops.qlinear_convolution import QLINEAR_CONVOLUTION
from ortconv.opset.ops.quantized_transposed_convolutions import (
    QLINEAR_TRANSPOSED_CONVOLUTION,
    QLINEAR_TRANSPOSED_CONVOLUTION_ADD,
    TRANSPOSED_CONVOLUTION_INTEGER_TO_FLOAT,
)
from ortconv.opset.ops.transposed_convolution import TRANSPOSED_CONVOLUTION
from ortconv.opset.ops.transposed_convolution_add import TRANSPOSED_CONVOLUTION_ADD
from ortconv.opset.ops.transposed_convolution_to_shape import TRANSPOSED_CONVOLUTION_TO_SHAPE

__all__ = ["BY_NAME", "CONVOLUTIONS", "OPERATORS"]

CONVOLUTIONS = (
    TRANSPOSED_CONVOLUTION,
    TRANSPOSED_CONVOLUTION_TO_SHAPE,
    CONVOLUTION,
    TRANSPOSED_CONVOLUTION_ADD,
)
"""The operators of `ortconv.opset.ops.convolution_family`."""

OPERATORS = (
    *CONVOLUTIONS,
    CONV_INTEGER_TO_FLOAT,
    QLINEAR_CONVOLUTION,
    TRANSPOSED_CONVOLUTION_INTEGER_TO_FLOAT,
    QLINEAR_TRANSPOSED_CONVOLUTION,
    QLINEAR_TRANSPOSED_CONVOLUTION_ADD,
    MATMUL_COMPRESSED,
    GATHER_MATMUL_COMPRESSED,
    MATMUL_CODEBOOK,
    GATHER_MATMUL_CODEBOOK,
    FORWARD_STFT,
    INVERSE_STFT,
    OVERLAP_ADD,
    FOURIER_TRANSFORM,
)
"""All operators of ours."""

BY_NAME: Mapping[str, Operator] = {operator.name: operator for operator in OPERATORS}
"""Op type -> operator."""
