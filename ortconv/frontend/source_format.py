"""A source format: its reader and its lowerings."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np

from ortconv.frontend.registry import Registry
from ortconv.frontend.source_graph import SourceGraph
from ortconv.options import Options

__all__ = ["Frontend", "Read", "Tensors"]

Tensors = Mapping[str, np.ndarray]
"""Data for tensors that the source file does not hold, by tensor id or name."""


class Read(Protocol):
    """Reads a source into a graph."""

    def __call__(self, source: object, tensors: Tensors, options: Options | None = None, /) -> SourceGraph:
        """Returns the graph; raises `ModelFormatError`."""


@dataclasses.dataclass(frozen=True)
class Frontend:
    """A source format.

    Attributes:
        name: As users write it: "openvino", "onednn".
        title: As people read it.
        detect: Whether a source (a path, or an object of the format's own library) is of this format. Cheap: looks at
            the suffix or the type, at most at the first bytes.
        read: Reads a source into a graph.
        registry: The format's lowerings.
        takes_tensors: Whether its files lack data that `read` can be given.
        random_constants: Completes the data given for a source's tensors by random data, from a seed, for constants.
    """

    name: str
    title: str
    detect: Callable[[object], bool]
    read: Read
    registry: Registry
    takes_tensors: bool = False
    random_constants: Callable[[object, int, Tensors], Tensors] | None = None
