"""Open sizes of intermediate results have names, no two of them the same; those of inputs and outputs have none."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest

import ortconv
from ortconv.graph.symbolic_dimensions import name_unknown_dimensions


def named(text: str) -> onnx.ModelProto:
    model = ir.from_proto(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]>\n{text}'))
    name_unknown_dimensions(model)
    return ir.to_proto(model)


def sizes(values: object) -> list[list[int | str | None]]:
    return [
        [
            size.dim_value if size.HasField("dim_value") else size.dim_param or None
            for size in value.type.tensor_type.shape.dim
        ]
        for value in values  # type: ignore[attr-defined]
    ]


def graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from graphs(attribute.g)


def test_each_open_size_has_its_own_name() -> None:
    model = named("""
        net (float[?, 3, ?] x, int64[2] shape) => (float[?, ?] y) <float[?, 3, ?] a, float[?, ?] b>
        { a = Relu (x)  b = Reshape (a, shape)  y = Relu (b) }
    """)
    assert sizes(model.graph.value_info) == [["unk__0", 3, "unk__1"], ["unk__2", "unk__3"]]
    assert sizes(model.graph.input) == [[None, 3, None], [2]]
    assert sizes(model.graph.output) == [[None, None]]


def test_names_that_there_are_stay_and_are_not_used_again() -> None:
    model = named("""
        net (float[unk__0, ?] x) => (float[unk__2, ?] y) <float[unk__0, ?] a, float[unk__2, ?] b>
        { a = Relu (x)  b = Neg (a)  y = Relu (b) }
    """)
    assert sizes(model.graph.value_info) == [["unk__0", "unk__1"], ["unk__2", "unk__3"]]


def test_results_inside_of_bodies_have_names_too() -> None:
    model = named("""
        net (bool c, float[?] x) => (float[?] y)
        {
          y = If (c) <
            then_branch = then () => (float[?] t) <float[?] u> { u = Neg (x)  t = Relu (u) },
            else_branch = other () => (float[?] t) <float[?] v> { v = Abs (x)  t = Relu (v) }
          >
        }
    """)
    found = [size for graph in graphs(model.graph) for shape in sizes(graph.value_info) for size in shape]
    assert sorted(map(str, found)) == ["unk__0", "unk__1"]


def test_converted_model_has_no_open_size_without_a_name() -> None:
    openvino = pytest.importorskip("openvino", reason="the model is made by OpenVINO")
    op = openvino.opset13
    x = op.parameter([-1, -1], np.float32, name="x")
    flat = op.reshape(op.relu(x), op.constant([-1, 1], np.int64), False)
    model = ortconv.convert(openvino.Model([op.result(op.relu(op.relu(flat)))], [x], "net"))
    names = [size for shape in sizes(model.graph.value_info) for size in shape if not isinstance(size, int)]
    assert len(names) >= 3
    assert None not in names
    assert len(set(names)) == len(names)
