"""Whole graphs as frameworks hand them to oneDNN: numbers, and that ONNX Runtime fuses again what oneDNN would."""

from __future__ import annotations

import collections
import json
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import ortconv
from ortconv import onednn
from tests.converters.onednn_graph.agreement import assert_close
from tests.converters.onednn_graph.references.call import DTYPES
from tests.converters.onednn_graph.references.interpreter import Program
from tests.running import run

Tensor = onednn.Tensor
WINDOW: dict[str, Any] = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
FORMATS = {"NCX": {"data_format": "NCX", "weights_format": "OIX"}, "NXC": {}}


def data(tensor: Tensor) -> np.ndarray:
    """Numbers around 1 for a tensor, small integers for one of integers."""
    assert tensor.shape is not None
    random = np.random.default_rng(tensor.id)
    shape = [size or 1 for size in tensor.shape]
    if tensor.dtype == "boolean":
        return random.random(shape) < 0.7
    if tensor.dtype in ("s8", "u8", "s4", "u4", "s32"):
        return random.integers(0 if tensor.dtype[0] == "u" else -7, 8, shape).astype(DTYPES[tensor.dtype])
    return random.uniform(0.25, 1.75, shape).astype(DTYPES[tensor.dtype])


def check(graph: onednn.Graph, *, slack: float = 16) -> onnx.ModelProto:
    """Runs a graph with the constants bound, compares with the references, and returns the model."""
    inputs = {tensor.name: data(tensor) for tensor in graph.inputs}
    constants = {t.name: inputs[t.name] for t in graph.inputs if t.property_type == "constant"}
    model = ortconv.convert(graph, tensors=constants)
    found = run(model, {name: value for name, value in inputs.items() if name not in constants}, "none")
    results = Program(json.loads(graph.to_json())).run({t.id: inputs[t.name] for t in graph.inputs})
    for tensor, value in zip(graph.outputs, found, strict=True):
        assert_close(value, results[tensor.id], slack, tensor.name)
    return model


@pytest.fixture
def fused(tmp_path: pathlib.Path) -> Callable[[onnx.ModelProto], dict[str, int]]:
    """Counts the op types that ONNX Runtime's own optimiser leaves."""

    def count(model: onnx.ModelProto) -> dict[str, int]:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return dict(collections.Counter(node.op_type for node in onnx.load(tmp_path / "optimised.onnx").graph.node))

    return count


def weights(graph: onednn.Graph, name: str, shape: list[int], dtype: str = "f32") -> Tensor:
    return graph.tensor(name, dtype, shape, constant=True)


def image(channels: int, data_format: str) -> list[int]:
    return [2, channels, 6, 5] if data_format == "NCX" else [2, 6, 5, channels]


def filters(data_format: str, out: int, per_group: int) -> list[int]:
    return [out, per_group, 3, 3] if data_format == "NCX" else [3, 3, per_group, out]


