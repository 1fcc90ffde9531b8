"""The operator ``TransposedConvolution``."""

from __future__ import annotations

from ortconv.opset.bodies import convolutions
from ortconv.opset.ops.convolution_family import (
    BIAS,
    DATA,
    GRID,
    PADDED,
    WEIGHTS,
    convolution_operator,
    transposed_sizes,
)
from ortconv.opset.reference.convolutions import conv_transpose

__all__ = ["TRANSPOSED_CONVOLUTION"]

TRANSPOSED_CONVOLUTION = convolution_operator(
    name="TransposedConvolution",
    doc="Transposed convolution: Y = F - begin - end + output_padding, for every element type. Positions that no "
    "kernel tap reaches are zero; the bias is added to all.",
    inputs=(DATA, WEIGHTS, BIAS),
    attributes=(*GRID, *PADDED),
    sizes=transposed_sizes,
    text=convolutions.transposed_convolution,
    reference=conv_transpose,
    transposed=True,
)
