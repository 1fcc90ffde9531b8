"""Convolutions too long, too deep or too far-reaching for most kernels: as exact as ONNX Runtime's own, at least."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from onnx import helper

import ortconv
from ortconv.opset.convolution_terms import ACCUMULATION
from ortconv.opset.domain import DOMAIN
from ortconv.opset.ops.convolution import CONVOLUTION
from ortconv.opset.ops.transposed_convolution import TRANSPOSED_CONVOLUTION


@dataclasses.dataclass(frozen=True)
class Layer:
    """A node, its attributes, and the sizes of its data and weights."""

    op: str
    x: Sequence[int]
    w: Sequence[int]
    strides: Sequence[int]
    dilations: Sequence[int] | None = None
    pads: Sequence[int] | None = None
    group: int = 1

    @property
    def attributes(self) -> dict[str, Any]:
        rank = len(self.strides)
        return {
            "strides": list(self.strides),
            "dilations": list(self.dilations or [1] * rank),
            "pads": list(self.pads or [0] * 2 * rank),
            "group": self.group,
        }


LAYERS = {
    "inverse STFT": Layer("ConvTranspose", [2, 1026, 20], [1026, 1, 4096], [1024]),
    "inverse STFT of a long window": Layer("ConvTranspose", [1, 500, 9], [500, 1, 8192], [2048]),
    "stride beyond the kernel": Layer("ConvTranspose", [1, 64, 7], [64, 2, 4500], [9000], group=2),
    "image kernel": Layer("ConvTranspose", [1, 20, 4, 5], [20, 2, 70, 66], [30, 20]),
    "STFT of a long window": Layer("Conv", [2, 1, 20000], [20, 1, 8192], [2048]),
    "long filter": Layer("Conv", [1, 2, 9000], [2, 2, 6000], [1], pads=[3000, 2999]),
    "whole image": Layer("Conv", [2, 3, 90, 90], [8, 3, 90, 90], [1, 1]),
    "far dilation": Layer("Conv", [1, 16, 9000], [16, 16, 3], [1], dilations=[4000]),
    "many channels": Layer("Conv", [1, 30000, 4], [4, 30000, 3], [1], pads=[1, 1]),
}


def definition(layer: Layer, x: npt.NDArray[Any], w: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Returns the result in float64: every tap moves the data and is multiplied with all of it."""
    rank, a = x.ndim - 2, layer.attributes
    x, w = x.astype(np.float64), w.astype(np.float64)
    transposed = layer.op == "ConvTranspose"
    begin, end = a["pads"][:rank], a["pads"][rank:]
    reach = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], a["dilations"], strict=True)]
    group, channels = layer.group, w.shape[1] * layer.group if transposed else w.shape[0]
    if transposed:
        full = [(n - 1) * s + r for n, s, r in zip(x.shape[2:], a["strides"], reach, strict=True)]
        y = np.zeros((x.shape[0], channels, *full))
    else:
        x = np.pad(x, [(0, 0), (0, 0), *zip(begin, end, strict=True)])
        sizes = [(n - r) // s + 1 for n, s, r in zip(x.shape[2:], a["strides"], reach, strict=True)]
        y = np.zeros((x.shape[0], channels, *sizes))
    moving = x.shape[2:] if transposed else y.shape[2:]
    for tap in itertools.product(*map(range, w.shape[2:])):
        at = tuple(
            slice(k * d, k * d + (n - 1) * s + 1, s)
            for k, d, s, n in zip(tap, a["dilations"], a["strides"], moving, strict=True)
        )
        weights = w[(..., *tap)]
        for g in range(group):
            ours, theirs = (np.arange(g * n // group, (g + 1) * n // group) for n in (x.shape[1], channels))
            if transposed:
                y[(slice(None), slice(theirs[0], theirs[-1] + 1), *at)] += np.einsum(
                    "nc...,cm->nm...", x[:, ours], weights[ours]
                )
            else:
                patch = x[(slice(None), slice(ours[0], ours[-1] + 1), *at)]
                y[:, theirs] += np.einsum("nc...,mc->nm...", patch, weights[theirs])
    if transposed:
        y = y[(..., *(slice(b, n - e) for b, e, n in zip(begin, end, y.shape[2:], strict=True)))]
    return y


def model(layer: Layer, w: npt.NDArray[Any] | None, own: bool, element: int) -> onnx.ModelProto:
    """Returns the node alone, ONNX's or ours; without weights they are an input."""
    rank, attributes = len(layer.strides), layer.attributes
    if own:
        attributes |= {name: list(range(rank + 2)) for name in ("x_perm", "w_perm", "y_perm")}
        attributes |= {"accumulation_type": ACCUMULATION[element]}
        attributes |= {"output_padding": [0] * rank} if layer.op == "ConvTranspose" else {"auto_pad": 0}
    name = (TRANSPOSED_CONVOLUTION if layer.op == "ConvTranspose" else CONVOLUTION).name if own else layer.op
    node = helper.make_node(name, ["x", "w"], ["y"], domain=DOMAIN if own else "", **attributes)
    inputs = [helper.make_tensor_value_info("x", element, layer.x)]
    if w is None:
        inputs.append(helper.make_tensor_value_info("w", element, layer.w))
    graph = helper.make_graph(
        [node], "g", inputs, [helper.make_tensor_value_info("y", element, [f"y{axis}" for axis in range(rank + 2)])]
    )
    if w is not None:
        graph.initializer.append(onnx.numpy_helper.from_array(w, "w"))
    imports = [helper.make_opsetid("", 18), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9)


def data(layer: Layer, dtype: npt.DTypeLike) -> dict[str, npt.NDArray[Any]]:
    random = np.random.default_rng(0)
    return {name: random.standard_normal(shape).astype(dtype) for name, shape in (("x", layer.x), ("w", layer.w))}


def run(session: onnxruntime.InferenceSession, feeds: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[Any]:
    (result,) = session.run(None, {each.name: feeds[each.name] for each in session.get_inputs()})
    return np.asarray(result)


def error(found: npt.NDArray[Any], expected: npt.NDArray[Any]) -> float:
    return float(np.sqrt(np.mean((found.astype(np.float64) - expected) ** 2) / np.mean(expected**2)))


@pytest.mark.parametrize("constant", [True, False], ids=["constant", "run-time"])
@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS.keys())
def test_the_error_is_not_above_that_of_onnx_runtime(layer: Layer, constant: bool) -> None:
    feeds = data(layer, np.float32)
    weights = feeds["w"] if constant else None
    expected = definition(layer, feeds["x"], feeds["w"])
    own = model(layer, weights, True, onnx.TensorProto.FLOAT)
    ours = run(ortconv.InferenceSession(own, backend="native"), feeds)
    stock = run(
        onnxruntime.InferenceSession(model(layer, weights, False, onnx.TensorProto.FLOAT).SerializeToString()), feeds
    )
    assert ours.shape == expected.shape
    assert error(ours, expected) <= 1.02 * error(stock, expected)


@pytest.mark.parametrize(("element_type", "element", "most"), [(np.float16, 10, 3e-4), (np.float64, 11, 1e-14)])
@pytest.mark.parametrize("name", ["inverse STFT of a long window", "long filter", "whole image"])
def test_other_types(name: str, element_type: npt.DTypeLike, element: int, most: float) -> None:
    layer = LAYERS[name]
    feeds = data(layer, element_type)
    ours = run(ortconv.InferenceSession(model(layer, feeds["w"], True, element), backend="native"), feeds)
    assert error(ours, definition(layer, feeds["x"], feeds["w"])) <= most


def test_optimize_takes_them() -> None:
    layer = LAYERS["inverse STFT"]
    feeds = data(layer, np.float32)
    optimized = ortconv.optimize(model(layer, feeds["w"], False, onnx.TensorProto.FLOAT))
    assert [node.domain for node in optimized.graph.node] == [DOMAIN]
    ours = run(ortconv.InferenceSession(optimized, backend="native"), feeds)
    assert error(ours, definition(layer, feeds["x"], feeds["w"])) < 3e-7
