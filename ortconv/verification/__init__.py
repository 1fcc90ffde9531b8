"""Verifies that a converted model computes what its source computes."""

from __future__ import annotations

from ortconv.verification.compare import Comparison
from ortconv.verification.layers import Layer, Layers
from ortconv.verification.procedure import Analysis, Verification, declared_inputs, verify

__all__ = ["Analysis", "Comparison", "Layer", "Layers", "Verification", "declared_inputs", "verify"]
