"""The float64 reference of oneDNN graphs, against loops and formulas that share no code with it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ortconv import onednn
from ortconv.api import detect
from ortconv.errors import ExecutionError
from ortconv.onednn.op_schema import REFERENCES
from ortconv.verification.onednn import OneDnnReference
from tests.command_line import upsampling
from tests.converters.onednn_graph import reference


def graph(kind: str, shapes: Mapping[str, list[int]], dtype: str = "f32", **attributes: Any) -> onednn.Graph:
    """A oneDNN graph of one op."""
    made = onednn.Graph(kind)
    made.op(kind, [made.tensor(name, dtype, shape) for name, shape in shapes.items()], **attributes)
    return made


def evaluate(source: onednn.Graph, feeds: Mapping[str, np.ndarray], semantics: Any = "spec") -> np.ndarray:
    read = detect(source).read(source, {})
    (output,) = OneDnnReference(read, semantics).run(feeds, everything=False).outputs
    return output


SAMPLES = (
    ((7,), (3,), (2,), (1,), "NCX", 1),
    ((6, 5), (3, 2), (2, 3), (2, 1), "NXC", 2),
    ((4, 3, 5), (2, 3, 1), (1, 2, 3), (1, 1, 2), "NXC", 1),
)
"""Spatial sizes of the big tensor, kernel, strides, dilations, data_format, groups."""


SAME = ("SAME_UPPER", "SAME_LOWER")


@pytest.mark.parametrize("sample", SAMPLES, ids=["1d", "2d", "3d"])
class TestOneDnnReference:
    """The evaluator against nested loops that share no code with it."""

    @staticmethod
    def setup_case(sample: Any, auto_pad: str) -> tuple[dict[str, Any], list[list[int]], tuple[int, ...]]:
        big, kernel, strides, dilations, data_format, groups = sample
        pads = [
            reference.conv_same(auto_pad, *axis) if auto_pad.startswith("SAME") else (0, 0)
            for axis in zip(big, kernel, strides, dilations, strict=True)
        ]
        if auto_pad == "None":
            pads = [(1, 2)] * len(big)
        small = tuple(
            (size + b + e - (k - 1) * d - 1) // s + 1
            for size, k, s, d, (b, e) in zip(big, kernel, strides, dilations, pads, strict=True)
        )
        attributes = {
            "strides": list(strides),
            "dilations": list(dilations),
            "pads_begin": [1] * len(big),
            "pads_end": [2] * len(big),
            "auto_pad": auto_pad,
            "groups": groups,
            "data_format": data_format,
        }
        return attributes, [[b for b, _ in pads]], small

    @pytest.mark.parametrize("auto_pad", ["None", "VALID", *SAME])
    def test_convolution_and_its_gradients(self, sample: Any, auto_pad: str) -> None:
        big_size, kernel, strides, dilations, data_format, groups = sample
        attributes, (begin,), small_size = self.setup_case(sample, auto_pad)
        rng = np.random.default_rng(1)
        big, weights = rng.standard_normal((2, 4, *big_size)), rng.standard_normal((6, 4 // groups, *kernel))
        small = rng.standard_normal((2, 6, *small_size))
        loops = reference.Map(strides, dilations, begin, groups)
        lay = lambda array: reference.from_ncx(array, data_format).astype(np.float32)  # noqa: E731
        xio = reference.from_first(weights, "XIO").astype(np.float32)
        rounded = [array.astype(np.float32).astype(np.float64) for array in (big, weights, small)]

        forward = graph("Convolution", {"src": list(lay(big).shape), "w": list(xio.shape)}, **attributes)
        np.testing.assert_allclose(
            evaluate(forward, {"src": lay(big), "w": xio}),
            lay(loops.small(rounded[0], rounded[1], small_size)),
            rtol=1e-5,
            atol=1e-5,
        )
        data = graph(
            "ConvolutionBackwardData",
            {"diff_dst": list(lay(small).shape), "w": list(xio.shape)},
            dst_shape=list(lay(big).shape),
            **attributes,
        )
        np.testing.assert_allclose(
            evaluate(data, {"diff_dst": lay(small), "w": xio}, "runtime"),
            lay(loops.big(rounded[2], rounded[1], big_size)),
            rtol=1e-5,
            atol=1e-5,
        )
        gradient = graph(
            "ConvolutionBackwardWeights",
            {"src": list(lay(big).shape), "diff_dst": list(lay(small).shape)},
            weights_shape=list(xio.shape),
            **attributes,
        )
        np.testing.assert_allclose(
            evaluate(gradient, {"src": lay(big), "diff_dst": lay(small)}),
            reference.from_first(loops.weights(rounded[0], rounded[2], kernel), "XIO"),
            rtol=1e-4,
            atol=1e-4,
        )

    @pytest.mark.parametrize("auto_pad", ["None", "VALID", *SAME])
    def test_transposed_convolution_and_its_gradients(self, sample: Any, auto_pad: str) -> None:
        small_size, kernel, strides, dilations, data_format, groups = sample
        rule = {"None": (1, 0), "VALID": (0, 0)}
        pads = [
            rule.get(auto_pad) or reference.conv_transpose_same(auto_pad, *axis)
            for axis in zip(kernel, strides, dilations, strict=True)
        ]
        begin = [b for b, _ in pads]
        big_size = [
            reference.full(*axis) - b - e
            for axis, (b, e) in zip(zip(small_size, kernel, strides, dilations, strict=True), pads, strict=True)
        ]
        attributes = {
            "strides": list(strides),
            "dilations": list(dilations),
            "pads_begin": [1] * len(kernel),
            "pads_end": [0] * len(kernel),
            "auto_pad": auto_pad,
            "groups": groups,
            "data_format": data_format,
            "weights_format": "IOX",
        }
        rng = np.random.default_rng(3)
        small = rng.integers(-3, 4, (2, 4, *small_size)).astype(np.float32)
        big = rng.integers(-3, 4, (2, 6, *big_size)).astype(np.float32)
        weights = rng.integers(-3, 4, (4, 6 // groups, *kernel)).astype(np.float32)
        src, diff_dst = reference.from_ncx(small, data_format), reference.from_ncx(big, data_format)
        loops = reference.Map(strides, dilations, begin, groups)

        forward = graph("ConvTranspose", {"src": list(src.shape), "w": list(weights.shape)}, **attributes)
        np.testing.assert_array_equal(
            evaluate(forward, {"src": src, "w": weights}),
            reference.from_ncx(loops.big(small, weights, big_size), data_format),
        )
        gradient = graph(
            "ConvTransposeBackwardWeights",
            {"src": list(src.shape), "diff_dst": list(diff_dst.shape)},
            weights_shape=list(weights.shape),
            **attributes,
        )
        np.testing.assert_array_equal(
            evaluate(gradient, {"src": src, "diff_dst": diff_dst}), loops.weights(big, small, kernel)
        )
        if auto_pad in SAME:
            return  # The gradient of the data pads as a convolution does; see above.
        data = graph(
            "ConvTransposeBackwardData", {"diff_dst": list(diff_dst.shape), "w": list(weights.shape)}, **attributes
        )
        np.testing.assert_array_equal(
            evaluate(data, {"diff_dst": diff_dst, "w": weights}),
            reference.from_ncx(loops.small(big, weights, small_size), data_format),
        )

    @pytest.mark.parametrize("auto_pad", SAME)
    def test_spec_and_runtime_split_an_odd_total_differently(self, sample: Any, auto_pad: str) -> None:
        big_size, kernel, strides, dilations, data_format, groups = sample
        attributes, _, small_size = self.setup_case(sample, auto_pad)
        rng = np.random.default_rng(2)
        small = rng.standard_normal((1, 2 * groups, *small_size)).astype(np.float32)
        weights = rng.standard_normal((2 * groups, 3, *kernel)).astype(np.float32)
        diff_dst, xio = reference.from_ncx(small, data_format), reference.from_first(weights, "XIO")
        shape = list(reference.from_ncx(np.zeros((1, 3 * groups, *big_size)), data_format).shape)
        source = graph(
            "ConvolutionBackwardData",
            {"diff_dst": list(diff_dst.shape), "w": list(xio.shape)},
            dst_shape=shape,
            **attributes,
        )
        for semantics in ("spec", "runtime"):
            begin = [
                reference.backward_data_begin(semantics, auto_pad, x, k, y, s, d, 0)
                for x, k, y, s, d in zip(small_size, kernel, big_size, strides, dilations, strict=True)
            ]
            expected = reference.Map(strides, dilations, begin, groups).big(
                small.astype(np.float64), weights.astype(np.float64), big_size
            )
            np.testing.assert_allclose(
                evaluate(source, {"diff_dst": diff_dst, "w": xio}, semantics),
                reference.from_ncx(expected, data_format),
                rtol=1e-5,
                atol=1e-5,
            )


ELEMENTWISE_SAMPLES: dict[str, tuple[dict[str, Any], Callable[[float], float]]] = {
    "Abs": ({}, abs),
    "Elu": ({"alpha": 0.5}, lambda x: x if x > 0 else 0.5 * (math.exp(x) - 1)),
    "Clamp": ({"min": -0.5, "max": 1.0}, lambda x: max(-0.5, min(1.0, x))),
    "GELU": ({}, lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2),
    "HardSigmoid": ({"alpha": 0.25, "beta": 0.5}, lambda x: max(0.0, min(1.0, 0.25 * x + 0.5))),
    "HardSwish": ({}, lambda x: x * max(0.0, min(1.0, x / 6 + 0.5))),
    "LeakyReLU": ({"alpha": 0.125}, lambda x: x if x > 0 else 0.125 * x),
    "Mish": ({}, lambda x: x * math.tanh(math.log1p(math.exp(x)))),
    "Round": ({}, round),
    "Sigmoid": ({}, lambda x: 1 / (1 + math.exp(-x))),
    "SoftPlus": ({"beta": 2.0}, lambda x: math.log1p(math.exp(2 * x)) / 2),
    "Square": ({}, lambda x: x * x),
}


@pytest.mark.parametrize("kind", ELEMENTWISE_SAMPLES)
def test_elementwise_op_is_follows_its_specification(kind: str) -> None:
    attributes, expected = ELEMENTWISE_SAMPLES[kind]
    x = np.array([-4.0, -2.5, -0.75, 0.0, 0.5, 1.5, 3.25], np.float32)
    result = evaluate(graph(kind, {"x": [7]}, **attributes), {"x": x})
    np.testing.assert_allclose(result, [expected(float(each)) for each in x], rtol=1e-6, atol=1e-7)


def test_narrow_results_are_rounded_where_they_are_produced() -> None:
    source = onednn.Graph("sum")
    x = source.tensor("x", "bf16", [2])
    y = source.tensor("y", "bf16", [2])
    total = source.op("Add", [x, y])
    source.op("Multiply", [total, total])
    feeds = {name: np.array([1.0, 1.0 + 2**-7], ml_dtypes.bfloat16) for name in ("x", "y")}
    feeds["y"] = np.array([2**-8, 2**-8], ml_dtypes.bfloat16)
    total_rounded = (feeds["x"].astype(np.float64) + feeds["y"].astype(np.float64)).astype(ml_dtypes.bfloat16)
    expected = (total_rounded.astype(np.float64) ** 2).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(evaluate(source, feeds), expected)


def test_every_op_that_is_converted_can_be_verified() -> None:
    assert {lowering.op_type for lowering in detect(upsampling()).registry} <= REFERENCES.keys()


def test_op_beyond_the_reference_is_refused() -> None:
    source = onednn.Graph()
    source.op("Wildcard", [source.tensor("x", "f32", [2])], dtype="f32")
    with pytest.raises(ExecutionError, match="float64 reference: does not know Wildcard") as caught:
        evaluate(source, {"x": np.zeros(2, np.float32)})
    assert caught.value.runtime == "float64 reference"
