"""Seeds of RandomUniform and Multinomial."""

from __future__ import annotations

from ortconv.graph.builder import Builder

__all__ = ["warn_of_unseeded"]


def warn_of_unseeded(b: Builder) -> None:
    """Warns that both seeds are 0."""
    b.warn("both seeds are 0: the numbers differ from run to run; OpenVINO does not determine them either")
