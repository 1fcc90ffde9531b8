"""Constants of few bits, and products by them."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino
from openvino import opset1, opset8

from ortconv.api import Conversion
from tests.converters.openvino.live import numbers

ROWS_AND_COLUMNS = (6, 8)
_HALVES = (0, 0.5, 1, 1.5, 2, 3, 4, 6)
_NORMAL = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
)  # fmt: skip
CODED = {
    "nf4": np.array(_NORMAL),
    "f4e2m1": np.array([*_HALVES, *(-number for number in _HALVES)]),
    "codebook": np.array([-448, -9, -3.5, -1.25, -0.5, -0.25, -0.0625, 0, 0.125, 0.375, 0.75, 1, 1.5, 2.25, 6, 26]),
}
"""What codes of 4 bits stand for: in types of OpenVINO's, and in a table of floats of 8 bits, as NNCF writes them."""


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


def coded(
    element: str, shape: tuple[int, ...], one_each: tuple[int, ...], dtype: str, seed: int = 0
) -> tuple[Any, np.ndarray]:
    """Returns weights of random codes with random scales, and the numbers they stand for."""
    codes = np.random.default_rng(seed).integers(0, 15, shape, endpoint=True)
    sizes = openvino.Shape(list(shape))
    if element == "codebook":
        table = openvino.op.Constant(openvino.Type.f8e4m3, openvino.Shape([16]), CODED[element].tolist())
        held = opset1.convert(openvino.op.Constant(openvino.Type.u4, sizes, codes.ravel().tolist()), "u8")
        value = opset8.gather(opset1.convert(table, "f16"), held, np.int64(0))
        value = value if dtype == "f16" else opset1.convert(value, dtype)
    else:
        flat = [*codes.ravel().tolist(), 0]
        pairs = np.array([low | high << 4 for low, high in zip(flat[:-1:2], flat[1::2], strict=True)], np.uint8)
        kind = {"nf4": openvino.Type.nf4, "f4e2m1": openvino.Type.f4e2m1}[element]
        value = opset1.convert(openvino.op.Constant(openvino.Tensor(pairs, sizes, kind), shared_memory=False), dtype)
    scale = numbers(*one_each, seed=3, low=0.01, high=0.1).astype({"f16": np.float16, "f32": np.float32}[dtype])
    return opset1.multiply(value, opset1.constant(scale)), CODED[element][codes] * scale.astype(np.float64)
