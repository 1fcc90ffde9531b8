"""Walking an ``onnx.ModelProto``, the bodies of If, Loop and Scan included."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx

__all__ = ["nodes", "subgraphs"]


def nodes(outer: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Yields the nodes of a graph or function, each followed by those of its own bodies."""
    for node in outer:
        yield node
        for graph in subgraphs(node):
            yield from nodes(graph.node)


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Yields the bodies of a node, without those inside them."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs
