"""Pools and their gradients against the references: attributes drawn at random, formats, types, ranks, refusals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
import pytest

import ortconv
from ortconv import onednn
from ortconv.errors import ConversionErrors
from tests.converters.onednn_graph.one_op import build, check
from tests.converters.onednn_graph.references import REFERENCES
from tests.converters.onednn_graph.references.call import DTYPES, Call, Slot

AUTO_PADS = ("None", "none", "valid", "SAME_UPPER", "same_lower")


class Case:
    """One pool with everything that decides its result; the sizes are such that there is a window."""

    def __init__(self, kind: str, seed: int) -> None:
        draw = np.random.default_rng([seed, len(kind)])
        self.spatial = spatial = int(draw.integers(1, 4))
        self.dtype = str(draw.choice(["f32", "f32", "bf16", "f16"]))
        self.data_format = str(draw.choice(["NCX", "NXC"]))
        self.attributes: dict[str, Any] = {
            name: draw.integers(low, high, spatial).tolist()
            for name, low, high in (("kernel", 1, 4), ("strides", 1, 4), ("pads_begin", 0, 3), ("pads_end", 0, 3))
        }
        self.attributes |= {"auto_pad": str(draw.choice(AUTO_PADS)), "data_format": self.data_format}
        if kind.startswith("Max"):
            self.attributes["dilations"] = draw.integers(1, 3, spatial).tolist()
        else:
            self.attributes["exclude_pad"] = bool(draw.integers(2))
        if not kind.endswith("Backward"):
            self.attributes["rounding_type"] = str(draw.choice(["floor", "ceil"]))
        if self.attributes.get("exclude_pad"):
            # With a padding as large as the kernel a window may cover nothing, which has no mean.
            for name in ("pads_begin", "pads_end"):
                pads = zip(self.attributes[name], self.attributes["kernel"], strict=True)
                self.attributes[name] = [min(pad, k - 1) for pad, k in pads]
        least = [(k - 1) * 2 + 1 for k in self.attributes["kernel"]]
        sizes = [int(size) for size in draw.integers(least, np.add(least, 5))]
        self.shape = (2, 3, *sizes) if self.data_format == "NCX" else (2, *sizes, 3)
        # Small integers, so that there are several maxima in a window.
        self.src = draw.integers(-3, 4, self.shape).astype(DTYPES[self.dtype])
        self.dynamic = bool(draw.integers(2))
        with np.errstate(invalid="ignore"):
            if np.isnan(self.forward(kind.removesuffix("Backward"))).any():
                self.attributes["rounding_type"] = "floor"

    def forward(self, kind: str) -> np.ndarray:
        result = REFERENCES[kind](Call(kind, [self.src], self.attributes, [Slot(self.dtype)]))
        assert isinstance(result, np.ndarray)
        return result

    def gradient(self, kind: str) -> np.ndarray:
        shape = self.forward(kind).shape
        return np.random.default_rng(1).integers(-4, 5, shape).astype(DTYPES[self.dtype])


@pytest.mark.parametrize("seed", range(100))
@pytest.mark.parametrize("kind", ["AvgPool", "MaxPool"])
def test_pools(kind: str, seed: int) -> None:
    case = Case(kind, seed)
    shape = None if case.dynamic else case.forward(kind).shape
    check(kind, [case.src], [(case.dtype, shape)], case.attributes, dynamic=case.dynamic)


@pytest.mark.parametrize("seed", range(100))
def test_gradient_of_the_mean(seed: int) -> None:
    case = Case("AvgPoolBackward", seed)
    inputs = [case.gradient("AvgPool")]
    how = seed % 4
    plain = not case.attributes["exclude_pad"] and not case.attributes["auto_pad"].casefold().startswith("same")
    if how > 1:
        inputs.append(np.array(case.shape, np.int32))
    given = {**case.attributes, **({"src_shape": case.shape} if how == 0 else {})}
    constants = {"x1": inputs[1]} if how == 2 or (how == 3 and not plain) else {}
    result = [(case.dtype, case.shape if how == 1 else None)]
    check("AvgPoolBackward", inputs, result, given, dynamic=case.dynamic, constants=constants)


@pytest.mark.parametrize("seed", range(100))
def test_gradient_of_the_maximum(seed: int) -> None:
    case = Case("MaxPoolBackward", seed)
    inputs = [case.src, case.gradient("MaxPool")]
    check("MaxPoolBackward", inputs, [(case.dtype, case.shape)], case.attributes, dynamic=case.dynamic)


def test_the_first_of_several_maxima_takes_all_of_the_gradient() -> None:
    src, g = np.zeros((1, 1, 4), np.float32), np.array([[[1, 2, 4]]], np.float32)
    attributes = {"kernel": [2], "strides": [1], "pads_begin": [0], "pads_end": [0], "data_format": "NCX"}
    model = check("MaxPoolBackward", [src, g], [("f32", (1, 1, 4))], attributes, exact=True)
    assert "ScatterElements" in [node.op_type for node in model.graph.node]


@pytest.mark.parametrize(("dtype", "lowest"), [("f32", -math.inf), ("bf16", -math.inf), ("f16", -math.inf)])
def test_a_window_in_the_padding_alone_has_the_lowest_number(dtype: str, lowest: float) -> None:
    attributes = {"kernel": [2], "strides": [2], "pads_begin": [3], "pads_end": [2], "data_format": "NCX"}
    src = np.full((1, 1, 2), lowest, DTYPES[dtype])
    check("MaxPool", [src], [(dtype, None)], attributes, exact=True)


def types(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def test_common_pools_are_single_nodes() -> None:
    src = np.zeros((1, 3, 8, 8), np.float32)
    common = {"kernel": [3, 3], "strides": [2, 2], "pads_begin": [1, 1], "pads_end": [1, 1], "data_format": "NCX"}
    assert types(check("MaxPool", [src], [("f32", (1, 3, 4, 4))], common)) == ["MaxPool"]
    average = {**common, "exclude_pad": True}
    assert types(check("AvgPool", [src], [("f32", (1, 3, 4, 4))], average)) == ["AveragePool"]


COMMON = {"kernel": [2], "strides": [1], "pads_begin": [0], "pads_end": [0], "data_format": "NCX"}
X = (1, 3, 5)
REFUSED: list[tuple[str, list[tuple[str, tuple[int, ...]]], dict[str, Any], str]] = [
    ("MaxPool", [("f32", X)], {"kernel": [2, 2]}, "kernel"),
    ("MaxPool", [("f32", X)], {"kernel": [0]}, "kernel"),
    ("MaxPool", [("f32", X)], {"strides": [0]}, "strides"),
    ("MaxPool", [("f32", X)], {"dilations": [0]}, "dilations"),
    ("MaxPool", [("f32", X)], {"pads_begin": [-1]}, "pads_begin"),
    ("MaxPool", [("f32", X)], {"kernel": [9]}, "must fit"),
    ("MaxPool", [("f32", X)], {"auto_pad": "same"}, "auto_pad"),
    ("MaxPool", [("f32", X)], {"rounding_type": "up"}, "rounding_type"),
    ("MaxPool", [("f32", X)], {"data_format": "NHWC"}, "data_format"),
    ("MaxPool", [("s32", X)], {}, "s32"),
    ("MaxPool", [("f32", (3, 5))], {}, "three dimensions"),
    (
        "MaxPool",
        [("f32", (1, 1, 2, 2, 2, 2))],
        {n: [1] * 4 for n in ("kernel", "strides", "pads_begin", "pads_end")},
        "3",
    ),
    ("AvgPool", [("f32", X)], {"exclude_pad": True, "pads_begin": [2]}, "mean of nothing"),
    ("AvgPoolBackward", [("f32", X)], {"exclude_pad": False}, "src_shape"),
    ("AvgPoolBackward", [("f32", X)], {"exclude_pad": False, "src_shape": [1, 3, 9]}, "diff_dst"),
    ("AvgPoolBackward", [("f32", X)], {"exclude_pad": False, "src_shape": [1, 2, 6]}, "src_shape"),
    ("AvgPoolBackward", [("f32", X), ("s32", (3,))], {"exclude_pad": True}, "exclude_pad"),
    ("AvgPoolBackward", [("f32", X), ("s32", (3,))], {"exclude_pad": False, "auto_pad": "same_upper"}, "auto_pad"),
    ("AvgPoolBackward", [("f32", X), ("f32", (3,))], {"exclude_pad": False}, "src_shape"),
    ("MaxPoolBackward", [("f32", X), ("f32", X)], {}, "diff_dst"),
]


@pytest.mark.parametrize(("kind", "inputs", "attributes", "text"), REFUSED, ids=range(len(REFUSED)))
def test_refusals(kind: str, inputs: Any, attributes: dict[str, Any], text: str) -> None:
    arrays = [np.ones(shape, DTYPES[dtype]) for dtype, shape in inputs]
    with pytest.raises(ConversionErrors) as caught:
        ortconv.convert(build(kind, arrays, [(inputs[0][0], None)], {**COMMON, **attributes}))
    (error,) = caught.value.exceptions
    assert text in str(error)
    assert error.node is not None
    assert error.node.op_type == kind


@pytest.mark.parametrize("seed", range(100))
@pytest.mark.parametrize("kind", ["AvgPool", "MaxPool"])
def test_the_builder_knows_the_sizes(kind: str, seed: int) -> None:
    case = Case(kind, seed)
    graph = onednn.Graph(kind)
    result = graph.op(kind, [graph.tensor("src", case.dtype, case.shape)], **case.attributes)
    assert result.shape == case.forward(kind).shape
