"""Progress of long operations."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Progress", "silent"]

Progress = Callable[[str, int, int], None]
"""Called with the stage, how much of it is done, and how much there is: 0 if unknown."""


def silent(stage: str, done: int, total: int) -> None:
    """Reports nothing."""
