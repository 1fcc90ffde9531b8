"""Attaches function bodies to models that use operators of ours."""

from __future__ import annotations

import collections

import onnx_ir as ir

from ortconv.opset.domain import DOMAIN, VERSION
from ortconv.opset.ops import BY_NAME

__all__ = ["attach"]


def attach(model: ir.Model) -> None:
    """Adds the function body of each operator of ours that a model uses, and imports the domain.

    The nodes of an operator share its body; they are changed where they need different ones, as a bias of zeros is
    added to nodes without a bias beside nodes that have one.

    Raises:
        ConversionError: The nodes of an operator cannot share a body.
    """
    users: dict[str, list[ir.Node]] = collections.defaultdict(list)
    for node in ir.traversal.RecursiveGraphIterator(model.graph):
        if node.domain == DOMAIN and node.op_type in BY_NAME:
            users[node.op_type].append(node)
    opset = model.graph.opset_imports[""]
    for name, nodes in sorted(users.items()):
        operator = BY_NAME[name]
        body = ir.serde.deserialize_function(operator.body(opset, operator.unify(nodes, model.graph)))
        model.functions[body.identifier()] = body
    if users:
        model.graph.opset_imports[DOMAIN] = VERSION
