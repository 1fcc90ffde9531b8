"""Weights of int8 that ONNX Runtime can turn into uint8, which it has to where products of both saturate."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import openvino
import pytest
from onnx import TensorProto
from openvino import opset1, opset8

from ortconv.api import conversion
from ortconv.cli import convert
from ortconv.options import Target
from ortconv.verification import procedure
from tests.command_line import run_cli
from tests.converters.openvino.live import model_of, numbers
from tests.passes.quantization.quantized_layers import (
    F32,
    IMAGE,
    STEP,
    W1,
    agree,
    by_openvino,
    convolved,
    depthwise,
    explained,
    int8_weights,
    rounded,
    runs,
    types,
)

SATURATES = "multiplies in sums that saturate on x86-64 CPUs without VNNI"
MATRIX = int8_weights(12, 10)


def product(x: Any, weights: Any) -> Any:
    return opset1.matmul(x, weights, False, True)


def through_a_branch(layer: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Puts a layer into both branches of an If."""

    def build(x: Any) -> Any:
        condition = opset1.greater(opset1.reduce_max(x, np.arange(4)), opset1.constant(F32(0)))
        bodies = []
        for _ in range(2):
            inner = opset1.parameter(list(IMAGE), F32)
            bodies.append(openvino.Model([layer(inner)], [inner]))
        node = opset8.if_op(condition.output(0))
        for body, setter in zip(bodies, (node.set_then_body, node.set_else_body), strict=True):
            setter(body)
        node.set_input(x.output(0), bodies[0].get_parameters()[0], bodies[1].get_parameters()[0])
        return node.set_output(bodies[0].get_results()[0], bodies[1].get_results()[0])

    return build


def kinds_of_weights(model: onnx.ModelProto) -> dict[str, set[int]]:
    """Returns the element types of the constants that each op takes, bodies included."""
    found: dict[str, set[int]] = {}
    stored = {each.name: each.data_type for each in model.graph.initializer}

    def visit(graph: onnx.GraphProto) -> None:
        stored.update({each.name: each.data_type for each in graph.initializer})
        for node in graph.node:
            found.setdefault(node.op_type, set()).update(stored[name] for name in node.input if name in stored)
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    visit(attribute.g)

    visit(model.graph)
    return found


SHARING: dict[str, Callable[[Any], Any]] = {
    "weights of two convolutions": lambda x: rounded(convolved(rounded(convolved(rounded(x), W1)), W1)),
    "zero points of two convolutions": lambda x: rounded(
        convolved(rounded(convolved(rounded(x), W1)), int8_weights(8, 8, 3, 3, seed=5))
    ),
    "weights of two matrices": lambda x: opset1.add(
        product(rounded(x), MATRIX), product(rounded(opset1.abs(x)), MATRIX)
    ),
    "zero points of two matrices": lambda x: product(rounded(product(rounded(x), MATRIX)), int8_weights(7, 12, seed=6)),
}


@pytest.mark.parametrize("name", SHARING)
def test_what_layers_share_is_turned(name: str, tmp_path: pathlib.Path) -> None:
    """ONNX Runtime fails where two nodes share weights or zero points."""
    agree(SHARING[name], tmp_path)
    converted = conversion(model_of(SHARING[name], [[numbers(*IMAGE)]]), target="onnx").to_proto()
    runs(converted, tmp_path, unsigned=True)
    turned = kinds_of_weights(onnx.load(tmp_path / "optimized.onnx"))
    multiplied = turned.keys() & {"QLinearConv", "MatMulInteger", "MatMulIntegerToFloat", "QLinearMatMul"}
    assert multiplied
    assert not any(TensorProto.INT8 in turned[op] for op in multiplied)


