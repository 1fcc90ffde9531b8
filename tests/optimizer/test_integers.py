"""Transposed convolutions between DequantizeLinear and QuantizeLinear: to integers, with equal numbers.

Scales are powers of two, so ONNX Runtime's floats are exact, too: results are compared bit for bit with the model as it
was, run without optimization.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import ortconv
from ortconv.optimizer import Optimization, optimization
from tests.operators.native import quiet
from tests.optimizer.models import int8_layers

U8, I8 = np.uint8, np.int8
QLINEAR, QLINEAR_ADD, TO_FLOAT = (
    "QLinearTransposedConvolution",
    "QLinearTransposedConvolutionAdd",
    "TransposedConvolutionIntegerToFloat",
)


@dataclasses.dataclass(frozen=True)
class Net:
    """A model of one ConvTranspose and what stands around it.

    Attributes:
        x: Shape of the data.
        w: Shape of the weights.
        attributes: Of the ConvTranspose.
        types: Of data, weights and result.
        scales: Of the weights: "one", "channels" for each output channel, or "inputs" for each input channel.
        bias: "none", "float" or "int32".
        weights: "constant", or "input" of the graph.
        before: Ops in front of the ConvTranspose.
        after: Ops behind it, up to QuantizeLinear; "Add" has a quantized residual.
        quantized: Whether the result is quantized.
        stated: Whether types and shapes of intermediate results are stated.
        omitted: Whether zero points of uint8 are left out.
    """

    x: tuple[int, ...] = (1, 6, 5, 7)
    w: tuple[int, ...] = (6, 4, 4, 4)
    attributes: dict[str, Any] = dataclasses.field(default_factory=lambda: {"strides": [2, 2], "pads": [1, 1, 1, 1]})
    types: tuple[Any, Any, Any] = (U8, I8, U8)
    scales: str = "channels"
    bias: str = "int32"
    weights: str = "constant"
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    quantized: bool = True
    stated: bool = False
    omitted: bool = False


def built(net: Net) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Returns the model and what it is fed with."""
    random = np.random.default_rng(len(net.x) + net.w[1])
    nodes: list[onnx.NodeProto] = []
    stored: dict[str, np.ndarray] = {}
    feeds: dict[str, np.ndarray] = {}

    def draw(shape: tuple[int, ...], kind: Any) -> np.ndarray:
        return random.integers(np.iinfo(kind).min, np.iinfo(kind).max, shape, kind, endpoint=True)

    def dequantized(name: str, scale: np.ndarray, zero: np.ndarray, **more: Any) -> str:
        stored[f"{name}_scale"] = scale.astype(np.float32)
        names = [name, f"{name}_scale"]
        if not (net.omitted and zero.dtype == U8):
            stored[f"{name}_zero"] = zero
            names.append(f"{name}_zero")
        nodes.append(helper.make_node("DequantizeLinear", names, [f"{name}_f"], **more))
        return f"{name}_f"

    def zero_of(kind: Any) -> np.ndarray:
        return np.array(0 if net.omitted else 3, kind)

    group = net.attributes.get("group", 1)
    count = net.w[1] * group
    feeds["x"] = draw(net.x, net.types[0])
    value = dequantized("x", np.array(0.25), zero_of(net.types[0]))
    for index, op in enumerate(net.before):
        nodes.append(helper.make_node(op, [value], [f"before_{index}"], perm=[0, 3, 1, 2]))
        value = f"before_{index}"
    (stored if net.weights == "constant" else feeds)["w"] = draw(net.w, net.types[1])
    sizes = {"one": (), "channels": (net.w[1],), "inputs": (net.w[0],)}[net.scales]
    w_scale, axis = 2.0 ** random.integers(-9, -6, sizes), 0 if net.scales == "inputs" else 1
    w_zero = np.zeros(sizes, net.types[1])
    weights = dequantized("w", w_scale, w_zero, **({"axis": axis} if sizes else {}))
    inputs = [value, weights]
    if net.bias == "float":
        stored["b"] = random.integers(-99, 99, count).astype(np.float32) / 16
        inputs.append("b")
    elif net.bias == "int32":
        stored["b"] = random.integers(-9999, 9999, count).astype(np.int32)
        inputs.append(dequantized("b", np.array(2.0**-11), np.zeros((), np.int32)))
    nodes.append(helper.make_node("ConvTranspose", inputs, ["y"], name="up", **net.attributes))
    value = "y"
    axes = len(net.x) - 2
    full = {"strides": [1] * axes, "pads": [0] * 2 * axes, "output_padding": [0] * axes, **net.attributes}
    data = [net.x[axis] for axis in (0, 3, 1, 2)] if net.before else net.x
    dims = [net.x[0], count] + [
        (data[i + 2] - 1) * full["strides"][i] + net.w[i + 2] - full["pads"][i] - full["pads"][i + axes]
        + full["output_padding"][i]
        for i in range(axes)
    ]  # fmt: skip
    for index, op in enumerate(net.after):
        more: dict[str, Any] = {}
        operands = [value]
        if op == "Add":
            feeds["r"] = draw(tuple(dims), net.types[2])
            operands.append(dequantized("r", np.array(0.125), zero_of(net.types[2])))
        elif op == "Clip":
            stored |= {"low": np.float32(-2), "high": np.float32(6)}
            operands += ["low", "high"]
        elif op == "LeakyRelu":
            more["alpha"] = 0.25
        elif op == "Transpose":
            more["perm"] = [0, 2, 3, 1]
        nodes.append(helper.make_node(op, operands, [f"after_{index}"], **more))
        value = f"after_{index}"
    outputs = [helper.make_tensor_value_info(value, TensorProto.FLOAT, None)]
    if net.quantized:
        stored["y_scale"], names = np.asarray(np.float32(0.5)), [value, "y_scale"]
        if not net.omitted:
            stored["y_zero"] = zero_of(net.types[2])
            names.append("y_zero")
        nodes.append(helper.make_node("QuantizeLinear", names, ["q"], name="round"))
        outputs = [helper.make_tensor_value_info("q", helper.np_dtype_to_tensor_dtype(np.dtype(net.types[2])), None)]
    given = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(each.dtype), each.shape)
        for name, each in feeds.items()
    ]
    tensors = [numpy_helper.from_array(np.asarray(each), name) for name, each in stored.items()]
    model = helper.make_model(
        helper.make_graph(nodes, "g", given, outputs, tensors),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=9,
    )
    return (onnx.shape_inference.infer_shapes(model) if net.stated else model), feeds


