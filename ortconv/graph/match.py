"""Finding the producers and consumers of values."""

from __future__ import annotations

from collections.abc import Container, Iterator

import onnx_ir as ir

__all__ = ["BOUNDS", "bodies", "consumers", "is_quantized", "operand_of", "producer"]

BOUNDS = frozenset({"Clip", "Relu"})
"""Ops that ONNX Runtime looks through when it searches for a QuantizeLinear."""


def producer(value: ir.Value | None, op_type: str) -> ir.Node | None:
    """Returns the node that produces a value if it is an ai.onnx node of this type, else None."""
    node = None if value is None else value.producer()
    return node if node is not None and (node.domain, node.op_type) == ("", op_type) else None


def operand_of(value: ir.Value | None, op_type: str, index: int = 0) -> ir.Value | None:
    """Returns an input of the ai.onnx node of this type that produces a value; None if there is no such node."""
    node = producer(value, op_type)
    return None if node is None else node.inputs[index]


def bodies(node: ir.Node) -> Iterator[ir.Graph]:
    """Yields the graphs in the attributes of a node, without those inside them."""
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            yield attribute.as_graph()
        elif attribute.type == ir.AttributeType.GRAPHS:
            yield from attribute.as_graphs()


def consumers(node: ir.Node, until: Container[ir.Node] = ()) -> list[ir.Node]:
    """Returns the consumers of a node's first output, looking through single-consumer Relu and Clip nodes.

    Args:
        node: The node.
        until: Nodes that are not looked through whatever their op.
    """
    value = node.outputs[0]
    while True:
        found = [user for user, _ in value.uses()]
        if len(found) != 1 or found[0] in until or found[0].domain or found[0].op_type not in BOUNDS:
            return found
        value = found[0].outputs[0]


def is_quantized(node: ir.Node) -> bool:
    """Tells whether a QuantizeLinear is among the consumers of a node."""
    return any(not each.domain and each.op_type == "QuantizeLinear" for each in consumers(node))
