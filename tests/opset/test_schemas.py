"""The schemas of our operators: what onnx.checker rejects, and the shapes it infers."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper
from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

from ortconv.convolution_arithmetic import AutoPad
from ortconv.model_io import protos
from ortconv.opset.convolution_terms import ACCUMULATION
from ortconv.opset.domain import DOMAIN
from ortconv.opset.operator import Operator
from ortconv.opset.ops import BY_NAME, CONVOLUTIONS, OPERATORS
from ortconv.opset.ops.convolution import CONVOLUTION
from ortconv.opset.ops.transposed_convolution import TRANSPOSED_CONVOLUTION
from ortconv.opset.ops.transposed_convolution_add import TRANSPOSED_CONVOLUTION_ADD
from ortconv.opset.ops.transposed_convolution_to_shape import TRANSPOSED_CONVOLUTION_TO_SHAPE
from ortconv.opset.schemas import register_schemas

LAYOUT = {"x_perm": [0, 1, 2, 3], "w_perm": [0, 1, 2, 3], "y_perm": [0, 1, 2, 3], "accumulation_type": 1}
GRID = {"strides": [2, 2], "dilations": [1, 1], "group": 1}
ATTRIBUTES: dict[str, dict[str, Any]] = {
    "TransposedConvolution": {**GRID, **LAYOUT, "pads": [1, 1, 0, 0], "output_padding": [0, 0]},
    "TransposedConvolutionAdd": {**GRID, **LAYOUT, "pads": [1, 1, 0, 0], "output_padding": [0, 0]},
    "TransposedConvolutionToShape": {
        **GRID,
        **LAYOUT,
        "auto_pad": AutoPad.SAME_LOWER,
        "pads_begin": [0, 0],
        "output_padding": [0, 0],
    },
    "Convolution": {**GRID, **LAYOUT, "auto_pad": AutoPad.NOTSET, "pads": [1, 1, 0, 0]},
}
NHWC = {"x_perm": [0, 3, 1, 2], "y_perm": [0, 2, 3, 1]}


def model(
    op: Operator,
    x: list[Any] | None = None,
    w: list[Any] | None = None,
    *,
    dtype: int = TensorProto.FLOAT,
    w_dtype: int | None = None,
    bias: list[int] | None = None,
    sizes: list[int] | None = None,
    drop: str = "",
    y: list[Any] | None = None,
    r: list[Any] | None = None,
    **changed: Any,
) -> onnx.ModelProto:
    register_schemas()
    attributes = {**ATTRIBUTES[op.name], **changed}
    attributes.pop(drop, None)
    inputs = [
        helper.make_tensor_value_info("X", dtype, x or [1, 4, 5, 6]),
        helper.make_tensor_value_info(
            "W", w_dtype or dtype, w or [4, 3, 3, 3] if op is not CONVOLUTION else w or [3, 4, 3, 3]
        ),
    ]
    names, initializers = ["X", "W"], []
    if op is TRANSPOSED_CONVOLUTION_TO_SHAPE:
        names.append("S")
        if sizes is None:
            inputs.append(helper.make_tensor_value_info("S", TensorProto.INT64, [2]))
        else:
            initializers.append(helper.make_tensor("S", TensorProto.INT64, [len(sizes)], sizes))
    if op is TRANSPOSED_CONVOLUTION_ADD:
        names.append("R")
        inputs.append(helper.make_tensor_value_info("R", dtype, r or [1, 3, 10, 12]))
    if bias is not None:
        names.append("B")
        inputs.append(helper.make_tensor_value_info("B", dtype, bias))
    node = helper.make_node(op.name, names, ["Y"], domain=DOMAIN, **attributes)
    result = helper.make_tensor_value_info("Y", dtype, y or [None] * 4)
    graph = helper.make_graph([node], "g", inputs, [result], initializers)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def check(made: onnx.ModelProto) -> None:
    onnx.checker.check_model(made, full_check=True)


def inferred(made: onnx.ModelProto) -> list[int | str | None]:
    result = onnx.shape_inference.infer_shapes(made, strict_mode=True, data_prop=True).graph.output[0]
    return [
        dim.dim_value if dim.HasField("dim_value") else (None if dim.dim_param.startswith("unk__") else dim.dim_param)
        for dim in result.type.tensor_type.shape.dim
    ]


@pytest.mark.parametrize("op", CONVOLUTIONS, ids=lambda op: op.name)
def test_good_node_passes(op: Operator) -> None:
    check(model(op))
    check(model(op, bias=[3]))


@pytest.mark.parametrize("op", CONVOLUTIONS, ids=lambda op: op.name)
def test_activation_passes(op: Operator) -> None:
    check(model(op, activation=[0.1, float("-inf"), 6.0]))


@pytest.mark.parametrize("element", ACCUMULATION)
def test_every_declared_type_passes_with_its_accumulation_type(element: int) -> None:
    check(model(TRANSPOSED_CONVOLUTION, dtype=element, accumulation_type=ACCUMULATION[element]))


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        pytest.param(model(TRANSPOSED_CONVOLUTION), [1, 3, 10, 12], id="transposed"),
        pytest.param(model(TRANSPOSED_CONVOLUTION, output_padding=[5, 0]), [1, 3, 15, 12], id="large output padding"),
        pytest.param(
            model(TRANSPOSED_CONVOLUTION, output_padding=[-4, 0]), [1, 3, 6, 12], id="negative output padding"
        ),
        pytest.param(model(TRANSPOSED_CONVOLUTION, pads=[11, 0, 0, 0]), [1, 3, 0, 13], id="nothing left"),
        pytest.param(model(TRANSPOSED_CONVOLUTION, ["N", 4, 5, None]), ["N", 3, 10, None], id="symbolic"),
        pytest.param(model(TRANSPOSED_CONVOLUTION, [1, 5, 6, 4], **NHWC), [1, 10, 12, 3], id="channels last"),
        pytest.param(
            model(TRANSPOSED_CONVOLUTION, w=[3, 3, 6, 4], w_perm=[3, 2, 0, 1], group=2),
            [1, 12, 10, 12],
            id="XIO in groups",
        ),
        pytest.param(model(TRANSPOSED_CONVOLUTION_ADD), [1, 3, 10, 12], id="residual"),
        pytest.param(
            model(TRANSPOSED_CONVOLUTION_ADD, [None, 4, 5, None], r=["N", 3, None, 9]),
            ["N", 3, 10, 9],
            id="residual that is better known",
        ),
        pytest.param(
            model(TRANSPOSED_CONVOLUTION_ADD, [1, 5, 6, 4], r=[1, 10, 12, 3], **NHWC),
            [1, 10, 12, 3],
            id="residual channels last",
        ),
        pytest.param(model(TRANSPOSED_CONVOLUTION_TO_SHAPE), [1, 3, None, None], id="sizes at run time"),
        pytest.param(model(TRANSPOSED_CONVOLUTION_TO_SHAPE, sizes=[9, 30]), [1, 3, 9, 30], id="constant sizes"),
        pytest.param(model(CONVOLUTION), [1, 3, 2, 3], id="conv"),
        pytest.param(model(CONVOLUTION, auto_pad=AutoPad.SAME_UPPER, pads=[0] * 4), [1, 3, 3, 3], id="conv same"),
        pytest.param(model(CONVOLUTION, ["N", 4, "H", 6]), ["N", 3, None, 3], id="conv symbolic"),
    ],
)
def test_shape_is_inferred(made: onnx.ModelProto, expected: list[Any]) -> None:
    check(made)
    assert inferred(made) == expected


@pytest.mark.parametrize(("op", "attribute"), [(op, name) for op in CONVOLUTIONS for name in ATTRIBUTES[op.name]])
def test_missing_attribute_is_rejected(op: Operator, attribute: str) -> None:
    with pytest.raises(onnx.checker.ValidationError, match=attribute):
        check(model(op, drop=attribute))


@pytest.mark.parametrize(
    ("made", "message"),
    [
        pytest.param(model(CONVOLUTION, unknown=1), "unknown", id="unknown attribute"),
        pytest.param(model(CONVOLUTION, strides="2,2"), "strides", id="attribute of another type"),
        pytest.param(model(CONVOLUTION, strides=[0, 1]), r"\[0, 1\] is not allowed; allowed: 2 integers >= 1",
                     id="stride 0"),
        pytest.param(model(CONVOLUTION, dilations=[1]), r"dilations = \[1\] is not allowed", id="short list"),
        pytest.param(model(CONVOLUTION, pads=[0, 0, -1, 0]), r"pads = \[0, 0, -1, 0\]", id="negative pad"),
        pytest.param(model(CONVOLUTION, auto_pad=3, pads=[0] * 4), "auto_pad = 3 is not allowed", id="auto_pad"),
        pytest.param(model(CONVOLUTION, auto_pad=AutoPad.SAME_UPPER), "stand beside auto_pad",
                     id="pads beside auto_pad"),
        pytest.param(model(CONVOLUTION, x_perm=[0, 1, 1, 2]), "a permutation of 0 to 3", id="no permutation"),
        pytest.param(model(CONVOLUTION, group=0), "group = 0 is not allowed", id="group 0"),
        pytest.param(model(CONVOLUTION, [1, 5, 5, 6]), "X has 5 channels; allowed: 4", id="channels"),
        pytest.param(model(CONVOLUTION, bias=[4]), "B has shape", id="bias length"),
        pytest.param(model(CONVOLUTION, [1, 4, 1, 6]), "the kernel covers 3, the padded input 2",
                     id="kernel too large"),
        pytest.param(model(CONVOLUTION, accumulation_type=11), "accumulation_type = 11 is not allowed",
                     id="accumulation"),
        pytest.param(model(CONVOLUTION, w_dtype=TensorProto.DOUBLE), "(?i)type", id="two types"),
        pytest.param(model(CONVOLUTION, dtype=TensorProto.STRING), "(?i)type", id="strings"),
        pytest.param(model(CONVOLUTION, activation=[1.0, 2.0, 1.0]), "a finite slope", id="activation without numbers"),
        pytest.param(model(CONVOLUTION, activation=[1.0, 2.0]), "a finite slope", id="activation of two numbers"),
        pytest.param(
            model(CONVOLUTION, dtype=TensorProto.INT8, accumulation_type=6, activation=[1.0, 0.0, 1.0]),
            "do not accumulate in float", id="activation of integers",
        ),
        pytest.param(model(TRANSPOSED_CONVOLUTION, strides=[1 << 62, 1]), r"allowed: up to 2\^63 - 1",
                     id="size of no int64"),
        pytest.param(model(TRANSPOSED_CONVOLUTION, pads=[12, 0, 0, 0]), "leaves a size of -1", id="negative size"),
        pytest.param(model(TRANSPOSED_CONVOLUTION, group=3), "multiple of group = 3", id="groups"),
        pytest.param(model(TRANSPOSED_CONVOLUTION, w=[4, 3, 3]), "W has rank 3", id="rank"),
        pytest.param(model(TRANSPOSED_CONVOLUTION, y=[1, 3, 11, 12]), "11", id="declared otherwise"),
        pytest.param(model(TRANSPOSED_CONVOLUTION_ADD, r=[1, 3, 1, 1]), r"R has shape \[1, 3, 1, 1\]; allowed",
                     id="residual to broadcast"),
        pytest.param(model(TRANSPOSED_CONVOLUTION_ADD, r=[3, 10, 12]), "R has shape", id="residual of fewer axes"),
        pytest.param(model(TRANSPOSED_CONVOLUTION_ADD, r=[1, 10, 12, 3]), "R has shape",
                     id="residual in another layout"),
        pytest.param(model(TRANSPOSED_CONVOLUTION_TO_SHAPE, sizes=[9]), "output_shape", id="one size too few"),
        pytest.param(model(TRANSPOSED_CONVOLUTION_TO_SHAPE, sizes=[9, -1]), "output_shape", id="negative output size"),
        pytest.param(model(TRANSPOSED_CONVOLUTION_TO_SHAPE, pads_begin=[1, 0]), "stand beside", id="pads beside rule"),
    ],
)  # fmt: skip
def test_bad_node_is_rejected(made: onnx.ModelProto, message: str) -> None:
    with pytest.raises((onnx.checker.ValidationError, onnx.shape_inference.InferenceError), match=message):
        check(made)


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.name)
@pytest.mark.parametrize("opset", range(21, 26))
def test_bodies_are_standard_onnx_of_the_models_own_opset(op: Operator, opset: int) -> None:
    bodies = list(op.bodies(opset))
    assert len(bodies) == 2 ** len(op.switches)
    for body in bodies:
        assert [(each.domain, each.version) for each in body.opset_import] == [("", opset)]
        assert {node.domain for node in protos.nodes(body.node)} == {""}
        assert all(onnx.defs.has(node.op_type, opset, "") for node in protos.nodes(body.node))
    every = op.body(opset, frozenset(op.switches))
    assert list(every.input) == [each.name for each in op.inputs]
    assert list(every.attribute) == [each.name for each in op.attributes]


def test_no_operator_has_a_name_of_onnx_or_onnxruntime() -> None:
    """Tools that look at names alone would take it for theirs."""
    known = (*onnx.defs.get_all_schemas_with_history(), *get_all_operator_schema())
    theirs = {schema.name for schema in known if schema.domain != DOMAIN}
    assert {"Conv", "ConvTranspose", "LinearRegressor", "FusedConv", "MatMulNBits"} <= theirs
    assert {"Convolution", "MatMulCodebook"} <= BY_NAME.keys()
    assert not BY_NAME.keys() & theirs
