"""Convolutions between SpaceToBatch and BatchToSpace: dilated ones, as TensorFlow writes them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from openvino import opset1, opset2, opset8

from ortconv.api import Conversion, conversion
from tests.converters.openvino.live import Feed, assert_close, check, ints, model_of, numbers, run_onnx, run_openvino


def blockwise(
    x: Any,
    filter: Any,
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
    x: Any,
    filter: Any,
    rank: int,
    *,
    strides: int = 1,
    padding: tuple[int, int] = (0, 0),
    dilations: int = 1,
    auto_pad: str = "explicit",
) -> Any:
    op = opset1.group_convolution if getattr(filter, "ndim", 0) == rank + 3 else opset1.convolution
    return op(x, filter, [strides] * rank, [padding[0]] * rank, [padding[1]] * rank, [dilations] * rank, auto_pad)


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
    ("pads", "crops"),
    [
        ((NONE, [0, 0, 1]), ([0, 0, 1], NONE)),
        (([0, 1, 2], [0, 0, 1]), (NONE, NONE)),
        (([0, 0, 2], [0, 1, 1]), (NONE, NONE)),
    ],
)
def test_other_convolutions_of_blocks_stay(pads: Any, crops: Any) -> None:
    feed = [numbers(2, 3, 9)]
    channels = 3 + pads[0][1] + pads[1][1]
    build = functools.partial(blockwise, filter=numbers(5, channels, 3), block=[1, 1, 2], pads=pads, crops=crops)
    converted = check(model_of(build, [feed]), feed)
    assert "Reshape" in kinds(converted)
    assert converted.warnings == ()


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize(
    ("dropped", "emits", "pads", "crops", "more"),
    [
        ("strides of the convolution", "Reshape", ([0, 0, 2], [0, 0, 3]), (NONE, NONE), {"strides": 2}),
        ("dilations of the convolution", "Conv", ([0, 0, 3], [0, 0, 4]), (NONE, [0, 0, 1]), {"dilations": 2}),
        ("pads of the convolution", "Conv", ([0, 0, 2], [0, 0, 3]), (NONE, [0, 0, 1]), {"padding": (1, 2)}),
        ("block_shape of BatchToSpace", "Reshape", ([0, 0, 2], [0, 0, 1]), (NONE, NONE), {"back": [1, 1, 4]}),
        ("crops of batch and channels", "Reshape", ([0, 0, 2], [0, 0, 3]), ([0, 1, 0], NONE), {}),
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
    assert f"dropped: {dropped}" in warning
    assert emits in kinds(converted)


@pytest.mark.parametrize("target", ["auto", "onnx"])
def test_strides_of_sizes_of_the_run(target: Any) -> None:
    """What auto_pad pads is known when the model runs only; the plugin merges all the same."""

    def build(x: Any, apart: bool = False) -> Any:
        return blockwise(
            x, W1, [1, 1, 2], ([0, 0, 2], [0, 0, 2]), (NONE, NONE), apart=apart, strides=2, auto_pad="same_upper"
        )

    feeds: list[Feed] = [[numbers(1, 3, 12)], [numbers(1, 3, 10)]]
    expected = run_openvino(model_of(functools.partial(build, apart=True), feeds), feeds)
    source = model_of(build, feeds)
    converted = conversion(source, target=target)
    for (mine,), (right,), (theirs,) in zip(
        run_onnx(converted, feeds), expected, run_openvino(source, feeds), strict=True
    ):
        assert_close(mine, right, 16)
        assert theirs.shape != right.shape
    (warning,) = converted.warnings
    assert "dropped: strides" in warning


@pytest.mark.parametrize(
    ("shape", "sizes"),
    [
        ((2, 6, 9), {"block": [1, 2, 2], "pads": ([0, 0, 2], [0, 0, 3]), "crops": (NONE, [0, 0, 1])}),
        (
            (2, 3, 9),
            {"block": [1, 1, 2], "pads": ([0, 0, 2], [0, 0, 1]), "crops": (NONE, NONE), "auto_pad": "same_lower"},
        ),
    ],
)
def test_blocks_of_channels_and_paddings_of_the_run_stay(shape: Sequence[int], sizes: dict[str, Any]) -> None:
    """OpenVINO's CPU plugin makes other convolutions of them."""

    def build(x: Any, filter: Any, apart: bool = False) -> Any:
        return blockwise(x, filter, apart=apart, **sizes)

    feeds: list[Feed] = [[numbers(*shape), numbers(5, 3, taps)] for taps in (2, 4)]
    for target in ("auto", "onnx"):
        converted = conversion(model_of(build, feeds), target=target)
        for feed, (ours,) in zip(feeds, run_onnx(converted, feeds), strict=True):
            ((expected,),) = run_openvino(model_of(functools.partial(build, apart=True), [feed]), [feed])
            assert_close(ours, expected, 16)
        assert "Reshape" in kinds(converted)


