"""Bugs of constants that several nodes share: the plugin keeps one packed form for all."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from ortconv.converters.openvino.plugin_bugs.bug import Bug, Live, convolution, random
from ortconv.graph.annotations import LOCATION_USES
from ortconv.graph.builder import Builder

__all__ = ["warn_of_shared_filter", "warn_of_shared_square"]


def warn_of_shared_filter(b: Builder, weights: ir.Value, *, backward: bool) -> None:
    """Warns if a convolution and a transposed one share weights with as many input as output channels.

    Args:
        b: The builder.
        weights: The weights.
        backward: Whether the node is a transposed convolution.
    """
    outer, inner = (*(weights.shape or ()), None, None)[:2]
    if outer == inner != 1 and _is_used_otherwise(weights, "by a transposed convolution", backward):
        SHARED_FILTER.warn(b)


def warn_of_shared_square(b: Builder, weights: ir.Value, *, transposed: bool) -> None:
    """Warns if two MatMul share a square constant and one transposes it."""
    sizes = () if weights.shape is None else tuple(weights.shape)
    if len(sizes) < 2 or sizes[-1] != sizes[-2] or any(size != 1 for size in sizes[:-2]):
        return
    if _is_used_otherwise(weights, "transposed by a MatMul", transposed):
        SHARED_SQUARE.warn(b)


def _is_used_otherwise(weights: ir.Value, use: str, way: bool) -> bool:
    """Records how a node uses a constant, and tells whether an earlier node uses it the other way.

    Args:
        weights: The constant, or a value computed from one by a single node.
        use: What the ways are of.
        way: The way of the node.
    """
    node = weights.producer()
    origin = weights if node is None else node.inputs[0]
    if origin is None or origin.const_value is None:
        return False
    uses = LOCATION_USES.get(origin.const_value)
    if uses is None and (uses := LOCATION_USES.get(origin)) is None:
        uses = {}
        LOCATION_USES.set(origin, uses)
    return bool(uses.setdefault(use, way) != way)


def _backward(ov: Any, x: Any, weights: Any) -> Any:
    return ov.opset1.convolution_backprop_data(x, weights, [1, 1])


def _both(ov: Any, x: Any) -> list[Any]:
    weights = ov.opset1.constant(random(2, 2, 3, 3))
    return [convolution(ov, x, weights), _backward(ov, x, weights)]


def _products(ov: Any, x: Any) -> list[Any]:
    square = ov.opset1.constant(random(6, 6))
    return [ov.opset1.matmul(x, square, False, way) for way in (False, True)]


SHARED_FILTER = Bug(
    op="Convolution, ConvolutionBackpropData",
    case="a convolution and a transposed one share weights with as many input as output channels",
    fault="computes one of them wrongly",
    live=Live(
        _both,
        [random(1, 2, 5, 6)],
        lambda ov, x: [ov.opset1.relu(x), _backward(ov, x, random(2, 2, 3, 3))],
        output=1,
    ),
)

SHARED_SQUARE = Bug(
    op="MatMul",
    case="two MatMul share a square constant, which only one of them transposes",
    fault="computes one of them wrongly",
    live=Live(_products, [random(3, 6)], random(3, 6) @ random(6, 6).T, output=1, steady=False),
)
