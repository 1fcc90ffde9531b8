"""oneDNN Graph: the JSON that ``ONEDNN_GRAPH_DUMP`` writes and benchdnn reads, and `ortconv.onednn.Graph`.

The reader and `ortconv.onednn` are imported when a source may be of this format: other conversions start sooner.
"""

from __future__ import annotations

from ortconv.converters.onednn_graph.registry import REGISTRY
from ortconv.frontend.source_format import Frontend, Tensors
from ortconv.frontend.source_graph import SourceGraph
from ortconv.options import Options

__all__ = ["FRONTEND"]


def _detect(source: object) -> bool:
    from ortconv.converters.onednn_graph.reader.source_graph import detect

    return detect(source)


def _read(source: object, tensors: Tensors, options: Options | None = None, /) -> SourceGraph:
    """Reads a graph; options change nothing about it."""
    from ortconv.converters.onednn_graph.reader.source_graph import read

    return read(source, tensors)


def _random_constants(source: object, seed: int, tensors: Tensors) -> Tensors:
    from ortconv.converters.onednn_graph.reader.random_constants import random_constants

    return random_constants(source, seed, tensors)


FRONTEND = Frontend(
    "onednn",
    "oneDNN Graph JSON (.json) or ortconv.onednn.Graph",
    _detect,
    _read,
    REGISTRY,
    takes_tensors=True,
    random_constants=_random_constants,
)
