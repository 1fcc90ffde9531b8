"""The data of values that never change."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

__all__ = ["clip_range", "constant"]

_NUMBERS = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64}
"""Attributes of Constant that hold numbers, and their types."""


def constant(value: ir.Value | None) -> ir.TensorProtocol | None:
    """Returns the data of a value that no caller of the model can change, or None."""
    if value is None or value.is_graph_input():
        return None  # An initializer that is an input, too, is a default that may be overridden.
    producer = value.producer()
    if producer is None:
        return value.const_value if value.is_initializer() else None
    if producer.domain or producer.op_type != "Constant":
        return None
    tensor = producer.attributes.get("value")
    if tensor is not None and tensor.type == ir.AttributeType.TENSOR:
        return tensor.as_tensor()
    for name, dtype in _NUMBERS.items():
        numbers = producer.attributes.get(name)
        if numbers is not None and not numbers.is_ref():
            return ir.tensor(np.array(numbers.value, dtype))
    return None


def clip_range(node: ir.Node) -> tuple[float, float] | None:
    """Returns the range of a Relu or Clip; None where it is not constant, or a bound is NaN."""
    if node.op_type == "Relu":
        return 0.0, math.inf
    found = [-math.inf, math.inf]
    for index, value in enumerate(node.inputs[1:3]):
        if value is None:
            continue
        data = constant(value)
        if data is None or np.isnan(data.numpy()).any():
            return None
        found[index] = float(data.numpy().reshape(-1)[0])
    return found[0], found[1]
