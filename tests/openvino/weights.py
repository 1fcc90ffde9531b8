"""Constants of few bits, and products by them."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino
from openvino import opset1

from ortconv.api import Conversion
from tests.openvino.live import numbers

ROWS_AND_COLUMNS = (6, 8)


def weights(element: openvino.Type, *, low: int, high: int, shape: tuple[int, ...] = ROWS_AND_COLUMNS) -> Any:
    """Returns a constant of random numbers."""
    values = np.random.default_rng(0).integers(low, high, shape, endpoint=True)
    return openvino.op.Constant(element, openvino.Shape(list(shape)), values.ravel().tolist())


def model(element: openvino.Type, dtype: str, *, zero_point: bool, grouped: bool) -> openvino.Model:
    """Returns a MatMul by integer weights that are converted, shifted, scaled and reshaped."""
    signed = element.is_signed()
    bits = element.bitwidth
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    shape = (6, 2, 4) if grouped else ROWS_AND_COLUMNS
    one_each = (6, 2, 1) if grouped else (6, 1)
    value = opset1.convert(weights(element, low=low, high=high, shape=shape), dtype)
    if zero_point:
        point = opset1.convert(weights(element, low=low, high=high, shape=one_each), dtype)
        value = opset1.subtract(value, point)
    scale = np.abs(numbers(*one_each, seed=3, low=0.01, high=0.1)).astype("float16" if dtype == "f16" else "float32")
    value = opset1.multiply(value, opset1.constant(scale))
    if grouped:
        value = opset1.reshape(value, np.array(ROWS_AND_COLUMNS), False)
    if dtype == "f16":
        value = opset1.convert(value, "f32")
    data = opset1.parameter([-1, 8], dtype=openvino.Type.f32)
    return openvino.Model([opset1.matmul(data, value, False, True).output(0)], [data])


TYPES = {"i8": openvino.Type.i8, "u8": openvino.Type.u8, "i4": openvino.Type.i4, "u4": openvino.Type.u4}
FEEDS = [[numbers(n, 8)] for n in (2, 3)]


def nodes(converted: Conversion) -> list[str]:
    return [node.op_type for node in converted.model.graph]


def stored(converted: Conversion) -> dict[str, list[tuple[int, ...]]]:
    """Returns the shapes of the constants by type."""
    shapes: dict[str, list[tuple[int, ...]]] = {}
    for value in converted.model.graph.initializers.values():
        assert value.dtype is not None
        assert value.shape is not None
        shapes.setdefault(value.dtype.short_name(), []).append(tuple(value.shape.numpy()))
    return shapes


def constant(element: openvino.Type, *shape: int, low: int = 0, high: int = 15) -> Any:
    return weights(element, low=low, high=high, shape=shape)
