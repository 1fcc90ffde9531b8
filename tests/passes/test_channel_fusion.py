"""What becomes BatchNormalization and GlobalAveragePool, where these say the same, against OpenVINO's CPU plugin."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import openvino
import pytest
from openvino import opset1

from ortconv.api import conversion
from tests.converters.openvino.live import Row, check, check_row, model_of, numbers

F32 = np.float32
DATA = numbers(2, 3, 4, 5)
CHANNELS = numbers(2, 12, 3, 5)
SCALE, SHIFT = numbers(3, 1, 1), numbers(1, 3, 1, 1)

Build = Callable[..., openvino.Node]


def _affine(scale: np.ndarray, shift: np.ndarray, *, constants_first: bool = False) -> Build:
    def build(x: openvino.Node) -> openvino.Node:
        of_scale, of_shift = opset1.constant(scale), opset1.constant(shift)
        if constants_first:
            return opset1.add(of_shift, opset1.multiply(of_scale, x))
        return opset1.add(opset1.multiply(x, of_scale), of_shift)

    return build


def _mean(along: Sequence[int], keep_dims: bool = True) -> Build:
    return lambda x: opset1.reduce_mean(x, np.array(along), keep_dims)


def _one(name: str, build: Build, *feeds: np.ndarray) -> Row:
    return Row(name, build, [[feed] for feed in feeds], emits=["BatchNormalization"])


def _two(name: str, build: Build, *feeds: np.ndarray) -> Row:
    return Row(name, build, [[feed] for feed in feeds], emits=["Mul", "Add"])


def _pool(name: str, build: Build, feed: np.ndarray) -> Row:
    return Row(name, build, [[feed]], emits=["GlobalAveragePool"])


def _reduce(name: str, build: Build, feed: np.ndarray) -> Row:
    return Row(name, build, [[feed]], 16, emits=["ReduceMean"])


def _used_twice(x: openvino.Node) -> openvino.Node:
    product = opset1.multiply(x, opset1.constant(SCALE))
    return opset1.multiply(opset1.add(product, opset1.constant(SHIFT)), product)


def _two_with_the_same_constants(x: openvino.Node) -> openvino.Node:
    affine = _affine(SCALE, SHIFT)
    return affine(opset1.relu(affine(x)))


def _shuffled(apart: Sequence[int], perm: Sequence[int], together: Sequence[int]) -> Build:
    def build(x: openvino.Node) -> openvino.Node:
        parts = opset1.transpose(opset1.reshape(x, np.array(apart), False), np.array(perm))
        return opset1.reshape(parts, np.array(together), False)

    return build


def _shuffle(name: str, *arguments: Sequence[int], of: np.ndarray | None = None) -> Row:
    return Row(name, _shuffled(*arguments), [[CHANNELS if of is None else of]], 0, emits=["DepthToSpace"])


def _three(name: str, *arguments: Sequence[int], of: np.ndarray | None = None) -> Row:
    of = CHANNELS if of is None else of
    return Row(name, _shuffled(*arguments), [[of]], 0, emits=["Reshape", "Transpose", "Reshape"])


ROWS = [
    _one("constants behind", _affine(SCALE, SHIFT), DATA),
    _one("constants in front", _affine(SCALE, SHIFT, constants_first=True), DATA),
    _one("one spatial axis", _affine(SCALE[:, 0], SHIFT[0, :, 0]), DATA[..., 0]),
    _one("three spatial axes", _affine(SCALE[None, ..., None], SHIFT[..., None]), DATA[..., None]),
    _one("dynamic batch and image", _affine(SCALE, SHIFT), DATA, numbers(1, 3, 7, 2)),
    _one("no pixels", _affine(SCALE, SHIFT), np.zeros((2, 3, 0, 5), F32)),
    _one("infinity and NaN", _affine(SCALE, SHIFT), np.array([np.inf, -np.inf, np.nan] * 2, F32).reshape(1, 3, 2, 1)),
    _two("one channel becomes three", _affine(SCALE, SHIFT), DATA[:, :1]),
    _two("one scale for all", _affine(SCALE[:1], SHIFT), DATA),
    _two("along another axis", _affine(numbers(5), numbers(5)), DATA),
    _two("of each pixel", _affine(numbers(4, 5), SHIFT), DATA),
    _two("no spatial axes", _affine(numbers(3), numbers(3)), DATA[..., 0, 0]),
    Row("a product with another use", _used_twice, [[DATA]], emits=["Mul", "Add", "Mul"]),
    Row(
        "the same constants twice",
        _two_with_the_same_constants,
        [[DATA]],
        emits=["BatchNormalization", "Relu", "BatchNormalization"],
    ),
    _shuffle("channels, then pixels", [2, 3, 2, 2, 3, 5], [0, 1, 4, 2, 5, 3], [2, 3, 6, 10]),
    _shuffle("pixels, then channels", [2, 2, 2, 3, 3, 5], [0, 3, 4, 1, 5, 2], [2, 3, 6, 10]),
    _shuffle("a square of channels", [2, 2, 2, 2, 2, 2], [0, 1, 4, 2, 5, 3], [2, 2, 4, 4], of=numbers(2, 8, 2, 2)),
    _three("pixels of another order", [2, 3, 2, 2, 3, 5], [0, 1, 4, 3, 5, 2], [2, 3, 6, 10]),
    _three("channels of another order", [2, 3, 2, 2, 3, 5], [0, 3, 4, 1, 5, 2], [2, 2, 9, 10]),
    _three("blocks that are not square", [2, 4, 3, 1, 3, 5], [0, 1, 4, 2, 5, 3], [2, 4, 9, 5]),
    _three("rows and columns as one", [2, 3, 2, 2, 3, 5], [0, 1, 4, 2, 5, 3], [2, 3, 10, 6]),
    _three("images among channels", [1, 6, 2, 2, 3, 5], [0, 1, 4, 2, 5, 3], [1, 6, 6, 10]),
    _pool("a mean over pixels", _mean([-1, -2]), DATA),
    _pool("a mean over some more pixels", _mean([2, 3]), numbers(1, 1, 64, 32, low=0)),
    _pool("a mean over the only pixel", _mean([2, 3]), DATA[:, :, :1, :1]),
    _reduce("a mean over one spatial axis", _mean([2]), DATA[..., 0]),
    _reduce("a mean over three spatial axes", _mean([2, 3, 4]), DATA[..., None]),
    _reduce("a mean over too many pixels to add them one by one", _mean([2, 3]), numbers(1, 1, 64, 33, low=0)),
    _reduce("a mean over pixels and channels", _mean([1, 2, 3]), DATA),
    _reduce("a mean over pixels, whose axes go", _mean([2, 3], keep_dims=False), DATA),
]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_matches_openvino(row: Row) -> None:
    check_row(row)


def test_nodes_of_float16_stay() -> None:
    for build in (_affine(SCALE.astype("f2"), SHIFT.astype("f2")), _mean([2, 3])):
        source = model_of(build, [[DATA.astype("f2")]])
        check(source, [DATA.astype("f2")])
        kinds = {node.op_type for node in conversion(source, compute="f16").model.graph}
        assert kinds <= {"Mul", "Add", "ReduceMean"}


def test_shuffles_of_a_dynamic_batch() -> None:
    feeds = [[CHANNELS], [CHANNELS[:1]]]
    model = model_of(_shuffled([-1, 3, 2, 2, 3, 5], [0, 1, 4, 2, 5, 3], [-1, 3, 6, 10]), feeds)
    converted = check(model, *feeds, bound=0)
    assert [node.op_type for node in converted.model.graph] == ["DepthToSpace"]
    assert not converted.model.graph.initializers


def test_shuffles_with_another_use_stay() -> None:
    def build(x: openvino.Node) -> openvino.Node:
        parts = opset1.reshape(x, np.array([2, 3, 2, 2, 3, 5]), False)
        moved = opset1.transpose(parts, np.array([0, 1, 4, 2, 5, 3]))
        shuffled = opset1.reshape(moved, np.array([2, 3, 6, 10]), False)
        return opset1.add(shuffled, opset1.reduce_max(moved, np.arange(6), False))

    converted = check(model_of(build, [[CHANNELS]]), [CHANNELS])
    assert "DepthToSpace" not in [node.op_type for node in converted.model.graph]


def test_channels_of_the_run_stay_two_ops() -> None:
    """There may be one, which becomes three."""
    feeds = [[DATA], [DATA[:, :1]]]
    converted = check(model_of(_affine(SCALE, SHIFT), feeds), *feeds)
    assert [node.op_type for node in converted.model.graph] == ["Mul", "Add"]


def test_pixels_of_the_run_stay_a_reduction() -> None:
    """They may be too many to add them one by one, or none."""
    feeds = [[numbers(1, 3, n, 5)] for n in (4, 6, 0)]
    converted = check(model_of(_mean([2, 3]), feeds), *feeds, bound=16)
    assert [node.op_type for node in converted.model.graph] == ["ReduceMean"]


def test_both_source_nodes_are_told_of() -> None:
    converted = conversion(model_of(_affine(SCALE, SHIFT), [[DATA]]))
    steps = {step.ref.op_type: step for step in converted.steps}
    product, total = steps["Multiply"], steps["Add"]
    assert [node.op_type for node in product.nodes] == ["BatchNormalization"]
    assert not total.nodes
    assert "is the shift of BatchNormalization" in total.notes[0]
