"""Elementwise, normalising and moving ops against NumPy, in every type that their specification lists."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

import ortconv
from ortconv import onednn
from tests.running import run

NUMPY = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16, "s32": np.int32, "boolean": np.bool_}
EPSILON = {"f32": 2.0**-22, "f16": 2.0**-10, "bf16": 2.0**-8}
FLOATS = ("f32", "bf16", "f16")
ERF = np.vectorize(math.erf)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def soft_plus(x: np.ndarray) -> np.ndarray:
    return np.log1p(np.exp(x))


def numbers(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-4, 4, shape).astype(NUMPY[dtype])


def convert(
    kind: str, inputs: list[np.ndarray], dtypes: list[str], result: str, attributes: dict[str, Any], opset: int = 21
) -> onnx.ModelProto:
    g = onednn.Graph(kind)
    tensors = [
        g.tensor(f"x{i}", dtype, value.shape) for i, (value, dtype) in enumerate(zip(inputs, dtypes, strict=True))
    ]
    g.op(kind, tensors, dtype=result, name="y", **attributes)
    return ortconv.convert(g, opset=opset)


def check(
    kind: str,
    inputs: list[np.ndarray],
    dtypes: list[str],
    result: str,
    attributes: dict[str, Any],
    expected: np.ndarray,
    opset: int = 21,
) -> onnx.ModelProto:
    """Compares with a float64 result, rounded once to the result's type."""
    model = convert(kind, inputs, dtypes, result, attributes, opset)
    (found,) = run(model, {f"x{i}": value for i, value in enumerate(inputs)}, "none")
    assert found.dtype == NUMPY[result]
    assert found.shape == expected.shape
    if result in EPSILON:
        bound = EPSILON[result]
        np.testing.assert_allclose(found.astype(np.float64), expected.astype(np.float64), rtol=bound, atol=bound)
    else:
        np.testing.assert_array_equal(found, expected)
    return model


UNARY: list[tuple[str, dict[str, float | str], Callable[[np.ndarray], np.ndarray]]] = [
    ("Abs", {}, np.abs),
    ("Exp", {}, np.exp),
    ("ReLU", {}, lambda x: np.maximum(x, 0)),
    ("Round", {}, np.rint),
    ("Sigmoid", {}, sigmoid),
    ("Square", {}, np.square),
    ("Tanh", {}, np.tanh),
    ("HardSwish", {}, lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    ("Mish", {}, lambda x: x * np.tanh(soft_plus(x))),
    ("Clamp", {"min": -1.5, "max": 2}, lambda x: np.clip(x, -1.5, 2)),
    ("Clamp", {"min": 1, "max": 1}, np.ones_like),
    ("Elu", {"alpha": 0.5}, lambda x: np.where(x < 0, 0.5 * np.expm1(x), x)),
    ("LeakyReLU", {"alpha": 0.25}, lambda x: np.where(x < 0, 0.25 * x, x)),
    ("HardSigmoid", {"alpha": 0.25, "beta": 0.5}, lambda x: np.clip(0.25 * x + 0.5, 0, 1)),
    ("SoftPlus", {}, soft_plus),
    ("SoftPlus", {"beta": 2}, lambda x: soft_plus(2 * x) / 2),
    ("SoftPlus", {"beta": -1}, lambda x: -soft_plus(-x)),
    ("GELU", {}, lambda x: x / 2 * (1 + ERF(x * math.sqrt(0.5)))),
    (
        "GELU",
        {"mode": "gelu_tanh"},
        lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    ),
    ("Pow", {"beta": 2}, np.square),
    ("Reorder", {}, lambda x: x),
]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("kind", "attributes", "function"), UNARY, ids=[f"{u[0]}-{u[1]}" for u in UNARY])
def test_unary(kind: str, attributes: dict[str, Any], function: Callable[..., np.ndarray], dtype: str) -> None:
    x = numbers((2, 50), dtype)
    for opset in (19, 21, 25):
        check(kind, [x], [dtype], dtype, attributes, function(x.astype(np.float64)), opset)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("kind", "function"), [("Log", np.log), ("Sqrt", np.sqrt), ("Reciprocal", np.reciprocal)])
def test_unary_of_positive_numbers(kind: str, function: Callable[..., np.ndarray], dtype: str) -> None:
    x = (np.abs(numbers((2, 50), "f32")) + 0.5).astype(NUMPY[dtype])
    check(kind, [x], [dtype], dtype, {}, function(x.astype(np.float64)))