def test_axes_that_are_added_on_one_side_only() -> None:
    def taken_away(x: Any) -> Any:
        spread = opset2.space_to_batch(x, ints(1, 1, 1, 2), ints(0, 0, 0, 2), ints(0, 0, 0, 3))
        y = opset1.squeeze(convolution(spread, numbers(5, 3, 1, 3), 2), ints(2))
        return opset2.batch_to_space(y, ints(1, 1, 2), ints(0, 0, 0), ints(0, 0, 1))

    def added(x: Any) -> Any:
        spread = opset2.space_to_batch(x, ints(1, 1, 2), ints(0, 0, 2), ints(0, 0, 3))
        y = convolution(opset1.unsqueeze(spread, ints(2)), numbers(5, 3, 1, 3), 2)
        return opset2.batch_to_space(y, ints(1, 1, 1, 2), ints(0, 0, 0, 0), ints(0, 0, 0, 1))

    def exchanged(x: Any) -> Any:
        spread = opset2.space_to_batch(x, ints(1, 1, 2), ints(0, 0, 2), ints(0, 0, 3))
        y = convolution(opset1.unsqueeze(spread, ints(3)), numbers(5, 3, 3, 1), 2)
        y = opset1.reshape(y, ints(-1, 1, 5), False)
        return opset2.batch_to_space(y, ints(1, 1, 2), ints(0, 0, 0), ints(0, 0, 1))

    def batches_for_channels(x: Any) -> Any:
        spread = opset2.space_to_batch(x, ints(1, 1, 2), ints(0, 0, 2), ints(0, 0, 3))
        y = convolution(opset1.unsqueeze(spread, ints(0)), numbers(4, 4, 1, 3), 2)
        return opset2.batch_to_space(opset1.squeeze(y, ints(0)), ints(1, 1, 2), ints(0, 0, 0), ints(0, 0, 1))

    builds = (taken_away, (2, 3, 1, 9)), (added, (2, 3, 9)), (exchanged, (2, 3, 9)), (batches_for_channels, (2, 3, 9))
    for build, shape in builds:
        feed = [numbers(*shape)]
        converted = check(model_of(build, [feed]), feed)
        assert "Transpose" in kinds(converted)
        assert converted.warnings == ()  # the plugin makes no other convolution of them


def test_blocks_that_something_else_reads_stay_beside_the_dilated_convolution() -> None:
    def build(x: Any) -> Any:
        spread = opset2.space_to_batch(x, ints(1, 1, 2), ints(0, 0, 2), ints(0, 0, 3))
        y = opset2.batch_to_space(convolution(spread, W1, 1), ints(1, 1, 2), ints(0, 0, 0), ints(0, 0, 1))
        return [y, opset1.relu(spread)]

    feed = [numbers(2, 3, 9)]
    assert kinds(check(model_of(build, [feed]), feed)).count("Conv") == 1