class TestConvolutions:
    @pytest.mark.parametrize("groups", [1, 4])
    @pytest.mark.parametrize("separate", [False, True])
    @pytest.mark.parametrize("data_format", ["NCX", "NXC"])
    def test_bias_and_relu(self, data_format: str, separate: bool, groups: int, fused: Any) -> None:
        g = onednn.Graph("block")
        src, bias = g.tensor("src", "f32", image(4, data_format)), weights(g, "bias", [4])
        kernel = weights(g, "kernel", filters(data_format, 4, 4 // groups))
        inputs = [src, kernel] if separate else [src, kernel, bias]
        y = g.op("Convolution", inputs, **WINDOW, **FORMATS[data_format], groups=groups)
        if separate:
            y = g.op("BiasAdd", [y, bias], data_format=data_format)
        g.op("ReLU", [y])
        counts = fused(check(g))
        if data_format == "NCX":
            assert counts == {"FusedConv": 1}
        elif not separate:
            assert counts["Transpose"] == 2

    @pytest.mark.parametrize("data_format", ["NCX", "NXC"])
    def test_residual_block(self, data_format: str, fused: Any) -> None:
        g = onednn.Graph("residual")
        x = y = g.tensor("src", "f32", image(4, data_format))
        for index in range(2):
            kernel = weights(g, f"kernel{index}", filters(data_format, 4, 4))
            y = g.op("Convolution", [y, kernel], **WINDOW, **FORMATS[data_format])
            vectors = [weights(g, f"{name}{index}", [4]) for name in ("gamma", "beta", "mean", "variance")]
            y = g.op("BatchNormInference", [y, *vectors], epsilon=1e-3, data_format=data_format)
            if index:
                y = g.op("Add", [y, x])
            y = g.op("ReLU", [y])
        g.op("AvgPool", [y], strides=[1, 1], pads_begin=[0, 0], pads_end=[0, 0], kernel=[6, 5], exclude_pad=False,
             data_format=data_format)  # fmt: skip
        counts = fused(check(g, slack=64))
        if data_format == "NCX":
            assert "BatchNormalization" not in counts
            assert counts["FusedConv"] >= 1

    @pytest.mark.parametrize("zero_point", [0, 4])
    @pytest.mark.parametrize("data_format", ["NCX", "NXC"])
    def test_int8_chain(self, data_format: str, zero_point: int, fused: Any) -> None:
        g = onednn.Graph("int8")
        axis = 0 if data_format == "NCX" else 3
        src = g.tensor("src", "u8", image(4, data_format))
        kernel = weights(g, "kernel", filters(data_format, 3, 4), "s8")
        x = g.op("Dequantize", [src], scales=[0.5], zps=[zero_point], dtype="f32")
        w = g.op(
            "Dequantize", [kernel], scales=[0.5, 0.25, 0.125], zps=[0] * 3, qtype="per_channel", axis=axis, dtype="f32"
        )
        y = g.op("Convolution", [x, w], **WINDOW, **FORMATS[data_format])
        g.op("Quantize", [y], scales=[2.0], zps=[zero_point], dtype="u8")
        counts = fused(check(g))
        if data_format == "NCX":
            assert counts == {"QLinearConv": 1}

    @pytest.mark.parametrize("moved", ["StaticReshape", "StaticTranspose", "MaxPool", "MatMul"])
    def test_signed_zero_points_survive_what_moves_data(self, moved: str, fused: Any) -> None:
        g = onednn.Graph("signed")
        x = g.op("Dequantize", [g.tensor("src", "s8", [2, 4, 6])], scales=[0.5], zps=[3], dtype="f32")
        if moved == "StaticReshape":
            y = g.op(moved, [x], shape=[8, 6], special_zero=False)
        elif moved == "StaticTranspose":
            y = g.op(moved, [x], order=[0, 2, 1])
        elif moved == "MaxPool":
            y = g.op(moved, [x], kernel=[2], strides=[2], pads_begin=[0], pads_end=[0], data_format="NCX")
        else:
            y = g.op(moved, [x, g.tensor("other", "f32", [2, 4, 3])], transpose_a=True)
        g.op("ReLU", [y])
        fused(check(g))

    @pytest.mark.parametrize("data_format", ["NCX", "NXC"])
    def test_shapes_that_nobody_states_are_found(self, data_format: str) -> None:
        g = onednn.Graph("unstated")
        spatial = {"data_format": data_format}
        channels = [weights(g, f"vector{i}", [4]) for i in range(4)]
        pool = {**WINDOW, "kernel": [3, 3], "strides": [2, 1], **spatial}
        last = weights(g, "last", [4 if data_format == "NXC" else 7])
        y = g.tensor("src", "f32", image(3, data_format))
        steps: list[tuple[str, list[Tensor], dict[str, Any]]] = [
            ("Convolution", [weights(g, "kernel", filters(data_format, 4, 3))], {**WINDOW, **FORMATS[data_format]}),
            ("BatchNormInference", channels, {"epsilon": 0.1, **spatial}),
            ("MaxPool", [], pool),
            ("Interpolate", [], {"mode": "bilinear", "scales": [2.0, 1.5], **spatial}),
            ("GroupNorm", channels[:2], {"groups": 2, "keep_stats": False, **spatial}),
            ("LayerNorm", [last, last], {"keep_stats": False}),
            ("RMSNorm", [last], {}),
            ("AvgPool", [], {key: value for key, value in pool.items() if key != "dilations"} | {"exclude_pad": True}),
        ]
        for index, (kind, others, attributes) in enumerate(steps):
            result = g.tensor(f"step{index}", "f32", None)
            g.op(kind, [y, *others], outputs=[result], **attributes)
            y = result
        model = check(g, slack=256)
        dims = [dim.dim_value for dim in model.graph.output[0].type.tensor_type.shape.dim]
        assert dims == ([2, 4, 3, 7] if data_format == "NCX" else [2, 3, 7, 4])

    def test_training_step(self) -> None:
        """A convolution with batch normalisation, forward and backward."""
        g = onednn.Graph("training")
        src, kernel = g.tensor("src", "f32", [2, 3, 6, 5]), g.tensor("kernel", "f32", [4, 3, 3, 3])
        gamma, beta, mean, variance = (g.tensor(name, "f32", [4]) for name in ("gamma", "beta", "mean", "variance"))
        attributes = {**WINDOW, **FORMATS["NCX"]}
        y = g.op("Convolution", [src, kernel], **attributes)
        shape, norm = [2, 4, 6, 5], {"epsilon": 1e-3, "data_format": "NCX"}
        stats = [g.tensor(f"stat{i}", "f32", [4]) for i in range(4)]
        dst = g.tensor("dst", "f32", shape)
        g.op("BatchNormForwardTraining", [y, mean, variance, gamma, beta], outputs=[dst, *stats], momentum=0.9, **norm)
        g.op("ReLU", [dst], name="relu")
        diff_dst = g.op("ReLUBackward", [dst, g.tensor("diff", "f32", shape)], use_dst=False)
        gradients = [g.tensor("diff_y", "f32", shape), *(g.tensor(f"diff_{n}", "f32", [4]) for n in ("gamma", "beta"))]
        g.op("BatchNormTrainingBackward", [y, diff_dst, *stats[2:], gamma], outputs=gradients, **norm)
        g.op("ConvolutionBackwardData", [gradients[0], kernel], dst_shape=[2, 3, 6, 5], **attributes)
        g.op("ConvolutionBackwardWeights", [src, gradients[0]], weights_shape=[4, 3, 3, 3], **attributes)
        check(g, slack=256)


class TestMatMuls:
    @pytest.mark.parametrize("transposed", [False, True])
    def test_bias_and_gelu(self, transposed: bool, fused: Any) -> None:
        g = onednn.Graph("linear")
        src, bias = g.tensor("src", "f32", [5, 8]), weights(g, "bias", [6])
        w = weights(g, "w", [6, 8] if transposed else [8, 6])
        g.op("GELU", [g.op("MatMul", [src, w, bias], transpose_b=transposed)])
        assert fused(check(g)) == {"Gemm": 1, "Gelu": 1}

    def test_int8(self, fused: Any) -> None:
        g = onednn.Graph("int8")
        x = g.op("Dequantize", [g.tensor("src", "u8", [5, 8])], scales=[0.5], zps=[4], dtype="f32")
        w = g.op("Dequantize", [weights(g, "w", [8, 6], "s8")], scales=[0.25], zps=[0], dtype="f32")
        g.op("Quantize", [g.op("MatMul", [x, w])], scales=[2.0], zps=[4], dtype="u8")
        assert fused(check(g)) == {"QLinearMatMul": 1}

    @pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
    @pytest.mark.parametrize("gate", ["Sigmoid", "GELU"])
    def test_gated_mlp(self, gate: str, dtype: str, fused: Any) -> None:
        g = onednn.Graph("gated")
        src = g.tensor("src", dtype, [3, 4])
        left, right, down = (weights(g, f"w{i}", [4, 6] if i < 2 else [6, 4], dtype) for i in range(3))
        gated = g.op("MatMul", [src, left])
        opened = g.op(gate, [gated])
        if gate == "Sigmoid":
            opened = g.op("Multiply", [gated, opened])
        product = g.op("Multiply", [opened, g.op("MatMul", [src, right])])
        g.op("MatMul", [product, down])
        counts = fused(check(g))
        if dtype == "f32" and gate == "Sigmoid":
            assert counts == {"MatMul": 3, "QuickGelu": 1, "Mul": 1}

    def test_skip_connection_and_layer_norm(self, fused: Any) -> None:
        g = onednn.Graph("skip")
        x, residual = (g.tensor(name, "f32", [2, 3, 8]) for name in ("x", "residual"))
        vectors = [weights(g, name, [8]) for name in ("gamma", "beta")]
        g.op("LayerNorm", [g.op("Add", [x, residual]), *vectors], keep_stats=False)
        assert fused(check(g)) == {"SkipLayerNormalization": 1}


HEADS = {
    "MHA": ([2, 4, 5, 6], [2, 4, 7, 6]),
    "MQA": ([2, 4, 5, 6], [2, 1, 7, 6]),
    "GQA": ([2, 2, 3, 5, 6], [2, 2, 1, 7, 6]),
}
"""Shapes of the queries, and of the keys and values: as many heads, one, or one for each group of three."""


class TestAttention:
    @pytest.mark.parametrize("mask", ["none", "added", "selected", "causal"])
    @pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
    @pytest.mark.parametrize("heads", HEADS)
    def test_scaled_dot_product(self, heads: str, dtype: str, mask: str, fused: Any) -> None:
        g = onednn.Graph(heads)
        queries, keys = HEADS[heads]
        q, k, v = (g.tensor(n, dtype, queries if n == "q" else keys) for n in "qkv")
        scores = g.op("MatMul", [q, k], transpose_b=True, dtype="f32")
        scores = g.op("Divide", [scores, weights(g, "scale", [1])])
        square = [*queries[:-1], keys[-2]]
        if mask == "added":
            scores = g.op("Add", [scores, g.tensor("mask", "f32", [2, *[1] * (len(square) - 2), keys[-2]])])
        elif mask == "selected":
            scores = g.op(
                "Select", [g.tensor("mask", "boolean", square), scores, weights(g, "least", [1])], dtype="f32"
            )
        elif mask == "causal":
            rows, columns = (g.op("GenIndex", [scores], axis=axis) for axis in (-2, -1))
            below = g.op("GreaterEqual", [rows, columns])
            scores = g.op("Select", [below, scores, weights(g, "least", [1])], dtype="f32")
        shares = g.op("SoftMax", [scores], axis=-1, mode="inf_as_zero", dtype=dtype)
        context = g.op("MatMul", [shares, v], dtype=dtype)
        order = [0, len(queries) - 2, *range(1, len(queries) - 2), len(queries) - 1]
        turned = g.op("StaticTranspose", [context], order=order)
        g.op("StaticReshape", [turned], shape=[2, queries[-2], -1], special_zero=False)
        counts = fused(check(g))
        if dtype == "f32":
            assert counts["FusedMatMul"] == 1
            assert "Div" not in counts

    def test_statistics_and_gradient(self) -> None:
        """What training keeps of the forward pass, and the gradients of the values and of the scores."""
        g = onednn.Graph("training")
        q, k, v = (g.tensor(n, "f32", [2, 2, 5, 4]) for n in "qkv")
        scores = g.op("MatMul", [q, k], transpose_b=True)
        shares, stats = g.tensor("shares", "f32", [2, 2, 5, 5]), g.tensor("stats", "f32", [2, 2, 5, 1])
        g.op("SoftMax", [scores], outputs=[shares, stats], axis=-1)
        g.end(shares)
        g.op("MatMul", [shares, v])
        diff = g.tensor("diff", "f32", [2, 2, 5, 4])
        g.op("MatMul", [shares, diff], transpose_a=True)
        diff_shares = g.op("MatMul", [diff, v], transpose_b=True)
        g.op("MatMul", [g.op("SoftMaxBackward", [diff_shares, shares], axis=-1), k])
        check(g)

    def test_int8(self) -> None:
        g = onednn.Graph("int8")
        q, k, v = (
            g.op(
                "Dequantize",
                [g.tensor(n, "u8" if n == "q" else "s8", [2, 2, 5, 4])],
                scales=[0.25],
                zps=[0],
                dtype="f32",
            )
            for n in "qkv"
        )
        scores = g.op("Divide", [g.op("MatMul", [q, k], transpose_b=True), weights(g, "scale", [1])])
        shares = g.op("Quantize", [g.op("SoftMax", [scores], axis=-1)], scales=[1 / 256], zps=[0], dtype="u8")
        shares = g.op("Dequantize", [shares], scales=[1 / 256], zps=[0], dtype="f32")
        g.op("MatMul", [shares, v])
        check(g, slack=2**16)
