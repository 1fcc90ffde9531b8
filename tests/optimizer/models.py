"""Models to optimize, and the assertion that ONNX Runtime's answers stay what they were."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime

from ortconv.opset.bodies.convolutions import CAST_LIKE
from ortconv.optimizer import Optimization, optimization
from tests.running import PROVIDER, WAYS, run

OURS = "ortconv:"


_RNG = np.random.default_rng(7)


def rand(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return _RNG.standard_normal(shape).astype(dtype)


def parsed(text: str, opset: int = 21, ir: int = 10, **tensors: np.ndarray | list[int]) -> onnx.ModelProto:
    """Parses a graph in ONNX's text format and adds initializers; lists are int64."""
    model = onnx.parser.parse_model(f'<ir_version: {ir}, opset_import: ["": {opset}]>\n{text}')
    for node in model.graph.node:
        node.ClearField("domain")  # The parser writes an empty one.
    for name, data in tensors.items():
        array = np.array(data, np.int64) if isinstance(data, list) else data
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return model


def int8_layers(channels: int, size: int) -> onnx.ModelProto:
    """Returns a QDQ model of floats with a ConvTranspose between two Convs, all data int8."""
    random = np.random.default_rng(3)
    stored = {
        "s": np.float32(0.0625),
        "z": np.int8(-3),
        "w": random.integers(-9, 9, (channels, channels, 3, 3)).astype(np.int8),
        "v": random.integers(-9, 9, (channels, channels, 2, 2)).astype(np.int8),
        "ws": np.float32(0.03125),
        "wz": np.int8(0),
    }
    text = f"g (float[1,{channels},{size},{size}] x) => (float[1,{channels},{2 * size},{2 * size}] y)"
    return parsed(
        text
        + """ {
            xq = QuantizeLinear (x, s, z)
            xf = DequantizeLinear (xq, s, z)
            wf = DequantizeLinear (w, ws, wz)
            a = Conv <pads = [1, 1, 1, 1]> (xf, wf)
            aq = QuantizeLinear (a, s, z)
            af = DequantizeLinear (aq, s, z)
            vf = DequantizeLinear (v, ws, wz)
            t = ConvTranspose <strides = [2, 2]> (af, vf)
            tq = QuantizeLinear (t, s, z)
            tf = DequantizeLinear (tq, s, z)
            uf = DequantizeLinear (w, ws, wz)
            b = Conv <pads = [1, 1, 1, 1]> (tf, uf)
            bq = QuantizeLinear (b, s, z)
            y = DequantizeLinear (bq, s, z)
        }""",
        **{key: np.asarray(value) for key, value in stored.items()},
    )


def stock(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, feeds))


def op_types(graph: onnx.GraphProto) -> list[str]:
    """Returns the op types in order, ours marked, and those of subgraphs after their node."""
    found = []
    for node in graph.node:
        found.append((OURS if node.domain else "") + node.op_type)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                found += op_types(attribute.g)
    return found


def assert_same(model: onnx.ModelProto, *feeds: dict[str, np.ndarray], ops: list[str] | None = None) -> Optimization:
    """Optimizes, compares op types, and compares every way to run the result with ONNX Runtime on the original."""
    before = model.SerializeToString(deterministic=True)
    done = optimization(model)
    assert model.SerializeToString(deterministic=True) == before
    result = done.to_proto()
    onnx.checker.check_model(result, full_check=True)
    if ops is not None:
        assert op_types(result.graph) == ops
    assert [value.name for value in result.graph.input] == [value.name for value in model.graph.input]
    assert [value.name for value in result.graph.output] == [value.name for value in model.graph.output]
    for each in feeds:
        expected = stock(model, each)
        for way, what in [*((way, result) for way in WAYS), (PROVIDER, model), (PROVIDER, result)]:
            if way == "python" and model.opset_import[0].version < CAST_LIKE:
                continue  # refused: see test_pyops_failures
            for got, right in zip(run(what, each, way), expected, strict=True):
                assert got.dtype == right.dtype
                assert got.shape == right.shape, way
                half = right.dtype == np.float16
                np.testing.assert_allclose(
                    got.astype(np.float64),
                    right.astype(np.float64),
                    rtol=2e-3 if half else 1e-5,
                    atol=1e-2 if half else 1e-5,
                    err_msg=way,
                )
    again = optimization(result)
    assert again.to_proto().SerializeToString(deterministic=True) == result.SerializeToString(deterministic=True)
    return done


CT = "ortconv:TransposedConvolution"


TO_SHAPE = "ortconv:TransposedConvolutionToShape"


ADD = "ortconv:TransposedConvolutionAdd"