def test_round_takes_ties_to_the_even_side() -> None:
    x = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5], np.float32)
    check("Round", [x], ["f32"], "f32", {}, np.array([-2.0, -2, -0.0, 0, 2, 2]))


BINARY: dict[str, Callable[..., np.ndarray]] = {
    "Add": np.add,
    "Subtract": np.subtract,
    "Multiply": np.multiply,
    "Divide": np.divide,
    "Maximum": np.maximum,
    "Minimum": np.minimum,
    "SquaredDifference": lambda x, y: np.square(x - y),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kind", BINARY)
def test_binary_broadcasts(kind: str, dtype: str) -> None:
    x, y = numbers((2, 3, 1), dtype), (np.abs(numbers((4,), "f32", 1)) + 1).astype(NUMPY[dtype])
    check(kind, [x, y], [dtype] * 2, dtype, {}, BINARY[kind](x.astype(np.float64), y.astype(np.float64)))


@pytest.mark.parametrize(
    "types", [("f32", "bf16", "f32"), ("bf16", "f32", "bf16"), ("bf16", "bf16", "f32"), ("f16", "bf16", "f32")]
)
@pytest.mark.parametrize("kind", ["Add", "Multiply", "Divide", "Maximum"])
def test_mixed_types_are_rounded_once(kind: str, types: tuple[str, str, str]) -> None:
    x, y = numbers((2, 3), types[0]), (np.abs(numbers((2, 3), "f32", 1)) + 1).astype(NUMPY[types[1]])
    expected = BINARY[kind](x.astype(np.float64), y.astype(np.float64))
    check(kind, [x, y], list(types[:2]), types[2], {}, expected)


@pytest.mark.parametrize("kind", ["Add", "Subtract"])
def test_integers_are_exact(kind: str) -> None:
    x, y = np.array([2**24 + 1, -5], np.int32), np.array([1, 2**30], np.int32)
    check(kind, [x, y], ["s32"] * 2, "s32", {}, BINARY[kind](x, y))


@pytest.mark.parametrize("kind", ["Add", "Subtract"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_integers_and_floats_mix(kind: str, dtype: str) -> None:
    x, y = np.array([-7, 3, 2**20, 5], np.int32), np.array([0.5, 1.5, 0.25, -2.5]).astype(NUMPY[dtype])
    exact = BINARY[kind](x.astype(np.float64), y.astype(np.float64))
    check(kind, [x, y], ["s32", dtype], "f32", {}, exact)
    check(kind, [x, y], ["s32", dtype], "s32", {}, np.rint(exact).astype(np.int32))


@pytest.mark.parametrize(("value", "expected"), [(3e9, 2**31 - 128), (-3e9, -(2**31)), (np.inf, 2**31 - 128)])
def test_sums_of_floats_saturate_as_integers(value: float, expected: int) -> None:
    x = np.array([value], np.float32)
    check("Add", [x, np.zeros(1, np.float32)], ["f32", "f32"], "s32", {}, np.array([expected], np.int32))


def test_equal_shapes_without_broadcasting() -> None:
    x = numbers((2, 3), "f32")
    check("Add", [x, x], ["f32"] * 2, "f32", {"auto_broadcast": "none"}, 2 * x.astype(np.float64))


@pytest.mark.parametrize("dtype", [*FLOATS, "s32"])
def test_greater_equal(dtype: str) -> None:
    x, y = numbers((2, 8), dtype), numbers((8,), dtype, 1)
    y[3] = x[1, 3]
    check("GreaterEqual", [x, y], [dtype] * 2, "boolean", {}, x >= y)


@pytest.mark.parametrize("dtype", FLOATS)
def test_select(dtype: str) -> None:
    x, y = numbers((2, 8), dtype), numbers((8,), dtype, 1)
    condition = x.astype(np.float64) > 0
    check("Select", [condition, x, y], ["boolean", dtype, dtype], dtype, {}, np.where(condition, x, y))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4), (2, 3, 4, 5), (1, 2, 2, 2, 3)])
