"""The six convolution ops against their definition: random attributes, layouts, groups, ranks, types and semantics."""

from __future__ import annotations

import dataclasses
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ortconv
from ortconv import onednn
from ortconv.onednn.op_schema import KINDS
from tests.converters.onednn_graph import reference
from tests.running import run

NUMPY = {"f32": np.dtype(np.float32), "bf16": np.dtype(ml_dtypes.bfloat16), "f16": np.dtype(np.float16)}
FORWARD = ("Convolution", "ConvTranspose", "ConvTransposeBackwardData")
TRANSPOSED = ("ConvTranspose", "ConvTransposeBackwardData", "ConvTransposeBackwardWeights")
ALL = (*FORWARD, "ConvolutionBackwardData", "ConvolutionBackwardWeights", "ConvTransposeBackwardWeights")


@dataclasses.dataclass(frozen=True)
class Case:
    """One op with everything that decides its result."""

    kind: str
    attributes: dict[str, Any]
    batch: int
    a: int
    b: int
    small: tuple[int, ...]
    big: tuple[int, ...]
    kernel: tuple[int, ...]
    begin: tuple[int, ...]
    dtype: str
    semantics: Any
    target: Any
    shape_given: str
    bias: bool
    dynamic: bool
    seed: int

    @property
    def map(self) -> reference.Map:
        groups = self.attributes["groups"]
        return reference.Map(self.attributes["strides"], self.attributes["dilations"], self.begin, groups)

    def tensor(self, side: str) -> np.ndarray:
        """Small integers, whose sums every type of accumulator holds exactly."""
        groups = self.attributes["groups"]
        shape = {
            "big": (self.batch, self.b, *self.big),
            "small": (self.batch, self.a, *self.small),
            "weights": (self.a, self.b // groups, *self.kernel),
        }[side]
        return np.random.default_rng([self.seed, len(side)]).integers(-3, 4, shape).astype(np.float64)

    def laid_out(self, side: str, value: np.ndarray) -> np.ndarray:
        if side == "weights":
            return reference.from_first(value, self.attributes["weights_format"])
        return reference.from_ncx(value, self.attributes["data_format"])


SIDES = {
    "Convolution": ("big", "weights", "small"),
    "ConvolutionBackwardData": ("small", "weights", "big"),
    "ConvolutionBackwardWeights": ("big", "small", "weights"),
    "ConvTranspose": ("small", "weights", "big"),
    "ConvTransposeBackwardData": ("big", "weights", "small"),
    "ConvTransposeBackwardWeights": ("small", "big", "weights"),
}
"""Op kind -> which sides of the map its two inputs and its result are."""


@st.composite
def cases(draw: st.DrawFn, kind: str) -> Case:
    """Draws a case whose sizes are those of a convolution that exists."""
    ints = st.integers
    spatial = draw(ints(1, 3))
    semantics = draw(st.sampled_from(["spec", "runtime"]))
    auto_pad = draw(st.sampled_from(["none", "None", "valid", "same_upper", "same_lower", "SAME_UPPER", "SAME_LOWER"]))
    same = auto_pad.casefold().startswith("same")
    groups = draw(ints(1, 3))
    rows: list[tuple[int, ...]] = []
    for _ in range(spatial):
        s, d, k = draw(ints(1, 3)), draw(ints(1, 2)), draw(ints(1, 3))
        pads = (draw(ints(0, 2)), draw(ints(0, 2)))
        op = draw(ints(0, s - 1)) if kind in ("ConvTranspose", "ConvolutionBackwardData") else 0
        b, e = pads if auto_pad.casefold() == "none" else (0, 0)
        extent = (k - 1) * d + 1
        if kind in TRANSPOSED:
            x = draw(ints(1, 4))
            if same:
                b, e = reference.conv_transpose_same(auto_pad, k, s, d)
            y = reference.full(x, k, s, d) - b - e + (op or (draw(ints(0, s - 1)) if not same else 0))
            if kind == "ConvTransposeBackwardData" and same:
                b, e = reference.conv_same(auto_pad, y, k, s, d)
            if kind == "ConvTransposeBackwardWeights" and same and semantics == "runtime":
                b, e = reference.conv_same(auto_pad, x, k, s, d)
            if kind == "ConvTranspose":
                y = reference.full(x, k, s, d) - b - e + op
        else:
            y = draw(ints(1, 7))
            if same:
                x = -(-y // s)
                b, e = reference.conv_same(auto_pad, y, k, s, d)
                if kind == "ConvolutionBackwardData":
                    b = reference.backward_data_begin(semantics, auto_pad, x, k, y, s, d, op)
            else:
                y = max(y, extent - b - e)
                x = (y + b + e - extent) // s + 1
        if y < 1 or x < 1:
            y, x, k, b, e, op, s = 1, 1, 1, 0, 0, 0, 1
            pads = (0, 0)
        rows.append((s, d, k, *pads, op, b, x, y))
    strides, dilations, kernel, pads_begin, pads_end, output_padding, begin, small, big = zip(*rows, strict=True)
    attributes: dict[str, Any] = {
        "strides": strides,
        "dilations": dilations,
        "pads_begin": pads_begin,
        "pads_end": pads_end,
        "auto_pad": auto_pad,
        "groups": groups,
        "data_format": draw(st.sampled_from(["NCX", "NXC"])),
        "weights_format": draw(st.sampled_from(["IOX", "XOI"] if kind in TRANSPOSED else ["OIX", "XIO"])),
    }
    if "output_padding" in KINDS[kind].attributes:
        attributes["output_padding"] = output_padding
    return Case(
        kind,
        attributes,
        batch=draw(st.sampled_from([0, 1, 2, 2, 2])),
        a=groups * draw(ints(1, 2)),
        b=groups * draw(ints(1, 3)),
        small=small,
        big=big,
        kernel=kernel,
        begin=begin,
        dtype=draw(st.sampled_from(["f32", "f32", "bf16", "f16"])),
        semantics=semantics,
        target=draw(st.sampled_from(["auto", "onnx", "plugin"])),
        shape_given=draw(st.sampled_from(["attribute", "declared", "constant", "input"])),
        bias=kind in ("Convolution", "ConvTranspose") and draw(st.booleans()),
        dynamic=draw(st.booleans()),
        seed=draw(ints(0, 2**16)),
    )


def expected_of(case: Case) -> np.ndarray:
    first, second, result = (case.tensor(side) for side in SIDES[case.kind])
    match SIDES[case.kind][2]:
        case "small":
            value = case.map.small(first, second, case.small)
        case "big":
            value = case.map.big(first, second, case.big)
        case _:
            by_side = dict(zip(SIDES[case.kind], (first, second, result), strict=True))
            value = case.map.weights(by_side["big"], by_side["small"], case.kernel)
    if case.bias:
        value += np.arange(value.shape[1]).reshape(1, -1, *[1] * (value.ndim - 2))
    return value


def check(case: Case) -> None:
    """Converts, runs on function bodies and standard ops alone, and compares exactly."""
    expected = case.laid_out(SIDES[case.kind][2], expected_of(case))
    dtype = NUMPY[case.dtype]
    graph = onednn.Graph(case.kind)
    inputs: list[onednn.Tensor] = []
    feeds: dict[str, np.ndarray] = {}
    constants: dict[str, np.ndarray] = {}
    gradient = case.kind.endswith("Weights")
    # A gradient of weights needs the sizes for its padding under same_*, and the channels to form groups.
    free = case.dynamic and not (gradient and case.attributes["auto_pad"].casefold().startswith("same"))
    for side in SIDES[case.kind][:2]:
        value = case.laid_out(side, case.tensor(side)).astype(dtype)
        dims: list[int | None] = list(value.shape)
        if case.dynamic and side != "weights":
            dims = (
                [None] * value.ndim if free and not (gradient and case.attributes["groups"] > 1) else [None, *dims[1:]]
            )
        inputs.append(graph.tensor(side, case.dtype, dims))
        feeds[side] = value
    attributes = dict(case.attributes)
    outputs = None
    shape_name = {"ConvolutionBackwardData": "dst_shape"}.get(case.kind, "weights_shape")
    if shape_name in KINDS[case.kind].attributes:
        given = case.shape_given
        if given == "input" and shape_name == "weights_shape" and not free:
            given = "constant"
        if given == "attribute":
            attributes[shape_name] = expected.shape
        elif given == "declared":
            outputs = [graph.tensor("result", case.dtype, expected.shape)]
        else:
            inputs.append(graph.tensor(shape_name, "s32", [expected.ndim]))
            (constants if given == "constant" else feeds)[shape_name] = np.array(expected.shape, np.int32)
            attributes[shape_name] = [9] * expected.ndim  # The input wins.
    if case.bias:
        channels = expected.shape[1 if case.attributes["data_format"] == "NCX" else -1]
        inputs.append(graph.tensor("bias", case.dtype, [channels]))
        feeds["bias"] = np.arange(channels).astype(dtype)
    graph.op(case.kind, inputs, outputs=outputs, dtype=case.dtype, **attributes)
    model = ortconv.conversion(graph, semantics=case.semantics, target=case.target, tensors=constants).to_proto()
    if case.target == "onnx":
        assert {node.domain for node in model.graph.node} <= {""}
    (result,) = run(model, feeds, "none")
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, expected.astype(dtype))


@pytest.mark.parametrize("kind", ALL)
def test_any_attributes_agree_with_the_definition(kind: str) -> None:
    @given(cases(kind))
    @settings(max_examples=150, suppress_health_check=list(HealthCheck), derandomize=True)
    def agree(case: Case) -> None:
        check(case)

    agree()
