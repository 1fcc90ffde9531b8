"""Gather, Slice and StridedSlice against OpenVINO's CPU plugin."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import openvino
import pytest
from openvino import opset1, opset7, opset8

from ortconv.api import conversion
from tests.converters.openvino.live import Row, assert_close, check, check_row, ints, model_of, numbers, run_onnx

I32, I64 = np.int32, np.int64


GATHER = [
    Row(
        "gather-1", lambda x: opset1.gather(x, ints(2, 0, 1, dtype=I32), ints(1)), [[numbers(n, 3, 2)] for n in (2, 4)]
    ),
    Row("gather of a scalar index", lambda x: opset1.gather(x, np.array(1), np.array(0)), [[numbers(3, 2)]]),
    Row(
        "gather-8 of negative indices",
        lambda x: opset8.gather(x, ints(-1, 0, -3), 1),
        [[numbers(n, 3)] for n in (2, 4)],
    ),
    Row("gather-8 along a negative axis", lambda x, i: opset8.gather(x, i, -2), [[numbers(2, 3, 4), ints(0, 2)]]),
    Row("gather-8 by u8 indices", lambda x, i: opset8.gather(x, i, 0), [[numbers(3, 4), ints(0, 2, dtype=np.uint8)]]),
]
GATHER += [
    Row(
        f"{op.__module__.rpartition('.')[0][9:]} gather of constant indices, {indices}",
        lambda x, op=op, indices=indices: op(x, np.array(indices), np.array(1)),
        [[numbers(n, 3, 2, dtype=dtype)] for n in (2, 4)],
    )
    for op in (opset1.gather, opset7.gather, opset8.gather)
    for indices, dtype in (([0, -1, -3, 5], "float32"), ([[2, -4], [0, 1]], "int32"), (-1, "bool"), ([1, 2], "float16"))
]
GATHER += [
    Row(
        "gather-8 of batch_dims by constant indices out of range",
        lambda x: opset8.gather(x, ints(0, 7, -1, -9).reshape(2, 2), np.array(2), 1),
        [[numbers(2, n, 3, 2)] for n in (2, 4)],
    ),
    *(
        Row(
            f"{op.__module__} gather by one constant {index.tolist()}, whose axis may be dynamic",
            lambda x, op=op, index=index: op(x, index, np.array(0)),
            [[numbers(n, 3)] for n in (4, 5)],
        )
        for op in (opset1.gather, opset7.gather, opset8.gather)
        for index in (np.array(-1), np.array([-2]), np.array(-5))
        if op is not opset8.gather or index > -4
    ),
    Row(
        "gather-1 of negative constants along a dynamic axis",
        lambda x: opset1.gather(x, ints(0, -1), np.array(0)),
        [[numbers(n, 3)] for n in (2, 4)],
    ),
]
GATHER += [
    Row(
        f"gather-{version} of batch_dims {batch} along axis {axis} by indices of rank {rank}",
        lambda x, i, a=axis, c=batch, op=op: op(x, i, a, c),
        [[numbers(2, 3, n, 5), numbers(*[2, 3, 4][:rank], dtype=I64, low=0, high=1, seed=1)] for n in (3, 4)],
    )
    for version, op in ((7, opset7.gather), (8, opset8.gather))
    for batch, axis, rank in ((1, 1, 2), (1, 2, 2), (1, 3, 3), (2, 2, 3), (2, 3, 3), (-1, 1, 2), (2, 3, 2), (1, 2, 1))
]


SLICES = [
    Row(
        f"slice {start}:{stop}:{step} along {axes}",
        lambda x, a=start, z=stop, s=step, along=axes: opset8.slice(
            x, ints(*a), ints(*z), ints(*s), *([] if along is None else [ints(*along)])
        ),
        [[numbers(n, 6, 4)] for n in (5, 7)],
    )
    for start, stop, step, axes in (
        ((1, 2), (4, 6), (1, 2), None),
        ((-1,), (-100,), (-1,), (0,)),
        ((100, 0), (-100, 3), (-2, 1), (1, -1)),
        ((3,), (2**31 - 1,), (1,), (-2,)),
        ((-4,), (-1,), (2,), (0,)),
    )
]
SLICES.append(
    Row(
        "slice by bounds of the run",
        lambda x, a, z, s: opset8.slice(x, a, z, s, ints(1)),
        [[numbers(2, 6), ints(1), ints(5), ints(2)], [numbers(2, 6), ints(-1), ints(0), ints(-2)]],
    )
)
SLICES += [
    Row(
        f"slice backwards from before its end {end}",
        lambda x, end=end: opset8.slice(x, ints(1), ints(end), ints(-1), ints(0)),
        [[numbers(n, 3)] for n in (3, 4)],
    )
    for end in (2**63 - 1, 2**31 - 1)
]


def strided(begin: tuple[int, ...], end: tuple[int, ...], stride: tuple[int, ...], /, **masks: list[int]) -> object:
    """Returns a builder of a StridedSlice; OpenVINO wants masks of one length."""
    names = ("begin_mask", "end_mask", "new_axis_mask", "shrink_axis_mask", "ellipsis_mask")
    longest = max(map(len, masks.values()))
    given = [(masks.get(name.removesuffix("_mask"), []) + [0] * longest)[:longest] for name in names]
    return lambda x: opset1.strided_slice(x, ints(*begin), ints(*end), ints(*stride), *given)


STRIDED = [
    Row(name, build, [[numbers(n, 6, 4)] for n in (5, 7)])
    for name, build in {
        "strided_slice": strided((1, 0, 1), (4, 6, 3), (1, 2, 1), begin=[0], end=[0]),
        "strided_slice of fewer axes": strided((1,), (4,), (1,), begin=[0], end=[0]),
        "strided_slice backwards": strided((-1, 5), (0, 0), (-1, -2), begin=[0], end=[0]),
        "strided_slice backwards to the first element": strided((0, 0), (0, 0), (-1, -2), begin=[1, 1], end=[1, 1]),
        "strided_slice with open ends": strided((9, 1), (9, 9), (1, 1), begin=[1, 0], end=[0, 1]),
        "strided_slice out of bounds": strided((-100, 2), (100, 100), (2, 1), begin=[0], end=[0]),
        "strided_slice backwards from before its end": strided(
            (1, 1), (2**63 - 1, 2**31 - 1), (-1, -1), begin=[0, 0], end=[0, 0]
        ),
        "strided_slice of nothing": strided((2, 0), (2, 2), (1, 1), begin=[0], end=[0]),
        "strided_slice with new axes": strided((0, 1, 0), (0, 3, 0), (1, 1, 1), begin=[1], end=[1], new_axis=[1, 0, 1]),
        "strided_slice that drops axes": strided(
            (1, 0, -1), (2, 0, 0), (1, 1, 1), begin=[0, 1], end=[0, 1], shrink_axis=[1, 0, 1]
        ),
        "strided_slice that drops an axis from its start": strided(
            (2,), (9,), (3,), begin=[1], end=[0], shrink_axis=[1]
        ),
        "strided_slice with an ellipsis": strided((0, 1), (0, 3), (1, 1), begin=[0, 0], end=[0, 0], ellipsis=[1, 0]),
        "strided_slice with an ellipsis in the middle": strided(
            (1, 0, 1), (2, 0, 3), (1, 1, 2), begin=[0], end=[0], shrink_axis=[1, 0, 0], ellipsis=[0, 1, 0]
        ),
        "strided_slice with an ellipsis and a new axis": strided(
            (1, 0, 0, -1), (9, 0, 0, 9), (2, 1, 1, 1), begin=[0], end=[0], new_axis=[0, 0, 1], ellipsis=[0, 1]
        ),
    }.items()
]
STRIDED += [
    Row(
        f"strided_slice by bounds of the run, {what}",
        lambda x, a, z, masks=masks: opset1.strided_slice(x, a, z, ints(1, 1, 1), *masks),
        [[numbers(5, 6, 4), ints(*a), ints(*z)] for a, z in (((1, 2, 0), (4, 6, 3)), ((-2, -1, 1), (-1, 9, 3)))],
    )
    for what, masks in {
        "no masks": ([0], [0]),
        "open ends": ([1, 0, 0], [0, 1, 0]),
        "an axis dropped": ([0, 0], [0, 0], [0, 0], [0, 1]),
        "a new axis": ([0, 0], [0, 0], [0, 1]),
        "an ellipsis": ([0, 0], [0, 0], [0, 0], [0, 0], [0, 1]),
    }.items()
]


STRIDED += [
    Row(
        f"strided_slice by strides of the run, begin {begin}",
        lambda x, a, z, s, m=begin: opset1.strided_slice(x, a, z, s, m, [0, 0]),
        [
            [numbers(5, 4), ints(1, 3), ints(4, 9), ints(1, 2)],
            [numbers(6, 5), ints(-1, 0), ints(0, 4), ints(-2, 1)],
            [numbers(6, 5), ints(4, 4), ints(-9, 1), ints(-1, -2)],
        ],
        0,
    )
    for begin in ([0, 0], [1, 0], [1, 1])
]


@pytest.mark.parametrize("row", GATHER + SLICES + STRIDED, ids=str)
def test_matches_openvino(row: Row) -> None:
    check_row(row)


def test_slices_of_as_many_axes_as_the_run_has() -> None:
    data = numbers(4, 5, 3)
    feeds = [
        [data, ints(1), ints(3), ints(1)],
        [data, ints(3, 0), ints(-(2**63), 5), ints(-2, 3)],
        [data, ints(0, 1, 2), ints(4, 4, 0), ints(2, 1, -1)],
        [data, ints(), ints(), ints()],
    ]
    model = model_of(opset8.slice, feeds[:1], [data.shape, [-1], [-1], [-1]])
    check(model, *feeds, bound=0)


def test_strided_slices_that_openvino_computes_wrongly() -> None:
    """Its CPU plugin aborts the process on the first and reads other memory for the second."""
    feed = [numbers(5, 6, 4)]
    for build, expected in (
        (
            strided((1, 0, 1, 0), (3, 0, 3, 2), (1, 1, 1, 1), begin=[0], end=[0], ellipsis=[0, 1]),
            feed[0][1:3, 1:3, 0:2],
        ),
        (strided((1,), (3,), (1,), begin=[0, 1, 1, 1], end=[0, 1, 1], new_axis=[0, 1]), feed[0][1:3]),
        (
            strided((0, -1), (0, 0), (1, 1), begin=[1, 0], end=[1, 0], new_axis=[1], shrink_axis=[0, 1]),
            feed[0][np.newaxis, -1],
        ),
    ):
        converted = conversion(model_of(build, [feed]))
        assert_close(run_onnx(converted, [feed])[0][0], expected, 0)
        assert any("new_axis_mask and shrink_axis_mask" in text for text in converted.warnings) == (
            expected.shape == (1, 6, 4)
        )


def test_strided_slice_by_bounds_of_the_run_that_leave_no_size_open() -> None:
    """OpenVINO's CPU plugin returns other memory, or crashes; data of dynamic sizes it slices."""
    feed = [numbers(5), ints(2), ints(3)]

    def build(x: object, begin: object, end: object) -> object:
        return opset1.strided_slice(x, begin, end, ints(1), [0], [0], [], [1])

    converted = conversion(model_of(build, [feed]))
    assert_close(run_onnx(converted, [feed])[0][0], feed[0][2], 0)
    assert any("reads other memory" in text for text in converted.warnings)
    slices = model_of(lambda x, a, z: opset1.strided_slice(x, a, z, ints(1), [0], [0]), [feed])
    assert not check(slices, feed, bound=0).warnings
    assert not check(model_of(build, [feed], [[-1], [1], [1]]), feed, bound=0).warnings


