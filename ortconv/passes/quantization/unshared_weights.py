"""Un-shares int8 weights, or converts them to uint8 where ONNX Runtime would not.

On x86-64 CPUs without VNNI, ONNX Runtime adds pairs of products of uint8 and int8 in 16 bits, which saturates; products
of uint8 and uint8 are exact. With the session config entry ``session.x64quantprecision`` it converts int8 weights to
uint8, but not in bodies, and only constants that no two nodes share and whose zero points are given. Nodes that share a
DequantizeLinear of weights get a copy each, and so do nodes of ConvIntegerToFloat, whose function body has such a
DequantizeLinear. Nodes with float data are as fast with uint8 weights.
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
from ortconv.opset.ops.conv_integer_to_float import CONV_INTEGER_TO_FLOAT
from ortconv.opset.ops.matmul_compressed import MATMUL_COMPRESSED
from ortconv.passes.constants import Constants
from ortconv.passes.context import Context

__all__ = ["run"]

_COMPRESSED = MATMUL_COMPRESSED.name
_CONV = CONV_INTEGER_TO_FLOAT.name
_WEIGHTS: Mapping[str, tuple[int, int]] = {
    "DequantizeLinear": (0, 2),
    "MatMulInteger": (1, 3),
    _COMPRESSED: (1, 3),
    _CONV: (1, 5),
}
"""Numbers of the inputs that are the weights and their zero points."""
_PLACES = frozenset((op_type, place) for op_type, (place, _) in _WEIGHTS.items())
_PRODUCTS = frozenset({"Conv", "Gemm", "MatMul"})
"""Ops that ONNX Runtime computes in int8 where DequantizeLinear produces both operands."""
_HALF = 128
"""The difference between uint8 and int8 values that stand for the same number."""
_MOST_WEIGHTS = 2**15 // 255
"""The largest sum of two weights whose products with 255 fit together into 16 bits."""
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
        How many nodes of these, but for ConvIntegerToFloat, have int8 weights.
    """
    owner, inserter = _Owner(context.constants), context.inserter
    count = 0
    for node in list(ir.traversal.RecursiveGraphIterator(graph)):
        if node.domain != (DOMAIN if node.op_type in (_COMPRESSED, _CONV) else "") or not _has_bytes(node):
            continue
        if node.op_type == _CONV:
            owner.unshare(node)
            continue
        count += 1
        products, others = _uses(node)
        if node.graph is not graph:
            if products:
                owner.to_uint8(node)
            continue
        if not products:
            owner.unshare_or_convert(node, len(others))
            continue
        context.saturating.extend(user for user, _ in products if _can_saturate(user, node))
        owner.add_zero_points(node)
        for each in _copies(node, products if others else products[1:], inserter):
            owner.unshare(each)
        if len(others) > 1:
            owner.to_uint8(node)
        else:
            owner.unshare(node)
    for node in context.saturating:
        context.note(node, _SATURATES)
    return count


def _has_bytes(node: ir.Node) -> bool:
    """Tells whether a node has constant int8 weights."""
    if node.op_type not in _WEIGHTS:
        return False
    weights = node.inputs[_WEIGHTS[node.op_type][0]]
    return weights is not None and weights.const_value is not None and weights.dtype == ir.DataType.INT8


def _uses(node: ir.Node) -> tuple[list[_Use], list[_Use]]:
    """Returns the consumers of a node's weights with quantized data, and those with float data."""
    if node.op_type == "MatMulInteger":
        return [(node, 1)], []
    if node.op_type == _COMPRESSED:
        return [], [(node, 1)]
    products: list[_Use] = []
    others: list[_Use] = []
    for user, index in node.outputs[0].uses():
        is_product = not user.domain and user.op_type in _PRODUCTS and index == 1
        quantized = is_product and producer(user.inputs[0], "DequantizeLinear") is not None
        (products if quantized else others).append((user, index))
    return products, others


def _consumer_count(weights: ir.Value) -> int:
    """Returns how many nodes have these weights."""
    return sum((user.op_type, index) in _PLACES for user, index in weights.uses())


def _copies(node: ir.Node, uses: list[_Use], inserter: Inserter) -> list[ir.Node]:
    """Makes a copy of a DequantizeLinear for each of these uses."""
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
    """Tells whether products with two weights of one output can saturate in 16 bits."""
    value = node.inputs[_WEIGHTS[node.op_type][0]]
    assert value is not None
    assert value.const_value is not None
    weights: npt.NDArray[np.int8] = value.const_value.numpy()
    if product.op_type == "Conv":
        # ONNX Runtime computes depthwise convolutions by other kernels, which do not saturate.
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
        self._converted: dict[ir.Value, ir.Value] = {}

    def add_zero_points(self, node: ir.Node) -> None:
        """Adds the zero points of a node that has none: zeros, one for each scale."""
        index = _WEIGHTS[node.op_type][1]
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

    def unshare(self, node: ir.Node) -> None:
        """Copies weights and zero points of a node that another node has, too."""
        for name, index in zip(("weights", "zero_point"), _WEIGHTS[node.op_type], strict=True):
            value = node.inputs[index] if index < len(node.inputs) else None
            if value is None or value.const_value is None:
                continue
            if value in self._taken:
                value = self._constants.array(value.const_value.numpy(), f"{node.name}/{name}")
                node.replace_input_with(index, value)
            self._taken.add(value)

    def unshare_or_convert(self, node: ir.Node, uses: int) -> None:
        """Converts weights that only meet float data to uint8 if several nodes have them; else un-shares them."""
        weights = node.inputs[_WEIGHTS[node.op_type][0]]
        assert weights is not None
        if uses > 1 or _consumer_count(weights) > 1:
            self._shared.add(weights)
        if weights in self._shared:
            self.to_uint8(node)
        elif node.op_type == "DequantizeLinear":
            self.add_zero_points(node)
            self.unshare(node)

    def to_uint8(self, node: ir.Node) -> None:
        """Converts weights and zero points of a node to uint8, with the same differences, if they are constants."""
        self.add_zero_points(node)
        values = {index: node.inputs[index] for index in _WEIGHTS[node.op_type] if index < len(node.inputs)}
        if all(value is not None and value.const_value is not None for value in values.values()):
            for index, value in values.items():
                assert value is not None
                node.replace_input_with(index, self._unsigned(value))

    def _unsigned(self, value: ir.Value) -> ir.Value:
        if value not in self._converted:
            assert value.const_value is not None
            shifted = (value.const_value.numpy().astype(np.int16) + _HALF).astype(np.uint8)
            self._converted[value] = self._constants.array(shifted, str(value.name))
        return self._converted[value]
