"""Convolution arithmetic: laws for any sizes and attributes, drawn by hypothesis."""

from __future__ import annotations

import hypothesis
import hypothesis.strategies as st

from ortconv.convolution_arithmetic import (
    AutoPad,
    conv_size,
    conv_transpose_begin,
    conv_transpose_size,
    extent,
    same_padding,
    split,
)

size = st.integers(1, 40)
small = st.integers(1, 7)


@hypothesis.given(size, small, small, small)
def test_same_padding_gives_the_size_divided_by_the_stride(x: int, kernel: int, stride: int, dilation: int) -> None:
    for rule in (AutoPad.SAME_UPPER, AutoPad.SAME_LOWER):
        begin, end = split(rule, same_padding(x, kernel, stride, dilation))
        assert begin >= 0
        assert end >= 0
        assert abs(begin - end) <= 1
        total = begin + end
        if extent(kernel, dilation) >= stride:
            assert conv_size(x, kernel, stride, dilation, total) == -(-x // stride)
        assert total == 0 or (begin >= end if rule == AutoPad.SAME_LOWER else end >= begin)


@hypothesis.given(size, small, small, small, st.integers(0, 60), st.integers(0, 5))
def test_split_halves_add_up_to_the_total_and_never_go_negative(
    x: int, kernel: int, stride: int, dilation: int, y: int, output_padding: int
) -> None:
    full = conv_transpose_size(x, kernel, stride, dilation)
    upper = conv_transpose_begin(AutoPad.SAME_UPPER, full, y, output_padding, 0)
    lower = conv_transpose_begin(AutoPad.SAME_LOWER, full, y, output_padding, 0)
    assert 0 <= upper <= lower <= upper + 1
    assert upper + lower == max(full + output_padding - y, 0)


@hypothesis.given(size, small, small, small, st.integers(0, 6), st.integers(0, 6))
def test_transposed_size_is_a_size_that_the_convolution_undoes(
    y: int, kernel: int, stride: int, dilation: int, begin: int, end: int
) -> None:
    x = conv_size(y, kernel, stride, dilation, begin + end)
    hypothesis.assume(x >= 1)
    restored = conv_transpose_size(x, kernel, stride, dilation) - begin - end
    assert restored <= y < restored + stride
