"""Rewriting the ConvTranspose nodes of any ONNX model into ours, which have faster kernels and compute the same."""

from __future__ import annotations

from ortconv.optimization.driver import Optimization, optimize
from ortconv.optimization.site import Outcome

__all__ = ["Optimization", "Outcome", "optimize"]
