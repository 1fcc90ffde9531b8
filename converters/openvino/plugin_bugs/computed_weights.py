"""Warnings of weights that OpenVINO's CPU plugin computes when it compiles a model, and whose axes it mixes up.

Most ops of constants become constants before the plugin sees them. Where one does not, what follows is a matrix of
weights to the plugin still, and it leaves out a Transpose in front of a product, as if it exchanged the last two axes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from ortconv.frontend.source_graph import SourceNode, SourceValue

__all__ = ["with_computed_weights"]

_TURNED = (
    "the page is followed: OpenVINO's CPU plugin computes these weights from constants, and takes what transposes them "
    "for an exchange of the last two axes"
)

_NOT_FOLDED = frozenset(
    {
        *("AvgPool", "Bucketize", "Convolution", "DFT", "Elu", "EmbeddingBagPackedSum", "GatherElements", "GatherND"),
        *("HardSigmoid", "Inverse", "Mod", "ReverseSequence", "Roll", "SearchSorted", "Selu", "SoftSign", "Unique"),
    }
)
"""Ops of constants that the plugin computes itself."""

_RANK = 3
"""Of weights that a Transpose can mix up: two axes can only be exchanged, and four are no weights."""


def with_computed_weights(nodes: Sequence[SourceNode]) -> tuple[SourceNode, ...]:
    """Returns the nodes of a model, with warnings on products by weights that are mixed up.

    Args:
        nodes: In topological order.
    """
    if not any(node.ref.op_type in _NOT_FOLDED for node in nodes):
        return tuple(nodes)
    makers = {value: node for node in nodes for value in node.outputs}
    computed: dict[SourceValue, bool] = {}
    made = []
    for node in nodes:
        kind = _kind(node, makers, computed)
        computed.update(dict.fromkeys(node.outputs if kind is not None else (), bool(kind)))
        weights, order = _weights(node, makers)
        if weights is not None and computed.get(weights) and _is_mixed_up(weights, order):
            node = dataclasses.replace(node, warnings=(*node.warnings, _TURNED))
        made.append(node)
    return tuple(made)


def _kind(
    node: SourceNode, makers: Mapping[SourceValue, SourceNode], computed: Mapping[SourceValue, bool]
) -> bool | None:
    """Tells whether the plugin has to compute what a node gives, or finds a constant; None for what a run gives."""
    if _gives_known_sizes(node, makers):
        return False
    values = [value for value in node.inputs if value is not None]
    if not all(value.constant is not None or value in computed for value in values):
        return None
    return node.ref.op_type in _NOT_FOLDED or any(computed.get(value, False) for value in values)


def _gives_known_sizes(node: SourceNode, makers: Mapping[SourceValue, SourceNode]) -> bool:
    """Tells whether a node gives the shape of a value, or sizes out of it, and they are known.

    OpenVINO folds sizes of a shape with open ones where other shapes depend on them, as those of positions do.
    """
    if node.ref.op_type == "ShapeOf" and node.inputs[0] is not None:
        return all(isinstance(size, int) for size in node.inputs[0].shape or (None,))
    source = node.inputs[0] if node.ref.op_type == "Gather" else None
    front = None if source is None else makers.get(source)
    if front is None or front.ref.op_type != "ShapeOf" or front.inputs[0] is None:
        return False
    shape, which = front.inputs[0].shape or (), _integers(node.inputs[1])
    return bool(which) and all(-len(shape) <= at < len(shape) and isinstance(shape[at], int) for at in which)


def _weights(node: SourceNode, makers: Mapping[SourceValue, SourceNode]) -> tuple[SourceValue | None, list[int]]:
    """Returns the weights of a product as they lie, and the order of axes in which it takes them."""
    if len(node.inputs) != 2 or node.inputs[1] is None:
        return None, []
    if node.ref.op_type == "Einsum":
        return node.inputs[1], _order_in(str(node.attributes.get("equation", "")))
    front, data = makers.get(node.inputs[1]), node.inputs[0]
    if node.ref.op_type != "MatMul" or str(node.attributes.get("transpose_b")).lower() not in ("true", "1"):
        return None, []
    if front is None or front.ref.op_type != "Transpose" or data is None or len(data.shape or ()) > _RANK:
        return None, []
    return front.inputs[0], _integers(front.inputs[1])


def _order_in(equation: str) -> list[int]:
    """Returns where the second operand of an Einsum has the axes of the batch, of the result and of the sum."""
    operands, _, result = equation.replace(" ", "").partition("->")
    first, _, second = operands.partition(",")
    batch = [at for at, label in enumerate(second) if label in first and label in result]
    own = [at for at, label in enumerate(second) if label not in first]
    summed = [at for at, label in enumerate(second) if label in first and label not in result]
    return [*batch, *own, *summed] if len(batch) == len(own) == len(summed) == 1 and "." not in equation else []


def _is_mixed_up(weights: SourceValue, order: Sequence[int]) -> bool:
    """Tells whether an order of axes does more than to exchange the last two."""
    shape = weights.shape or ()
    if len(shape) != _RANK or sorted(order) != [*range(_RANK)] or order[0] == 0:
        return False
    moved = [at for at in order if shape[at] != 1]
    return moved != sorted(moved)


def _integers(value: SourceValue | None) -> list[int]:
    """Returns what a short constant of integers holds."""
    tensor = None if value is None else value.constant
    if tensor is None or tensor.size > 16:
        return []
    array = np.asarray(tensor.numpy())
    return [int(entry) for entry in array.ravel()] if array.dtype.kind in "iu" else []
