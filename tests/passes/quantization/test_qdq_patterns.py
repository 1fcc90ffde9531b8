"""Quantised layers that ONNX Runtime computes in integers, and those that stay as the source has them."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from openvino import opset1, opset4, opset8, opset11

from ortconv.api import conversion
from ortconv.runtime.session import InferenceSession
from tests.converters.openvino.live import model_of, numbers
from tests.passes.quantization.quantized_layers import (
    F32,
    IMAGE,
    ODD,
    STEP,
    UNSIGNED,
    W1,
    W2,
    Build,
    agree,
    all_by_openvino,
    by_openvino,
    convolved,
    depthwise,
    explained,
    int8_weights,
    rounded,
    runs,
    types,
)

LAYERS: dict[str, tuple[Build, str]] = {
    "signed": (lambda x: rounded(convolved(rounded(x), W1)), "QLinearConv"),
    "unsigned": (lambda x: rounded(convolved(rounded(x, UNSIGNED), W1), UNSIGNED), "QLinearConv"),
    "odd zero point": (lambda x: rounded(convolved(rounded(x, ODD), W1), ODD), "QLinearConv"),
    "no bias": (lambda x: rounded(convolved(rounded(x), W1, bias=False)), "QLinearConv"),
    "strides": (lambda x: rounded(convolved(rounded(x), W1, strides=2)), "QLinearConv"),
    "one scale": (lambda x: rounded(convolved(rounded(x), int8_weights(8, 8, 3, 3, axis=None))), "QLinearConv"),
    "zero points": (lambda x: rounded(convolved(rounded(x), int8_weights(8, 8, 3, 3, dtype=np.uint8))), "QLinearConv"),
    "relu": (lambda x: rounded(opset1.relu(convolved(rounded(x), W1)), UNSIGNED), "QLinearConv"),
    "clamp": (lambda x: rounded(opset1.clamp(convolved(rounded(x), W1), 0.0, 255 * STEP), UNSIGNED), "QLinearConv"),
    "grouped": (
        lambda x: rounded(
            opset1.group_convolution(rounded(x), int8_weights(2, 3, 4, 3, 3, axis=None), [1, 1], [1, 1], [1, 1], [1, 1])
        ),
        "QLinearConv",
    ),
    "sum": (
        lambda x: rounded(opset1.add(rounded(convolved(rounded(x), W1)), rounded(convolved(rounded(x), W2)))),
        "QLinearAdd",
    ),
    "sum and relu": (
        lambda x: rounded(
            opset1.relu(opset1.add(rounded(convolved(rounded(x), W1)), rounded(convolved(rounded(x), W2)))), UNSIGNED
        ),
        "QLinearAdd",
    ),
    "product": (
        lambda x: rounded(opset1.multiply(rounded(convolved(rounded(x), W1)), rounded(convolved(rounded(x), W2)))),
        "QLinearMul",
    ),
    "concat": (
        lambda x: rounded(
            convolved(
                opset1.concat([rounded(convolved(rounded(x), W1)), rounded(convolved(rounded(x), W2))], 1),
                int8_weights(8, 16, 3, 3),
            )
        ),
        "QLinearConcat",
    ),
    "pool": (
        lambda x: rounded(convolved(opset1.max_pool(rounded(x), [2, 2], [0, 0], [1, 1], [3, 3], "floor"), W1)),
        "QLinearConv",
    ),
    "upsampling": (
        lambda x: rounded(
            convolved(
                opset11.interpolate(rounded(x), np.array([18, 20]), "nearest", "sizes", axes=np.array([2, 3])), W1
            )
        ),
        "QLinearConv",
    ),
    "zeros around": (
        lambda x: rounded(
            convolved(opset1.pad(rounded(x), np.array([0, 0, 1, 0]), np.array([0, 0, 0, 2]), "constant", F32(0)), W1)
        ),
        "QLinearConv",
    ),
    "transposed": (
        lambda x: rounded(convolved(opset1.transpose(rounded(x), np.array([0, 1, 3, 2])), W1)),
        "QLinearConv",
    ),
    "parts": (
        lambda x: rounded(
            convolved(opset1.split(rounded(x), opset1.constant(1), 2).output(1), int8_weights(8, 4, 3, 3)),
        ),
        "QLinearConv",
    ),
    "matrix": (
        lambda x: rounded(opset1.matmul(rounded(x), int8_weights(12, 10, axis=0), False, True)),
        "MatMulInteger",
    ),
    "matrix and bias": (
        lambda x: rounded(
            opset1.add(opset1.matmul(rounded(x), int8_weights(10, 12, axis=1), False, False), numbers(12))
        ),
        "MatMulInteger",
    ),
}


@pytest.mark.parametrize(("residue", "integers"), [(2.0**-17, True), (2.0**-10, False)])
def test_residues_of_zero_points(residue: float, integers: bool, tmp_path: pathlib.Path) -> None:
    """Zero points that were computed in float32 may be 2^-17 instead of 0, the spacing of float32 at 127."""
    codes = np.random.default_rng(2).integers(-127, 128, (8, 8, 3, 3)).astype(np.int8)
    points = np.where(np.arange(8) % 2, residue, 0).astype(F32).reshape(8, 1, 1, 1)
    scales = np.full((8, 1, 1, 1), 0.003, F32)

    def build(x: Any) -> Any:
        numbers_of = opset1.subtract(opset1.convert(opset1.constant(codes), "f32"), points)
        return rounded(convolved(rounded(x), opset1.multiply(numbers_of, scales)))

    x = numbers(*IMAGE, low=-2.2, high=2.2, seed=3)
    model = model_of(build, [[x]])
    actual = runs(conversion(model, target="onnx").to_proto(), tmp_path)(x)
    off = np.abs(actual - by_openvino(model, x))
    assert off.max() < 1.01 * STEP
    assert np.mean(off > 0.01 * STEP) < 0.01
    assert ("QLinearConv" in types(onnx.load(tmp_path / "optimized.onnx"))) == integers


def test_pooling_comes_before_rounding(tmp_path: pathlib.Path) -> None:
    """ONNX Runtime's MaxPool takes ten times as long on 8-bit numbers, and it moves a QuantizeLinear before one."""

    def build(x: Any) -> Any:
        hidden = opset4.swish(convolved(rounded(x), W1))
        pooled = opset1.max_pool(rounded(hidden), [2, 2], [0, 0], [0, 0], [2, 2], "floor")
        return rounded(convolved(rounded(pooled, ODD), W2))

    x = numbers(*IMAGE, low=-2.2, high=2.2)
    model = model_of(build, [[x]])
    converted = conversion(model).to_proto()
    off = np.abs(runs(converted, tmp_path)(x) - by_openvino(model, x))
    assert off.max() < 1.01 * STEP
    assert np.mean(off > 0.01 * STEP) < 0.01
    optimized = onnx.load(tmp_path / "optimized.onnx").graph.node
    (pool,) = (node for node in optimized if node.op_type == "MaxPool")
    assert not any(node.op_type == "QuantizeLinear" and pool.input[0] in node.output for node in optimized)


