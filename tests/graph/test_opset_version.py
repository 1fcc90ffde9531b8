"""A model says the oldest opset in which its nodes mean the same."""

from __future__ import annotations

import onnx.parser
import onnx_ir as ir
import pytest

from ortconv.graph.opset_version import lowest_opset


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(float[2] x) => (float[2] y) { y = Relu (x) }", 19),
        ("(float[2] x) => (float[2] y) { z = Shape (x) y = Reshape (x, z) }", 19),
        ("(float[2] x) => (float[2] y) { y = Gelu (x) }", 20),
        ("(float[2,2] x) => (float[1,1] y) { y = ReduceMax (x) }", 19),
        ("(bool[2,2] x) => (bool[1,1] y) { y = ReduceMax (x) }", 20),
        ("(float[2] x) => (int4[2] y) { y = Cast <to = 22> (x) }", 21),
        ("(float[1,2,3] x, float[2] s) => (float[1,2,3] y) { y = GroupNormalization <num_groups = 1> (x, s, s) }", 21),
        ("(bool c, float[2] x) => (float[2] y) { y = If (c) <then_branch = a () => (float[2] t) { t = Gelu (x) }, "
         "else_branch = b () => (float[2] e) { e = Relu (x) }> }", 20),
    ],
)  # fmt: skip
def test_lowest_opset(text: str, expected: int) -> None:
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> g {text}')
    onnx.checker.check_model(model, full_check=True)
    assert lowest_opset(ir.from_proto(model).graph, 19, 21) == expected
    model.opset_import[0].version = expected
    onnx.checker.check_model(model, full_check=True)


@pytest.mark.parametrize(
    ("node", "output", "expected"),
    [
        ("AveragePool <kernel_shape = [2, 2]> (x)", "float[1, 2, 3, 3] y", 18),
        ("AveragePool <kernel_shape = [2, 2], ceil_mode = 1> (x)", "float[1, 2, 3, 3] y", 19),
        ("AveragePool <kernel_shape = [2, 2], dilations = [1, 1]> (x)", "float[1, 2, 3, 3] y", 19),
        ('Pad <mode = "edge"> (x, p)', "float[a, b, c, d] y", 18),
        ('Pad <mode = "wrap"> (x, p)', "float[a, b, c, d] y", 19),
        ("Cast <to = 10> (x)", "float16[1, 2, 4, 4] y", 18),
        ("Cast <to = 17> (x)", "float8e4m3fn[1, 2, 4, 4] y", 21),
        ("Cast <to = 10, saturate = 1> (x)", "float16[1, 2, 4, 4] y", 19),
        ("Gelu (x)", "float[1, 2, 4, 4] y", 20),
    ],
)
def test_lowest_opset_from_18_on(node: str, output: str, expected: int) -> None:
    graph = f"g (float[1, 2, 4, 4] x, int64[8] p) => ({output}) {{ y = {node} }}"
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {graph}')
    onnx.checker.check_model(model, full_check=True)
    assert lowest_opset(ir.from_proto(model).graph, 18, 21) == expected
    model.opset_import[0].version = expected
    onnx.checker.check_model(model, full_check=True)


def test_our_product_needs_the_opset_of_its_body() -> None:
    graph = "g (float[2, 8] x, uint8[6, 8] q, float[6, 2] s) => (float[2, 6] y)"
    node = "y = org.ortconv.MatMulCompressed <block_size = 4> (x, q, s)"
    imports = '<ir_version: 10, opset_import: ["": 25, "org.ortconv": 1]>'
    model = onnx.parser.parse_model(f"{imports} {graph} {{ {node} }}")
    assert lowest_opset(ir.from_proto(model).graph, 19, 25) == 21
