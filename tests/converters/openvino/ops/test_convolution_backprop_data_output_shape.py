"""Output sizes of transposed convolutions that a graph computes from the sizes of their own data."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset1, opset8

from ortconv.options import Semantics
from tests.converters.openvino.live import Feed, check, ints, model_of, numbers

FEEDS = [[numbers(1, 5, 7, 3)], [numbers(2, 8, 4, 3)], [numbers(1, 1, 2, 3)]]
CHANNELS_FIRST, CHANNELS_LAST = ints(0, 3, 1, 2), ints(0, 2, 3, 1)


def sizes_of(x: Any, axes: np.ndarray, scale: int, offset: int, element: str = "i32") -> Any:
    """Returns sizes times a scale plus an offset, as TensorFlow's converter writes them: one by one, then packed."""
    shape = opset1.convert(opset8.shape_of(x), element)
    dtype = np.dtype(f"int{element[1:]}")
    parts = []
    for axis in axes:
        size = opset1.strided_slice(shape, ints(axis), ints(axis + 1), ints(1), [0], [0], shrink_axis_mask=[1])
        moved = opset1.add(opset1.multiply(size, np.array(scale, dtype)), np.array(offset, dtype))
        parts.append(opset1.unsqueeze(moved, ints(0)))
    return opset1.concat(parts, 0)


def channels_last(
    auto_pad: str, *, kernel: int, stride: int, scale: int, offset: int, dilation: int = 1, pad: int = 0
) -> Any:
    def build(x: Any) -> Any:
        y = opset1.convolution_backprop_data(
            opset1.transpose(x, CHANNELS_FIRST),
            numbers(3, 2, kernel, kernel),
            [stride] * 2,
            sizes_of(x, ints(1, 2), scale, offset),
            [pad] * 2,
            [0] * 2,
            [dilation] * 2,
            auto_pad,
        )
        return opset1.transpose(y, CHANNELS_LAST)

    return build


@pytest.mark.parametrize("semantics", ["spec", "runtime"])
@pytest.mark.parametrize("auto_pad", ["same_upper", "same_lower"])
@pytest.mark.parametrize(
    ("kernel", "stride", "dilation", "offset"),
    [(3, 2, 1, 0), (3, 2, 1, -1), (4, 2, 1, 0), (4, 2, 1, 3), (2, 3, 1, 0), (2, 3, 1, 1), (3, 1, 2, 0), (5, 1, 1, -1)],
)
def test_sizes_that_follow_from_the_data_need_no_sizes_at_run_time(
    auto_pad: str, kernel: int, stride: int, dilation: int, offset: int, semantics: Semantics
) -> None:
    build = channels_last(auto_pad, kernel=kernel, stride=stride, scale=stride, offset=offset, dilation=dilation)
    feeds = FEEDS if stride > 1 or offset >= 0 else FEEDS[:2]
    converted = check(model_of(build, feeds), *feeds, semantics=semantics)
    assert "TransposedConvolutionToShape" not in kinds(converted)
    assert not {"Shape", "Slice", "Pad", "Mul"} & kinds(converted)
    assert converted.warnings == ()


