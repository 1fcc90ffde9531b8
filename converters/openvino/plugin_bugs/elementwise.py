"""Bugs of elementwise ops and conversions."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from ortconv.converters.openvino.plugin_bugs.bug import Bug, Live, random

__all__ = [
    "BFLOAT16_TRUNCATED",
    "CONVERT_TO_SAME_TYPE",
    "INTEGERS_IN_FLOAT32",
    "OVERFLOW_IN_FLOAT32",
    "PDPD_ALIGNED_AT_END",
    "PDPD_SHIFT",
    "UINT8_PRODUCT",
    "UINT8_SQUARED_DIFFERENCE",
]

_CUBE = (3, 2, 3)
_BYTES = np.arange(0, 250, 3, dtype=np.uint8)

PDPD_ALIGNED_AT_END = Bug(
    op="binary elementwise ops",
    case="auto_broadcast pdpd with shapes that broadcast from the stated axis and from the last",
    fault="may align the shapes at the last axis",
    live=Live(
        lambda ov, x, y: ov.opset1.subtract(x, y, "PDPD"),
        [random(*_CUBE), random(3, seed=1)],
        random(*_CUBE) - random(3, seed=1)[:, None, None],
    ),
)

PDPD_SHIFT = Bug(
    op="BitwiseLeftShift, BitwiseRightShift",
    case="auto_broadcast pdpd with different shapes",
    fault="shifts by other numbers",
    live=Live(
        lambda ov, x, y: ov.opset15.bitwise_left_shift(x, y, "PDPD"),
        [np.arange(24, dtype=np.int32).reshape(2, 3, 4), np.array([[0, 1, 2], [3, 1, 0]], np.int32)],
        np.arange(24, dtype=np.int32).reshape(2, 3, 4) << np.array([[0, 1, 2], [3, 1, 0]], np.int32)[:, :, None],
    ),
)

UINT8_PRODUCT = Bug(
    op="Multiply, Power",
    case="uint8 results above 2^15 with a dynamic shape, which saturate",
    fault="returns 0",
    live=Live(
        lambda ov, x, y: ov.opset1.multiply(x, y),
        [_BYTES, _BYTES],
        np.minimum(_BYTES.astype(int) ** 2, 255).astype(np.uint8),
        shapes=[[-1]] * 2,
    ),
)

UINT8_SQUARED_DIFFERENCE = Bug(
    op="SquaredDifference",
    case="int8 or uint8 with a static shape",
    fault="returns 0 for most squares",
    live=Live(
        lambda ov, x, y: ov.opset1.squared_difference(x, y),
        [_BYTES, _BYTES[::-1].copy()],
        np.minimum((_BYTES.astype(int) - _BYTES[::-1]) ** 2, 255).astype(np.uint8),
    ),
)

INTEGERS_IN_FLOAT32 = Bug(
    op="reductions, MatMul and other ops of integers",
    case="integers above 2^24",
    fault="rounds them to float32",
    live=Live(lambda ov, x: ov.opset1.floor(x), [np.array([2**24 + 1], np.int32)], np.array([2**24 + 1], np.int32)),
)

OVERFLOW_IN_FLOAT32 = Bug(
    op="sums and products of integers",
    case="integers above 2^24, and results that overflow and wrap",
    fault="rounds them to float32, and does not wrap",
    live=Live(
        lambda ov, x: ov.opset1.reduce_sum(x, np.array([0])),
        [np.array([2**24, 1, 2], np.int32)],
        np.array(2**24 + 3, np.int32),
    ),
)

BFLOAT16_TRUNCATED = Bug(
    op="Convert",
    case="to bf16, from constants or from types other than f32 and f16 of static shape",
    fault="truncates half of the numbers instead of rounding them to the nearest",
    live=Live(
        lambda ov, x: ov.opset1.convert(ov.opset1.convert(x, "bf16"), "f32"),
        [random(4, 32)],
        random(4, 32).astype(ml_dtypes.bfloat16).astype(np.float32),
        shapes=[[-1, 32]],
    ),
)


CONVERT_TO_SAME_TYPE = Bug(
    op="Convert",
    case="to the same type, between an input and an output of the model with a dynamic shape",
    fault="may return data of an earlier run",
    live=Live(lambda ov, x: ov.opset1.convert(x, "f32"), [random(3)], random(3), shapes=[[-1]], steady=False),
)