def test_averages_are_computed_in_floats(tmp_path: pathlib.Path) -> None:
    """ONNX Runtime's AveragePool of 8-bit numbers takes several times as long."""

    def build(x: Any) -> Any:
        data = rounded(x)
        pooled = opset1.avg_pool(data, [2, 2], [0, 0], [0, 0], [2, 2], False, "floor")
        return [rounded(pooled, ODD), convolved(data, W1)]

    x = numbers(*IMAGE, low=-2.2, high=2.2, seed=3)
    model = model_of(build, [[x]])
    # Averages of four levels are often in the middle between two.
    off = np.abs(runs(conversion(model).to_proto(), tmp_path)(x) - by_openvino(model, x))
    assert off.max() < 1.01 * STEP
    assert "AveragePool" in types(onnx.load(tmp_path / "optimized.onnx"))


def test_floats_that_several_nodes_read_are_computed_once(tmp_path: pathlib.Path) -> None:
    def build(x: Any) -> Any:
        data = rounded(x)
        read = [opset1.concat([data, opset1.multiply(x, F32(factor))], 1) for factor in (0.3, 0.6, 0.7)]
        return [opset1.concat(read, 1), convolved(data, W1)]

    x = numbers(*IMAGE, low=-2.2, high=2.2, seed=3)
    model = model_of(build, [[x]])
    found = runs(conversion(model).to_proto(), tmp_path)(x)
    np.testing.assert_allclose(found, by_openvino(model, x), rtol=1e-6)
    computed = types(onnx.load(tmp_path / "optimized.onnx"))
    assert computed.count("Cast") == 1
    assert computed.count("DequantizeLinear") == 2  # in the body of the convolution


