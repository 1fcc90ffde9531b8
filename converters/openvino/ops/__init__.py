"""Lowerings of OpenVINO's ops; importing this package registers them."""

from __future__ import annotations

from ortconv.converters.openvino.ops import (
    activations,
    binary,
    conversion,
    convolution,
    generation,
    indexing,
    interpolate,
    matmul,
    movement,
    normalization,
    padding,
    pooling,
    quantization,
    reduction,
    shape,
    unary,
)

__all__ = [
    "activations",
    "binary",
    "conversion",
    "convolution",
    "generation",
    "indexing",
    "interpolate",
    "matmul",
    "movement",
    "normalization",
    "padding",
    "pooling",
    "quantization",
    "reduction",
    "shape",
    "unary",
]
