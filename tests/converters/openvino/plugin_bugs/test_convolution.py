"""Convolutions of one channel that leave one column, of which OpenVINO's CPU plugin takes wrong rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from openvino import opset1

from ortconv.api import conversion
from tests.converters.openvino.live import assert_close, model_of, numbers, run_onnx, run_openvino

BASE: dict[str, Any] = {"shape": (2, 1, 6, 5), "filter": (2, 1, 4, 4), "strides": [1, 4]}


def convolution(x: Any, filter: np.ndarray, case: dict[str, Any]) -> Any:
    rank = len(case["strides"])
    op = opset1.group_convolution if filter.ndim == rank + 3 else opset1.convolution
    pads = case.get("pads", [0] * rank)
    return op(
        x, filter, case["strides"], pads, pads, case.get("dilations", [1] * rank), case.get("auto_pad", "explicit")
    )


@pytest.mark.parametrize(
    ("change", "warned"),
    [
        ({}, True),
        ({"strides": [1, 2]}, True),
        ({"pads": [0, 1], "shape": (2, 1, 6, 3)}, True),
        ({"dilations": [2, 1], "shape": (1, 1, 9, 5)}, True),
        ({"filter": (1, 2, 1, 4, 4)}, True),
        ({"shape": (1, 1, 4, 6, 5), "filter": (2, 1, 2, 2, 4), "strides": [1, 1, 4]}, True),
        ({"auto_pad": "same_upper", "shape": (1, 1, 6, 6), "filter": (2, 1, 4, 5), "strides": [1, 7]}, True),
        ({"auto_pad": "same_upper", "shape": (1, 1, 6, 4), "filter": (2, 1, 4, 5), "strides": [1, 7]}, True),
        ({"auto_pad": "same_upper", "shape": (1, 1, 6, 4), "filter": (2, 1, 4, 4), "strides": [1, 4]}, False),
        ({"strides": [1, 1], "shape": (2, 1, 6, 4)}, False),
        ({"strides": [1, 1], "pads": [0, 1], "shape": (2, 1, 6, 2)}, False),
        ({"pads": [0, 1], "shape": (2, 1, 6, 4)}, True),
        ({"strides": [2, 4]}, False),
        ({"shape": (2, 1, 6, 4)}, False),
        ({"shape": (2, 1, 6, 8)}, False),
        ({"shape": (2, 1, 4, 5)}, False),
        ({"dilations": [1, 2], "shape": (2, 1, 6, 9)}, False),
        ({"shape": (2, 2, 6, 5), "filter": (2, 2, 4, 4)}, False),
        ({"shape": (2, 2, 6, 5), "filter": (2, 2, 1, 4, 4)}, False),
        ({"shape": (2, 1, 5), "filter": (2, 1, 4), "strides": [4]}, False),
    ],
)
def test_page_is_followed(change: dict[str, Any], warned: bool) -> None:
    """A second channel of zeros makes no difference by the page, and keeps the plugin from it."""
    case = BASE | change
    x, w = numbers(*case["shape"]), numbers(*case["filter"])
    channel = 2 if w.ndim == x.ndim + 1 else 1
    wide = np.concatenate([w, np.zeros_like(w)], axis=channel)
    feed = [np.concatenate([x.reshape(x.shape[0], -1, w.shape[channel], *x.shape[2:])] * 2, axis=2)]
    feed = [feed[0].reshape(x.shape[0], -1, *x.shape[2:])]
    (expected,) = run_openvino(model_of(lambda y: convolution(y, wide, case), [feed]), [feed])
    converted = conversion(model_of(lambda y: convolution(y, w, case), [[x]]))
    assert_close(run_onnx(converted, [[x]])[0][0], expected[0], 16)
    assert [("leave one column" in text) for text in converted.warnings] == [True] * warned
    if not warned:
        assert_close(run_openvino(model_of(lambda y: convolution(y, w, case), [[x]]), [[x]])[0][0], expected[0], 16)


@pytest.mark.parametrize(("declared", "warned"), [([2, 1, -1, 5], True), ([-1, 1, 6, 5], True), ([2, 1, 6, -1], False)])
def test_dynamic_sizes(declared: list[int], warned: bool) -> None:
    x, w = numbers(*BASE["shape"]), numbers(*BASE["filter"])
    converted = conversion(model_of(lambda y: convolution(y, w, BASE), [[x]], [declared]))
    assert [("leave one column" in text) for text in converted.warnings] == [True] * warned