@pytest.mark.parametrize("axes", [1, 3])
def test_other_numbers_of_axes(axes: int, tmp_path: pathlib.Path) -> None:
    filters, single = int8_weights(6, 4, *[3] * axes), int8_weights(6, 1, 1, *[3] * axes)
    window = [[1] * axes] * 4

    def build(x: Any) -> Any:
        hidden = rounded(opset1.relu(opset1.convolution(rounded(x), filters, *window)), UNSIGNED)
        return rounded(opset1.group_convolution(hidden, single, *window))

    assert agree(build, tmp_path, (2, 4, *[6, 5, 7][:axes])).count("QLinearConv") == 2


@pytest.mark.parametrize("name", LAYERS)
def test_layers_are_computed_in_integers(name: str, tmp_path: pathlib.Path) -> None:
    build, kernel = LAYERS[name]
    computed = agree(build, tmp_path)
    assert kernel in computed
    assert not {"Conv", "MatMul", "Gemm"} & set(computed)


@pytest.mark.parametrize("source", ["input", "convolution", "convolution and relu6", "sigmoid"])
def test_scales_of_channels_move_into_weights(source: str, tmp_path: pathlib.Path) -> None:
    """ONNX Runtime has no kernel for data with a scale for each channel."""
    scales = numbers(1, 8, 1, 1, low=0.2, high=1) * F32(STEP)

    def build(x: Any) -> Any:
        if source != "input":
            x = convolved(rounded(x), W1)
        if source.endswith("relu6"):
            x = opset1.clamp(x, 0.0, 6.0)
        elif source == "sigmoid":
            x = opset1.sigmoid(x)
        unsigned = source.endswith("relu6")
        bounds = (scales * 0, scales * 255) if unsigned else (scales * -128, scales * 127)
        return rounded(depthwise(rounded(x, bounds), int8_weights(8, 1, 1, 3, 3)))

    computed = agree(build, tmp_path)
    assert computed.count("QLinearConv") == (1 if source in ("input", "sigmoid") else 2)
    # What a convolution gives in integers needs no product of its own; another one ONNX Runtime may fuse.
    assert ("Mul" in computed) == (source == "input")


def test_multiplied_channels_of_a_depthwise_convolution(tmp_path: pathlib.Path) -> None:
    scales = numbers(1, 4, 1, 1, low=0.2, high=1) * F32(STEP)

    def build(x: Any) -> Any:
        return rounded(depthwise(rounded(x, (scales * -128, scales * 127)), int8_weights(4, 2, 1, 3, 3, axis=None)))

    assert "QLinearConv" in agree(build, tmp_path, (2, 4, 7, 6))


def test_sizes_of_the_run(tmp_path: pathlib.Path) -> None:
    def build(x: Any) -> Any:
        pooled = opset1.reduce_mean(rounded(convolved(rounded(x), W1)), np.array([2, 3]), False)
        return opset1.matmul(rounded(pooled), int8_weights(12, 8), False, True)

    feeds = [numbers(n, 8, n + 4, 5, low=-2.2, high=2.2) for n in (1, 3)]
    model = model_of(build, [[each] for each in feeds])
    run = runs(conversion(model, target="onnx").to_proto(), tmp_path)
    assert {"QLinearConv", "MatMulInteger"} <= set(types(onnx.load(tmp_path / "optimized.onnx")))
    for x in feeds:
        np.testing.assert_allclose(run(x), by_openvino(model, x), atol=0.01)


def test_a_value_that_several_round_alike(tmp_path: pathlib.Path) -> None:
    def build(x: Any) -> Any:
        codes = rounded(x)
        return rounded(opset1.add(rounded(convolved(codes, W1)), rounded(convolved(codes, W2))))

    assert agree(build, tmp_path).count("QuantizeLinear") == 1


