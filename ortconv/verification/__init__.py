"""Proving that a converted model computes what its source does."""

from __future__ import annotations

from ortconv.verification.compare import Comparison
from ortconv.verification.procedure import Layer, Verification, declared_inputs, verify

__all__ = ["Comparison", "Layer", "Verification", "declared_inputs", "verify"]
