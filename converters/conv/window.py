"""Strides, dilations and groups of a convolution."""

from __future__ import annotations

import dataclasses
from typing import Any

from ortconv.graph.builder import Ints

__all__ = ["Window"]


@dataclasses.dataclass(frozen=True)
class Window:
    """How a kernel moves over the data.

    Attributes:
        strides: One per spatial axis.
        dilations: One per spatial axis.
        group: Number of groups.
    """

    strides: Ints
    dilations: Ints
    group: int = 1

    @property
    def rank(self) -> int:
        """Number of spatial axes."""
        return len(self.strides)

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes of convolution ops that it sets."""
        return dataclasses.asdict(self)