@pytest.mark.parametrize("block", [None, 4])
@pytest.mark.parametrize("target", ["onnx", "auto"])
def test_matrices_of_floats_are_shared(target: Target, block: int | None, tmp_path: pathlib.Path) -> None:
    """What is dequantized for two products of floats, and what has no zero points."""
    codes = numbers(6, 3, 4, dtype=np.int8, low=-127, high=128)
    scales = numbers(6, 3 if block else 1, 1, low=0.01, high=0.02)
    weights = opset1.multiply(opset1.convert(opset1.constant(codes), "f32"), opset1.constant(scales))
    matrix = opset1.reshape(weights, np.array([6, 12]), False)

    def build(x: Any) -> Any:
        return opset1.subtract(product(x, matrix), product(opset1.sin(x), matrix))

    x = numbers(5, 12)
    model = model_of(build, [[x]])
    converted = conversion(model, target=target).to_proto()
    expected = (x.astype(np.float64) - np.sin(x.astype(np.float64))) @ (codes * scales.astype(np.float64)).reshape(
        6, 12
    ).T
    for unsigned in (False, True):
        np.testing.assert_allclose(runs(converted, tmp_path, unsigned=unsigned)(x), expected, rtol=1e-4, atol=1e-5)


BODIES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "convolution": (lambda x: rounded(convolved(rounded(x), W1)), "DequantizeLinear"),
    "matrix": (lambda x: rounded(product(rounded(x), MATRIX)), "MatMulInteger"),
}


@pytest.mark.parametrize("name", BODIES)
def test_weights_in_bodies_are_of_uint8(name: str, tmp_path: pathlib.Path) -> None:
    """There ONNX Runtime turns none."""
    layer, op_type = BODIES[name]
    x = numbers(*IMAGE, low=-2.2, high=2.2, seed=3)
    model = model_of(through_a_branch(layer), [[x]])
    made = conversion(model, target="onnx")
    kinds = kinds_of_weights(made.to_proto())
    assert TensorProto.UINT8 in kinds[op_type]
    assert not any(TensorProto.INT8 in each for each in kinds.values())
    assert not made.saturating
    off = np.abs(runs(made.to_proto(), tmp_path)(x) - by_openvino(model, x))
    assert off.max() < 1.01 * STEP
    assert np.mean(off > 0.01 * STEP) < 0.01


def weights(*shape: int, largest: int, others: int) -> Any:
    """Returns weights of one number each, but for one that is larger."""
    codes = np.full(shape, others, np.int8)
    codes.reshape(-1)[-1] = largest
    sizes = [shape[0], *[1] * (len(shape) - 1)]
    return opset1.multiply(opset1.convert(opset1.constant(codes), "f32"), opset1.constant(np.full(sizes, 0.002, F32)))


COUNTS: dict[str, tuple[Callable[[Any], Any], int]] = {
    "no two are too large": (lambda x: convolved(rounded(x), weights(8, 8, 1, 1, largest=127, others=1)), 0),
    "two are": (lambda x: convolved(rounded(x), weights(8, 8, 1, 1, largest=127, others=2)), 1),
    "two of less than nothing are": (lambda x: convolved(rounded(x), weights(8, 8, 1, 1, largest=-127, others=-2)), 1),
    "of either sign": (lambda x: convolved(rounded(x), weights(8, 8, 1, 1, largest=127, others=-64)), 0),
    "two": (lambda x: convolved(rounded(convolved(rounded(x), W1)), W1), 2),
    "depthwise": (lambda x: depthwise(rounded(x), int8_weights(8, 1, 1, 3, 3)), 0),
    "depthwise, two filters": (lambda x: depthwise(rounded(x), int8_weights(8, 2, 1, 3, 3, axis=None)), 1),
    "matrix": (lambda x: product(rounded(x), weights(12, 10, largest=127, others=2)), 1),
    "matrix of less": (lambda x: product(rounded(x), weights(12, 10, largest=127, others=1)), 0),
}


@pytest.mark.parametrize("name", COUNTS)
def test_what_can_saturate(name: str) -> None:
    build, count = COUNTS[name]
    made = conversion(model_of(lambda x: rounded(build(x)), [[numbers(*IMAGE)]]), target="onnx")
    assert made.saturating == count
    assert explained(made).count(SATURATES) == count


def test_our_convolution_does_not_saturate() -> None:
    made = conversion(model_of(lambda x: opset1.sigmoid(convolved(rounded(x), W1)), [[numbers(*IMAGE)]]))
    assert "ConvIntegerToFloat" in types(made.to_proto())
    assert not made.saturating


