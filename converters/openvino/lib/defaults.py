"""Missing attributes for which OpenVINO's default differs from that of the specification."""

from __future__ import annotations

from ortconv.graph.builder import Builder

__all__ = ["warn_of_default"]


def warn_of_default(b: Builder, name: str, page: object, library: str) -> None:
    """Warns of a missing attribute.

    Args:
        b: Builder.
        name: The attribute.
        page: The default of the specification, which is used.
        library: The behavior of OpenVINO.
    """
    if name not in b.node.attributes:
        stated = str(page).lower()
        b.warn(f"{name} is missing and defaults to {stated}, as the specification says; OpenVINO {library}")
