"""Drops declared shapes that inputs and attributes contradict: OpenVINO infers shapes and ignores declared ones."""

from __future__ import annotations

import dataclasses

from ortconv.errors import ConversionErrors, DeclaredShapeError
from ortconv.frontend.source_graph import SourceGraph

__all__ = ["without_shapes"]

_COMPUTED = (
    "the file declares another shape for its result than its inputs and attributes give, which are followed: OpenVINO "
    "computes every shape, and does not look at those declared"
)


def without_shapes(graph: SourceGraph, refused: ConversionErrors) -> SourceGraph | None:
    """Returns a graph without declared output shapes, with warnings on the nodes whose declared shapes are wrong.

    Args:
        graph: The graph.
        refused: The errors of its conversion.

    Returns:
        None if there are other errors, too.
    """
    nodes = {error.node for error in refused.exceptions if isinstance(error, DeclaredShapeError)}
    if len(nodes) < len(refused.exceptions) or not nodes <= {node.ref for node in graph.nodes}:
        return None
    made = {
        value: dataclasses.replace(value, shape=None)
        for node in graph.nodes
        for value in node.outputs
        if value.shape is not None
    }
    bare = graph.with_values(made)
    return dataclasses.replace(
        bare,
        nodes=tuple(
            dataclasses.replace(node, warnings=(*node.warnings, _COMPUTED)) if node.ref in nodes else node
            for node in bare.nodes
        ),
    )
