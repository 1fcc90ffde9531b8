"""Convolutions of images of one channel that leave one column: OpenVINO's CPU plugin takes wrong rows of the data."""

from __future__ import annotations

import onnx_ir as ir

from ortconv.converters.conv.window import Window
from ortconv.convolution_arithmetic import AutoPad, conv_size, same_padding
from ortconv.graph.builder import Builder, Ints

__all__ = ["warn_of_one_column"]

_SEVERAL = 2
"""What stands for a number of rows that is not known."""


def warn_of_one_column(
    b: Builder, data: ir.Value, filter: ir.Value, window: Window, auto_pad: AutoPad, begin: Ints, end: Ints
) -> None:
    """Warns where strides along the last axis alone leave one position of it, unless the kernel is as wide as the data.

    Args:
        b: The builder.
        data: One channel, of a known width, where the warning is due.
        filter: Weights.
        window: How the kernel moves.
        auto_pad: NOTSET takes `begin` and `end`.
        begin: Begin paddings.
        end: End paddings.
    """
    if data.shape is None or filter.shape is None:
        return
    channels, *spatial = data.shape[1:]
    taps = filter.shape[2:]
    *others, stride = window.strides
    if len(spatial) != len(taps):
        return
    if channels != 1 or stride == 1 or set(others) != {1} or window.dilations[-1] != 1:
        return
    sizes: list[int] = []
    alike = True
    for axis, (size, count) in enumerate(zip(spatial, taps, strict=True)):
        if not isinstance(size, int) or not isinstance(count, int):
            if axis == window.rank - 1:
                return
            sizes.append(_SEVERAL)
            continue
        step, dilation = window.strides[axis], window.dilations[axis]
        explicit = auto_pad == AutoPad.NOTSET
        padding = begin[axis] + end[axis] if explicit else same_padding(size, count, step, dilation)
        sizes.append(conv_size(size, count, step, dilation, padding))
        alike = size == count and not padding
    *rows, columns = sizes
    if columns == 1 and not alike and max(rows) > 1:
        b.warn(
            "the page is followed: OpenVINO's CPU plugin may take other rows of an image of one channel where a "
            "convolution with strides leaves one column"
        )