FLOATS: dict[str, Build] = {
    "weights are floats": lambda x: rounded(convolved(rounded(x), opset1.constant(numbers(8, 8, 3, 3)))),
    "a transposed convolution": lambda x: rounded(
        opset1.convolution_backprop_data(rounded(x), int8_weights(8, 8, 3, 3, axis=1), strides=[2, 2])
    ),
    "levels of other counts": lambda x: rounded(convolved(rounded(x, levels=255), W1)),
    "zero between levels": lambda x: rounded(convolved(rounded(x, (-2.0, 2.0)), W1)),
    "zero beyond the levels": lambda x: rounded(convolved(rounded(x, (0.5, 0.5 + 255 * STEP)), W1)),
    "a scale for each channel, and another reader": lambda x: read_twice(per_channel(x)),
    "a scale for each channel, in front of all channels": lambda x: rounded(convolved(per_channel(x), W1)),
    "two ranges after each other": lambda x: rounded(rounded(convolved(x, W1)), (-2.0, 2.0 * 127 / 128)),
    "nothing is multiplied": lambda x: opset1.sigmoid(rounded(opset1.tanh(rounded(x)))),
    "interpolation between": lambda x: rounded(
        opset11.interpolate(rounded(x), np.array([18, 20]), "linear", "sizes", axes=np.array([2, 3]))
    ),
    "a zero for each channel": lambda x: rounded(depthwise(asymmetric(x), int8_weights(8, 1, 1, 3, 3))),
    "a zero for each channel, and a sum": lambda x: rounded(opset1.add(asymmetric(x), rounded(x))),
    "a scale for each column": lambda x: rounded(
        opset1.matmul(
            rounded(x, tuple(numbers(10, low=1, high=2) * F32(sign) for sign in (-1, 1))), W_LAST, False, True
        )
    ),
}
"""Quantizers around layers that ONNX Runtime would compute otherwise, if it fused them."""

FORMULAS: dict[str, tuple[Build, str]] = {
    "another range": (lambda x: rounded(convolved(rounded(x, to=UNSIGNED), W1)), "another range than the data"),
    "no 8-bit weights": (lambda x: opset1.sigmoid(rounded(x)), "nothing in the model has 8-bit weights"),
    "many levels": (lambda x: rounded(convolved(rounded(x, levels=512), W1)), "512 levels, and 8 bits hold 256"),
    "bounds of the run": (
        lambda x: rounded(
            convolved(
                opset1.fake_quantize(
                    x,
                    F32(-2),
                    opset1.add(F32(2), opset1.multiply(opset1.reduce_max(x, np.arange(4)), F32(0))),
                    F32(-2),
                    F32(2),
                    256,
                ),
                W1,
            )
        ),
        "the model computes its ranges",
    ),
}
"""FakeQuantize layers that are no quantizers, and what explain says of them."""

W_LAST = int8_weights(12, 10, seed=2)


def read_twice(x: Any) -> Any:
    return opset1.add(rounded(depthwise(x, int8_weights(8, 1, 1, 3, 3))), x)


def per_channel(x: Any) -> Any:
    scales = numbers(1, 8, 1, 1, low=0.2, high=1) * F32(STEP)
    return rounded(x, (scales * -128, scales * 127))


def asymmetric(x: Any) -> Any:
    points = numbers(1, 8, 1, 1, dtype=np.uint8, low=60, high=200).astype(F32)
    scales = numbers(1, 8, 1, 1, low=0.6, high=1) * F32(STEP)
    return rounded(x, (-points * scales, (255 - points) * scales))


@pytest.mark.parametrize("target", ["onnx", "auto"])
@pytest.mark.parametrize("name", FLOATS)
def test_quantizers_beside_float_layers(name: str, target: str, tmp_path: pathlib.Path) -> None:
    """They are QuantizeLinear and DequantizeLinear, which ONNX Runtime does not fuse with what it would round."""
    x = numbers(*IMAGE, low=-1.9, high=1.9, seed=3)
    model = model_of(lambda x: [FLOATS[name](x), convolved(rounded(x), W1)], [[x]])
    converted = conversion(model, target=target).to_proto()
    made = types(converted)
    assert "Round" not in made
    quantizers = sum(op.get_type_name() == "FakeQuantize" for op in model.get_ops())
    # Operators of ours quantize their results themselves.
    assert made.count("QuantizeLinear") + sum("QLinear" in each for each in made) >= quantizers
    actual, expected = runs(converted, tmp_path)(x), by_openvino(model, x)
    off = np.abs(actual - expected)
    assert off.max() < 1.01 * STEP
    assert np.mean(off > 1e-5) < 0.01


@pytest.mark.parametrize("name", FORMULAS)
def test_what_stays_a_formula(name: str, tmp_path: pathlib.Path) -> None:
    build, reason = FORMULAS[name]
    x = numbers(*IMAGE, low=-1.9, high=1.9, seed=3)
    model = model_of(build, [[x]])
    converted = conversion(model, target="onnx")
    assert reason in explained(converted)
    assert "Round" in types(converted.to_proto())
    actual, expected = runs(converted.to_proto(), tmp_path)(x), by_openvino(model, x)
    off = np.abs(actual - expected)
    assert off.max() < 1.01 * STEP
    assert np.mean(off > 1e-5) < 0.01


