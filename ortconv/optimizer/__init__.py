"""Rewriting the ConvTranspose nodes of any ONNX model into ours, which have faster kernels and compute the same."""

from __future__ import annotations

from ortconv.optimizer.driver import Optimization, optimization, optimize
from ortconv.optimizer.site import Outcome

__all__ = ["Optimization", "Outcome", "optimization", "optimize"]
