"""Element types and activations of the convolution operators."""

from __future__ import annotations

import math

from onnx import TensorProto

__all__ = ["ACCUMULATION", "ACTIVATION", "HARD_SIGMOID", "NO_ACTIVATION", "NO_HARD_SIGMOID"]

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

HARD_SIGMOID = "hard_sigmoid"
"""Name of the optional attribute that fuses a HardSwish into the node: alpha and beta of its HardSigmoid."""

NO_HARD_SIGMOID = (0.0, 1.0)
"""Alpha and beta of a HardSigmoid that is 1 for every number."""
