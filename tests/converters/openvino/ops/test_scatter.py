"""Gathering and scattering by index against OpenVINO's CPU plugin."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from openvino import opset1, opset3, opset4, opset5, opset6, opset8, opset12, opset15

from ortconv.api import conversion
from ortconv.errors import ShapeError
from tests.converters.openvino.live import (
    Refusal,
    Row,
    assert_refused,
    check,
    check_row,
    ints,
    model_of,
    numbers,
    run_onnx,
    run_openvino,
)

I32, I64 = np.int32, np.int64
TYPES = ("float32", "float64", "float16", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def places(*shape: int, below: int, dtype: type = I64, least: int = 0, seed: int = 1) -> np.ndarray:
    """Returns random indices."""
    return numbers(*shape, dtype=dtype, low=least, high=below - 1, seed=seed)


def distinct(count: int, below: int, *, least: int = 0) -> np.ndarray:
    """Returns random indices, none twice."""
    return np.random.default_rng(count).permutation(below)[:count] + least


GATHER = [
    Row(
        f"gather_elements of {dtype} along {axis}",
        lambda x, i, axis=axis: opset6.gather_elements(x, i, axis),
        [[numbers(2, n, 4, dtype=dtype), places(2, n, 4, below=2, dtype=kind)] for n in (3, 5)],
    )
    for dtype, kind in (*((dtype, I64) for dtype in TYPES), ("float32", I32), ("bool", I32))
    for axis in ((0, 1, -1) if dtype == "float32" else (1,))
]
GATHER += [
    Row(
        "gather_elements of other sizes than the data's",
        lambda x, i: opset6.gather_elements(x, i, 1),
        [[numbers(3, n), places(3, 5, below=n)] for n in (4, 6)],
    ),
    Row(
        "gather_elements by negative indices",
        lambda x, i: opset6.gather_elements(x, i, 1),
        [[numbers(2, 4), places(2, 3, below=4, least=-4)]],
    ),
]
GATHER += [
    Row(
        f"gather_nd-{version} of batch_dims {batch} by {taken} coordinates of {rank} axes",
        lambda x, i, op=op, batch=batch: op(x, i, batch),
        [[numbers(2, 3, n, 4), places(*(2, 3, 2)[: rank - 1], taken, below=2)] for n in (3, 5)],
    )
    for version, op in ((5, opset5.gather_nd), (8, opset8.gather_nd))
    for batch, taken, rank in ((0, 1, 2), (0, 3, 3), (0, 4, 2), (1, 2, 2), (1, 1, 3), (2, 1, 3), (2, 2, 3), (2, 1, 4))
]
GATHER += [
    Row(
        f"gather_nd of {dtype} by i32",
        lambda x, i: opset8.gather_nd(x, i, 1),
        [[numbers(2, 3, 4, dtype=dtype), places(2, 1, below=3, dtype=I32)]],
    )
    for dtype in (*TYPES, "bool")
]
GATHER.append(Row("gather_nd of one element", opset8.gather_nd, [[numbers(n, 4), places(2, below=2)] for n in (2, 3)]))
GATHER.append(
    Row(
        "gather_nd-5 of dynamic batches",
        lambda x, i: opset5.gather_nd(x, i, 2),
        [[numbers(n, 3, 4, 5), places(n, 3, 2, 1, below=4)] for n in (2, 4)],
    )
)

UPDATE = [
    Row(
        f"scatter_update of {dtype} along {axis} by indices of {rank} axes",
        lambda x, i, u, axis=axis: opset3.scatter_update(x, i, u, np.array(axis)),
        [
            [
                numbers(5, n, 4, dtype=dtype),
                distinct(4, 5 if axis == 0 else 4).reshape([4] if rank == 1 else [2, 2]).astype(kind),
                numbers(*updates(n), dtype=dtype, seed=1),
            ]
            for n in (6, 8)
        ],
    )
    for dtype, kind in (*((dtype, I64) for dtype in TYPES), ("float32", I32), ("bool", I64))
    for axis, rank, updates in (
        (0, 1, lambda n: (4, n, 4)),
        (0, 2, lambda n: (2, 2, n, 4)),
        (1, 1, lambda n: (5, 4, 4)),
        (1, 2, lambda n: (5, 2, 2, 4)),
        (-1, 2, lambda n: (5, n, 2, 2)),
    )
    if dtype == "float32" or (axis, rank) == (1, 1)
]
ELEMENTS = [
    Row(
        f"scatter_elements_update-3 of {dtype} along {axis}",
        lambda x, i, u, axis=axis: opset3.scatter_elements_update(x, i, u, np.array(axis)),
        [
            [numbers(4, n, dtype=dtype), np.tile(ints(1, 0, 2, dtype=kind), (4, 1)), numbers(4, 3, dtype=dtype, seed=1)]
            for n in (3, 5)
        ],
    )
    for dtype, kind in (*((dtype, I64) for dtype in TYPES), ("float32", I32), ("bool", I64))
    for axis in (1, -1)
]
ELEMENTS += [
    Row(
        f"scatter_elements_update-12 {reduction} of {dtype}, use_init_val {start}",
        lambda x, i, u, reduction=reduction, start=start: opset12.scatter_elements_update(x, i, u, 0, reduction, start),
        [
            [
                numbers(5, n, dtype=dtype, low=0 if dtype == "uint8" else -4),
                places(4, n, below=5, least=-5),
                numbers(4, n, dtype=dtype, seed=1),
            ]
            for n in (3, 6)
        ],
    )
    for reduction in ("sum", "prod", "min", "max", "mean")
    for start in (True, False)
    for dtype in ("float32", "float16", "int8", "uint8", "int32", "int64", "bool", "bfloat16")
    if (reduction, dtype) != ("mean", "bool")
]
ELEMENTS.append(
    Row(
        "scatter_elements_update-12 none",
        lambda x, i, u: opset12.scatter_elements_update(x, i, u, 1, "none", False),
        [[numbers(2, 4), ints(3, 1, 0, 2).reshape(2, 2), numbers(2, 2, seed=1)]],
    )
)

COORDINATES = [
    Row(
        f"scatter_nd_update-{version} of {dtype} by {taken} coordinates",
        lambda x, i, u, op=op: op(x, i, u),
        [
            [
                numbers(4, 3, n, dtype=dtype),
                np.array([[0, 1, 2], [3, 2, 1], [1, 0, 0]], kind)[:, :taken],
                numbers(3, *(3, n)[taken - 1 :], dtype=dtype, seed=1),
            ]
            for n in (3, 5)
        ],
    )
    for version, op in ((4, opset4.scatter_nd_update), (15, opset15.scatter_nd_update))
    for dtype, kind in (*((dtype, I64) for dtype in TYPES), ("float32", I32), ("bool", I64))
    for taken in ((1, 2, 3) if dtype == "float32" else (2,))
]
COORDINATES += [
    Row(
        f"scatter_nd_update-15 {reduction} of {dtype}",
        lambda x, i, u, reduction=reduction: opset15.scatter_nd_update(x, i, u, reduction),
        [
            [numbers(5, n, dtype=dtype), places(6, 1, below=5, least=-5), numbers(6, n, dtype=dtype, seed=1)]
            for n in (3, 6)
        ],
    )
    for reduction in ("sum", "sub", "prod", "min", "max")
    for dtype in ("float32", "float16", "uint8", "int32", "int64", "bool")
]

SLICES = [
    Row(
        f"slice_scatter {start}:{stop}:{step} along {axes} of {dtype}",
        lambda x, u, a=start, z=stop, s=step, along=axes: opset15.slice_scatter(
            x, u, ints(*a), ints(*z), ints(*s), *([] if along is None else [ints(*along)])
        ),
        [[numbers(n, 6, dtype=dtype), numbers(*sizes(n), dtype=dtype, seed=1)] for n in (5, 7)],
    )
    for start, stop, step, axes, sizes, dtype in (
        ((1, 0), (3, 6), (1, 2), None, lambda n: (2, 3), "float32"),
        ((-1,), (-3,), (-1,), (0,), lambda n: (2, 6), "float32"),
        ((1,), (2**31 - 1,), (2,), (-1,), lambda n: (n, 3), "int32"),
    )
]


@pytest.mark.parametrize("row", SLICES + GATHER + UPDATE + ELEMENTS + COORDINATES, ids=str)
def test_matches_openvino(row: Row) -> None:
    check_row(row)


BOUNDS = [(1, 4, 1), (-7, 2, 2), (2, 9, 1), (4, 0, -1), (9, -9, -2)]


def slice_scatter_of_the_run(x: Any, updates: Any, *bounds: Any) -> Any:
    """Returns a SliceScatter along the first axis."""
    return opset15.slice_scatter(x, updates, *bounds, ints(0))


@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
def test_slice_scatter_by_bounds_of_the_run(bounds: tuple[int, int, int]) -> None:
    """In static sizes OpenVINO's CPU plugin writes to other memory; in dynamic ones it does what the page says."""
    start, stop, step = bounds
    feeds, written = [], []
    for size in (5, 6):
        place = slice(start, None if stop < -size else stop, step)
        data = numbers(size, 3)
        updates = numbers(*data[place].shape, seed=1)
        feeds.append([data, updates, *(np.array([bound]) for bound in bounds)])
        written.append(data.copy())
        written[-1][place] = updates
    assert not check(model_of(slice_scatter_of_the_run, feeds, [[-1, 3], [-1, 3], [1], [1], [1]]), *feeds).warnings
    converted = conversion(model_of(slice_scatter_of_the_run, feeds[:1]))
    np.testing.assert_array_equal(run_onnx(converted, feeds[:1])[0][0], written[0])
    assert len(converted.warnings) == 1
    assert "other memory" in converted.warnings[0]


