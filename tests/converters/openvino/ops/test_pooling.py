"""MaxPool and AvgPool against OpenVINO's CPU plugin."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset1, opset8, opset14, opset16

from ortconv.api import conversion
from tests.converters.openvino.live import (
    Row,
    assert_close,
    check,
    check_row,
    model_of,
    numbers,
    run_onnx,
    run_openvino,
)


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
ROWS += [
    Row(f"max_pool {dtype}", max_pool(3, 2, 1, 1, "floor"), [[numbers(1, 2, n, 7, dtype=dtype)] for n in (7, 10)])
    for dtype in (np.int64, np.uint64)
]
ROWS += [
    Row(
        f"avg_pool of windows beside the data along two axes, exclude {exclude}",
        lambda x, e=exclude: opset14.avg_pool(x, [2, 3], [1, 1], [1, 1], [2, 2], e, "ceil", "explicit"),
        [[numbers(2, 3, *sizes)] for sizes in ((7, 4), (7, 7))],
        8,
    )
    for exclude in (True, False)
]
ROWS += [
    Row(
        "avg_pool of windows beside the data along two of three axes",
        lambda x: opset14.avg_pool(x, [2, 3, 3], [1, 0, 0], [0, 0, 1], [2, 1, 2], True, "ceil", "explicit"),
        [[numbers(2, 3, *sizes)] for sizes in ((4, 8, 7), (5, 9, 8))],
        8,
    )
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


ROWS += [
    Row(
        f"{op.__name__} of windows that hold padding only, {r}, stride {stride}",
        op(2, stride, 1, 1, r, *rest),
        feeds(7, 10),
        0 if op is max_pool else 8,
    )
    for op, rest in ((max_pool, ()), (avg_pool, (False,)), (avg_pool, (True,)))
    for r in ("ceil", "ceil_torch")
    for stride in (2, 3)
]
ROWS += [
    Row(
        f"max_pool of windows that hold padding only, {dtype}",
        max_pool(2, 3, 1, 1, "ceil"),
        [[numbers(1, 2, 5, 5, dtype=dtype)]],
        4 if dtype == "float64" else 0,  # OpenVINO's CPU plugin has it in float32
        avx512=dtype == "bfloat16",
    )
    for dtype in ("float16", "float64", "int8", "uint8", "int32", "bfloat16")
]
ROWS += [
    Row(f"{op.__name__} {a}, {r}, kernel {k} stride {s}", op(k, s, 0, 0, r, *rest, a), feeds(7, 10), 8)
    for op, rest in ((max_pool, ()), (avg_pool, (False,)), (avg_pool, (True,)))
    for a in ("same_upper", "same_lower")
    for r in ("floor", "ceil", "ceil_torch")
    for k, s in ((1, 2), (1, 3), (2, 3), (3, 2))
    if op is avg_pool or r != "ceil_torch"
]
ROWS += [
    Row(
        f"avg_pool {a}, {r}, kernel {k} strides {s}, of {first} and more",
        lambda x, a=a, r=r, k=k, s=s: opset14.avg_pool(x, [*s], [0, 0], [0, 0], [*k], False, r, a),
        [[numbers(1, 2, size, 7)] for size in (first, first + 1, first + 2)],
        8,
    )
    for a in ("same_upper", "same_lower")
    for r in ("ceil", "ceil_torch")
    for k, s in (((1, 2), (3, 4)), ((2, 1), (4, 3)), ((3, 1), (2, 3)))
    for first in (6, 7)
]
ROWS += [
    Row(
        f"max_pool-14 with indices from axis {axis}, {r}, kernel {k} stride {s} pads {p}, {a}, dilation {d}, {dtype}",
        lambda x, axis=axis, r=r, k=k, s=s, p=p, a=a, d=d: opset14.max_pool(
            x, [s, s], [d, d], [p, 0], [0, p], [k, k], r, a, "i32", axis
        ).outputs(),
        [[numbers(2, 3, size, 7, dtype=dtype)] for size in (7, 10)],
    )
    for axis, r, k, s, p, a, d, dtype in (
        (0, "ceil", 2, 3, 1, "explicit", 1, "float32"),
        (2, "ceil", 2, 3, 1, "explicit", 1, "float32"),
        (1, "ceil", 3, 2, 2, "explicit", 1, "float16"),
        (0, "ceil_torch", 3, 3, 1, "explicit", 2, "float32"),
        (0, "floor", 2, 1, 2, "explicit", 1, "float32"),
        (0, "floor", 2, 3, 0, "same_upper", 1, "float32"),
        (2, "ceil", 1, 3, 0, "same_upper", 1, "float32"),
        (0, "ceil", 2, 3, 1, "explicit", 1, "uint8"),
        (0, "ceil", 2, 3, 1, "explicit", 1, "int32"),
    )
]
ROWS += [
    Row("max_pool of as much padding as its kernel", max_pool(2, 1, 2, 3, "floor"), feeds(7, 10)),
    Row("max_pool dilated, same_upper, of any size", max_pool(2, 1, 0, 0, "floor", "same_upper", 2), feeds(7, 10)),
]
ROWS += [
    Row(
        f"max_pool-8 with indices of the smallest {dtype}",
        lambda x: opset8.max_pool(x, [2, 2], [1, 1], [0, 0], [1, 1], [2, 2]).outputs(),
        [[np.full((1, 2, 3, 3), np.iinfo(dtype).min, dtype)]],
    )
    for dtype in ("int8", "uint8")
]


def _behind_a_pad(pool: Callable[[Any], Any], dtype: str | None = None) -> Callable[[Any], Any]:
    def build(x: Any) -> Any:
        padded = opset1.pad(x, np.array([0, 0, 1, 1]), np.array([0, 0, 1, 1]), "constant")
        return pool(padded if dtype is None else opset1.convert(padded, dtype))

    return build


# ONNX Runtime makes paddings of the pooling of a Pad in front of it.
NEGATIVE = numbers(1, 2, 4, 4, low=-4, high=-1)
ROWS += [
    Row("max_pool behind zeros", _behind_a_pad(max_pool(2, 2, 0, 0, "floor")), [[NEGATIVE]]),
    Row(
        "max_pool behind zeros, converted",
        _behind_a_pad(max_pool(2, 2, 0, 0, "floor"), "f32"),
        [[NEGATIVE.astype("int8")]],
    ),
    Row("avg_pool behind zeros", _behind_a_pad(avg_pool(2, 1, 1, 1, "floor", False)), [[NEGATIVE]], 8),
    Row("avg_pool behind zeros, not counted", _behind_a_pad(avg_pool(2, 1, 1, 1, "floor", True)), [[NEGATIVE]], 8),
]


@pytest.mark.parametrize("rounding", ["floor", "ceil", "ceil_torch"])
@pytest.mark.parametrize("auto_pad", ["same_upper", "same_lower"])
@pytest.mark.parametrize(
    ("kernel", "stride", "dilation"), [(2, 1, 1), (2, 2, 1), (3, 2, 1), (3, 1, 2), (2, 3, 1), (1, 2, 1), (2, 2, 2)]
)
@pytest.mark.parametrize("dynamic", [(-1, 2, -1, -1), (-1, 2, 7, 6), (1, 2, 7, -1)], ids=str)
def test_indices_by_runtime_semantics(
    dynamic: tuple[int, ...], kernel: int, stride: int, dilation: int, auto_pad: str, rounding: str
) -> None:
    """With indices and sizes of the run OpenVINO's CPU plugin puts all padding of same_* behind the data."""

    def build(x: Any) -> Any:
        return opset14.max_pool(
            x, [stride] * 2, [dilation] * 2, [0, 0], [0, 0], [kernel] * 2, rounding, auto_pad
        ).outputs()

    feed = [numbers(1, 2, 7, 6)]
    check(model_of(build, [feed], [dynamic]), feed, semantics="runtime")


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_matches_openvino(row: Row) -> None:
    check_row(row)


