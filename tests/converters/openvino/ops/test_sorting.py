"""Sorting, searching and counting against OpenVINO's CPU plugin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset1, opset3, opset10, opset11, opset15, opset16

from ortconv.api import conversion
from tests.converters.openvino.live import Row, check_row, ints, model_of, numbers, run_onnx, run_openvino

I32, I64 = np.int32, np.int64
TOP: dict[str, Callable[..., openvino.Node]] = {"1": opset1.topk, "3": opset3.topk, "11": opset11.topk}


def shuffled(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """Returns different numbers in random order: OpenVINO leaves the order of equal ones open."""
    count = int(np.prod(shape))
    return (
        (np.random.default_rng(count).permutation(count) - (count // 2 if np.dtype(dtype).kind != "u" else 0))
        .astype(dtype)
        .reshape(shape)
    )


TOP_K = [
    Row(
        f"topk-{version} {mode} sorted by {sort} along {axis}",
        lambda x, op=op, mode=mode, sort=sort, axis=axis: op(x, np.array(2), axis, mode, sort).outputs(),
        [[shuffled(3, n, 4)] for n in (5, 3)],
    )
    for version, op in TOP.items()
    for mode in ("max", "min")
    for sort in ("value", "index", "none")
    for axis in (1, -1)
]
TOP_K += [
    Row(
        f"topk of {dtype}",
        lambda x: opset11.topk(x, np.array(3), 1, "max", "value", index_element_type="i64").outputs(),
        [[shuffled(2, 7, dtype=dtype)]],
    )
    for dtype in ("float16", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
]
TOP_K += [
    Row(
        "topk-11 stable",
        lambda x: opset11.topk(x, np.array(9), 1, "max", "value", stable=True).outputs(),
        [[numbers(3, 12, dtype=I32).astype(np.float32)]],
    ),
    Row(
        "topk of a size of the run",
        lambda x, k: opset11.topk(x, k, 1, "max", "value").outputs(),
        [[shuffled(3, 8), np.array(k)] for k in (2, 5)],
    ),
    Row("topk of all", lambda x: opset3.topk(x, np.array(6), 0, "min", "value").outputs(), [[shuffled(6)]]),
    Row("topk, indices alone", lambda x: opset3.topk(x, np.array(2), 0, "min", "value").output(1), [[shuffled(6)]]),
]

UNIQUE = [
    Row(
        f"unique of {dtype} along {axis}, sorted {in_order}",
        lambda x, axis=axis, in_order=in_order: opset10.unique(
            x, None if axis is None else np.array(axis), in_order, "i32", "i64"
        ).outputs(),
        [[numbers(n, 4, dtype=dtype, low=0, high=2).round()] for n in (3, 6)],
    )
    for dtype, axis in (
        ("float32", None),
        ("float32", 0),
        ("float32", -1),
        ("int32", 1),
        ("int64", None),
        ("uint8", None),
    )
    for in_order in (True, False)
]
UNIQUE.append(
    Row(
        "unique of booleans",
        lambda x: opset10.unique(x).outputs(),
        [[np.array([True, False, True] * n)] for n in (2, 3)],
    )
)

NON_ZERO = [
    Row(
        f"non_zero of {dtype} into {output}",
        lambda x, output=output: opset3.non_zero(x, output),
        [[numbers(n, 5, dtype=dtype, low=0, high=2).round()] for n in (3, 4)],
    )
    for dtype, output in (
        *((dtype, "i64") for dtype in ("float32", "float16", "int8", "uint8", "int32", "uint32", "int64", "bool")),
        ("float32", "i32"),
    )
]

SEARCH = [
    Row(
        f"search_sorted in {rows} rows, right_mode {right}, of {dtype}",
        lambda s, v, right=right: opset15.search_sorted(s, v, right),
        [
            [
                np.sort(numbers(*([2] if rows != "no" else []), n, dtype=dtype).round()),
                numbers(2, 3, dtype=dtype, seed=1).round(),
            ]
            for n in (5, 9)
        ],
    )
    for rows in ("no", "two")
    for right in (True, False)
    for dtype in ("float32", "int32", "int64")
]
SEARCH += [
    Row(
        f"bucketize {dtype} by {bounds}, right bound {right}, into {output}",
        lambda x, right=right, output=output, bounds=bounds: opset3.bucketize(
            x, np.array([-2, 0, 1, 3], bounds), output, right
        ),
        [[numbers(n, 5, dtype=dtype).round()] for n in (3, 4)],
    )
    for dtype, bounds in (("float32", "float32"), ("float32", "int32"), ("int64", "int64"), ("int32", "float32"))
    for right in (True, False)
    for output in ("i64", "i32")
]
SEARCH.append(
    Row(
        "search_sorted in dynamic rows",
        lambda s, v: opset15.search_sorted(s, v, True),
        [[np.sort(numbers(n, 4)), numbers(n, 3, seed=1)] for n in (2, 3)],
    )
)
SEARCH.append(
    Row("search_sorted of a scalar", opset15.search_sorted, [[np.sort(numbers(n)), numbers()] for n in (5, 9)])
)
SEARCH.append(Row("bucketize by no bounds of the run", opset3.bucketize, [[numbers(2, 3), np.zeros(0, np.float32)]]))
SEARCH.append(Row("bucketize by no bounds", lambda x: opset3.bucketize(x, np.zeros(0, np.float32)), [[numbers(2, 3)]]))

SUMS = [
    Row(
        f"cum_sum of {dtype} along {axis}, exclusive {exclusive}, reverse {reverse}",
        lambda x, axis=axis, exclusive=exclusive, reverse=reverse: opset3.cum_sum(
            x, np.array(axis), exclusive, reverse
        ),
        [[numbers(2, n, 4, dtype=dtype)] for n in (3, 5)],
    )
    for dtype in ("float32", "float64", "float16", "int8", "uint8", "int32", "int64")
    for axis in (1, -1)
    for exclusive in (False, True)
    for reverse in (False, True)
    if dtype == "float32" or (axis == 1 and exclusive == reverse)
]
SUMS += [
    Row(
        f"non_zero of the scalar {value}, without its axis",
        lambda x: opset1.squeeze(opset3.non_zero(x), np.array([0])),
        [[np.array(value, np.float32)]],
    )
    for value in (0, 3)
]
SUMS += [
    Row(
        f"cum_sum of a scalar {dtype}, exclusive {exclusive}",
        lambda x, exclusive=exclusive: opset3.cum_sum(x, np.array(0), exclusive),
        [[np.array(3, dtype)]],
    )
    for dtype in ("float32", "float16", "int32")
    for exclusive in (False, True)
]
SUMS.append(Row("cum_sum along an axis of the run", opset3.cum_sum, [[numbers(2, 3), np.array(a)] for a in (0, 1)]))

HOT = [
    Row(
        f"one_hot of {dtype} {kind} along {axis}",
        lambda i, axis=axis, dtype=dtype: opset1.one_hot(i, np.array(4), np.array(3, dtype), np.array(0, dtype), axis),
        [[numbers(2, n, dtype=kind, low=-2 if kind == "int64" else 0, high=5)] for n in (3, 5)],
    )
    for dtype in ("float32", "int32", "int64", "uint8", "bool", "float16", "int8")
    for kind in ("int64", "int32")
    for axis in (0, 1, -1)
    if dtype == "float32" or (axis == -1 and kind == "int64")
]
HOT += [
    Row(
        f"one_hot-16 {mode}",
        lambda i, mode=mode: opset16.one_hot(i, np.array(4), np.float32(2), np.float32(-1), 1, mode),
        [[ints(*range(-6, 6)[: n + 6])] for n in (3, 6)],
    )
    for mode in ("ignore_negative", "normalize")
]
HOT.append(
    Row(
        "one_hot of a depth of the run",
        lambda i, d: opset1.one_hot(i, d, np.float32(1), np.float32(0), 0),
        [[ints(0, 2, 4), np.array(d)] for d in (3, 5)],
    )
)
HOT.append(
    Row(
        "one_hot of a scalar",
        lambda i: opset1.one_hot(i, np.array(3), np.float32(1), np.float32(0), 0),
        [[np.array(1)]],
    )
)


@pytest.mark.parametrize("row", TOP_K + UNIQUE + NON_ZERO + SEARCH + SUMS + HOT, ids=str)
def test_matches_openvino(row: Row) -> None:
    check_row(row)


@pytest.mark.parametrize("dtype", [I32, np.bool_])
def test_equal_integers_are_warned_about(dtype: type) -> None:
    feed = [np.array([[3, 0, 3, 3]], dtype)]
    built = {stable: lambda x, s=stable: opset11.topk(x, 2, 1, "max", "value", stable=s) for stable in (False, True)}
    loose, stable = (conversion(model_of(lambda x, f=f: list(f(x).outputs()), [feed])) for f in built.values())
    assert "equal integers" in loose.warnings[0]
    assert not stable.warnings
    assert not conversion(model_of(lambda x: [built[False](x).output(0)], [feed])).warnings
    for each in (loose, stable):
        np.testing.assert_array_equal(run_onnx(each, [feed])[0][1], [[0, 2]])


def test_unsorted_slices_of_8_bits_are_warned_about() -> None:
    feed = [np.array([[1, 2, 1], [0, 5, 0], [1, 2, 1]], np.uint8)]
    converted = conversion(model_of(lambda x: list(opset10.unique(x, 0, False).outputs()), [feed]))
    (warning,) = converted.warnings
    assert "other memory" in warning
    values, first, inverse, counts = run_onnx(converted, [feed])[0]
    for actual, expected in ((values, feed[0][:2]), (first, [0, 1]), (inverse, [0, 1, 0]), (counts, [2, 1])):
        np.testing.assert_array_equal(actual, expected)


def test_slices_along_an_axis_behind_others_are_warned_about() -> None:
    feed = [np.array([[2, 2, 2, 2, 2, 2, 2, 2], [1, 1, 1, 2, 2, 1, 2, 2]], np.float32)]
    converted = conversion(model_of(lambda x: list(opset10.unique(x, 1).outputs()), [feed]))
    (warning,) = converted.warnings
    assert "equal slices" in warning
    values, first, inverse, counts = run_onnx(converted, [feed])[0]
    expected = [[2, 2], [1, 2]], [0, 3], [0, 0, 0, 1, 1, 0, 1, 1], [4, 4]
    for actual, wanted in zip((values, first, inverse, counts), expected, strict=True):
        np.testing.assert_array_equal(actual, wanted)
    first_axis = conversion(model_of(lambda x: list(opset10.unique(x, 0).outputs()), [feed]))
    assert not first_axis.warnings


@pytest.mark.parametrize(("sorted", "used"), [(False, (0, 3)), (False, (3,)), (False, (0, 2)), (True, (0, 3))], ids=str)
def test_unsorted_elements_without_their_places_are_warned_about(sorted: bool, used: tuple[int, ...]) -> None:
    feed = [np.array([3, 1, 2, 1, 3, 5], np.float32)]

    def build(x: Any) -> list[Any]:
        node = opset10.unique(x, sorted=sorted)
        return [node.output(index) for index in used]

    model = model_of(build, [feed])
    converted = conversion(model)
    results = [np.array(each) for each in ([3, 1, 2, 5], [0, 1, 2, 5], [0, 1, 2, 1, 0, 3], [2, 2, 1, 1])]
    if sorted:
        results = [np.array(each) for each in ([1, 2, 3, 5], [1, 2, 0, 5], [2, 0, 1, 0, 2, 3], [2, 1, 2, 1])]
    for index, actual in zip(used, run_onnx(converted, [feed])[0], strict=True):
        np.testing.assert_array_equal(actual, results[index])
    wrong = not sorted and 2 not in used
    assert any("does not fill" in text for text in converted.warnings) == wrong
    as_expected = zip(used, run_openvino(model, [feed])[0], strict=True)
    assert all(np.array_equal(actual, results[index]) for index, actual in as_expected) != wrong