def kinds(done: Optimization) -> list[str]:
    return [node.op_type for node in done.to_proto().graph.node]


def assert_same(net: Net, becomes: str) -> Optimization:
    """Asserts that the node becomes an operator, and that the numbers stay with and without our library."""
    return assert_same_model(*built(net), becomes)


def assert_same_model(model: onnx.ModelProto, feeds: dict[str, np.ndarray], becomes: str) -> Optimization:
    done = optimization(model)
    assert [outcome.becomes for outcome in done.outcomes] == [becomes]
    options = quiet()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    providers = ["CPUExecutionProvider"]
    want = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=providers).run(None, feeds)[0]
    proto = done.to_proto()
    onnx.checker.check_model(proto, full_check=True)
    np.testing.assert_array_equal(
        ortconv.InferenceSession(proto, quiet(), providers=providers).run(None, feeds)[0], want
    )
    plain = onnxruntime.InferenceSession(proto.SerializeToString(), quiet(), providers=providers)
    np.testing.assert_array_equal(plain.run(None, feeds)[0], want)
    return done


NETS = {
    "per channel": (Net(), QLINEAR),
    "per tensor": (Net(scales="one", bias="float"), QLINEAR),
    "int8": (Net(types=(I8, I8, I8), bias="none"), QLINEAR),
    "other result": (Net(types=(U8, I8, I8), stated=True), QLINEAR),
    "uint8 weights": (Net(types=(U8, U8, U8), scales="one"), QLINEAR),
    "no zero points": (Net(types=(U8, I8, U8), omitted=True, stated=True), QLINEAR),
    "groups": (Net(w=(6, 2, 4, 4), attributes={"strides": [2, 2], "group": 3}), QLINEAR),
    "depthwise": (Net(w=(6, 1, 4, 4), attributes={"strides": [2, 2], "group": 6}, scales="inputs"), QLINEAR),
    "1-D": (Net((2, 5, 9), (5, 3, 5), {"strides": [3], "output_padding": [1], "pads": [2, 1]}), QLINEAR),
    "3-D": (Net((1, 3, 3, 4, 3), (3, 2, 2, 3, 2), {"strides": [2, 1, 2]}), QLINEAR),
    "to float": (Net(quantized=False), TO_FLOAT),
    "to float, activated": (Net(quantized=False, after=("Relu",)), TO_FLOAT),
    "relu": (Net(after=("Relu",)), QLINEAR),
    "leaky relu, clip": (Net(after=("LeakyRelu", "Clip")), QLINEAR),
    "residual": (Net(after=("Add",), stated=True), QLINEAR_ADD),
    "residual, relu": (Net(after=("Add", "Relu"), types=(U8, I8, I8), stated=True), QLINEAR_ADD),
    "NHWC": (Net((1, 5, 7, 6), before=("Transpose",), after=("Transpose",)), QLINEAR),
    "NHWC, relu": (Net((1, 5, 7, 6), before=("Transpose",), after=("Relu", "Transpose")), QLINEAR),
    "other op before the quantizer": (Net(after=("Tanh",), quantized=False), TO_FLOAT),
    "weights of the run": (Net(weights="input", stated=True), QLINEAR),
}