def test_our_convolutions_have_weights_of_their_own(tmp_path: pathlib.Path) -> None:
    """Without our library, ONNX Runtime meets their function bodies."""

    def build(x: Any) -> Any:
        layers = [opset1.sigmoid(convolved(rounded(each), W1)) for each in (x, opset1.abs(x))]
        return opset1.add(*layers)

    converted = conversion(model_of(build, [[numbers(*IMAGE)]])).to_proto()
    weights = [node.input[1] for node in converted.graph.node if node.op_type == "ConvIntegerToFloat"]
    assert len(weights) == len(set(weights)) == 2
    runs(converted, tmp_path, unsigned=True)


@pytest.mark.parametrize("saturates", [False, True])
def test_convert_warns(saturates: bool, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it concerns the machine; the report says so everywhere."""
    monkeypatch.setattr(convert, "saturate", lambda: saturates)
    model = model_of(lambda x: rounded(convolved(rounded(x), W1)), [[numbers(*IMAGE)]])
    openvino.save_model(model, tmp_path / "model.xml", compress_to_fp16=False)
    result = run_cli("convert", tmp_path / "model.xml", "-o", tmp_path / "model.onnx")
    assert result.exit_code == 0
    lines = result.stderr.splitlines()
    assert len(lines) == int(saturates)
    assert all(": 1 product of 8-bit integers: on this CPU, as on all of x86-64 without VNNI" in line for line in lines)


@pytest.mark.parametrize("rounds", [False, True])
@pytest.mark.parametrize("saturates", [False, True])
def test_verify_tells(saturates: bool, rounds: bool, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(procedure, "saturate", lambda: saturates)
    layer = (lambda x: rounded(convolved(rounded(x), W1))) if rounds else opset1.sigmoid
    openvino.save_model(model_of(layer, [[numbers(*IMAGE)]]), tmp_path / "model.xml", compress_to_fp16=False)
    result = run_cli("verify", tmp_path / "model.xml", "--json", tmp_path / "found.json")
    assert result.exit_code == 0
    assert ("products of 8-bit integers saturate on this CPU" in result.stderr) == (saturates and rounds)
    assert json.loads((tmp_path / "found.json").read_text())["saturates"] == (saturates and rounds)


_LARGEST = """
import numpy as np
import onnx
import onnxruntime

import ortconv

model = onnx.load("model.onnx")
x = np.load("x.npy")
for backend in ("native", "none", "python"):
    session = ortconv.InferenceSession(model, backend=backend, providers=["CPUExecutionProvider"])
    np.save(backend, session.run(None, {session.get_inputs()[0].name: x})[0])
session = onnxruntime.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
np.save("untold", session.run(None, {session.get_inputs()[0].name: x})[0])
"""


def test_a_cpu_without_dot_products_of_bytes(tmp_path: pathlib.Path) -> None:
    """The largest codes and weights that there are, on a Haswell: the sums are known."""
    emulator = shutil.which("qemu-x86_64")
    if emulator is None:
        pytest.skip("qemu-x86_64, which Debian has in qemu-user, is not installed")
    shape = 4, 8, 3, 3
    total = 255 * 127 * 8 * 9 * 2.0**-14

    def build(x: Any) -> Any:
        codes = opset1.convert(opset1.constant(np.full(shape, 127, np.int8)), "f32")
        filters = opset1.multiply(codes, opset1.constant(np.full((4, 1, 1, 1), 2.0**-7, F32)))
        hidden = opset1.convolution(rounded(x, (0.0, 255 * 2.0**-7)), filters, [1, 1], [0, 0], [0, 0], [1, 1])
        return rounded(hidden, (0.0, 255.0))

    x = np.full((1, 8, 3, 3), 2.0, F32)
    conversion(model_of(build, [[x]])).save(tmp_path / "model.onnx")
    np.save(tmp_path / "x.npy", x)
    subprocess.run([emulator, "-cpu", "Haswell", sys.executable, "-c", _LARGEST], cwd=tmp_path, check=True, timeout=120)
    for name in ("native", "none", "python"):
        np.testing.assert_array_equal(np.load(tmp_path / f"{name}.npy"), np.rint(total))
    assert np.load(tmp_path / "untold.npy").max() < 0.6 * total
