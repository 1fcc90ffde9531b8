"""Modules that are loaded when something of them is used, and not when they are imported."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType

__all__ = ["defer"]


class _Finder(importlib.abc.MetaPathFinder):
    """Finds modules as Python does, and lets some of them wait."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self._names:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = importlib.util.LazyLoader(spec.loader)
        return spec


def defer(*names: str) -> None:
    """Makes this process load modules at the first use of one of their attributes.

    Args:
        names: Modules that may be imported later. Those that are missing, or imported already, are as before.
    """
    sys.meta_path.insert(0, _Finder(frozenset(names)))
