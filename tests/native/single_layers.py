"""Models of one convolution, ONNX's or ours, and what is right."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import helper

from ortconv.opset.convolution_terms import ACCUMULATION
from ortconv.opset.domain import DOMAIN
from ortconv.opset.ops.convolution import CONVOLUTION
from ortconv.opset.ops.transposed_convolution import TRANSPOSED_CONVOLUTION

__all__ = ["Layer", "data", "definition", "error", "model", "run"]


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
