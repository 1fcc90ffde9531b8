"""Transpose."""

from __future__ import annotations

import onnx_ir as ir

from ortconv.converters.openvino.lib.compute_types import is_static
from ortconv.converters.openvino.lib.constants import (
    constant_ints,
    warn_of_no_axes,
)
from ortconv.converters.openvino.lib.dynamic_axes import permuted
from ortconv.converters.openvino.plugin_bugs.transposes import HEADS_SWAPPED
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.converters.openvino.weights.dequantization import transposed
from ortconv.errors import UnsupportedAttributeError
from ortconv.graph.builder import Builder
from ortconv.graph.match import operand_of, producer

_SWAPPED_HEADS = (0, 2, 1, 3)


@REGISTRY.lowering("Transpose")
def transpose(b: Builder, data: ir.Value, order: ir.Value, /) -> ir.Value:
    """Transpose; an empty order reverses the axes. A Gather from the flat data if the order is a runtime value."""
    if b.array(order) is None:
        warn_of_no_axes(b, order)
        return b.op("Transpose", data) if order.shape == ir.Shape([0]) else permuted(b, data, order)
    perm = constant_ints(b, order, "input_order")
    rank = len(perm) if data.shape is None else len(data.shape)
    if not perm:
        perm = tuple(reversed(range(rank)))
    if sorted(perm) != list(range(rank)):
        raise UnsupportedAttributeError("input_order", list(perm), f"a permutation of 0 to {rank - 1}")
    if tuple(perm) == _SWAPPED_HEADS and _is_square_attention(data):
        HEADS_SWAPPED.warn(b)
    weights = transposed(b, data, perm) if perm else None
    return b.op("Transpose", data, perm=perm or None) if weights is None else weights


def _is_square_attention(data: ir.Value) -> bool:
    """Tells whether the data is the static result of an attention with as many heads as queries."""
    weights = operand_of(data, "MatMul") or operand_of(data, "Einsum")
    if producer(weights, "Softmax") is None or not is_static(data):
        return False
    assert data.shape is not None
    return data.shape[1] == data.shape[2]
