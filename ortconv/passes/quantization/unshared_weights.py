"""Un-shares int8 weights, or converts them to uint8 where ONNX Runtime would not.

On x86-64 CPUs without dot products of bytes it adds products of uint8 and int8 in twos, in 16 bits, which saturate;
those of uint8 and uint8 are exact. With the session config entry ``session.x64quantprecision`` it turns weights of int8
into uint8: in no body, and only constants that no two nodes share and whose zero points are stated. Where nodes share
what makes floats of weights, it gives each of them a copy first. What multiplies floats is as fast by weights of uint8.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from ortconv.graph.edit import Inserter
from ortconv.graph.match import producer
from ortconv.opset.domain import DOMAIN
from ortconv.opset.ops.matmul_compressed import MATMUL_COMPRESSED
from ortconv.passes.constants import Constants
from ortconv.passes.context import Context

__all__ = ["run"]

_COMPRESSED = MATMUL_COMPRESSED.name
_BYTES: Mapping[str, tuple[int, int]] = {"DequantizeLinear": (0, 2), "MatMulInteger": (1, 3), _COMPRESSED: (1, 3)}
"""Where nodes have weights, and zero points of them."""
_PLACES = frozenset((op_type, place) for op_type, (place, _) in _BYTES.items())
_PRODUCTS = frozenset({"Conv", "Gemm", "MatMul"})
"""Ops that ONNX Runtime computes in integers where both operands are made by DequantizeLinear."""
_HALF = 128
"""How much larger codes of uint8 are than those of int8 that stand for the same."""
_MOST_WEIGHTS = 2**15 // 255
"""How large the sum of two weights may be, whose products with 255 are added in 16 bits."""
_SATURATES = (
    "multiplies in sums that saturate on x86-64 CPUs without VNNI, unless session.x64quantprecision is 1 among the "
    "session's config entries"
)

_Use = tuple[ir.Node, int]


def run(graph: ir.Graph, context: Context) -> int:
    """Gives each node int8 weights of its own, or uint8 weights where ONNX Runtime would not convert them.

    Args:
        graph: The graph; bodies of its nodes are included.
        context: Makes nodes and constants; its `saturating` gets the nodes that saturate without the session entry.

    Returns:
        How many nodes have int8 weights.
    """
    owner, inserter = _Owner(context.constants), context.inserter
    count = 0
    for node in list(ir.traversal.RecursiveGraphIterator(graph)):
        if node.domain != (DOMAIN if node.op_type == _COMPRESSED else "") or not _has_bytes(node):
            continue
        count += 1
        products, others = _uses(node)
        if node.graph is not graph:
            if products:
                owner.turn(node)
            continue
        if not products:
            owner.turn_shared(node, len(others))
            continue
        context.saturating.extend(user for user, _ in products if _can_saturate(user, node))
        owner.state_points(node)
        for each in _copies(node, products if others else products[1:], inserter):
            owner.own(each)
        if len(others) > 1:
            owner.turn(node)
        else:
            owner.own(node)
    for node in context.saturating:
        context.note(node, _SATURATES)
    return count


def _has_bytes(node: ir.Node) -> bool:
    """Tells whether a node has constant weights of int8."""
    if node.op_type not in _BYTES:
        return False
    weights = node.inputs[_BYTES[node.op_type][0]]
    return weights is not None and weights.const_value is not None and weights.dtype == ir.DataType.INT8


def _uses(node: ir.Node) -> tuple[list[_Use], list[_Use]]:
    """Returns which nodes multiply codes by a node's weights, and which take them as floats."""
    if node.op_type == "MatMulInteger":
        return [(node, 1)], []
    if node.op_type == _COMPRESSED:
        return [], [(node, 1)]
    products: list[_Use] = []
    others: list[_Use] = []
    for user, index in node.outputs[0].uses():
        by_codes = not user.domain and user.op_type in _PRODUCTS and index == 1
        taken = by_codes and producer(user.inputs[0], "DequantizeLinear") is not None
        (products if taken else others).append((user, index))
    return products, others


def _takers(weights: ir.Value) -> int:
    """Returns how many nodes take these weights."""
    return sum((user.op_type, index) in _PLACES for user, index in weights.uses())


