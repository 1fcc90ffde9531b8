"""Ops that copy elements as they are, and padding, against OpenVINO's CPU plugin."""

from __future__ import annotations

import numpy as np
import pytest
from openvino import opset1, opset3, opset8, opset12

from ortconv.api import conversion
from tests.converters.openvino.live import NUMPY_TYPES, Row, assert_close, check_row, ints, model_of, numbers, run_onnx

I32, I64 = np.int32, np.int64


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
    for dtype in NUMPY_TYPES
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


PADDING += [
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


@pytest.mark.parametrize("row", MOVEMENT + PADDING, ids=str)
def test_matches_openvino(row: Row) -> None:
    check_row(row)


def test_pad_by_a_value_of_the_run() -> None:
    """OpenVINO's CPU plugin takes zeros instead of the value."""
    feed = [numbers(3), np.array(2.5, np.float32)]
    converted = conversion(model_of(lambda x, v: opset1.pad(x, ints(1), ints(2), "constant", v), [feed]))
    assert_close(run_onnx(converted, [feed])[0][0], np.pad(feed[0], (1, 2), constant_values=2.5), 0)
    assert len(converted.warnings) == 1
    assert "pad_value" in converted.warnings[0]
