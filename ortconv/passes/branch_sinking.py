"""Moves nodes that only one branch of an If uses into that branch, so that they run only when it does."""

from __future__ import annotations

import onnx_ir as ir

from ortconv.graph.annotations import SINK_INTO_BRANCHES
from ortconv.graph.match import bodies
from ortconv.passes.context import Context

__all__ = ["run"]


def run(graph: ir.Graph, context: Context) -> int:
    """Moves nodes into the one branch that uses their results, the last ones first.

    Args:
        graph: The graph; nodes in bodies do not move.
        context: Not used.

    Returns:
        How many nodes were moved.
    """
    count = 0
    branches: dict[ir.Graph, ir.Graph] = {}
    for node in graph:
        if SINK_INTO_BRANCHES.get(node):
            branches.update((branch, branch) for branch in bodies(node))
    if not branches:
        return 0
    for node in reversed(list(graph)):
        users = [user for output in node.outputs for user, _ in output.uses()]
        found = {branches.get(user.graph) if isinstance(user.graph, ir.Graph) else None for user in users}
        if len(found) != 1 or any(output.is_graph_output() for output in node.outputs):
            continue
        (into,) = found
        if into is not None:
            graph.remove(node)
            into.insert_before(into[0], node)
            branches.update((inner, into) for body in bodies(node) for inner in (body, *body.subgraphs()))
            count += 1
    return count
