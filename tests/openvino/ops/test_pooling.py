"""MaxPool and AvgPool against OpenVINO's CPU plugin."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from openvino import opset1, opset8, opset14, opset16

from ortconv.errors import ShapeError, UnsupportedAttributeError, UnsupportedTypeError
from tests.openvino.live import Refusal, Row, assert_refused, check_row, numbers


def max_pool(
    kernel: int, stride: int, begin: int, end: int, rounding: str, auto_pad: str = "explicit", dilation: int = 1
) -> Callable[..., object]:
    """Returns a builder of a MaxPool-14 of rank 4 whose two axes are alike."""
    each = [[size] * 2 for size in (stride, dilation, begin, end, kernel)]
    return lambda x: opset14.max_pool(x, *each, rounding, auto_pad).output(0)


def avg_pool(
    kernel: int, stride: int, begin: int, end: int, rounding: str, exclude: bool, auto_pad: str = "explicit"
) -> Callable[..., object]:
    """Returns a builder of an AvgPool-14 of rank 4 whose two axes are alike."""
    each = [[size] * 2 for size in (stride, begin, end, kernel)]
    return lambda x: opset14.avg_pool(x, *each, exclude, rounding, auto_pad)


def feeds(*sizes: int) -> list[list[np.ndarray]]:
    return [[numbers(2, 3, size, 7)] for size in sizes]


WINDOWS = ((2, 2, 0, 0), (3, 2, 1, 1), (3, 1, 1, 2), (3, 2, 0, 1), (2, 3, 0, 0), (4, 3, 1, 0))
AUTO_PADS = ("valid", "same_upper", "same_lower")

ROWS = [
    Row(f"max_pool kernel {k} stride {s} pads {p} {q} floor", max_pool(k, s, p, q, "floor"), feeds(7, 10))
    for k, s, p, q in WINDOWS
]
ROWS += [
    Row(
        f"avg_pool kernel {k} stride {s} pads {p} {q} floor exclude {e}",
        avg_pool(k, s, p, q, "floor", e),
        feeds(7, 10),
        8,
    )
    for (k, s, p, q), e in itertools.product(WINDOWS, (True, False))
]
UP = ((2, 2, 0, 0), (3, 2, 0, 0), (3, 2, 1, 0), (3, 2, 0, 1), (4, 2, 1, 1), (5, 3, 2, 2))
ROWS += [
    Row(f"max_pool kernel {k} stride {s} pads {p} {q} {r}", max_pool(k, s, p, q, r), feeds(7, 10))
    for (k, s, p, q), r in itertools.product(UP, ("ceil", "ceil_torch"))
]
ROWS += [
    Row(f"avg_pool kernel {k} stride {s} pads {p} {q} {r} exclude {e}", avg_pool(k, s, p, q, r, e), feeds(7, 10), 8)
    for (k, s, p, q), r, e in itertools.product(UP, ("ceil", "ceil_torch"), (True, False))
    if not (q + s > k and not e)
]
ROWS += [
    Row(
        f"avg_pool kernel 3 stride 2 pads 1 1 {r} including padding, of a known size",
        avg_pool(3, 2, 1, 1, r, False),
        [[numbers(2, 3, 6, 8)]],
        8,
    )
    for r in ("ceil", "ceil_torch")
]
ROWS += [
    Row(
        f"max_pool ceil_torch drops windows in the padding, kernel {k} stride {s}",
        max_pool(k, s, 1, 1, "ceil_torch"),
        feeds(5),
    )
    for k, s in ((2, 2), (2, 3))
]
ROWS += [
    Row(f"max_pool {a} {r} kernel {k} stride {s}", max_pool(k, s, 1, 1, r, a), feeds(7, 10))
    for a, r, (k, s) in itertools.product(AUTO_PADS, ("floor", "ceil"), ((2, 2), (3, 2), (4, 1)))
]
ROWS += [
    Row(f"avg_pool {a} kernel {k} stride {s} exclude {e}", avg_pool(k, s, 1, 1, "floor", e, a), feeds(7, 10), 8)
    for a, (k, s), e in itertools.product(AUTO_PADS, ((2, 2), (3, 2), (4, 1)), (True, False))
]
ROWS += [
    Row("max_pool dilated", max_pool(2, 1, 1, 1, "floor", dilation=2), feeds(7, 10)),
    Row("max_pool dilated, rounded up", max_pool(3, 2, 1, 1, "ceil", dilation=2), [[numbers(2, 3, 8, 9)]]),
    Row("max_pool dilated same_lower", max_pool(2, 2, 0, 0, "floor", "same_lower", 2), [[numbers(2, 3, 7, 8)]]),
    Row("max_pool-1", lambda x: opset1.max_pool(x, [2, 1], [1, 0], [0, 0], [3, 2], "ceil"), feeds(7, 10)),
    Row("max_pool of rank 3", lambda x: opset1.max_pool(x, [2], [1], [1], [3]), [[numbers(2, 3, n)] for n in (7, 8)]),
    Row(
        "max_pool of rank 5",
        lambda x: opset1.max_pool(x, [2, 1, 2], [0, 1, 0], [1, 0, 0], [2, 3, 2]),
        [[numbers(1, 2, n, 5, 6)] for n in (4, 5)],
    ),
    Row("avg_pool-1", lambda x: opset1.avg_pool(x, [2, 1], [1, 0], [0, 0], [3, 2], False), feeds(7, 10), 8),
    Row(
        "avg_pool of rank 3",
        lambda x: opset1.avg_pool(x, [2], [1], [1], [3], True),
        [[numbers(2, 3, n)] for n in (7, 8)],
        8,
    ),
    Row(
        "avg_pool-16 dilated",
        lambda x: opset16.avg_pool(x, [1, 2], [1, 1], [1, 0], [2, 2], True, dilations=[2, 1]),
        feeds(7, 10),
        8,
    ),
    Row(
        "avg_pool-16 dilated, with padding",
        lambda x: opset16.avg_pool(x, [1, 1], [1, 1], [1, 1], [2, 2], False, dilations=[2, 2]),
        feeds(7, 10),
        8,
    ),
]
ROWS += [
    Row(f"max_pool {dtype}", max_pool(3, 2, 1, 1, "floor"), [[numbers(1, 2, 5, 6, dtype=dtype)]])
    for dtype in ("float16", "float64", "int8", "uint8", "int16", "int32", "uint32")
]
ROWS += [
    Row(f"avg_pool {dtype}", avg_pool(3, 2, 1, 1, "floor", True), [[numbers(1, 2, 5, 6, dtype=dtype)]])
    for dtype in ("float16", "float64", "int8", "uint8", "int32", "int64")
]
ROWS += [
    Row(
        f"max_pool-8 with indices from axis {axis}, {dtype}",
        lambda x, axis=axis, dtype=dtype: opset8.max_pool(
            x, [2, 1], [1, 1], [1, 0], [0, 1], [3, 2], index_element_type=dtype, axis=axis
        ).outputs(),
        feeds(7, 10),
    )
    for axis in (0, 1, 2, -1)
    for dtype in ("i64", "i32")
]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_matches_openvino(row: Row) -> None:
    check_row(row)


DATA = [numbers(1, 2, 5, 5)]
DYNAMIC = [[1, 2, -1, 5]]
REFUSALS = [
    Refusal(
        "a window that holds padding only",
        max_pool(2, 2, 1, 1, "ceil"),
        DATA,
        UnsupportedAttributeError,
        {"attribute": "rounding_type", "value": "ceil"},
    ),
    Refusal(
        "a window that may hold padding only",
        max_pool(2, 2, 1, 1, "ceil_torch"),
        DATA,
        ShapeError,
        {"input": "data", "problem": "rounding_type ceil_torch"},
        shapes=DYNAMIC,
    ),
    Refusal(
        "same_upper with dilations and a dynamic size",
        max_pool(2, 1, 0, 0, "floor", "same_upper", 2),
        DATA,
        ShapeError,
        {"input": "data", "problem": "dilations"},
        shapes=DYNAMIC,
    ),
    Refusal(
        "max_pool i64",
        max_pool(2, 1, 0, 0, "floor"),
        [numbers(1, 2, 5, 5, dtype=np.int64)],
        UnsupportedTypeError,
        {"dtype": "i64"},
    ),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_refused(refusal: Refusal) -> None:
    assert_refused(refusal)