@pytest.mark.parametrize("transposed", [False, True])
def test_scales_of_what_is_summed(transposed: bool, tmp_path: pathlib.Path) -> None:
    """They are no scales of the sums."""
    codes = numbers(10, 12, dtype=np.int8, low=-100, high=100)
    scales = numbers(1, 12, low=0.01, high=0.02)
    matrix = codes.astype(F32) * scales
    if not transposed:
        codes, scales, matrix = codes.T.copy(), scales.T.copy(), matrix.T

    def build(x: Any) -> Any:
        weights = opset1.multiply(opset1.convert(opset1.constant(codes), "f32"), opset1.constant(scales))
        return opset1.matmul(rounded(x), weights, False, transposed)

    x = numbers(5, 12, dtype=np.int8, low=-100, high=100).astype(F32) * F32(STEP)
    run = runs(conversion(model_of(build, [[x]]), target="onnx").to_proto(), tmp_path)
    np.testing.assert_allclose(run(x), x @ (matrix.T if transposed else matrix), rtol=0, atol=1e-4)


@pytest.mark.parametrize("rank", [2, 3])
def test_products_of_two_values_of_the_run(rank: int, tmp_path: pathlib.Path) -> None:
    sizes = (5, 12) if rank == 2 else (2, 5, 12)
    left, right = int8_weights(12, 12), int8_weights(12, 12, seed=4)

    def build(x: Any) -> Any:
        one, other = (rounded(opset1.matmul(rounded(x), each, False, True)) for each in (left, right))
        scores = rounded(opset1.matmul(one, other, False, True))
        return rounded(opset1.matmul(scores, int8_weights(6, 5, axis=0), False, True))

    x = numbers(*sizes, low=-2.2, high=2.2)
    model = model_of(build, [[x]])
    off = np.abs(runs(conversion(model, target="onnx").to_proto(), tmp_path)(x) - by_openvino(model, x))
    assert off.max() < 3.01 * STEP
    assert np.mean(off > 0.01 * STEP) < 0.05


def test_bounds_that_matter_stay(tmp_path: pathlib.Path) -> None:
    def build(x: Any) -> Any:
        return rounded(opset1.clamp(convolved(rounded(x), W1), -0.4, 0.7))

    assert "Clip" in types(conversion(model_of(build, [[numbers(*IMAGE)]]), target="onnx").to_proto())
    assert "QLinearConv" not in agree(build, tmp_path)


@pytest.mark.parametrize("zeros", [False, True])
def test_biases_beyond_32_bits(zeros: bool, tmp_path: pathlib.Path) -> None:
    """ONNX Runtime rounds a bias to 32 bits in units of the sum, without asking whether it fits.

    Of a filter of zeros, as quantisation leaves of channels that are dead, the unit may be another.
    """
    rng = np.random.default_rng(1)
    codes = rng.integers(-127, 128, (8, 8, 3, 3)).astype(np.int8)
    if zeros:
        codes[3] = 0
    scales = np.full((8, 1, 1, 1), 0.002, F32)
    scales[3] = 1e-12

    def build(x: Any) -> Any:
        weights = opset1.multiply(opset1.convert(opset1.constant(codes), "f32"), opset1.constant(scales))
        return rounded(opset1.add(convolved(rounded(x), weights, bias=False), np.full((1, 8, 1, 1), 0.5, F32)))

    x = numbers(*IMAGE, low=-2, high=2)
    model = model_of(build, [[x]])
    result = runs(conversion(model, target="onnx").to_proto(), tmp_path)(x)
    assert np.abs(result - by_openvino(model, x)).max() < 1.01 * STEP
    np.testing.assert_array_equal(result[:, 3], 0.5)
    assert ("QLinearConv" in types(onnx.load(tmp_path / "optimized.onnx"))) == zeros


def test_kept_results_are_outputs(tmp_path: pathlib.Path) -> None:
    def build(x: Any) -> list[Any]:
        codes = rounded(x)
        pooled = opset1.max_pool(codes, [2, 2], [0, 0], [0, 0], [2, 2], "floor")
        return [rounded(convolved(pooled, W1)), pooled, codes]

    x = numbers(*IMAGE, low=-2, high=2)
    model = model_of(build, [[x]])
    converted = conversion(model, target="onnx").to_proto()
    session = InferenceSession(converted, providers=["CPUExecutionProvider"], backend="none")
    results = session.run(None, {session.get_inputs()[0].name: x})
    for ours, theirs in zip(results, all_by_openvino(model, x), strict=True):
        off = np.abs(ours - theirs)
        assert off.max() < 1.01 * STEP
        assert np.mean(off > 1e-5) < 0.01


