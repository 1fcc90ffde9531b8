"""Function bodies of nodes without a bias: what becomes of a node that another tool gives one later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import TensorProto, helper

from ortconv.opset import functions
from ortconv.opset.schemas import register_schemas
from tests.operators.native import FLOAT, OPS
from tests.running import run


def with_body(model: onnx.ModelProto) -> onnx.ModelProto:
    made = ir.from_proto(model)
    functions.attach(made)
    return ir.to_proto(made)


@pytest.mark.parametrize("op", OPS)
def test_input_of_no_name_for_the_bias_goes(op: str, cases: dict[str, Any], define: Callable[..., Any]) -> None:
    case = cases[OPS[op]]
    model = case.model(FLOAT)
    (node,) = model.graph.node
    if case.bias:
        del model.graph.input[-1]
        node.input[-1] = ""
    else:
        node.input.append("")
    made = with_body(model)
    assert list(made.graph.node[0].input) == [value.name for value in model.graph.input]
    assert list(made.functions[0].input) == list(case.names[:-1])
    inputs = [*case.inputs(FLOAT)[:-1], None]
    define(case, inputs).check(run(made, case.feeds(inputs), "none")[0])


@pytest.mark.parametrize("op", OPS)
def test_bias_that_is_added_later_is_not_left_out(
    op: str, library: str, cases: dict[str, Any], define: Callable[..., Any]
) -> None:
    """As onnx-simplifier does with a Conv or ConvTranspose and an Add behind it, of whatever domain."""
    case = cases[OPS[op]]
    model = case.model(FLOAT)
    if case.bias:
        del model.graph.input[-1]
        del model.graph.node[0].input[-1]
    made = with_body(model)
    made.graph.node[0].input.append("B")
    made.graph.input.append(helper.make_tensor_value_info("B", TensorProto.FLOAT, [case.channels]))
    register_schemas()
    onnx.checker.check_model(made, full_check=True)
    inputs = [*case.inputs(FLOAT)[:-1], np.arange(1, case.channels + 1, dtype=np.float32)]
    feeds = case.feeds(inputs)
    define(case, inputs).check(run(made, feeds, "native")[0])
    with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.Fail, match="parameter"):
        run(made, feeds, "none")