@pytest.mark.parametrize("size", [3, -1])
def test_strided_slice_by_bounds_of_the_run_with_a_new_axis_behind_the_ellipsis(size: int) -> None:
    """OpenVINO's CPU plugin puts the new axis in front of the last one, and gives no elements of dynamic data."""
    feed = [numbers(2, 3, 4), ints(1, 0, 0), ints(2, 0, 0)]
    masks = [0, 1, 1], [0, 1, 1], [0, 0, 1], [0, 0, 0], [0, 1, 0]
    model = model_of(
        lambda x, a, z: opset1.strided_slice(x, a, z, ints(1, 1, 1), *masks), [feed], [[2, size, 4], [3], [3]]
    )
    converted = conversion(model)
    assert_close(run_onnx(converted, [feed])[0][0], feed[0][1:2, ..., np.newaxis], 0)
    assert len(converted.warnings) == 1
    assert "new axis behind the ellipsis" in converted.warnings[0]


@pytest.mark.parametrize("end", [2**31 - 1, 2**63 - 1])
@pytest.mark.parametrize("op", [opset8.slice, lambda x, *bounds: opset1.strided_slice(x, *bounds, [0], [0])])
def test_largest_ends_of_the_run_are_no_open_ends_backwards(op: Callable[..., openvino.Node], end: int) -> None:
    """ONNX Runtime takes them for such; OpenVINO's CPU plugin takes the largest number of 64 bits for -1."""
    feed = [numbers(5), ints(2), ints(end), ints(-1)]
    converted = conversion(model_of(op, [feed]))
    assert_close(run_onnx(converted, [feed])[0][0], feed[0][2:end:-1], 0)
    forwards = [*feed[:3], ints(2)]
    assert_close(run_onnx(converted, [forwards])[0][0], feed[0][2::2], 0)
