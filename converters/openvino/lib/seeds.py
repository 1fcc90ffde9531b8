"""Seeds of RandomUniform and Multinomial."""

from __future__ import annotations

from ortconv.graph.builder import Builder

__all__ = ["warn_of_unseeded"]


def warn_of_unseeded(b: Builder) -> None:
    """Warns that both seeds are 0."""
    b.warn("both seeds are 0: results differ from run to run, as in OpenVINO")
