"""Element types and activations of the convolution operators."""

from __future__ import annotations

import math

from onnx import TensorProto

__all__ = ["ACCUMULATION", "ACTIVATION", "NO_ACTIVATION"]

ACCUMULATION: dict[int, int] = {
    TensorProto.FLOAT: TensorProto.FLOAT,
    TensorProto.FLOAT16: TensorProto.FLOAT,
    TensorProto.BFLOAT16: TensorProto.FLOAT,
    TensorProto.DOUBLE: TensorProto.DOUBLE,
    TensorProto.INT8: TensorProto.INT32,
    TensorProto.UINT8: TensorProto.INT32,
    TensorProto.INT16: TensorProto.INT32,
    TensorProto.UINT16: TensorProto.INT32,
    TensorProto.INT32: TensorProto.INT32,
    TensorProto.UINT32: TensorProto.UINT32,
    TensorProto.INT64: TensorProto.INT64,
    TensorProto.UINT64: TensorProto.UINT64,
}
"""Element type of the tensors -> the type in which products are formed and summed. Integers wrap."""

ACTIVATION = "activation"
"""Name of the optional attribute that fuses a Relu, LeakyRelu or Clip into the node."""

NO_ACTIVATION = (1.0, -math.inf, math.inf)
"""Slope below zero, minimum and maximum that change nothing."""
