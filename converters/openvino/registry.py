"""The registry of OpenVINO lowerings."""

from __future__ import annotations

from ortconv.frontend.attributes import coerce_text
from ortconv.frontend.registry import Registry

__all__ = ["REGISTRY"]

REGISTRY = Registry("OpenVINO", coerce_text, ignores_unknown=True, package="ortconv.converters.openvino.ops")
