"""What the real library was seen to do with cases that must be refused, where that record is at hand."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

import ortconv
from ortconv.errors import ConversionErrors, ShapeError
from tests.converters.onednn_graph.documents import graph, op, tensor, write
from tests.converters.onednn_graph.refusing import window
from tests.shared import SHARED

RECORDED = SHARED / "vectors" / "error_cases.json"
OUTCOMES: dict[str, tuple[str, str] | None] = {
    "dst_shape inconsistent with forward size": ("ShapeError", "dst_shape"),
    "no dst_shape and output shape unknown": ("UnsupportedAttributeError", "dst_shape"),
    "groups>1": None,
    "dst_shape in wrong layout order for NXC": ("ShapeError", "dst_shape"),
    "pads_begin absent": ("UnsupportedAttributeError", "pads_begin"),
    "weights_format IOX": ("UnsupportedAttributeError", "weights_format"),
    "dilation 0": ("UnsupportedAttributeError", "dilations"),
    "4 spatial dims": None,
}
"""Case -> class of the error and its subject; None for what converts although the library cannot."""


def recorded() -> list[Any]:
    if not RECORDED.is_file():
        return [pytest.param({}, marks=pytest.mark.skip(reason=f"no recorded error cases at {RECORDED}"), id="none")]
    found = json.loads(RECORDED.read_text())
    return [pytest.param(case, id=case["case"]) for case in found if case["op"] == "onednn.ConvolutionBackwardData"]


@pytest.mark.parametrize("case", recorded())
def test_recorded_error_case(tmp_path: pathlib.Path, case: dict[str, Any]) -> None:
    attributes = dict(case["attrs"])
    spatial = 4 if case["case"] == "4 spatial dims" else 1
    channels_last = attributes["data_format"] == "NXC"
    data = attributes.pop("diff_dst", [1, 3, 2] if channels_last else [1, 2, *[3] * spatial])
    weights = attributes.pop("weights", [2, 2, *[3] * spatial])
    if spatial > 1:
        attributes |= {name: attributes[name] * spatial for name in window()} | {"dst_shape": [1, 2, *[5] * spatial]}
    types = {"groups": "s64", "data_format": "string", "weights_format": "string"}
    node = op(
        0,
        "ConvolutionBackwardData",
        [tensor(0, data), tensor(1, weights)],
        [tensor(2, [-(2**63)], stride=[-(2**63)])],
        {name: (types.get(name, "s64[]"), value) for name, value in attributes.items()},
    )
    path = write(tmp_path, graph(node))
    expected = OUTCOMES[case["case"]]
    if expected is None:
        assert ortconv.convert(path)
        return
    with pytest.raises(ConversionErrors) as caught:
        ortconv.convert(path)
    (error,) = caught.value.exceptions
    subject = error.input if isinstance(error, ShapeError) else getattr(error, "attribute", None)
    assert (type(error).__name__, subject) == expected
    if "layout order" in case["case"]:
        assert "data_format NXC" in str(error)