@pytest.mark.parametrize(("begin", "warned"), [(1, True), (2, False)])
def test_blocks_that_the_plugin_misplaces_in_small_images(begin: int, warned: bool) -> None:
    """With all of a block but one element in front, no image is less than a block."""
    build = lambda x: opset2.space_to_batch(x, ints(1, 1, 3), ints(0, 0, begin), ints(0, 0, 4 - begin))  # noqa: E731
    feeds: list[Feed] = [[numbers(2, 3, n)] for n in (5, 8)]
    assert bool(check(model_of(build, feeds), *feeds).warnings) == warned
    smallest: Feed = [numbers(2, 3, 2)]
    if not warned:
        check(model_of(build, feeds), smallest)


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


@pytest.mark.parametrize(("begin", "half"), [(1, True), (2, False)])
def test_padding_of_which_another_part_is_cropped_stays(begin: int, half: bool) -> None:
    """The cropped numbers are half of the padding, or others."""

    def build(x: Any) -> Any:
        size = opset1.strided_slice(opset8.shape_of(x), ints(2), ints(3), ints(1), [0], [0])
        rest = opset1.floor_mod(size, ints(4))
        pads, crops = (opset1.multiply(rest, ints(2)), rest) if half else (rest, opset1.floor_mod(size, ints(3)))
        ends = [opset1.concat([ints(0, 0), each], 0) for each in (pads, crops)]
        return blockwise(x, W1, [1, 1, 2], ([0, 0, begin], ends[0]), ([0, 0, 0], ends[1]))

    feeds: list[Feed] = [[numbers(2, 3, 9)], [numbers(2, 3, 11)]]
    assert "Transpose" in kinds(check(model_of(build, feeds), *feeds))


@pytest.mark.parametrize("by_shape", [False, True])
@pytest.mark.parametrize("axis", [2, 3])
def test_image_of_one_row(by_shape: bool, axis: int) -> None:
    """TensorFlow's convolutions along one axis are those of an image of one row or column, spread along one axis."""

    def build(x: Any) -> Any:
        spread = opset2.space_to_batch(x, ints(1, 1, 2), ints(0, 0, 2), ints(0, 0, 3))
        if by_shape:
            row = opset1.reshape(spread, ints(-1, 3, 1, 7) if axis == 2 else ints(-1, 3, 7, 1), False)
            y = convolution(row, np.expand_dims(numbers(5, 3, 3), axis), 2)
            y = opset1.reshape(y, ints(-1, 5, 5), False)
        else:
            y = opset1.unsqueeze(spread, ints(axis))
            y = convolution(y, np.expand_dims(numbers(5, 3, 2), axis), 2, dilations=2)
            y = opset1.squeeze(y, ints(axis))
        return opset2.batch_to_space(y, ints(1, 1, 2), ints(0, 0, 0), ints(0, 0, 1))

    feeds = [[numbers(2, 3, 9)], [numbers(1, 3, 9)]]
    for given in (feeds[:1], feeds):
        converted = check(model_of(build, given), *given)
        assert converted.warnings == ()  # the plugin leaves nothing out
        found = kinds(converted)
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


def test_images_that_are_put_side_by_side_stay() -> None:
    def build(x: Any, wide: Any, narrow: Any) -> Any:
        spread = opset2.space_to_batch(x, ints(1, 1, 2), ints(0, 0, 2), ints(0, 0, 3))
        y = convolution(opset1.reshape(spread, wide, False), numbers(5, 3, 1, 3), 2)
        return opset2.batch_to_space(opset1.reshape(y, narrow, False), ints(1, 1, 2), ints(0, 0, 0), ints(0, 0, 1))

    def at_run_time(x: Any, wide: Any, narrow: Any) -> Any:
        rows, columns = opset1.split(wide, np.int64(0), 2).outputs()
        back, length = opset1.split(narrow, np.int64(0), 2).outputs()
        return build(x, opset1.concat([rows, ints(3, 1), columns], 0), opset1.concat([back, ints(5), length], 0))

    feeds: list[Feed] = [
        [numbers(2, 3, 9), ints(2, 14), ints(4, 6)],
        [numbers(1, 3, 7), ints(2, 6), ints(2, 4)],
    ]
    assert "Transpose" in kinds(check(model_of(at_run_time, feeds), *feeds))
