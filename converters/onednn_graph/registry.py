"""The registry of oneDNN Graph lowerings."""

from __future__ import annotations

from ortconv.lowering import Registry, coerce_typed

REGISTRY = Registry("oneDNN Graph", coerce_typed)
