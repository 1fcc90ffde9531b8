"""Drops declared shapes that inputs and attributes contradict: OpenVINO infers shapes and ignores declared ones."""

from __future__ import annotations

import dataclasses

from ortconv.errors import ConversionErrors, DeclaredShapeError
from ortconv.frontend.source_graph import SourceGraph, SourceValue

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

    def new(value: SourceValue) -> SourceValue:
        return made.get(value, value)

    outputs = {output: dataclasses.replace(output, value=new(output.value)) for output in graph.outputs}
    return dataclasses.replace(
        graph,
        outputs=tuple(outputs.values()),
        nodes=tuple(
            dataclasses.replace(
                node,
                inputs=tuple(value and new(value) for value in node.inputs),
                outputs=tuple(map(new, node.outputs)),
                warnings=(*node.warnings, _COMPUTED) if node.ref in nodes else node.warnings,
            )
            for node in graph.nodes
        ),
        states=tuple(
            dataclasses.replace(state, output=state.output and outputs[state.output]) for state in graph.states
        ),
    )
