"""The registry of oneDNN Graph lowerings."""

from __future__ import annotations

from ortconv.frontend.attributes import coerce_typed
from ortconv.frontend.registry import Registry

__all__ = ["REGISTRY"]

REGISTRY = Registry("oneDNN Graph", coerce_typed)
