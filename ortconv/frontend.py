"""What a source format consists of: a reader and its lowerings."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Mapping

import numpy as np

from ortconv.lowering import Registry
from ortconv.source import SourceGraph

__all__ = ["Frontend", "Tensors"]

Tensors = Mapping[str, np.ndarray]
"""Data for tensors that the source file does not hold, by tensor id or name."""


@dataclasses.dataclass(frozen=True)
class Frontend:
    """A source format.

    Attributes:
        name: As users write it: "openvino", "onednn".
        title: As people read it.
        detect: Whether a source (a path, or an object of the format's own library) is of this format. Cheap: looks at
            the suffix or the type, at most at the first bytes.
        read: Reads a source into a graph; raises `ModelFormatError`.
        registry: The format's lowerings.
    """

    name: str
    title: str
    detect: Callable[[object], bool]
    read: Callable[[object, Tensors], SourceGraph]
    registry: Registry

    def source_name(self, source: object) -> str:
        """Returns the source as messages name it."""
        return str(source) if isinstance(source, str | pathlib.Path) else f"<{type(source).__name__}>"