@pytest.mark.parametrize("data_format", ["NCX", "NXC", None])
def test_bias_add_follows_the_data_format(dtype: str, shape: tuple[int, ...], data_format: str | None) -> None:
    axis = 1 if data_format == "NCX" else -1
    x, bias = numbers(shape, dtype), numbers((shape[axis],), dtype, 1)
    column = bias.astype(np.float64).reshape([-1, *[1] * (len(shape) - 2)] if data_format == "NCX" else [-1])
    attributes = {"data_format": data_format} if data_format else {}
    check("BiasAdd", [x, bias], [dtype] * 2, dtype, attributes, x.astype(np.float64) + column)


@pytest.mark.parametrize(("dtype", "statistics"), [("f32", "f32"), ("bf16", "f32"), ("bf16", "bf16"), ("f16", "f32")])
@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4), (2, 3, 4, 5)])
@pytest.mark.parametrize("data_format", ["NCX", "NXC", None])
def test_batch_norm_inference(dtype: str, statistics: str, shape: tuple[int, ...], data_format: str | None) -> None:
    axis = 1 if data_format == "NCX" else -1
    x = numbers(shape, dtype)
    gamma, beta, mean, variance = (numbers((shape[axis],), statistics, seed) for seed in range(1, 5))
    variance = np.abs(variance) + NUMPY[statistics](1)
    form = [-1, *[1] * (len(shape) - 2)] if data_format == "NCX" else [-1]
    g, b, m, v = (value.astype(np.float64).reshape(form) for value in (gamma, beta, mean, variance))
    expected = (x.astype(np.float64) - m) / np.sqrt(v + 0.25) * g + b
    attributes = {"epsilon": 0.25} | ({"data_format": data_format} if data_format else {})
    inputs = [x, gamma, beta, mean, variance]
    model = convert("BatchNormInference", inputs, [dtype, *[statistics] * 4], dtype, attributes)
    (found,) = run(model, {f"x{i}": value for i, value in enumerate(inputs)}, "none")
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=8 * EPSILON[dtype], atol=8 * EPSILON[dtype])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("shape", "target", "special_zero", "expected"),
    [
        ((2, 3, 4), [4, 6], False, (4, 6)),
        ((2, 3, 4), [-1], False, (24,)),
        ((2, 3, 4), [0, -1], True, (2, 12)),
        ((2, 3, 4), [0, 0, 2, 2], True, (2, 3, 2, 2)),
        ((0, 3), [0, 5], False, (0, 5)),
        ((0, 3), [3, 0], False, (3, 0)),
        ((1, 1), [], False, ()),
    ],
)
def test_static_reshape(
    dtype: str, shape: tuple[int, ...], target: list[int], special_zero: bool, expected: tuple[int, ...]
) -> None:
    x = numbers(shape, dtype)
    attributes = {"shape": target, "special_zero": special_zero}
    model = check("StaticReshape", [x], [dtype], dtype, attributes, x.reshape(expected))
    assert [dim.dim_value for dim in model.graph.output[0].type.tensor_type.shape.dim] == list(expected)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1], [-1, -3, 1]])
def test_static_transpose(dtype: str, order: list[int]) -> None:
    x = numbers((2, 3, 4), dtype)
    check("StaticTranspose", [x], [dtype], dtype, {"order": order}, x.transpose(order))


@pytest.mark.parametrize(("source", "target"), [("f32", "bf16"), ("f32", "f16"), ("bf16", "f32"), ("f16", "f32")])
def test_type_cast_rounds_to_nearest_even(source: str, target: str) -> None:
    x = np.concatenate([numbers((1000,), "f32"), np.float32([1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-11, 1 + 3 * 2**-11])])
    x = x.astype(NUMPY[source])
    model = convert("TypeCast", [x], [source], target, {})
    (found,) = run(model, {"x0": x}, "none")
    np.testing.assert_array_equal(found, x.astype(NUMPY[target]))


def test_a_chain_in_bf16_rounds_after_every_op() -> None:
    g = onednn.Graph()
    x = g.tensor("x", "bf16", [4096])
    y = g.op("Add", [g.op("Multiply", [x, x]), x])
    assert y.dtype == "bf16"
    data = numbers((4096,), "bf16")
    (found,) = run(ortconv.convert(g), {"x": data}, "none")
    square = (data.astype(np.float32) * data.astype(np.float32)).astype(ml_dtypes.bfloat16)
    expected = (square.astype(np.float32) + data.astype(np.float32)).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(found, expected)