@pytest.mark.parametrize("auto_pad", ["same_upper", "same_lower"])
def test_padding_that_the_plugin_forgets_is_there_and_told(auto_pad: str) -> None:
    data = numbers(1, 2, 6, 7)

    def model(shape: list[int]) -> openvino.Model:
        x = opset1.parameter(shape, np.float32)
        pooled = opset8.max_pool(x, [1, 1], [1, 1], [0, 0], [0, 0], [3, 3], "floor", auto_pad)
        return openvino.Model(pooled.outputs(), [x])

    static = model([1, 2, 6, 7])
    dynamic = conversion(model([1, 2, -1, -1]))
    assert not conversion(static).warnings
    (warning,) = dynamic.warnings
    assert f"no padding of {auto_pad} at the beginning" in warning
    expected = run_openvino(static, [[data]])[0]
    for actual, wanted in zip(run_onnx(dynamic, [[data]])[0], expected, strict=True):
        np.testing.assert_array_equal(actual, wanted)


def test_means_are_of_an_opset_that_onnx_runtime_is_fast_in() -> None:
    feed = [numbers(1, 3, 4, 6, 6)]
    plain = check(model_of(lambda x: opset1.avg_pool(x, [2] * 3, [0] * 3, [0] * 3, [2] * 3, True), [feed]), feed)
    dilated = check(
        model_of(lambda x: opset16.avg_pool(x, [1] * 3, [0] * 3, [0] * 3, [2] * 3, True, dilations=[2] * 3), [feed]),
        feed,
    )
    assert [converted.model.graph.opset_imports[""] for converted in (plain, dilated)] == [18, 19]


def test_ceil_torch_leaves_out_one_window_only() -> None:
    for size, kernel, stride, padding in ((4, 1, 1, 2), (4, 2, 1, 3), (5, 1, 3, 3)):
        feeds = [[numbers(1, 2, size + more, 3)] for more in (0, 2)]
        build = functools.partial(
            opset14.avg_pool,
            strides=[stride, 1],
            pads_begin=[padding, 0],
            pads_end=[padding, 0],
            kernel_shape=[kernel, 1],
            exclude_pad=False,
            rounding_type="ceil_torch",
        )
        check(model_of(build, feeds[:1]), feeds[0])
        check(model_of(build, feeds), *feeds)


@pytest.mark.parametrize("dilation", [1, 2, 3])
def test_windows_that_begin_behind_the_data(dilation: int) -> None:
    """OpenVINO's CPU plugin divides zero by zero where such a window begins less than a dilation behind them."""
    found = set()
    for size, stride, end in itertools.product((4, 5), (3, 4, 5, 7), (0, 1, 2, 3)):
        if not end <= dilation < size + end:
            continue
        feed = [numbers(1, 1, size, 3)]
        model = model_of(
            lambda x, stride=stride, end=end: opset16.avg_pool(
                x, [stride, 1], [0, 0], [end, 0], [2, 1], True, "ceil", dilations=[dilation, 1]
            ),
            [feed],
        )
        (expected,) = run_openvino(model, [feed])[0]
        assert_close(run_onnx(conversion(model), [feed])[0][0], expected, 4)
        found.add(bool(np.isnan(expected).any()))
    assert found == {False, True}
