"""DeformableConvolution against OpenVINO's CPU plugin."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from openvino import opset1, opset8

from ortconv.errors import UnsupportedAttributeError
from tests.converters.openvino.live import Refusal, Row, assert_refused, check, check_row, model_of, numbers

BOUND = 64
KERNEL = (3, 2)
MOVES = (((1, 1), (0, 0), (1, 1)), ((2, 1), (1, 1), (1, 1)), ((1, 1), (1, 2), (2, 1)))
"""Strides, pads and dilations."""


def tensors(
    group: int, parts: int, move: tuple[tuple[int, int], ...], *, masked: bool, height: int = 7
) -> list[np.ndarray]:
    """Returns data, offsets, filters and perhaps a mask."""
    strides, pads, dilations = move
    sizes = (height, 6)
    extents = [(kernel - 1) * dilation + 1 for kernel, dilation in zip(KERNEL, dilations, strict=True)]
    area = [
        (size + 2 * pad - extent) // stride + 1
        for size, pad, extent, stride in zip(sizes, pads, extents, strides, strict=True)
    ]
    elements = KERNEL[0] * KERNEL[1] * parts
    arrays = [
        numbers(2, 4, *sizes),
        numbers(2, 2 * elements, *area, low=-2, high=2),
        numbers(6, 4 // group, *KERNEL, seed=3),
    ]
    return [*arrays, numbers(2, elements, *area, low=0, high=1)] if masked else arrays


def build(group: int, parts: int, move: tuple[tuple[int, int], ...], *, fades: bool) -> Any:
    strides, pads, dilations = (list(each) for each in move)

    def make(data: Any, offsets: Any, filters: Any, mask: Any = None) -> Any:
        return opset8.deformable_convolution(
            data, offsets, filters, strides, pads, pads, dilations, mask, "explicit", group, parts, fades
        )

    return make


ROWS = [
    Row(
        f"groups {group} {parts}, {move}, mask {masked}, edges fade {fades}",
        build(group, parts, move, fades=fades),
        [tensors(group, parts, move, masked=masked, height=height) for height in (7, 9)],
        BOUND,
    )
    for group, parts in ((1, 1), (2, 1), (1, 2), (2, 2))
    for move in MOVES
    for masked in (False, True)
    for fades in (False, True)
]
ROWS += [
    Row(
        f"version 1, {move}",
        lambda x, o, w, m=move: opset1.deformable_convolution(
            x, o, w, list(m[0]), list(m[1]), list(m[1]), list(m[2]), "explicit", 2, 2
        ),
        [tensors(2, 2, move, masked=False)],
        BOUND,
    )
    for move in MOVES
]
ROWS += [
    Row(
        auto_pad,
        lambda x, o, w, a=auto_pad: opset8.deformable_convolution(
            x, o, w, [1, 1], [0, 0], [0, 0], [1, 1], None, a, 1, 1, True
        ),
        [[numbers(1, 4, 7, 6), numbers(1, 12, *area), numbers(6, 4, *KERNEL)]],
        BOUND,
    )
    for auto_pad, area in (("same_upper", (7, 6)), ("same_lower", (7, 6)), ("valid", (5, 5)))
]
ROWS += [
    Row(
        f"points on the edges of the image, edges fade {fades}",
        build(1, 1, MOVES[0], fades=fades),
        [[data, np.round(offsets * 3), filters]],
        BOUND,
    )
    for fades in (False, True)
    for data, offsets, filters in [tensors(1, 1, MOVES[0], masked=False)]
]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_matches_openvino(row: Row) -> None:
    check_row(row)


@pytest.mark.parametrize("auto_pad", ["same_upper", "same_lower"])
@pytest.mark.parametrize("fades", [False, True])
def test_sizes_of_the_run_with_padding_of_its_own(auto_pad: str, fades: bool) -> None:
    """Everything about the data but the rank is open: the weights tell the channels, and the sizes the padding."""
    weights = numbers(6, 2, *KERNEL, seed=1)
    feeds = [
        [numbers(1, 4, h, w), numbers(1, 12, -(-h // 2), -(-w // 3), low=-1, high=1)]
        for h, w in ((7, 6), (4, 5), (5, 8))
    ]
    model = model_of(
        lambda x, o: opset8.deformable_convolution(
            x, o, weights, [2, 3], [0, 0], [0, 0], [1, 2], None, auto_pad, 2, 1, fades
        ),
        feeds,
        [[-1, -1, -1, -1], [-1, -1, -1, -1]],
    )
    check(model, *feeds, bound=BOUND)


SAME = [numbers(1, 4, 7, 6), numbers(1, 12, 7, 6), numbers(6, 4, *KERNEL)]
REFUSALS = [
    Refusal(
        "negative pads",
        lambda x, o, w: opset8.deformable_convolution(x, o, w, [1, 1], [-1, 0], [3, 1], [1, 1]),
        SAME,
        UnsupportedAttributeError,
        {"attribute": "pads_begin"},
    ),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_refused(refusal: Refusal) -> None:
    assert_refused(refusal)
