"""Models of Fourier transforms that are written as convolutions, and what is asserted of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ortconv.optimizer import Optimization, optimization
from tests.optimizer.bases import RNG, filters, hann, inverse_gains
from tests.optimizer.models import OURS, op_types, stock
from tests.running import PROVIDER, WAYS, run

FORWARD, INVERSE, OVERLAP = (OURS + name for name in ("ForwardSTFT", "InverseSTFT", "OverlapAdd"))
TRANSPOSED, DFT = OURS + "TransposedConvolution", OURS + "FourierTransform"

N = 32
BINS = N // 2 + 1
BASIS = filters(N, window=hann(N), gains=inverse_gains(N)).astype(np.float32)
COSINES, SINES = BASIS[:BINS], BASIS[BINS:]


def rand(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return RNG.uniform(-1, 1, shape).astype(dtype)


def model(
    nodes: Sequence[onnx.NodeProto], inputs: dict[str, Sequence[int | str]], opset: int = 21, **tensors: np.ndarray
) -> onnx.ModelProto:
    element = next((helper.np_dtype_to_tensor_dtype(each.dtype) for each in tensors.values()), TensorProto.FLOAT)
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info(name, element, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info("y", element, None)],
        [numpy_helper.from_array(data, name) for name, data in tensors.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def transposed(x: str = "x", y: str = "y", w: str = "w", **attributes: Any) -> onnx.NodeProto:
    return helper.make_node("ConvTranspose", [x, w], [y], name=f"{y}_node", **{"strides": [8]} | attributes)


def of_transposed(filters_: np.ndarray, *behind: onnx.NodeProto, **more: Any) -> onnx.ModelProto:
    """Returns a model of a ConvTranspose of filters [C, K] and what stands behind it, which reads c."""
    attributes = {name: value for name, value in more.items() if not isinstance(value, np.ndarray)}
    tensors = {name: value for name, value in more.items() if isinstance(value, np.ndarray)}
    node = transposed(y="c" if behind else "y", **attributes)
    return model([node, *behind], {"x": ["N", len(filters_), "T"]}, w=filters_[:, np.newaxis], **tensors)


def assert_same(
    original: onnx.ModelProto, *feeds: dict[str, np.ndarray], ops: list[str], exact: bool = True
) -> Optimization:
    """Optimizes, compares op types, and compares every way to run with the original in float64 and in ONNX Runtime."""
    before = original.SerializeToString(deterministic=True)
    done = optimization(original)
    assert original.SerializeToString(deterministic=True) == before
    result = done.to_proto()
    onnx.checker.check_model(result, full_check=True)
    assert op_types(result.graph) == ops
    for each in feeds:
        (expected,) = stock(original, each)
        half = expected.dtype == np.float16
        tolerance = (2e-2 if half else 3e-5 if exact else 2e-3) * max(1.0, float(np.abs(expected).max()))
        for way, what in [*((way, result) for way in WAYS), (PROVIDER, original)]:
            (got,) = run(what, each, way)
            assert got.dtype == expected.dtype
            assert got.shape == expected.shape, way
            np.testing.assert_allclose(
                got.astype(np.float64), expected.astype(np.float64), rtol=0, atol=tolerance, err_msg=way
            )
    again = optimization(result)
    assert again.to_proto().SerializeToString(deterministic=True) == result.SerializeToString(deterministic=True)
    return done


def added_up(x: np.ndarray, filters_: np.ndarray, hop: int) -> np.ndarray:
    """Returns the ConvTranspose of x [N, C, T] by filters [C, K], in float64."""
    batch, _, frames = x.shape
    taps = filters_.shape[1]
    result = np.zeros((batch, 1, (frames - 1) * hop + taps))
    for frame in range(frames):
        piece = x[:, :, frame].astype(np.float64) @ filters_.astype(np.float64)
        result[:, 0, frame * hop : frame * hop + taps] += piece
    return result


SPECTRUM = {"x": rand(2, 2 * BINS, 9)}
WAVE = {"x": rand(2, 1, 101)}
