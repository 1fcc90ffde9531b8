"""The name and version of our operator domain."""

from __future__ import annotations

__all__ = ["DOMAIN", "VERSION"]

DOMAIN = "org.ortconv"
VERSION = 1
