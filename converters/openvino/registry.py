"""The registry of OpenVINO lowerings."""

from __future__ import annotations

from ortconv.lowering import Registry, coerce_text

REGISTRY = Registry("OpenVINO", coerce_text)
