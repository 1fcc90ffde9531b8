"""Shapes, movement, padding, indexing and generation against OpenVINO's CPU plugin."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import openvino
import pytest
from openvino import opset1, opset3, opset4, opset7, opset8, opset12, opset13, opset15, opset16

from ortconv.api import conversion
from ortconv.errors import ConversionError, ShapeError
from tests.openvino.live import (
    Refusal,
    Row,
    assert_close,
    assert_refused,
    check,
    check_row,
    model_of,
    numbers,
    run_onnx,
)

I32, I64 = np.int32, np.int64
TYPES = (
    "float32",
    "float64",
    "float16",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "bool",
)


def ints(*values: int, dtype: type = I64) -> np.ndarray:
    return np.array(values, dtype)


def _through(dtype: str, op: object) -> object:
    return lambda x: opset1.convert(op(opset1.convert(x, dtype)), "f32")  # type: ignore[operator]


def _range_to_a_size(x: openvino.Node) -> openvino.Node:
    size = opset1.squeeze(opset8.slice(opset3.shape_of(x, "i32"), ints(1), ints(2), ints(1)), ints(0))
    return opset13.range(np.array(0, I32), size, np.array(1, I32), "i32")


SHAPE = [
    Row(
        "reshape with a zero and a rest",
        lambda x: opset1.reshape(x, ints(0, -1), True),
        [[numbers(2, n, 4)] for n in (3, 5)],
    ),
    Row(
        "reshape of data that turns out to be nothing with a zero and a rest",
        lambda x: opset1.reshape(x, ints(0, -1), True),
        [[numbers(n, 3, 4)] for n in (2, 0)],
    ),
    Row(
        "reshape of nothing with a zero and a rest",
        lambda x: opset1.reshape(x, ints(0, -1), True),
        [[numbers(0, 3, 4)]],
    ),
    Row("reshape with a zero that is a size", lambda x: opset1.reshape(x, ints(0, 4), False), [[numbers(2, 0, 3)]]),
    Row(
        "reshape by an i32 shape",
        lambda x: opset1.reshape(x, ints(-1, 2, dtype=I32), False),
        [[numbers(n, 4)] for n in (2, 3)],
    ),
    Row("reshape by a shape of the run", lambda x, s: opset1.reshape(x, s, True), [[numbers(2, 6), ints(0, 3, 2)]]),
    Row("squeeze", lambda x: opset1.squeeze(x, ints(0, -1)), [[numbers(1, n, 1)] for n in (3, 4)]),
    Row("squeeze of every axis of size 1", opset15.squeeze, [[numbers(1, 3, 1, 2)]]),
    Row("squeeze by a scalar axis", lambda x: opset1.squeeze(x, np.array(1)), [[numbers(2, 1, 3)]]),
    Row("squeeze of an axis that is not of size 1", lambda x: opset1.squeeze(x, ints(0, 1)), [[numbers(1, 3)]]),
    Row("squeeze-15", lambda x: opset15.squeeze(x, ints(1)), [[numbers(2, 1, n)] for n in (3, 4)]),
    Row("squeeze-15 with allow_axis_skip", lambda x: opset15.squeeze(x, ints(0, 1), True), [[numbers(2, 1, 3)]]),
    Row("unsqueeze", lambda x: opset1.unsqueeze(x, ints(0, -1)), [[numbers(n, 3)] for n in (2, 4)]),
    Row("range up to a size", _range_to_a_size, [[numbers(2, n)] for n in (3, 4)]),
    Row("unsqueeze by a scalar axis", lambda x: opset1.unsqueeze(x, np.array(1)), [[numbers(2, 3)]]),
    Row("unsqueeze by an axis named twice", lambda x: opset1.unsqueeze(x, ints(0, 0, -1)), [[numbers(2, 3)]]),
    Row("transpose", lambda x: opset1.transpose(x, ints(2, 0, 1)), [[numbers(2, n, 4)] for n in (3, 5)]),
    Row("transpose by an empty order", lambda x: opset1.transpose(x, np.zeros(0, I64)), [[numbers(2, 3, 4)]]),
    Row("shape_of-1", opset1.shape_of, [[numbers(2, n)] for n in (3, 4)]),
    Row("shape_of-3 i64", lambda x: opset3.shape_of(x, "i64"), [[numbers(2, n)] for n in (3, 4)]),
    Row("shape_of-3 i32", lambda x: opset3.shape_of(x, "i32"), [[numbers(2, n)] for n in (3, 4)]),
    Row("identity", opset16.identity, [[numbers(2, 3)]], emits=["Identity"]),
    Row("convert_like", opset1.convert_like, [[numbers(2, 3), numbers(2, dtype=np.int32)]]),
]
SHAPE += [
    Row(
        f"convert {source} to {target}",
        lambda x, t=target: opset1.convert(x, t),
        [[numbers(3, 4, dtype=source, low=0)]],
    )
    for source in TYPES
    for target in ("f32", "f16", "i64", "i32", "i16", "i8", "u8", "u32", "boolean")
]
SHAPE += [
    Row("convert keeps low bits", lambda x: opset1.convert(x, "u8"), [[ints(300, -1, 256, 65535, dtype=I32)]]),
    Row("convert truncates", lambda x: opset1.convert(x, "i32"), [[np.array([2.7, -2.7, 0.5, -0.5], np.float32)]]),
    Row("convert of a half is true", lambda x: opset1.convert(x, "boolean"), [[np.array([0.5, -0.5, 0], np.float32)]]),
]

MOVEMENT = [
    Row("concat", lambda x, y: opset1.concat([x, y], 1), [[numbers(2, n, 4), numbers(2, 1, 4)] for n in (3, 5)]),
    Row("concat of a negative axis", lambda x, y: opset1.concat([x, y], -1), [[numbers(2, 3), numbers(2, 1)]]),
    Row("split", lambda x: opset1.split(x, 1, 3).outputs(), [[numbers(n, 6)] for n in (2, 3)]),
    Row("split of a negative axis, first part used", lambda x: opset1.split(x, -1, 3).output(0), [[numbers(2, 6)]]),
    Row("split of nothing", lambda x: opset1.split(x, 0, 2).outputs(), [[numbers(0, 3)]]),
    Row("split, middle part used", lambda x: opset1.split(x, 0, 3).output(1), [[numbers(6, 2)]]),
    Row(
        "variadic_split",
        lambda x: opset1.variadic_split(x, 1, ints(1, 4, 1)).outputs(),
        [[numbers(n, 6)] for n in (2, 3)],
    ),
    Row(
        "variadic_split with a rest",
        lambda x: opset1.variadic_split(x, -1, ints(2, -1, 1, dtype=I32)).outputs(),
        [[numbers(2, n)] for n in (5, 7)],
    ),
    Row("tile", lambda x: opset1.tile(x, ints(2, 1, 3)), [[numbers(2, n, 4)] for n in (3, 5)]),
    Row("tile by fewer repeats", lambda x: opset1.tile(x, ints(2)), [[numbers(2, n)] for n in (3, 5)]),
    Row("tile by more repeats", lambda x: opset1.tile(x, ints(2, 1, 2)), [[numbers(2, n)] for n in (3, 5)]),
    Row("tile by repeats of the run", opset1.tile, [[numbers(2, 3), ints(2, 2)]]),
    Row("broadcast-1 numpy", lambda x: opset1.broadcast(x, ints(2, 3, 4)), [[numbers(3, 1)]]),
    Row(
        "broadcast-3 explicit by an axis of the run",
        lambda x, shape, axis: opset3.broadcast(x, shape, axis, "explicit"),
        [[numbers(3), ints(2, 3, 4), ints(1)], [numbers(3), ints(3, 4, 2), ints(0)]],
    ),
    Row(
        "broadcast-3 explicit by several axes of the run",
        lambda x, shape, axes: opset3.broadcast(x, shape, axes, "explicit"),
        [[numbers(3, 2), ints(3, 4, 2), ints(0, 2)], [numbers(3, 2), ints(5, 3, 2), ints(1, 2)]],
    ),
    Row("broadcast-1 explicit", lambda x: opset1.broadcast(x, ints(2, 3, 4), ints(1), "EXPLICIT"), [[numbers(3)]]),
    Row("broadcast-3 numpy of the run", opset3.broadcast, [[numbers(1, 3), ints(4, n, 3)] for n in (2, 5)]),
    Row(
        "broadcast-3 explicit",
        lambda x: opset3.broadcast(x, ints(5, 2, 3, 4), ints(1, 3), "EXPLICIT"),
        [[numbers(2, 4)]],
    ),
    Row(
        "broadcast-3 bidirectional",
        lambda x: opset3.broadcast(x, ints(2, 1, 4), broadcast_spec="BIDIRECTIONAL"),
        [[numbers(3, 1)]],
    ),
]
MOVEMENT += [
    Row(f"{op.__name__} {mode} of rank {rank} {dtype}", lambda x, op=op, mode=mode: op(x, mode, 2), feeds)
    for mode in ("blocks_first", "depth_first")
    for rank in (3, 4, 5)
    for dtype in ("float32", "int32", "int64")
    for op, feeds in (
        (opset1.depth_to_space, [[numbers(2, 16, *[n, 3, 2][: rank - 2], dtype=dtype)] for n in (2, 4)]),
        (opset1.space_to_depth, [[numbers(2, 3, *[n, 2, 6][: rank - 2], dtype=dtype)] for n in (2, 4)]),
    )
]
MOVEMENT += [
    Row(f"{name} {dtype}", build, [[numbers(2, 4, 6, dtype=dtype)]])
    for dtype in TYPES
    for name, build in {
        "tile": lambda x: opset1.tile(x, ints(1, 2, 1)),
        "concat": lambda x: opset1.concat([x, x], 1),
        "broadcast": lambda x: opset3.broadcast(x, ints(2, 2, 4, 6)),
        "pad": lambda x: opset1.pad(x, ints(0, 1, 0), ints(1, 0, 2), "constant"),
        "pad edge": lambda x: opset1.pad(x, ints(0, 1, 0), ints(1, 0, 2), "edge"),
        "gather": lambda x: opset8.gather(x, ints(2, 0), 1),
        "strided_slice": lambda x: opset1.strided_slice(x, ints(0, 1), ints(0, 3), ints(1, 1), [1], [1]),
    }.items()
    if not (dtype == "bool" and name.startswith("pad"))
]

PAD_MODES = ("constant", "edge", "reflect", "symmetric")
PADDING = [
    Row(
        f"pad {mode}",
        lambda x, m=mode: opset1.pad(x, ints(0, 1, 2), ints(0, 2, 1), m),
        [[numbers(2, n, 5)] for n in (3, 4)],
    )
    for mode in PAD_MODES
]
PADDING += [
    Row(
        f"pad-12 {mode} by {begin} and {end}",
        lambda x, m=mode, p=begin, q=end: opset12.pad(x, ints(*p), ints(*q), m),
        [[numbers(n, 5)] for n in (4, 6)],
    )
    for mode in PAD_MODES
    for begin, end in (((-1, -1), (-1, -2)), ((2, -1), (-1, 3)), ((-1, 2), (2, -2)))
]
PADDING += [
    Row(
        f"pad-12 {mode} by sizes of the run",
        lambda x, p, q, m=mode: opset12.pad(x, p, q, m),
        [[numbers(4, 5), ints(2, -1), ints(-1, 3)], [numbers(4, 5), ints(0, 1), ints(2, -2)]],
    )
    for mode in ("constant", "edge", "reflect")
]
PADDING += [
    Row(
        "pad by a value",
        lambda x: opset1.pad(x, ints(1, 0), ints(0, 2), "constant", np.float32(1.5)),
        [[numbers(2, 3)]],
    ),
    Row(
        "pad i16 by a value",
        lambda x: opset1.pad(x, ints(1), ints(2), "constant", np.int16(-7)),
        [[numbers(3, dtype=np.int16)]],
    ),
    Row("pad by nothing", lambda x: opset1.pad(x, ints(0, 0), ints(0, 0), "reflect"), [[numbers(2, 3)]]),
]

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

RANGES = [
    Row(f"range-4 {dtype}", lambda a, z, s, t=target: opset13.range(a, z, s, t), [[np.array(v, dtype) for v in bounds]])
    for dtype, target, bounds in (
        ("float32", "f32", (1, 3.2, 0.5)),
        ("float32", "f16", (1, 3, 0.5)),
        ("int32", "i32", (23, 2, -3)),
        ("int64", "i64", (2, 23, 3)),
        ("int64", "f32", (2, 23, 3)),
        ("int32", "u8", (2, 23, 3)),
    )
]
RANGES.append(Row("range-1", lambda z: opset1.range(np.array(0), z, np.array(2)), [[np.array(n)] for n in (5, 8)]))


@pytest.mark.parametrize("row", SHAPE + MOVEMENT + PADDING + GATHER + SLICES + STRIDED + RANGES, ids=str)
def test_matches_openvino(row: Row) -> None:
    check_row(row)


def test_axes_of_the_run() -> None:
    """OpenVINO's CPU plugin refuses ranks that its shape inference does not know."""
    x, flat, axes = numbers(2, 3, 4), numbers(2, 1, 3, 1), ints(1, 3)
    for build, feed, expected in (
        (opset1.unsqueeze, [x, axes], x[:, None, :, None]),
        (opset1.squeeze, [flat, axes], flat[:, 0, :, 0]),
        (opset1.reduce_max, [flat, axes], flat[:, 0, :, 0]),
    ):
        converted = conversion(model_of(build, [feed]))
        assert_close(run_onnx(converted, [feed])[0][0], expected, 0)


