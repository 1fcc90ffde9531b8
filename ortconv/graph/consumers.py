"""What takes the result of a node behind bounds."""

from __future__ import annotations

from collections.abc import Container

import onnx_ir as ir

__all__ = ["BOUNDS", "is_rounded", "takers"]

BOUNDS = frozenset({"Clip", "Relu"})
"""Ops behind which ONNX Runtime looks for a QuantizeLinear."""


def takers(node: ir.Node, until: Container[ir.Node] = ()) -> list[ir.Node]:
    """Returns the nodes that take what a node makes, or what a bound makes of it that alone takes it, and so on.

    Args:
        node: The node.
        until: Nodes that are no bounds whatever their op.
    """
    value = node.outputs[0]
    while True:
        users = [user for user, _ in value.uses()]
        if len(users) != 1 or users[0] in until or users[0].domain or users[0].op_type not in BOUNDS:
            return users
        value = users[0].outputs[0]


def is_rounded(node: ir.Node) -> bool:
    """Tells whether a QuantizeLinear is among them."""
    return any(not user.domain and user.op_type == "QuantizeLinear" for user in takers(node))
