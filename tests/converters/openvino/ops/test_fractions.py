"""Ops whose results have fractions, on floats and on integers, and the tests for NaN and infinity."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset1, opset4, opset5, opset8, opset10

from tests.converters.openvino.live import Row, check_row, numbers

F32 = np.float32
FLOATS = ("float16", "float32", "float64")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")

DOMAINS = {
    "acos": (opset1, -1, 1),
    "acosh": (opset4, 1, 5),
    "asin": (opset1, -1, 1),
    "asinh": (opset4, -5, 5),
    "atan": (opset1, -5, 5),
    "atanh": (opset4, -0.95, 0.95),
    "cos": (opset1, -7, 7),
    "cosh": (opset1, -3, 3),
    "exp": (opset1, -3, 3),
    "sin": (opset1, -7, 7),
    "sinh": (opset1, -3, 3),
    "sqrt": (opset1, 0, 9),
    "tan": (opset1, -1.5, 1.5),
}
"""Where each op is taken from, and the data it gets."""

ROWS = [
    Row(f"{name} {dtype}", getattr(opset, name), [[numbers(n, 4, dtype=dtype, low=low, high=high)] for n in (2, 3)], 16)
    for name, (opset, low, high) in DOMAINS.items()
    for dtype in FLOATS
]
ROWS += [
    Row(f"{name} of nothing", getattr(DOMAINS[name][0], name), [[np.zeros((0, 3), F32)], [np.zeros((2, 3), F32) + 1]])
    for name in ("acos", "sin")
]
ROWS += [
    Row(f"{name} of a scalar", getattr(DOMAINS[name][0], name), [[np.array(0.5, F32)]], 16) for name in ("atan", "tan")
]
ROWS += [
    Row(
        f"{name} {dtype} outside of its domain",
        getattr(opset, name),
        [[np.arange(low, 6, dtype=dtype)]],
        avx512=dtype == "uint8" and name not in ("log", "sqrt"),
    )
    for name, opset in (
        ("acos", opset1),
        ("acosh", opset4),
        ("asin", opset1),
        ("atanh", opset4),
        ("log", opset1),
        ("sqrt", opset1),
    )
    for dtype, low in (("int8", -3), ("uint8", 0), ("int16", -3), ("int32", -3))
]
WHOLE = {"acos": [0, 1], "asin": [0, 1], "atanh": [0]}
ROWS += [
    Row(f"{name} {dtype}", getattr(opset, name), [[np.array(WHOLE.get(name, [1, 2, 3, 5]), dtype)]])
    for name, (opset, _, _) in DOMAINS.items()
    for dtype in INTEGERS
    if name not in ("sinh", "cosh", "exp") or dtype not in ("int8", "uint8")
]


def like(x: openvino.Node, *values: float) -> np.ndarray:
    """Returns a constant of the element type of another value."""
    return np.array(values, x.get_element_type().to_dtype())


ACTIVATIONS: dict[str, Any] = {
    "elu": lambda x: opset1.elu(x, 0.5),
    "hard_sigmoid": lambda x: opset1.hard_sigmoid(x, like(x, 1)[0], like(x, 2)[0]),
    "hsigmoid": opset5.hsigmoid,
    "hswish": opset4.hswish,
    "log_softmax": lambda x: opset5.log_softmax(x, 0),
    "prelu": lambda x: opset1.prelu(x, like(x, 2)),
    "softmax": lambda x: opset8.softmax(x, 0),
}
ROWS += [
    Row(f"{name} {dtype}", build, [[np.array([0, 1, 2, 3, 5, *([-1, -2, -5] if dtype[0] == "i" else [])], dtype)]])
    for name, build in ACTIVATIONS.items()
    for dtype in INTEGERS
]

ROWS += [
    Row(
        f"log_softmax {dtype} counts the largest along {axis}",
        lambda x, axis=axis: opset5.log_softmax(x, axis),
        [[np.random.default_rng(size).integers(0, 5, (2, 3, size)).astype(dtype)] for size in (4, 9, 40)],
    )
    for dtype in INTEGERS
    for axis in (0, 1, -1)
]
ROWS += [
    Row(f"log_softmax {dtype} of {count} that are equal", lambda x: opset5.log_softmax(x, 0), [[np.ones(count, dtype)]])
    for dtype in ("int8", "uint8", "int16", "int32")
    for count in (1, 2, 130, 300)
]
ROWS += [
    Row(
        f"log_softmax {dtype} of what is far apart",
        lambda x: opset5.log_softmax(x, 0),
        [[np.array([np.iinfo(dtype).max, np.iinfo(dtype).min, np.iinfo(dtype).max, 0, 1], dtype)]],
    )
    for dtype in ("int8", "uint8", "int16", "uint16")
]
ROWS += [
    Row(
        f"hard_sigmoid {dtype} with alpha {alpha} and beta {beta}",
        lambda x, a=alpha, c=beta: opset1.hard_sigmoid(x, like(x, a)[0], like(x, c)[0]),
        [[np.arange(-3, 4).astype(dtype)]],
    )
    for dtype in ("float32", "float16", "float64", "int32")
    for alpha, beta in ((0, 0), (1, 0), (0, 0.5))
]

SPECIAL = np.array([1, np.inf, -np.inf, np.nan, 0, -3], F32)
ROWS += [
    Row(f"{name} {dtype}", getattr(opset10, name), [[SPECIAL.astype(dtype)], [SPECIAL[:3].astype(dtype)]], 0)
    for name in ("is_finite", "is_nan")
    for dtype in ("float16", "float32")
]
ROWS += [
    Row(
        f"is_inf negative {negative} positive {positive}",
        lambda x, n=negative, p=positive: opset10.is_inf(x, {"detect_negative": n, "detect_positive": p}),
        [[SPECIAL]],
        0,
    )
    for negative in (False, True)
    for positive in (False, True)
]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_matches_openvino(row: Row) -> None:
    check_row(row)
