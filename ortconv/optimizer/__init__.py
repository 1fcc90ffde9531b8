"""Replaces ConvTranspose nodes of any ONNX model by nodes of ``org.ortconv``, which give the same results faster."""

from __future__ import annotations

from ortconv.optimizer.driver import Optimization, optimization, optimize
from ortconv.optimizer.site import Outcome

__all__ = ["Optimization", "Outcome", "optimization", "optimize"]
