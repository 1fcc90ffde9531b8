"""How far something is that takes a while."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Progress", "silent"]

Progress = Callable[[str, int, int], None]
"""Told what is being done, how much of it is done, and how much there is: 0 where that is not known."""


def silent(stage: str, done: int, total: int) -> None:
    """Tells nobody."""
