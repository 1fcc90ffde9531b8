"""Converted networks look like exported ones: nothing but the nodes that the network is made of."""

from __future__ import annotations

import pathlib
from collections import Counter

import numpy as np
import openvino
import pytest
from openvino import opset1, opset3, opset8

from ortconv.api import Conversion, conversion
from tests.converters.openvino.live import assert_close, check, numbers, run_onnx, run_openvino

F32, I64 = np.float32, np.int64
Node = openvino.Node


def weights(*shape: int, seed: int = 0) -> np.ndarray:
    return numbers(*shape, seed=seed, low=-0.5, high=0.5) / np.float32(np.sqrt(np.prod(shape[1:])))


def convolution(x: Node, channels: int, size: int, stride: int, seed: int) -> Node:
    """A convolution with its bias, as OpenVINO holds a Conv2d with a folded batch normalisation."""
    pads = [size // 2] * 2
    inputs = x.get_output_partial_shape(0)[1].get_length()
    kernel = weights(channels, inputs, size, size, seed=seed)
    made = opset1.convolution(x, kernel, [stride] * 2, pads, pads, [1, 1])
    return opset1.add(made, weights(1, channels, 1, 1, seed=seed + 1))


def resnet(batch: int = 1) -> openvino.Model:
    """A small residual network: a stem, four blocks, two of them with a projection, a classifier."""
    image = opset1.parameter([batch, 3, 32, 32], F32)
    x = opset1.relu(convolution(image, 16, 7, 2, 0))
    x = opset1.max_pool(x, [2, 2], [1, 1], [1, 1], [3, 3])
    for number, (channels, stride) in enumerate(((16, 1), (16, 1), (32, 2), (32, 1))):
        y = opset1.relu(convolution(x, channels, 3, stride, 10 * number + 10))
        y = convolution(y, channels, 3, 1, 10 * number + 12)
        skip = convolution(x, channels, 1, stride, 10 * number + 14) if stride == 2 else x
        x = opset1.relu(opset1.add(y, skip))
    pooled = opset1.reduce_mean(x, np.array([2, 3]), True)
    # As torch's flatten and a dynamic batch come out of OpenVINO's frontends.
    rows = opset8.gather(opset3.shape_of(pooled), np.array([0]), np.array(0))
    flat = opset1.reshape(pooled, opset1.concat([rows, np.array([32], I64)], 0), False)
    scores = opset1.add(opset1.matmul(flat, weights(10, 32, seed=90), False, True), weights(1, 10, seed=91))
    return openvino.Model([opset1.result(scores)], [image], "resnet")


def ops(converted: Conversion) -> Counter[str]:
    return Counter(node.op_type for node in converted.model.graph)


EXPORTED = {"Conv": 10, "Relu": 9, "Add": 4, "MaxPool": 1, "GlobalAveragePool": 1, "Reshape": 1, "Gemm": 1}


@pytest.mark.parametrize("batch", [1, -1])
def test_resnet_has_the_nodes_of_an_exported_one(batch: int) -> None:
    converted = check(resnet(batch), [numbers(2 if batch < 0 else 1, 3, 32, 32)], bound=16)
    assert ops(converted) == EXPORTED
    assert all(len(node.inputs) == 3 for node in converted.model.graph if node.op_type in ("Conv", "Gemm"))
    # Weights and biases, and the shape of Reshape.
    assert len(converted.model.graph.initializers) == 11 * 2 + 1


def test_widened_weights_leave_no_casts(tmp_path: pathlib.Path) -> None:
    openvino.save_model(resnet(), tmp_path / "model.xml", compress_to_fp16=True)
    converted = conversion(tmp_path / "model.xml", weights="f32")
    assert ops(converted) == EXPORTED
    feed = [numbers(1, 3, 32, 32)]
    (expected,) = run_openvino(openvino.Core().read_model(tmp_path / "model.xml"), [feed])
    (actual,) = run_onnx(converted, [feed])
    assert_close(actual[0], expected[0], 16)


@pytest.mark.parametrize("channels", [16, 384, 1024])
def test_widened_weights_of_groups_leave_none_either(channels: int, tmp_path: pathlib.Path) -> None:
    x, kernel = opset1.parameter([1, channels, 5, 5], F32), weights(channels, 1, 1, 7, 7)
    y = opset1.group_convolution(x, kernel, [1, 1], [3, 3], [3, 3], [1, 1])
    openvino.save_model(openvino.Model([y], [x]), tmp_path / "model.xml", compress_to_fp16=True)
    assert ops(conversion(tmp_path / "model.xml", weights="f32")) == {"Conv": 1}


def test_same_file_gives_the_same_bytes(tmp_path: pathlib.Path) -> None:
    openvino.save_model(resnet(), tmp_path / "model.xml")
    for name in ("first", "second"):
        conversion(tmp_path / "model.xml").save(tmp_path / name)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


@pytest.mark.parametrize("half", [False, True])
def test_weights_that_nodes_share_are_stored_once(tmp_path: pathlib.Path, half: bool) -> None:
    x, kernel = opset1.parameter([1, 64, 9, 9], F32), weights(64, 64, 3, 3)
    y = x
    for _ in range(3):
        y = opset1.convolution(y, kernel.copy(), [1, 1], [1, 1], [1, 1], [1, 1])
    openvino.save_model(openvino.Model([y], [x]), tmp_path / "model.xml", compress_to_fp16=half)
    converted = conversion(tmp_path / "model.xml")
    assert ops(converted) == {"Conv": 3} | ({"Cast": 1} if half else {})
    assert len(converted.model.graph.initializers) == 1


def test_bias_that_others_use_is_kept_for_them() -> None:
    x, bias = opset1.parameter([1, 4, 5, 5], F32), opset1.constant(weights(1, 4, 1, 1))
    convolved = opset1.convolution(x, weights(4, 4, 1, 1), [1, 1], [0, 0], [0, 0], [1, 1])
    model = openvino.Model([opset1.multiply(opset1.add(convolved, bias), opset1.add(x, bias))], [x])
    assert ops(check(model, [numbers(1, 4, 5, 5)])) == {"Conv": 1, "Add": 1, "Mul": 1}


def test_bias_that_convolutions_share_is_stored_once() -> None:
    x, bias = opset1.parameter([1, 4, 5, 5], F32), opset1.constant(weights(1, 4, 1, 1))
    y = x
    for seed in range(2):
        y = opset1.convolution(y, weights(4, 4, 1, 1, seed=seed), [1, 1], [0, 0], [0, 0], [1, 1])
        y = opset1.relu(opset1.add(y, bias))
    converted = check(openvino.Model([y], [x]), [numbers(1, 4, 5, 5)])
    assert [list(value.shape or ()) for value in converted.model.graph.initializers.values()].count([4]) == 1
    assert len(converted.model.graph.initializers) == 3


@pytest.mark.parametrize(
    ("shape", "fused"), [((1, 4, 1, 1), True), ((4, 1, 1), True), ((4,), False), ((1,), False), ((1, 4, 4, 4), False)]
)
def test_only_a_bias_per_channel_is_one(shape: tuple[int, ...], fused: bool) -> None:
    x = opset1.parameter([1, 3, 4, 4], F32)
    convolved = opset1.convolution(x, weights(4, 3, 1, 1), [1, 1], [0, 0], [0, 0], [1, 1])
    model = openvino.Model([opset1.add(weights(*shape), convolved)], [x])
    assert ops(check(model, [numbers(1, 3, 4, 4)])) == ({"Conv": 1} if fused else {"Conv": 1, "Add": 1})


def test_convolution_that_is_an_output_keeps_its_value() -> None:
    x = opset1.parameter([1, 3, 4, 4], F32)
    convolved = opset1.convolution(x, weights(4, 3, 1, 1), [1, 1], [0, 0], [0, 0], [1, 1])
    model = openvino.Model([convolved, opset1.add(convolved, weights(1, 4, 1, 1))], [x])
    assert ops(check(model, [numbers(1, 3, 4, 4)])) == {"Conv": 1, "Add": 1}


def test_what_undoes_the_node_before_is_left_out() -> None:
    x = opset1.parameter([2, 3, 4], F32)
    turned = opset1.transpose(opset1.transpose(x, np.array([2, 0, 1])), np.array([1, 2, 0]))
    cast = opset1.convert(opset1.convert(turned, "f64"), "f32")
    shaped = opset1.squeeze(
        opset1.unsqueeze(opset1.reshape(cast, np.array([2, 3, 4]), False), np.array([1])), np.array([1])
    )
    assert ops(check(openvino.Model([opset1.relu(shaped)], [x]), [numbers(2, 3, 4)])) == {"Relu": 1}


@pytest.mark.parametrize(("size", "left"), [(6, 1), (-1, 2)])
def test_reshape_that_may_refuse_sizes_stays(size: int, left: int) -> None:
    x = opset1.parameter([size], F32)
    shaped = opset1.reshape(opset1.reshape(x, np.array([2, -1]), False), np.array([-1, 3]), False)
    converted = check(openvino.Model([shaped], [x]), [numbers(6)])
    assert ops(converted) == {"Reshape": left}
    if left == 2:
        with pytest.raises(Exception, match="Reshape"):
            run_onnx(converted, [[numbers(3)]])


def test_product_over_nothing_is_its_bias() -> None:
    """It stays a MatMul, as ONNX Runtime's Gemm may fail; OpenVINO's CPU plugin does not take it."""
    x, y = opset1.parameter([2, 0], F32), opset1.parameter([0, 3], F32)
    bias = numbers(1, 3)
    converted = conversion(openvino.Model([opset1.add(opset1.matmul(x, y, False, False), bias)], [x, y]))
    assert ops(converted) == {"MatMul": 1, "Add": 1}
    ((actual,),) = run_onnx(converted, [[np.zeros((2, 0), F32), np.zeros((0, 3), F32)]])
    assert_close(actual, np.broadcast_to(bias, (2, 3)), 0)


def test_cast_that_rounds_stays() -> None:
    x = opset1.parameter([2, 3], F32)
    model = openvino.Model([opset1.convert(opset1.convert(x, "i32"), "f32")], [x])
    assert ops(check(model, [numbers(2, 3)])) == {"Cast": 2}


def test_computed_constants_are_folded() -> None:
    x = opset1.parameter([2, 3, 4], F32)
    ramp = opset1.multiply(opset1.convert(opset1.range(np.array(0), np.array(4), np.array(1)), "f32"), F32(0.5))
    wide = opset1.broadcast(opset1.unsqueeze(ramp, np.array([0])), opset3.shape_of(x))
    assert ops(check(openvino.Model([opset1.add(x, wide)], [x]), [numbers(2, 3, 4)])) == {"Add": 1}


def test_constant_that_is_an_output_is_one() -> None:
    x = opset1.parameter([2, 3], F32)
    doubled = opset1.multiply(opset1.constant(numbers(2)), F32(2))
    check(openvino.Model([opset1.relu(x), doubled, opset3.shape_of(x)], [x]), [numbers(2, 3)])


def test_sizes_that_are_known_in_part_are_used() -> None:
    x = opset1.parameter([-1, 6, -1], F32)
    shape = opset3.shape_of(x)
    half = opset1.divide(opset8.gather(shape, np.array([1]), np.array(0)), np.array([2]))
    rest = opset8.gather(shape, np.array([0]), np.array(0))
    target = opset1.concat([rest, np.array([2]), half, np.array([-1])], 0)
    model = openvino.Model([opset1.reshape(x, target, False)], [x])
    converted = check(model, [numbers(2, 6, 4)], [numbers(3, 6, 1)])
    assert "Div" not in ops(converted)
