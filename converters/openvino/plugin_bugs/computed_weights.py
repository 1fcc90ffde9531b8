"""Bugs of weights that are computed from constants by ops which OpenVINO does not fold.

The plugin folds them when it compiles the model, after it has removed a Transpose between the weights and a product as
if it exchanged the last two axes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ortconv.converters.openvino.plugin_bugs.bug import Bug, Live, random
from ortconv.converters.openvino.plugin_bugs.network import Network
from ortconv.frontend.source_graph import SourceNode, SourceValue

__all__ = ["INVERSE_OF_CONSTANT"]

_NOT_FOLDED = frozenset(
    {
        *("AvgPool", "Bucketize", "Convolution", "DFT", "Elu", "EmbeddingBagPackedSum", "GatherElements", "GatherND"),
        *("HardSigmoid", "Inverse", "Mod", "ReverseSequence", "Roll", "SearchSorted", "Selu", "SoftSign", "Unique"),
    }
)
"""Ops that OpenVINO does not fold."""

_RANK = 3
"""The rank of weights that are mixed up: two axes can only be exchanged, and the plugin takes no four for weights."""


def _products(network: Network) -> Iterator[SourceNode]:
    if not _NOT_FOLDED & network.op_types:
        return
    computed: dict[SourceValue, bool] = {}
    for node in network.nodes:
        kind = _kind(network, node, computed)
        computed.update(dict.fromkeys(node.outputs if kind is not None else (), bool(kind)))
        weights, order = _weights(network, node)
        if weights is not None and computed.get(weights) and _is_mixed_up(weights, order):
            yield node


def _kind(network: Network, node: SourceNode, computed: Mapping[SourceValue, bool]) -> bool | None:
    """Tells whether the plugin folds a node, instead of OpenVINO before it; None for runtime values."""
    if _is_static_shape(network, node):
        return False
    values = [value for value in node.inputs if value is not None]
    if not all(value.constant is not None or value in computed for value in values):
        return None
    return node.ref.op_type in _NOT_FOLDED or any(computed.get(value, False) for value in values)


def _is_static_shape(network: Network, node: SourceNode) -> bool:
    """Tells whether a node computes a static shape, or static dimensions of a shape, also of a dynamic one."""
    if node.ref.op_type == "ShapeOf" and node.inputs[0] is not None:
        return all(isinstance(size, int) for size in node.inputs[0].shape or (None,))
    front = network.producer(node.inputs[0]) if node.ref.op_type == "Gather" else None
    if front is None or front.ref.op_type != "ShapeOf" or front.inputs[0] is None:
        return False
    shape, which = front.inputs[0].shape or (), _integers(node.inputs[1])
    return bool(which) and all(-len(shape) <= at < len(shape) and isinstance(shape[at], int) for at in which)


def _weights(network: Network, node: SourceNode) -> tuple[SourceValue | None, list[int]]:
    """Returns the weights of a product before they are transposed, and the order of axes that it takes."""
    if len(node.inputs) != 2 or node.inputs[1] is None:
        return None, []
    if node.ref.op_type == "Einsum":
        return node.inputs[1], _order_in(str(node.attributes.get("equation", "")))
    front, data = network.producers.get(node.inputs[1]), node.inputs[0]
    if node.ref.op_type != "MatMul" or str(node.attributes.get("transpose_b")).lower() not in ("true", "1"):
        return None, []
    if front is None or front.ref.op_type != "Transpose" or data is None or len(data.shape or ()) > _RANK:
        return None, []
    return front.inputs[0], _integers(front.inputs[1])


def _order_in(equation: str) -> list[int]:
    """Returns the batch, free and summed axes of the second operand of an Einsum."""
    operands, _, result = equation.replace(" ", "").partition("->")
    first, _, second = operands.partition(",")
    batch = [at for at, label in enumerate(second) if label in first and label in result]
    own = [at for at, label in enumerate(second) if label not in first]
    summed = [at for at, label in enumerate(second) if label in first and label not in result]
    return [*batch, *own, *summed] if len(batch) == len(own) == len(summed) == 1 and "." not in equation else []


def _is_mixed_up(weights: SourceValue, order: Sequence[int]) -> bool:
    """Tells whether an order of axes does more than exchange the last two."""
    shape = weights.shape or ()
    if len(shape) != _RANK or sorted(order) != [*range(_RANK)] or order[0] == 0:
        return False
    moved = [at for at in order if shape[at] != 1]
    return moved != sorted(moved)


def _integers(value: SourceValue | None) -> list[int]:
    """Returns the integers of a short constant; none of other values."""
    tensor = None if value is None else value.constant
    if tensor is None or tensor.size > 16:
        return []
    array = np.asarray(tensor.numpy())
    return [int(entry) for entry in array.ravel()] if array.dtype.kind in "iu" else []


_TABLE, _INDEX = random(4, 6, 8), np.arange(192).reshape(4, 6, 8) % 4


def _by_gathered(ov: Any, x: Any) -> Any:
    gathered = ov.opset6.gather_elements(ov.opset6.constant(_TABLE), _INDEX.astype(np.int32), 0)
    return ov.opset1.matmul(x, ov.opset1.transpose(gathered, np.array([1, 0, 2])), False, True)


TRANSPOSE_OF_COMPUTED_WEIGHTS = Bug(
    op="MatMul, Einsum",
    case="batches of weights computed from constants by ops like GatherElements or Roll, and transposed",
    fault="transposes only the last two axes",
    live=Live(
        _by_gathered,
        [random(6, 5, 8)],
        random(6, 5, 8) @ np.take_along_axis(_TABLE, _INDEX, 0).transpose(1, 2, 0),
    ),
    matches=_products,
)

_SQUARE = random(4, 4) + 8 * np.eye(4, dtype=np.float32)

INVERSE_OF_CONSTANT = Bug(
    op="Inverse",
    case="the inverse of a constant, which a MatMul may consume as weights",
    fault="computes the inverse after MatMul has read its weights",
    live=Live(
        lambda ov, x: ov.opset1.matmul(x, ov.opset14.inverse(ov.opset1.constant(_SQUARE), adjoint=False), False, False),
        [random(2, 4)],
        random(2, 4) @ np.linalg.inv(_SQUARE),
    ),
)