def test_explain_tells() -> None:
    def build(x: Any) -> Any:
        hidden = rounded(opset1.relu(convolved(rounded(x), W1)), UNSIGNED)
        return opset1.matmul(rounded(opset4.hswish(hidden)), int8_weights(12, 10), False, True)

    converted = conversion(model_of(build, [[numbers(*IMAGE)]]), target="onnx")
    assert "is redundant: 'FakeQuantize_" in explained(converted)
    assert "is computed in int8" in explained(converted)
    assert all(node.graph is not None for step in converted.steps for node in step.nodes)
    assert sum(len(step.nodes) for step in converted.steps) == len(converted.model.graph)


def test_gathered_and_sliced_levels(tmp_path: pathlib.Path) -> None:
    def build(x: Any) -> Any:
        some = opset8.gather(rounded(x), opset1.constant([3, 1, 1, 0]), opset1.constant(1))
        part = opset8.slice(some, np.array([1]), np.array([8]), np.array([2]), np.array([2]))
        return rounded(convolved(part, int8_weights(8, 4, 3, 3)))

    assert "QLinearConv" in agree(build, tmp_path)


@pytest.mark.parametrize("moves", ["transpose", "transpose and reshape"])
def test_an_output_that_is_moved_and_rounded(moves: str, tmp_path: pathlib.Path) -> None:
    """ONNX Runtime would round the output as well."""

    def build(x: Any) -> list[Any]:
        hidden = opset1.sigmoid(x)
        last = opset1.transpose(hidden, np.array([0, 2, 3, 1]))
        if moves.endswith("reshape"):
            last = opset1.reshape(last, np.array([0, -1, 8]), True)
        return [opset1.matmul(rounded(last), int8_weights(12, 8), False, True), hidden]

    x = numbers(*IMAGE, low=-2, high=2)
    model = model_of(build, [[x]])
    converted = conversion(model, target="onnx").to_proto()
    session = onnxruntime.InferenceSession(converted.SerializeToString(), providers=["CPUExecutionProvider"])
    _, actual = session.run(None, {session.get_inputs()[0].name: x})
    np.testing.assert_allclose(actual, all_by_openvino(model, x)[1], atol=1e-6)


def test_convolutions_in_groups_are_ours(tmp_path: pathlib.Path) -> None:
    """ONNX Runtime's QLinearConv takes twenty times as long."""

    def build(x: Any) -> Any:
        weights = int8_weights(2, 3, 4, 3, 3, axis=None)
        hidden = opset1.group_convolution(rounded(x), weights, [1, 1], [1, 1], [1, 1], [1, 1])
        return rounded(convolved(rounded(opset1.relu(hidden), UNSIGNED), int8_weights(8, 6, 1, 1)))

    x = numbers(*IMAGE, low=-2.2, high=2.2)
    model = model_of(build, [[x]])
    converted = conversion(model).to_proto()
    assert types(converted).count("QLinearConvolution") == 1
    off = np.abs(runs(converted, tmp_path)(x) - by_openvino(model, x))
    assert off.max() < 1.01 * STEP
    assert np.mean(off > 0.01 * STEP) < 0.01


@pytest.mark.parametrize("size", [9, 60])
def test_results_that_nothing_rounds(size: int, tmp_path: pathlib.Path) -> None:
    """Depthwise convolutions of small images take less time in floats."""
    scales = numbers(1, 8, 1, 1, low=0.2, high=1) * F32(STEP)

    def build(x: Any) -> Any:
        hidden = opset4.swish(convolved(rounded(x), W1))
        return opset4.swish(depthwise(rounded(hidden, (scales * -128, scales * 127)), int8_weights(8, 1, 1, 3, 3)))

    x = numbers(1, 8, size, size, low=-2.2, high=2.2)
    model = model_of(build, [[x]])
    made = conversion(model)
    assert "its per-channel scales are moved into the weights" in explained(made)
    assert ("takes less time in floats than in int8" in explained(made)) == (size == 9)
    converted = made.to_proto()
    assert types(converted).count("ConvIntegerToFloat") == (1 if size == 9 else 2)
    for backend in ("native", "python", "none"):
        session = InferenceSession(converted, providers=["CPUExecutionProvider"], backend=backend)
        (actual,) = session.run(None, {session.get_inputs()[0].name: x})
        off = np.abs(actual - by_openvino(model, x))
        assert off.max() < STEP
        assert np.mean(off > 1e-5) < 0.02
