"""Axes that are known at run time only, against OpenVINO's CPU plugin."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from openvino import opset1, opset3, opset7, opset8, opset12, opset15

from ortconv.api import conversion
from tests.converters.openvino.live import check, model_of, numbers, run_onnx

INDICES = np.array([[0, 1], [1, 0]])
AXES = (0, 1, 2, -1, -3)


def one(axis: int) -> np.ndarray:
    return np.array(axis, np.int64)


def every_axis(build: Callable[..., object], *others: Callable[[tuple[int, ...], int], np.ndarray]) -> None:
    """Checks an op of data, other data made of the shape and the axis, and the axis."""
    feeds = []
    for number, axis in enumerate(AXES):
        shape = (2, 4, 6) if number % 2 else (4, 2, 2)
        feeds.append([numbers(*shape, seed=number), *(other(shape, axis) for other in others), one(axis)])
    shapes = [[-1] * array.ndim for array in feeds[0]]
    check(model_of(build, feeds, shapes), *feeds, bound=0)


@pytest.mark.parametrize("gather", [opset1.gather, opset7.gather, opset8.gather])
def test_gather(gather: Callable[..., object]) -> None:
    every_axis(lambda data, axis: gather(data, INDICES, axis))


def test_gather_of_indices_of_the_run() -> None:
    every_axis(
        lambda data, indices, axis: opset7.gather(data, indices, axis), lambda *_: np.array([1, -1, 0], np.int64)
    )


@pytest.mark.parametrize("batch", [1, 2, -1, -2])
@pytest.mark.parametrize("gather", [opset7.gather, opset8.gather])
def test_gather_of_batches(gather: Callable[..., object], batch: int) -> None:
    feeds = [
        [numbers(2, n, 5, n, 2, seed=n), numbers(2, n, 3, dtype=np.int64, low=0, high=1), one(axis)]
        for n, axis in ((3, 2), (4, 3), (3, 4), (4, -1), (3, -3))
    ]
    model = model_of(lambda x, i, axis: gather(x, i, axis, batch), feeds, [[-1] * 5, [-1] * 3, []])
    check(model, *feeds, bound=0)


def test_split() -> None:
    every_axis(lambda data, axis: list(opset1.split(data, axis, 2).outputs()))


def test_variadic_split() -> None:
    every_axis(lambda data, axis: list(opset1.variadic_split(data, axis, np.array([1, -1])).outputs()))


def test_scatter_update() -> None:
    def updates(shape: tuple[int, ...], axis: int) -> np.ndarray:
        return numbers(*(2 if place == axis % 3 else size for place, size in enumerate(shape)), seed=9)

    every_axis(lambda data, changes, axis: opset3.scatter_update(data, np.array([1, 0]), changes, axis), updates)


@pytest.mark.parametrize("reduction", ["none", "sum", "max"])
def test_scatter_elements(reduction: str) -> None:
    def places(shape: tuple[int, ...], axis: int) -> np.ndarray:
        return np.broadcast_to(np.arange(2).reshape([2 if place == axis % 3 else 1 for place in range(3)]), (2, 2, 2))

    every_axis(
        lambda data, indices, updates, axis: opset12.scatter_elements_update(data, indices, updates, axis, reduction),
        lambda shape, axis: np.ascontiguousarray(places(shape, axis)),
        lambda shape, axis: numbers(2, 2, 2, seed=5),
    )


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 0, 2), (2, 1, 0)])
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_transpose(order: tuple[int, ...], dtype: str) -> None:
    feeds = [[numbers(n, 3, 5, dtype=np.dtype(dtype)), np.array(order)] for n in (2, 4)]
    check(model_of(opset1.transpose, feeds), *feeds, bound=0)


def test_roll() -> None:
    feeds = [
        [numbers(n, 3, 5), np.array([shift, -1]), np.array(axes)]
        for n, shift, axes in ((2, 1, [0, 2]), (4, -2, [1, 1]))
    ]
    check(model_of(opset7.roll, feeds), *feeds, bound=0)


@pytest.mark.parametrize("gather", [opset1.gather, opset7.gather])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_negative_indices_of_the_run_give_zeros(gather: Callable[..., object], axis: int) -> None:
    feeds = [[numbers(n, 3, 4), np.array([[-1, 0], [1, -3]])] for n in (2, 3)]
    check(model_of(lambda data, indices: gather(data, indices, np.array(axis)), feeds), *feeds, bound=0)


def test_negative_indices_of_batches_give_zeros() -> None:
    feeds = [[numbers(2, n, 4, dtype=np.int8), np.array([[-1, 0, 2], [1, -3, 0]])] for n in (3, 5)]
    check(model_of(lambda x, i: opset7.gather(x, i, np.array(2), 1), feeds), *feeds, bound=0)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_reduction_of_a_vector(dtype: str) -> None:
    feeds = [[numbers(n, dtype=np.dtype(dtype), low=0), np.array([0])] for n in (3, 6)]
    check(model_of(lambda x, axes: opset1.reduce_sum(x, axes, False), feeds), *feeds)


@pytest.mark.parametrize("squeeze", [opset1.squeeze, opset15.squeeze])
def test_squeeze_along_one_axis(squeeze: Callable[..., object]) -> None:
    """The file has no dims for the result, which looks like a scalar."""
    feeds = [[numbers(*shape), one(axis)] for shape, axis in (((1, 3, 4), 0), ((2, 1, 5), 1))]
    check(model_of(squeeze, feeds, [[-1] * 3, []]), *feeds, bound=0)


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (opset1.transpose, np.transpose),
        (lambda x, axes: opset1.reduce_max(x, axes, True), np.array),
        (lambda x, axes: opset1.reduce_logical_or(opset1.greater(x, np.float32(1)), axes, True), lambda x: x > 1),
    ],
    ids=["transpose", "reduce_max", "reduce_logical_or"],
)
def test_none_are_warned_about(build: Callable[..., object], expected: Callable[[np.ndarray], np.ndarray]) -> None:
    """The plugin, which returns nothing or crashes, is not asked."""
    feed = [numbers(2, 3), np.zeros(0, np.int64)]
    model = model_of(build, [feed], [[-1, -1], [0]])
    converted = conversion(model)
    assert ["or crashes" in warning for warning in converted.warnings] == [True]
    np.testing.assert_array_equal(run_onnx(converted, [feed])[0][0], expected(feed[0]))
