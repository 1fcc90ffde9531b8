"""Folders of the repository that tests read."""

from __future__ import annotations

import pathlib

__all__ = ["ROOT", "SOURCES", "VECTORS"]

ROOT = pathlib.Path(__file__).parents[1]
SOURCES = ROOT / "samples" / "sources"
VECTORS = ROOT / "tests" / "vectors"
