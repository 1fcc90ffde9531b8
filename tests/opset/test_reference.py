"""The numpy oracle against nested loops, ONNX Runtime's own kernels and ``onnx.reference``."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx.inliner
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from ortconv.convolution_arithmetic import AutoPad
from ortconv.opset.domain import DOMAIN
from ortconv.opset.ops import BY_NAME
from ortconv.opset.reference import convolutions
from ortconv.opset.reference.evaluator import OP_RUNS
from ortconv.opset.schemas import register_schemas


def evaluate(case: Any, inputs: list[np.ndarray | None], **more: Any) -> np.ndarray:
    return BY_NAME[case.op].reference(*inputs, **case.attributes, **more)


def test_matches_nested_loops(op_case: Any, dtype: np.dtype[Any], define: Any) -> None:
    inputs = op_case.inputs(dtype)
    y = evaluate(op_case, inputs)
    assert y.dtype == dtype
    define(op_case, inputs).check(y)


def test_float64_sums_are_returned_unrounded(op_case: Any, define: Any) -> None:
    inputs = op_case.inputs(np.dtype(np.float32))
    y = evaluate(op_case, inputs, accumulate=np.float64)
    assert y.dtype == np.float64
    np.testing.assert_allclose(y, define(op_case, inputs).values, rtol=1e-13, atol=1e-13)


def _standard(case: Any) -> onnx.ModelProto | None:
    """The case as a node of ai.onnx, or None where ONNX has no such node."""
    at = case.attributes
    identity = list(range(len(case.x)))
    if any(at[name] != identity for name in ("x_perm", "w_perm", "y_perm")) or case.axes > 3 or 0 in case.x:
        return None
    names = ("strides", "dilations", "group", "pads", "output_padding")
    attributes = {name: at[name] for name in names if name in at}
    if case.op == "TransposedConvolutionToShape":
        return None
    if case.op == "TransposedConvolution":
        if any(
            not 0 <= o < max(s, d) for o, s, d in zip(at["output_padding"], at["strides"], at["dilations"], strict=True)
        ):
            return None
    elif at["auto_pad"] != AutoPad.NOTSET:
        attributes["auto_pad"] = at["auto_pad"].name
        del attributes["pads"]
    inputs = ["X", "W", *(["B"] if case.bias else [])]
    standard = {"TransposedConvolution": "ConvTranspose", "Convolution": "Conv"}
    node = helper.make_node(standard[case.op], inputs, ["Y"], **attributes)
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in (*inputs, "Y")]
    graph = helper.make_graph([node], "standard", infos[:-1], infos[-1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


STANDARD = (
    "transposed_plain",
    "transposed_1d_stride_and_padding",
    "transposed_groups_dilation_asymmetric_pads",
    "transposed_kernel_smaller_than_stride",
    "conv_plain",
    "conv_1d_stride_dilation",
    "conv_groups_asymmetric",
    "conv_same_upper",
    "conv_same_lower",
    "conv_padding_only_rows",
)


@pytest.mark.parametrize("name", STANDARD)
def test_matches_onnxruntime(name: str, cases: dict[str, Any]) -> None:
    case = cases[name]
    model = _standard(case)
    assert model is not None
    inputs = case.inputs(np.dtype(np.float32))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, case.feeds(inputs))
    np.testing.assert_allclose(evaluate(case, inputs), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "name", ["transposed_plain", "conv_plain", "conv_groups_asymmetric", "conv_1d_stride_dilation"]
)
def test_matches_onnx_reference(name: str, cases: dict[str, Any]) -> None:
    case = cases[name]
    inputs = case.inputs(np.dtype(np.float32))
    (expected,) = ReferenceEvaluator(_standard(case)).run(None, case.feeds(inputs))
    np.testing.assert_allclose(evaluate(case, inputs), expected, rtol=1e-5, atol=1e-5)


def test_onnx_reference_evaluates_our_nodes(op_case: Any, dtype: np.dtype[Any]) -> None:
    inputs = op_case.inputs(dtype)
    evaluator = ReferenceEvaluator(op_case.model(dtype), new_ops=OP_RUNS)
    (y,) = evaluator.run(None, op_case.feeds(inputs))
    assert y.dtype == dtype
    np.testing.assert_array_equal(y, evaluate(op_case, inputs))


def test_cases_pass_the_checker_and_their_shapes_are_inferred(op_case: Any) -> None:
    model = op_case.model(np.dtype(np.float32))
    inputs = op_case.inputs(np.dtype(np.float32))
    for value in model.graph.input:
        if value.name != "output_shape":
            value.CopyFrom(helper.make_tensor_value_info(value.name, 1, op_case.feeds(inputs)[value.name].shape))
    register_schemas()
    onnx.checker.check_model(model, full_check=True)
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    dims = inferred.graph.output[0].type.tensor_type.shape.dim
    shape = evaluate(op_case, inputs).shape
    if op_case.output_shape is None:
        assert tuple(dim.dim_value for dim in dims) == shape
    assert all(dim.dim_value in (0, size) for dim, size in zip(dims, shape, strict=True))


def test_onnx_reference_evaluates_our_nodes_inlined_from_a_function(cases: dict[str, Any]) -> None:
    case = cases["transposed_1d_stride_and_padding"]
    model = case.model(np.dtype(np.float32))
    node = model.graph.node[0]
    inner = onnx.NodeProto()
    inner.CopyFrom(node)
    for attribute in inner.attribute:
        if attribute.name == "strides":
            attribute.ClearField("ints")
            attribute.ref_attr_name = "steps"
    function = helper.make_function("local", "f", ["X", "W", "B"], ["Y"], [inner], model.opset_import, ["steps"])
    model.functions.append(function)
    model.opset_import.append(helper.make_opsetid("local", 1))
    node.CopyFrom(helper.make_node("f", ["X", "W", "B"], ["Y"], domain="local", steps=[3]))
    inputs = case.inputs(np.dtype(np.float32))
    model = onnx.inliner.inline_local_functions(model)
    (y,) = ReferenceEvaluator(model, new_ops=OP_RUNS).run(None, case.feeds(inputs))
    np.testing.assert_array_equal(y, evaluate(case, inputs))


def test_wrong_accumulation_type_is_refused(cases: dict[str, Any]) -> None:
    case = cases["conv_plain"]
    model = case.model(np.dtype(np.float16))
    (attribute,) = (a for a in model.graph.node[0].attribute if a.name == "accumulation_type")
    attribute.i = TensorProto.FLOAT16
    evaluator = ReferenceEvaluator(model, new_ops=OP_RUNS)
    with pytest.raises(ValueError, match="accumulation_type = 10; allowed for float16: 1"):
        evaluator.run(None, case.feeds(case.inputs(np.dtype(np.float16))))


def test_accumulation_types() -> None:
    assert convolutions.accumulation_dtype(ml_dtypes.bfloat16) == np.float32
    assert convolutions.accumulation_dtype(np.uint16) == np.int32
    assert convolutions.accumulation_dtype(np.uint64) == np.uint64
    with pytest.raises(ValueError, match="X has type bool; allowed: float32"):
        convolutions.accumulation_dtype(np.bool_)


def test_half_sums_in_float_and_rounds_once(make_case: Any) -> None:
    # 2048 + 1 + 1 is 2050 in float32, but stays at 2048 when every step rounds to float16.
    case = make_case("Convolution", (1, 3, 1), (1, 3, 1), bias=False)
    x = np.array([2048, 1, 1], np.float16).reshape(1, 3, 1)
    assert evaluate(case, [x, np.ones((1, 3, 1), np.float16)]).item() == 2050


def test_overflow_and_special_values(make_case: Any) -> None:
    case = make_case("TransposedConvolution", (1, 1, 4), (1, 1, 1), bias=False)
    x = np.array([60000, -np.inf, np.nan, 1], np.float16).reshape(1, 1, 4)
    y = evaluate(case, [x, np.full((1, 1, 1), 2, np.float16)])
    np.testing.assert_array_equal(y.ravel(), np.array([np.inf, -np.inf, np.nan, 2], np.float16))


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("transposed_plain", {"strides": [1]}, r"strides = \[1\]; allowed: 2 integers >= 1"),
        ("transposed_plain", {"dilations": [0, 1]}, r"dilations = \[0, 1\]; allowed: 2 integers >= 1"),
        ("transposed_plain", {"pads": [0, 0, 0, -1]}, r"pads = \[0, 0, 0, -1\]; allowed: 4 integers >= 0"),
        ("transposed_plain", {"output_padding": [0]}, r"output_padding = \[0\]; allowed: 2 integers"),
        ("transposed_plain", {"group": 0}, "group = 0; allowed: integers >= 1"),
        ("transposed_plain", {"group": 2}, "3 input channels; allowed: a multiple of group = 2"),
        ("transposed_plain", {"x_perm": [0, 1, 2, 2]}, r"x_perm = \[0, 1, 2, 2\]; allowed: a permutation of 0 to 3"),
        ("transposed_plain", {"pads": [9, 0, 9, 0]}, r"Y would have the spatial sizes \[-12, 5\]"),
        ("to_shape_fixed_begin", {"auto_pad": 1}, r"pads \[1, 2\] stand beside auto_pad = 1"),
        ("to_shape_fixed_begin", {"auto_pad": 3}, "auto_pad = 3; allowed: 0"),
        ("conv_plain", {"dilations": [4, 1]}, r"the kernel covers \[9, 2\], more than the padded input \[5, 4\]"),
        ("conv_groups_asymmetric", {"group": 3}, "X has 4 channels; allowed: 6, as W and group = 3 say"),
    ],
)
def test_bad_attributes_are_refused(name: str, changes: dict[str, Any], message: str, cases: dict[str, Any]) -> None:
    case = cases[name]
    inputs = case.inputs(np.dtype(np.float32))
    with pytest.raises(ValueError, match=message):
        BY_NAME[case.op].reference(*inputs, **(case.attributes | changes))


@pytest.mark.parametrize(
    ("index", "data", "message"),
    [
        (0, np.zeros((1, 2), np.float32), r"X has shape \[1, 2\]; allowed: rank 3 to 8"),
        (0, np.zeros((1, 3, 4, 9), np.float32), r"X has 3 channels; allowed: 2, as W and group = 1 say"),
        (0, np.zeros((1, 2, 4, 9), bool), "X has type bool; allowed: float32"),
        (1, np.zeros((2, 3, 4), np.float32), r"W has shape \[2, 3, 4\]; allowed: rank 4, as X has"),
        (1, np.zeros((2, 2, 3, 2), np.float64), "W has type float64; allowed: float32, as X has"),
        (1, np.zeros((2, 2, 3, 0), np.float32), r"the kernel has sizes \[3, 0\]; allowed: at least 1"),
        (2, np.array([4], np.int64), r"output_shape = \[4\]; allowed: 2 integers >= 0"),
        (2, np.array([4, -1], np.int64), r"output_shape = \[4, -1\]; allowed: 2 integers >= 0"),
        (2, np.array([[4, 9]], np.int64), r"output_shape has shape \[1, 2\]; allowed: \[2\]"),
        (3, np.zeros(3, np.float32), r"B has shape \[3\]; allowed: \[2\]"),
    ],
)
def test_bad_inputs_are_refused(index: int, data: np.ndarray, message: str, cases: dict[str, Any]) -> None:
    case = cases["to_shape_fixed_begin"]
    inputs = case.inputs(np.dtype(np.float32))
    inputs[index] = data
    with pytest.raises(ValueError, match=message):
        evaluate(case, inputs)


def test_operator_classes_are_of_our_domain() -> None:
    assert {op.__name__ for op in OP_RUNS} == {
        "TransposedConvolution",
        "TransposedConvolutionToShape",
        "TransposedConvolutionAdd",
        "Convolution",
        "ConvIntegerToFloat",
        "QLinearConvolution",
        "TransposedConvolutionIntegerToFloat",
        "QLinearTransposedConvolution",
        "QLinearTransposedConvolutionAdd",
        "MatMulCompressed",
        "GatherMatMulCompressed",
        "MatMulCodebook",
        "GatherMatMulCodebook",
        "ForwardSTFT",
        "InverseSTFT",
        "OverlapAdd",
        "FourierTransform",
    }
    assert {op.op_domain for op in OP_RUNS} == {DOMAIN}