REFUSALS = [
    Refusal(
        "gather_nd-5 of batches, by coordinates of which it is not known how many",
        lambda x, i: opset5.gather_nd(x, i, 2),
        [numbers(2, 3, 4), places(2, 3, 1, below=4)],
        ShapeError,
        {"input": "indices"},
        shapes=[[2, 3, 4], [2, 3, -1]],
    ),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_refused(refusal: Refusal) -> None:
    assert_refused(refusal)


@pytest.mark.parametrize(
    ("order", "turned"),
    [([2, 0, 3, 1], True), ([1, 2, 3, 0], True), ([-2, 0, -1, 1], True), ([3, 2, 1, 0], False), ([1, 0, 2, 3], False)],
)
def test_channels_in_an_order_that_does_not_undo_itself(order: list[int], turned: bool) -> None:
    """In front of a convolution OpenVINO's CPU plugin moves them into the filters, and there the other way round."""
    filters = numbers(3, 4, 1, 1)

    def build(x: Any) -> Any:
        moved = opset8.gather(x, np.array(order, np.int32), np.array(1))
        return opset1.convolution(opset1.relu(moved), filters, [1, 1], [0, 0], [0, 0], [1, 1])

    x = numbers(2, 4, 5, 3)
    model = model_of(build, [[x]])
    converted = conversion(model)
    right = np.einsum("nchw,mc->nmhw", np.maximum(x[:, order], 0).astype(np.float64), filters[:, :, 0, 0])
    np.testing.assert_allclose(run_onnx(converted, [[x]])[0][0], right, rtol=0, atol=1e-5)
    wrong = np.abs(run_openvino(model, [[x]])[0][0] - right).max() > 0.1
    assert wrong == turned
    assert any("a constant order of all channels" in text for text in converted.warnings) == turned
