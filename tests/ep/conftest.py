"""Fixtures with cases of the convolution operators."""

from __future__ import annotations

from tests.operators.convolutions import cases, library

__all__ = ["cases", "library"]
