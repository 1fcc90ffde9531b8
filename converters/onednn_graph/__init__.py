"""oneDNN Graph: the JSON that ``ONEDNN_GRAPH_DUMP`` writes and benchdnn reads, and `ortconv.onednn.Graph`."""

from __future__ import annotations

import ortconv.converters.onednn_graph.ops  # noqa: F401  (registers the lowerings)
from ortconv.converters.onednn_graph.reader.random_constants import random_constants
from ortconv.converters.onednn_graph.reader.source_graph import detect, read
from ortconv.converters.onednn_graph.registry import REGISTRY
from ortconv.frontend.source_format import Frontend, Tensors
from ortconv.frontend.source_graph import SourceGraph
from ortconv.options import Options

__all__ = ["FRONTEND"]


def _read(source: object, tensors: Tensors, options: Options | None = None, /) -> SourceGraph:
    """Reads a graph; options change nothing about it."""
    return read(source, tensors)


FRONTEND = Frontend(
    "onednn",
    "oneDNN Graph JSON (.json) or ortconv.onednn.Graph",
    detect,
    _read,
    REGISTRY,
    takes_tensors=True,
    random_constants=random_constants,
)