@pytest.mark.parametrize(("auto_pad", "pad"), [("valid", 0), ("explicit", 0), ("explicit", 1)])
@pytest.mark.parametrize("offset", [-2, -1, 0, 1, 2, 3])
def test_padding_of_the_plugin_where_sizes_follow_from_the_data(auto_pad: str, pad: int, offset: int) -> None:
    build = channels_last(auto_pad, kernel=4, stride=2, scale=2, offset=offset, pad=pad)
    feeds = FEEDS if offset > -2 else FEEDS[:2]
    converted = check(model_of(build, feeds), *feeds, semantics="runtime")
    assert "TransposedConvolutionToShape" not in kinds(converted)
    total = max(2 - offset, 0)
    assert not converted.warnings
    notes = [text for step in converted.steps for text in step.notes]
    assert any(f"[{total // 2}, {total // 2}] by the specification" in text for text in notes) == (total // 2 != pad)


@pytest.mark.parametrize("element", ["i32", "i64"])
def test_sizes_are_followed_through_sums_differences_and_products(element: str) -> None:
    dtype = np.dtype(f"int{element[1:]}")

    def build(x: Any) -> Any:
        """The output has 2 * X - 1 elements: 3 * X less X, plus 1, less 2."""
        shape = opset1.convert(opset8.shape_of(x), element)
        size = opset8.gather(shape, ints(2), np.int64(0))
        triple = opset1.multiply(np.array([3], dtype), size)
        doubled = opset1.subtract(triple, size)
        goal = opset1.subtract(opset1.add(np.array([1], dtype), doubled), np.array([2], dtype))
        return opset1.convolution_backprop_data(
            x, numbers(3, 2, 3), [2], opset1.reshape(goal, ints(-1), False), [0], [0], [1], "same_upper"
        )

    feeds = [[numbers(1, 3, 5)], [numbers(2, 3, 9)]]
    assert kinds(check(model_of(build, feeds), *feeds)) == {"ConvTranspose"}


def test_sizes_are_followed_through_axes_of_size_one() -> None:
    """TensorFlow's transposed convolutions along one axis are those of an image of one row."""

    def build(x: Any) -> Any:
        row = opset1.reshape(opset1.unsqueeze(x, ints(-3)), ints(0, 3, 1, 0), True)
        goal = opset1.concat([ints(1, dtype=np.int32), sizes_of(x, ints(2), 2, 0)], 0)
        y = opset1.convolution_backprop_data(
            row, numbers(3, 2, 1, 4), [1, 2], goal, [0, 0], [0, 0], [1, 1], "same_upper"
        )
        return opset1.squeeze(y, ints(2))

    feeds = [[numbers(1, 3, 5)], [numbers(2, 3, 9)]]
    assert "TransposedConvolutionToShape" not in kinds(check(model_of(build, feeds), *feeds))


def test_size_that_cancels_is_known() -> None:
    def build(x: Any) -> Any:
        shape = opset8.shape_of(x)
        size = opset8.gather(shape, ints(2), np.int64(0))
        return opset1.broadcast(np.float32(1), opset1.add(opset1.subtract(size, size), ints(4)))

    converted = check(model_of(build, [[numbers(1, 3, 5)], [numbers(1, 3, 6)]]), [numbers(1, 3, 5)])
    assert "Shape" not in kinds(converted)


@pytest.mark.parametrize(("scale", "offset"), [(3, 0), (1, 4)])
def test_sizes_that_grow_otherwise_than_by_the_stride_stay_open(scale: int, offset: int) -> None:
    build = channels_last("same_upper", kernel=4, stride=2, scale=scale, offset=offset)
    feeds = FEEDS if scale < 2 else FEEDS[:1]
    assert "TransposedConvolutionToShape" in kinds(check(model_of(build, FEEDS), *feeds))


def test_sizes_of_another_tensor_or_another_axis_stay_open() -> None:
    def of_another(x: Any, y: Any) -> Any:
        return opset1.convolution_backprop_data(
            x, numbers(3, 2, 3, 3), [2, 2], sizes_of(y, ints(2, 3), 2, 0), [0, 0], [0, 0], [1, 1], "same_upper"
        )

    def of_another_axis(x: Any) -> Any:
        return opset1.convolution_backprop_data(
            x, numbers(3, 2, 3, 3), [2, 2], sizes_of(x, ints(3, 2), 2, 0), [0, 0], [0, 0], [1, 1], "same_upper"
        )

    near: list[Feed] = [[numbers(1, 3, 5, 6), numbers(1, 1, 5, 6)], [numbers(1, 3, 6, 6), numbers(1, 1, 5, 5)]]
    assert "TransposedConvolutionToShape" in kinds(check(model_of(of_another, near), *near))
    square = [[numbers(1, 3, 5, 6)], [numbers(1, 3, 6, 5)]]
    assert "TransposedConvolutionToShape" in kinds(check(model_of(of_another_axis, square), *square))


def test_sizes_known_in_part_are_followed_axis_by_axis() -> None:
    def build(x: Any) -> Any:
        goal = opset1.concat([sizes_of(x, ints(2), 2, 1), openvino.opset1.constant(ints(13, dtype=np.int32))], 0)
        return opset1.convolution_backprop_data(
            x, numbers(3, 2, 3, 4), [2, 2], goal, [0, 0], [0, 0], [1, 1], "same_lower"
        )

    feeds = [[numbers(1, 3, 5, 6)], [numbers(1, 3, 4, 6)]]
    assert kinds(check(model_of(build, feeds), *feeds)) == {"ConvTranspose"}


def kinds(converted: Any) -> set[str]:
    return {node.op_type for node in converted.model.graph}
