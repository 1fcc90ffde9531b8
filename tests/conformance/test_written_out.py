"""What `--target onnx` makes of nodes of ours: what is known of sizes is computed at conversion."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

import ortconv
from ortconv.opset.bodies.convolutions import EXACT
from ortconv.opset.ops import CONVOLUTIONS
from ortconv.opset.ops.convolution_family import BIAS
from tests.folders import SOURCES

pytest.importorskip("openvino", reason="the sources are built with OpenVINO")

from tests.conformance import openvino_sources

WINDOW = {"strides": [2, 2], "dilations": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1]}
AT_RUN_TIME = {"Add", "Concat", "ConvTranspose", "Div", "Greater", "Pad", "Shape", "Slice", "Sub", "Where"}


def kinds(
    op: str, dtype: Any, sizes: Sequence[int] | None = None, *, dynamic: bool = False, auto_pad: str = "explicit"
) -> collections.Counter[str]:
    """Returns the nodes that one convolution becomes; `dynamic` leaves all sizes to the run."""
    source = openvino_sources.model(
        op,
        {**WINDOW, "auto_pad": auto_pad},
        np.ones((1, 4, 8, 8), dtype),
        np.ones((4, 4, 3, 3), dtype),
        None if sizes is None else np.array(sizes),
        shape=[-1] * 4 if dynamic else None,
        runtime_shape=dynamic and sizes is not None,
    )
    made = ortconv.conversion(source, target="onnx").to_proto()
    return collections.Counter(node.op_type for node in made.graph.node)


@pytest.mark.parametrize("op", ["ConvolutionBackpropData", "Convolution"])
def test_layers_of_known_sizes_are_a_few_nodes(op: str) -> None:
    node = "Conv" if op == "Convolution" else "ConvTranspose"
    assert kinds(op, np.float32) == {node: 1}
    assert kinds(op, ml_dtypes.bfloat16) == {"Cast": 2, node: 1}
    exact = {"Concat": 1, "Gather": 1, "MatMul": 1, "Reshape": 5, "Transpose": 3}
    assert kinds(op, np.float64) == exact
    assert kinds(op, np.int8) == {**exact, "Cast": 2}


def test_known_output_sizes_are_pads() -> None:
    assert kinds("ConvolutionBackpropData", np.float32, [16, 15], auto_pad="same_upper") == {"ConvTranspose": 1}


def test_sizes_of_the_run_are_a_few_nodes() -> None:
    found = kinds("ConvolutionBackpropData", np.float32, [16, 15], auto_pad="same_upper", dynamic=True)
    assert (found.keys(), found.total()) == (AT_RUN_TIME, 13)
    padded = kinds("Convolution", np.float32, auto_pad="same_upper", dynamic=True)
    once = ["Shape", "Mod", "Greater", "Where", "Div", "Concat", "Pad", "Conv"]
    assert padded == {**dict.fromkeys(once, 1), "Sub": 3}


def test_the_sample_of_sizes_of_the_run() -> None:
    made = ortconv.convert(SOURCES / "unet_decoder.xml", target="onnx")
    layers = [node for node in made.graph.node if node.op_type == "ConvTranspose"]
    assert (len(layers), len(made.graph.node), len(made.functions)) == (2, 38, 0)


@pytest.mark.parametrize("op", CONVOLUTIONS, ids=lambda op: op.name)
@pytest.mark.parametrize("exact", [False, True])
def test_no_body_compares_strings_or_pads_some_axes(op: Any, exact: bool) -> None:
    """OpenVINO's reader takes no strings, ONNX Runtime's symbolic shape inference no axes of Pad."""
    for node in op.body(21, frozenset({BIAS.name, EXACT} if exact else {BIAS.name})).node:
        assert onnx.AttributeProto.STRING not in {attribute.type for attribute in node.attribute}
        assert node.op_type != "Pad" or len(node.input) == 2