def _copies(node: ir.Node, uses: list[_Use], inserter: Inserter) -> list[ir.Node]:
    """Makes a copy of a node for each of these uses; of a MatMulInteger, which uses its own weights, none."""
    made = []
    for user, index in uses:
        attributes: dict[str, Any] = {each.name: each for each in node.attributes.values()}
        value = inserter.before(node, node.op_type, node.inputs, node.outputs[0], **attributes)
        user.replace_input_with(index, value)
        copy = value.producer()
        assert copy is not None
        made.append(copy)
    return made


def _can_saturate(product: ir.Node, node: ir.Node) -> bool:
    """Tells whether two weights of one output are so large together."""
    value = node.inputs[_BYTES[node.op_type][0]]
    assert value is not None
    assert value.const_value is not None
    weights: npt.NDArray[np.int8] = value.const_value.numpy()
    if product.op_type == "Conv":
        # ONNX Runtime has kernels of another kind for these.
        is_depthwise = weights.shape[1] == 1 and product.attributes.get_int("group", 1) == weights.shape[0] > 1
        rows = weights.reshape(weights.shape[0], -1)[: 0 if is_depthwise else None]
    else:
        transposed = product.op_type == "Gemm" and bool(product.attributes.get_int("transB", 0))
        rows = weights if transposed else np.moveaxis(weights, -2, -1).reshape(-1, weights.shape[-2])
    if rows.size == 0 or rows.shape[1] == 1:
        return False
    two = np.partition(rows, (1, -2) if rows.shape[1] > 2 else 0, axis=1).astype(np.int16)
    return bool(max((two[:, -1] + two[:, -2]).max(), -(two[:, 0] + two[:, 1]).min()) > _MOST_WEIGHTS)


class _Owner:
    def __init__(self, constants: Constants) -> None:
        self._constants = constants
        self._taken: set[ir.Value] = set()
        self._shared: set[ir.Value] = set()
        self._turned: dict[ir.Value, ir.Value] = {}

    def state_points(self, node: ir.Node) -> None:
        """States zero points that are zeros, one for each scale."""
        index = _BYTES[node.op_type][1]
        if index < len(node.inputs) and node.inputs[index] is not None:
            return
        shape: tuple[int, ...] = ()
        if node.op_type != "MatMulInteger":
            scale = node.inputs[index - 1]
            if scale is None or scale.const_value is None:
                return
            shape = tuple(scale.const_value.shape.numpy())
        node.resize_inputs(index + 1)
        node.replace_input_with(index, self._constants.array(np.zeros(shape, np.int8), f"{node.name}/zero_point"))

    def own(self, node: ir.Node) -> None:
        """Gives a node weights and zero points that no other node has."""
        for name, index in zip(("weights", "zero_point"), _BYTES[node.op_type], strict=True):
            value = node.inputs[index] if index < len(node.inputs) else None
            if value is None or value.const_value is None:
                continue
            if value in self._taken:
                value = self._constants.array(value.const_value.numpy(), f"{node.name}/{name}")
                node.replace_input_with(index, value)
            self._taken.add(value)

    def turn_shared(self, node: ir.Node, uses: int) -> None:
        """Gives what multiplies by floats weights of uint8, if they serve several; else weights of its own."""
        weights = node.inputs[_BYTES[node.op_type][0]]
        assert weights is not None
        if uses > 1 or _takers(weights) > 1:
            self._shared.add(weights)
        if weights in self._shared:
            self.turn(node)
        elif node.op_type == "DequantizeLinear":
            self.state_points(node)
            self.own(node)

    def turn(self, node: ir.Node) -> None:
        """Gives a node weights and zero points of uint8, whose differences are the same, if they are constants."""
        self.state_points(node)
        values = {index: node.inputs[index] for index in _BYTES[node.op_type] if index < len(node.inputs)}
        if all(value is not None and value.const_value is not None for value in values.values()):
            for index, value in values.items():
                assert value is not None
                node.replace_input_with(index, self._unsigned(value))

    def _unsigned(self, value: ir.Value) -> ir.Value:
        if value not in self._turned:
            assert value.const_value is not None
            codes = (value.const_value.numpy().astype(np.int16) + _HALF).astype(np.uint8)
            self._turned[value] = self._constants.array(codes, str(value.name))
        return self._turned[value]
