"""Convolutions between SpaceToBatch and BatchToSpace: dilated ones, as TensorFlow writes them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from openvino import opset1, opset2, opset8

from ortconv.api import Conversion, conversion
from tests.openvino.live import Feed, assert_close, check, ints, model_of, numbers, run_onnx, run_openvino


def blockwise(
    x: Any,
    filter: np.ndarray,
    block: Sequence[int],
    pads: tuple[Any, Any],
    crops: tuple[Any, Any],
    *,
    back: Sequence[int] | None = None,
    apart: bool = False,
    **window: Any,
) -> Any:
    """Returns a convolution of blocks.

    Args:
        x: The data.
        filter: Weights; of rank 5 for images of two axes where there are groups.
        block: Sizes of blocks along all axes.
        pads: In front and behind, along all axes.
        crops: Likewise.
        back: Sizes of the blocks that are put together again.
        apart: Put something between the ops.
        **window: Strides, pads and dilations of the convolution.
    """
    spread = opset2.space_to_batch(x, ints(*block), *(_vector(each) for each in pads))
    y = convolution(opset1.add(spread, np.float32(1e-9)) if apart else spread, filter, len(block) - 2, **window)
    return opset2.batch_to_space(y, ints(*(back or block)), *(_vector(each) for each in crops))


def convolution(
    x: Any, filter: np.ndarray, rank: int, *, strides: int = 1, padding: tuple[int, int] = (0, 0), dilations: int = 1
) -> Any:
    op = opset1.group_convolution if filter.ndim == rank + 3 else opset1.convolution
    return op(x, filter, [strides] * rank, [padding[0]] * rank, [padding[1]] * rank, [dilations] * rank, "explicit")


def _vector(value: Any) -> Any:
    return ints(*value) if isinstance(value, list) else value


def kinds(converted: Conversion) -> list[str]:
    return sorted(node.op_type for node in converted.model.graph)


W1, W2, W3 = numbers(5, 3, 3), numbers(5, 3, 3, 2), numbers(2, 3, 2, 2, 2)
GROUPED = numbers(3, 2, 1, 3, 3)


@pytest.mark.parametrize(
    ("shape", "filter", "block", "pads", "crops"),
    [
        ((2, 3, 9), W1, [1, 1, 2], ([0, 0, 2], [0, 0, 3]), ([0, 0, 0], [0, 0, 1])),
        ((2, 3, 9), W1, [1, 1, 3], ([0, 0, 6], [0, 0, 0]), ([0, 0, 0], [0, 0, 0])),
        ((2, 3, 9), W1, [1, 1, 3], ([0, 0, 3], [0, 0, 3]), ([0, 0, 2], [0, 0, 1])),
        ((1, 3, 7, 8), W2, [1, 1, 2, 3], ([0, 0, 2, 3], [0, 0, 3, 4]), ([0, 0, 0, 0], [0, 0, 1, 1])),
        ((1, 3, 8, 7), W2, [1, 1, 4, 1], ([0, 0, 0, 0], [0, 0, 4, 0]), ([0, 0, 0, 0], [0, 0, 0, 0])),
        ((1, 3, 7, 8), GROUPED, [1, 1, 2, 2], ([0, 0, 2, 2], [0, 0, 3, 2]), ([0, 0, 0, 0], [0, 0, 1, 0])),
        ((1, 3, 3, 4, 5), W3, [1, 1, 2, 1, 2], ([0] * 5, [0, 0, 1, 0, 1]), ([0] * 5, [0, 0, 1, 0, 1])),
    ],
)
def test_convolution_of_blocks_is_dilated(
    shape: Sequence[int], filter: np.ndarray, block: list[int], pads: Any, crops: Any
) -> None:
    def build(x: Any) -> Any:
        return blockwise(x, filter, block, pads, crops)

    feed = [numbers(*shape)]
    assert kinds(check(model_of(build, [feed]), feed)) == ["Conv"]
    other = [numbers(3, *shape[1:])]
    assert kinds(check(model_of(build, [feed, other]), feed, other)) == ["Conv"]


NONE = [0, 0, 0]


@pytest.mark.parametrize(
    ("pads", "crops"), [((NONE, [0, 0, 1]), ([0, 0, 1], NONE)), (([0, 1, 2], [0, 0, 1]), (NONE, NONE))]
)
def test_other_convolutions_of_blocks_stay(pads: Any, crops: Any) -> None:
    feed = [numbers(2, 3, 9)]
    build = functools.partial(blockwise, filter=numbers(5, 3 + pads[0][1], 3), block=[1, 1, 2], pads=pads, crops=crops)
    converted = check(model_of(build, [feed]), feed)
    assert "Reshape" in kinds(converted)
    assert converted.warnings == ()


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize(
    ("dropped", "emits", "pads", "crops", "more"),
    [
        ("the strides", "Reshape", ([0, 0, 2], [0, 0, 3]), (NONE, NONE), {"strides": 2}),
        ("the dilations", "Conv", ([0, 0, 3], [0, 0, 4]), (NONE, [0, 0, 1]), {"dilations": 2}),
        ("the pads", "Conv", ([0, 0, 2], [0, 0, 3]), (NONE, [0, 0, 1]), {"padding": (1, 2)}),
        ("the blocks", "Reshape", ([0, 0, 2], [0, 0, 1]), (NONE, NONE), {"back": [1, 1, 4]}),
        ("what is cropped", "Reshape", ([0, 0, 2], [0, 0, 3]), ([0, 1, 0], NONE), {}),
    ],
)
def test_page_is_followed_where_the_plugin_leaves_something_out(
    dropped: str, emits: str, pads: Any, crops: Any, more: dict[str, Any], grouped: bool
) -> None:
    """The same three ops with something between them that nobody merges are computed by the page."""
    feed = [numbers(2, 3, 9)]
    weights = numbers(3, 2, 1, 3) if grouped else W1

    def build(x: Any, apart: bool = False) -> Any:
        return blockwise(x, weights, [1, 1, 2], pads, crops, apart=apart, **more)

    (expected,) = run_openvino(model_of(functools.partial(build, apart=True), [feed]), [feed])
    converted = conversion(model_of(build, [feed]))
    assert_close(run_onnx(converted, [feed])[0][0], expected[0], 16)
    (warning,) = converted.warnings
    assert f"leaves out {dropped}" in warning
    assert emits in kinds(converted)


def test_blocks_that_something_else_reads_stay_beside_the_dilated_convolution() -> None:
    def build(x: Any) -> Any:
        spread = opset2.space_to_batch(x, ints(1, 1, 2), ints(0, 0, 2), ints(0, 0, 3))
        y = opset2.batch_to_space(convolution(spread, W1, 1), ints(1, 1, 2), ints(0, 0, 0), ints(0, 0, 1))
        return [y, opset1.relu(spread)]

    feed = [numbers(2, 3, 9)]
    assert kinds(check(model_of(build, [feed]), feed)).count("Conv") == 1


@pytest.mark.parametrize("dilation", [2, 3])
@pytest.mark.parametrize("same", [False, True])
def test_paddings_that_depend_on_sizes_at_run_time(dilation: int, same: bool) -> None:
    """What TensorFlow pads up to whole blocks, it crops again."""

    def build(x: Any) -> Any:
        size = opset1.strided_slice(opset8.shape_of(x, "i32"), ints(2), ints(4), ints(1), [0], [0])
        begin = dilation if same else 0
        block = np.array([dilation, dilation], np.int32)
        more = opset1.add(size, np.int32(2 * begin))
        extra = opset1.floor_mod(opset1.subtract(block, opset1.floor_mod(more, block)), block)
        zeros = ints(0, 0, dtype=np.int32)
        end = opset1.concat([zeros, opset1.add(extra, np.int32(begin))], 0)
        crop = opset1.pad(extra, ints(2), ints(0), "constant", np.int32(0))
        y = blockwise(
            x,
            numbers(5, 3, 3, 3),
            [1, 1, dilation, dilation],
            ([0, 0, begin, begin], opset1.convert(end, "i64")),
            ([0, 0, 0, 0], opset1.convert(crop, "i64")),
        )
        return opset1.add(y, numbers(1, 5, 1, 1))

    feeds: list[Feed] = [[numbers(1, 3, 9, 8)], [numbers(2, 3, 7, 11)]]
    converted = check(model_of(build, feeds), *feeds)
    assert kinds(converted) == ["Conv"]
    assert len(converted.warnings) == (not same)


def test_padding_that_is_not_cropped_again_stays() -> None:
    def build(x: Any, end: Any) -> Any:
        return blockwise(x, W1, [1, 1, 2], ([0, 0, 2], end), ([0, 0, 0], [0, 0, 1]))

    feeds: list[Feed] = [[numbers(2, 3, n), ints(0, 0, pad)] for n, pad in ((9, 3), (8, 2))]
    assert "Reshape" in kinds(check(model_of(build, feeds), *feeds))


@pytest.mark.parametrize("by_shape", [False, True])
def test_image_of_one_row(by_shape: bool) -> None:
    """TensorFlow's convolutions along one axis are those of an image of one row, spread along one axis."""

    def build(x: Any) -> Any:
        spread = opset2.space_to_batch(x, ints(1, 1, 2), ints(0, 0, 2), ints(0, 0, 3))
        if by_shape:
            y = convolution(opset1.reshape(spread, ints(-1, 3, 1, 7), False), numbers(5, 3, 1, 3), 2)
            y = opset1.reshape(y, ints(-1, 5, 5), False)
        else:
            y = convolution(opset1.unsqueeze(spread, ints(2)), numbers(5, 3, 1, 3), 2)
            y = opset1.squeeze(y, ints(2))
        return opset2.batch_to_space(y, ints(1, 1, 2), ints(0, 0, 0), ints(0, 0, 1))

    feeds = [[numbers(2, 3, 9)], [numbers(1, 3, 9)]]
    for given in (feeds[:1], feeds):
        found = kinds(check(model_of(build, given), *given))
        assert set(found) <= {"Conv", "Reshape", "Squeeze", "Unsqueeze"}
        assert len(found) == 3


def test_image_of_one_row_whose_sizes_are_open() -> None:
    def build(x: Any) -> Any:
        spread = opset2.space_to_batch(x, ints(1, 1, 2), ints(0, 0, 2), ints(0, 0, 3))
        row = opset1.reshape(opset1.unsqueeze(spread, ints(-3)), ints(0, 3, 1, 0), True)
        y = opset1.squeeze(convolution(row, numbers(5, 3, 1, 3), 2), ints(2))
        return opset2.batch_to_space(y, ints(1, 1, 2), ints(0, 0, 0), ints(0, 0, 1))

    feeds = [[numbers(2, 3, 9)], [numbers(1, 3, 11)]]
    assert kinds(check(model_of(build, feeds), *feeds)) == ["Conv", "Squeeze", "Unsqueeze"]
