"""The operator ``TransposedConvolutionAdd``: a transposed convolution and a residual."""

from __future__ import annotations

from ortconv.opset.bodies import convolutions
from ortconv.opset.ops.convolution_family import (
    BIAS,
    DATA,
    GRID,
    PADDED,
    RESIDUAL,
    WEIGHTS,
    convolution_operator,
    transposed_sizes,
)
from ortconv.opset.reference.convolutions import conv_transpose, conv_transpose_add

__all__ = ["TRANSPOSED_CONVOLUTION_ADD"]

TRANSPOSED_CONVOLUTION_ADD = convolution_operator(
    name="TransposedConvolutionAdd",
    doc="TransposedConvolution and a residual: R, which has the type and shape of Y, is added to the result in type T, "
    "and the sum is rounded to T, or wraps. An activation comes after that.",
    inputs=(DATA, WEIGHTS, RESIDUAL, BIAS),
    attributes=(*GRID, *PADDED),
    sizes=transposed_sizes,
    text=convolutions.transposed_convolution_add,
    reference=conv_transpose_add,
    transposed=True,
    reference_without_residual=conv_transpose,
)