@pytest.mark.parametrize(("net", "becomes"), NETS.values(), ids=NETS)
def test_layer_becomes_integer(net: Net, becomes: str) -> None:
    done = assert_same(net, becomes)
    names = {value.name for value in done.model.graph.initializers.values()}
    used = {name for node in done.to_proto().graph.node for name in node.input}
    assert names <= used
    assert "ConvTranspose" not in kinds(done)
    assert kinds(done).count("DequantizeLinear") == (net.weights == "input") * 0
    if net.quantized:
        assert "QuantizeLinear" not in kinds(done)


def test_result_that_others_read_stays_float() -> None:
    model, feeds = built(Net())
    model.graph.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, None))
    done = optimization(model)
    assert [outcome.becomes for outcome in done.outcomes] == [TO_FLOAT]
    assert kinds(done) == [TO_FLOAT, "QuantizeLinear"]
    session = ortconv.InferenceSession(done.to_proto(), quiet(), providers=["CPUExecutionProvider"])
    quantized, floats = session.run(None, feeds)
    np.testing.assert_array_equal(quantized, np.clip(np.rint(floats / 0.5) + 3, 0, 255).astype(U8))


def test_transpose_without_perm_reverses_the_axes() -> None:
    model, feeds = built(Net((7, 5, 6, 1), before=("Transpose",)))
    (node,) = (each for each in model.graph.node if each.op_type == "Transpose")
    del node.attribute[:]
    assert "Transpose" in kinds(assert_same_model(model, feeds, QLINEAR))


def _scales_of_input_channels() -> onnx.ModelProto:
    return built(Net(scales="inputs"))[0]


def _several_zero_points() -> onnx.ModelProto:
    model, _ = built(Net())
    (zero,) = (each for each in model.graph.initializer if each.name == "w_zero")
    zero.CopyFrom(numpy_helper.from_array(np.array([0, 1, 0, 0], I8), "w_zero"))
    return model


def _zero_point_between_integers() -> onnx.ModelProto:
    model, _ = built(Net())
    at = next(i for i, each in enumerate(model.graph.node) if each.output[0] == "w_f")
    del model.graph.node[at]
    stored = {"half": np.float32(0.5), "step": np.float32(0.25)}
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(each), name) for name, each in stored.items())
    for node in (
        helper.make_node("Mul", ["w_shifted", "step"], ["w_f"]),
        helper.make_node("Sub", ["w_wide", "half"], ["w_shifted"]),
        helper.make_node("Cast", ["w"], ["w_wide"], to=TensorProto.FLOAT),
    ):
        model.graph.node.insert(at, node)
    return model


def _float_weights() -> onnx.ModelProto:
    model, _ = built(Net())
    (node,) = (each for each in model.graph.node if each.output[0] == "w_f")
    model.graph.node.remove(node)
    model.graph.initializer.append(numpy_helper.from_array(np.ones((6, 4, 4, 4), np.float32), "w_f"))
    return model


def _float_residual() -> onnx.ModelProto:
    model, _ = built(Net(after=("Add",), quantized=True, stated=True))
    (node,) = (each for each in model.graph.node if each.output[0] == "r_f")
    node.op_type = "Cast"
    del node.input[1:]
    node.attribute.append(helper.make_attribute("to", TensorProto.FLOAT))
    return onnx.shape_inference.infer_shapes(model)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (_scales_of_input_channels, "its weights have other scales than one for each output channel"),
        (_several_zero_points, "its weights have several zero points"),
        (_zero_point_between_integers, "the zero point 0.5 of its weights is no integer of their type"),
        (_float_weights, "its weights are not dequantized from 8 bits by constants"),
        (_float_residual, "its residual is not quantized"),
    ],
)
def test_layer_stays_float_and_says_why(make: Any, reason: str) -> None:
    done = optimization(make())
    (outcome,) = done.outcomes
    assert outcome.becomes in ("TransposedConvolution", "TransposedConvolutionAdd")
    assert any(reason in kept for kept in outcome.kept)


def test_int8_data_become_uint8() -> None:
    """ONNX Runtime has no QLinearConv of int8 on x86-64, and makes no uint8 of it next to a node of ours."""
    model = int8_layers(channels=8, size=9)
    optimized = ortconv.optimize(model)
    onnx.checker.check_model(optimized, full_check=True)
    kinds = {each.name: each.data_type for each in optimized.graph.initializer}
    (ours,) = (node for node in optimized.graph.node if node.op_type == QLINEAR)
    assert (kinds[ours.input[2]], kinds[ours.input[7]]) == (TensorProto.UINT8, TensorProto.UINT8)
    data = np.random.default_rng(4).uniform(-8, 8, (1, 8, 9, 9)).astype(np.float32)
    plain = quiet()
    plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    floats = onnxruntime.InferenceSession(model.SerializeToString(), plain, providers=["CPUExecutionProvider"])
    session = ortconv.InferenceSession(optimized, quiet(), providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(session.run(None, {"x": data})[0], floats.run(None, {"x": data})[0])
