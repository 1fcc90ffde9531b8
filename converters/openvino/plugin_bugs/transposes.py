"""Bugs of Transpose."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ortconv.converters.openvino.plugin_bugs.bug import Bug, Live, convolution, random
from ortconv.converters.openvino.plugin_bugs.network import (
    BINARY,
    CONVOLUTIONS,
    UNARY,
    Network,
    constant_numbers,
    input_of,
)
from ortconv.frontend.source_graph import SourceNode

__all__ = ["HEADS_SWAPPED"]

_SWAP = [0, 2, 1]
_KEEPS_LAYOUT = (
    UNARY
    | BINARY
    | {
        *("AvgPool", "Concat", "MaxPool", "PReLU", "Reshape", "Slice", "Split", "Squeeze", "StridedSlice", "Swish"),
        *("Transpose", "Unsqueeze", "VariadicSplit"),
    }
)
"""Ops whose results have the memory layout of their inputs."""


def _pairs(network: Network) -> Iterator[SourceNode]:
    if CONVOLUTIONS & network.op_types:
        yield from (node for node in network.nodes if _is_swap(node) and _is_removed_wrongly(network, node))


def _is_removed_wrongly(network: Network, node: SourceNode) -> bool:
    shape = node.outputs[0].shape
    consumers = network.consumers[node.outputs[0]]
    if shape is None or not all(isinstance(size, int) and size > 1 for size in shape[1:]):
        return False
    if len(consumers) != 1 and not _are_one_formula(network, consumers):
        return False
    if not isinstance(shape[0], int) or (consumers[0] is not None and consumers[0].ref.op_type in CONVOLUTIONS):
        return False
    between = network.sole_producer(input_of(node, 0))
    first = between
    while first is not None and _is_activation(first):
        first = network.sole_producer(input_of(first, 0))
    if first is None or first is between or not _is_swap(first):
        return False
    return network.comes_from(
        input_of(first, 0),
        lambda node: node.ref.op_type in CONVOLUTIONS,
        lambda node: node.inputs if node.ref.op_type in _KEEPS_LAYOUT else (),
    )


def _is_swap(node: SourceNode) -> bool:
    return node.ref.op_type == "Transpose" and len(node.inputs) == 2 and constant_numbers(node.inputs[1]) == _SWAP


def _is_activation(node: SourceNode) -> bool:
    """Tells whether a node is elementwise, and its second input, if any, a scalar constant."""
    if node.ref.op_type in BINARY:
        constant = node.inputs[1].constant if len(node.inputs) == 2 and node.inputs[1] is not None else None
        return constant is not None and constant.size == 1
    return node.ref.op_type in UNARY


def _are_one_formula(network: Network, consumers: Sequence[SourceNode | None]) -> bool:
    """Tells whether several nodes end in the same elementwise node, so that the plugin fuses them."""
    left = set(consumers)
    if len(left) < 2:
        return False
    while len(left) > 1:
        steps = ((node, _next_elementwise(network, node)) for node in left)
        node, following = next(((node, to) for node, to in steps if to is not None), (None, None))
        if following is None:
            return False
        left = left - {node} | {following}
    return True


def _next_elementwise(network: Network, node: SourceNode | None) -> SourceNode | None:
    """Returns the sole consumer of a node if both are elementwise, or None."""
    follows = None if node is None else network.sole_consumer(node)
    if node is None or follows is None:
        return None
    return follows if {node.ref.op_type, follows.ref.op_type} <= UNARY | BINARY else None


def _attention(ov: Any, query: Any, key: Any, value: Any) -> Any:
    weights = ov.opset1.softmax(ov.opset1.matmul(query, key, False, True), 3)
    return ov.opset1.matmul(weights, value, False, False)


def _swapped(ov: Any, x: Any) -> Any:
    return ov.opset1.transpose(x, np.array(_SWAP, np.int32))


TRANSPOSES_REMOVED = Bug(
    op="Transpose",
    case="the result of a convolution along one axis, transposed for activations and back, of static shape",
    fault="removes both Transposes and mixes up the axes",
    live=Live(
        lambda ov, x: _swapped(ov, ov.opset1.relu(_swapped(ov, convolution(ov, x, random(3, 2, 3))))),
        [random(1, 2, 9)],
        right_shapes=[[1, 2, -1]],
    ),
    matches=_pairs,
)

HEADS_SWAPPED = Bug(
    op="Transpose",
    case="attention of static shape with as many heads as queries, whose axes a Transpose exchanges",
    fault="may mix up these axes",
    live=Live(
        lambda ov, q, k, v: ov.opset1.transpose(_attention(ov, ov.opset1.relu(q), k, v), np.array([0, 2, 1, 3])),
        [random(2, 3, 3, 8), random(2, 3, 5, 8, seed=1), random(2, 3, 5, 8, seed=2)],
        right_shapes=[[-1, 3, -1, 8], [-1, 3, -1, 8], [-1, 3, -1, 8]],
        steady=False,
    ),
)
