"""Times of ONNX Runtime's nodes count for the nodes of the file. How long something takes is never asserted."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.parser
import pytest

import ortconv
from ortconv.runtime.library import Backend
from ortconv.runtime.node_times import NodeTimes, measure
from tests.command_line import upsampling


def measured(model: onnx.ModelProto, feeds: dict[str, np.ndarray], backend: Backend = "none") -> NodeTimes:
    return measure(model, "m", feeds, backend=backend, providers=["CPUExecutionProvider"], threads=1, runs=2)


@pytest.mark.parametrize("backend", ["none", "native"])
def test_all_that_runs_in_a_function_body_counts_for_its_node(backend: Backend) -> None:
    model = ortconv.convert(upsampling(), target="plugin", tensors={"w": np.ones((3, 3, 2, 3), np.float32)})
    names = [node.name for node in model.graph.node]
    assert [node.domain for node in model.graph.node].count("org.ortconv") == 1
    found = measured(model, {"x": np.ones((1, 4, 4, 3), np.float32)}, backend)
    assert found.other == 0
    assert set(found.seconds) <= set(names)
    assert next(node.name for node in model.graph.node if node.domain) in found.seconds
    assert 0 < sum(found.seconds.values()) <= 10 * found.run


def test_nodes_that_are_fused_and_change_their_layout_count_for_what_they_compute() -> None:
    """ONNX Runtime fuses each Conv with its Relu, in a layout in blocks that 16 channels suit."""
    model = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["": 21]>
        g (float[1, 16, 8, 8] x) => (float[1, 16, 8, 8] y) {
            [first] a = Conv <pads = [1, 1, 1, 1]> (x, w)
            [second] b = Relu (a)
            [third] c = Conv <pads = [1, 1, 1, 1]> (b, w)
            [fourth] d = Relu (c)
            [fifth] y = Neg (d)
        }
    """)
    weights = np.ones((16, 16, 3, 3), np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    found = measured(model, {"x": np.ones((1, 16, 8, 8), np.float32)})
    assert set(found.seconds) == {"second", "fourth", "fifth"}
    assert found.other == 0