def test_pad_by_a_value_of_the_run() -> None:
    """OpenVINO's CPU plugin takes zeros instead of the value."""
    feed = [numbers(3), np.array(2.5, np.float32)]
    converted = conversion(model_of(lambda x, v: opset1.pad(x, ints(1), ints(2), "constant", v), [feed]))
    assert_close(run_onnx(converted, [feed])[0][0], np.pad(feed[0], (1, 2), constant_values=2.5), 0)
    assert len(converted.warnings) == 1
    assert "pad_value" in converted.warnings[0]


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
        assert any("axes come and go" in text for text in converted.warnings) == (expected.shape == (1, 6, 4))


def test_strided_slice_by_bounds_of_the_run_that_leave_no_size_open() -> None:
    """OpenVINO's CPU plugin returns other memory, or crashes; data of dynamic sizes it slices."""
    feed = [numbers(5), ints(2), ints(3)]

    def build(x: object, begin: object, end: object) -> object:
        return opset1.strided_slice(x, begin, end, ints(1), [0], [0], [], [1])

    converted = conversion(model_of(build, [feed]))
    assert_close(run_onnx(converted, [feed])[0][0], feed[0][2], 0)
    assert any("reads other memory" in text for text in converted.warnings)
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


RUN_TIME = [
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
RUN_TIME += [
    Row(
        f"symmetric padding of {dtype} by sizes of the run",
        lambda x, p, q: opset12.pad(x, p, q, "symmetric"),
        [
            [numbers(3, 4, dtype=dtype), ints(1, 2), ints(0, 1)],
            [numbers(5, 3, dtype=dtype), ints(0, -1), ints(5, 2)],
        ],
        0,
    )
    for dtype in ("float32", "int64", "bool")
]
RUN_TIME.append(
    Row("range u64", lambda a, z, s: opset4.range(a, z, s, "u64"), [[np.array(n, np.uint64) for n in (1, 9, 2)]])
)


@pytest.mark.parametrize("row", RUN_TIME, ids=str)
def test_matches_openvino_by_data_of_the_run(row: Row) -> None:
    check_row(row)


REFUSALS = [
    Refusal(
        "squeeze-15 with allow_axis_skip of a dynamic axis",
        lambda x: opset15.squeeze(x, ints(0), True),
        [numbers(1, 3)],
        ShapeError,
        {"input": "data"},
        shapes=[[-1, 3]],
    ),
    Refusal(
        "unsqueeze by two names of an axis",
        lambda x: opset1.unsqueeze(x, ints(-1, 3)),
        [numbers(2, 3)],
        ConversionError,
        {"problem": "axes = [-1, 3]"},
    ),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_refused(refusal: Refusal) -> None:
    assert_refused(refusal)
