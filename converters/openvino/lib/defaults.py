"""Attributes that a file does not state, and that OpenVINO takes for something else than the page says."""

from __future__ import annotations

from ortconv.graph.builder import Builder

__all__ = ["warn_of_default"]


def warn_of_default(b: Builder, name: str, page: object, library: str) -> None:
    """Warns where an attribute is not stated.

    Args:
        b: Builder.
        name: The attribute.
        page: What the page takes, which is followed.
        library: What OpenVINO does.
    """
    if name not in b.node.attributes:
        stated = str(page).lower()
        b.warn(f"the page is followed: {name}, which is not stated, is {stated}; OpenVINO {library}")
