"""Source nodes with access to producers and consumers, for lowerings that depend on them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from ortconv.frontend.source_graph import SourceNode, SourceValue

__all__ = ["LinkedNode", "Links", "links_of"]


class Links:
    """Producers and consumers of the tensors of a graph."""

    def __init__(self) -> None:
        self._producers: dict[SourceValue, SourceNode] = {}
        self._consumers: dict[SourceValue, list[SourceNode]] = {}

    def add(self, nodes: Iterable[SourceNode]) -> None:
        """Adds the nodes of the graph."""
        for node in nodes:
            self._producers.update(dict.fromkeys(node.outputs, node))
            for value in dict.fromkeys(node.inputs):
                if value is not None:
                    self._consumers.setdefault(value, []).append(node)

    def producer(self, value: SourceValue) -> SourceNode | None:
        """Returns the producer of a tensor, None for an input."""
        return self._producers.get(value)

    def consumers(self, value: SourceValue) -> Sequence[SourceNode]:
        """Returns the consumers of a tensor."""
        return self._consumers.get(value, ())


@dataclasses.dataclass(frozen=True, eq=False)
class LinkedNode(SourceNode):
    """A node of a oneDNN graph.

    Attributes:
        links: The producers and consumers of its graph.
    """

    links: Links = dataclasses.field(default_factory=Links)


def links_of(node: SourceNode) -> Links:
    """Returns the links of a node; empty for a node that does not come from the reader."""
    return node.links if isinstance(node, LinkedNode) else Links()
