"""A float64 reference for oneDNN graphs, written from the definitions and independent of the lowerings."""

from __future__ import annotations

from ortconv.verification.onednn.reference import KINDS, OneDnnReference

__all__ = ["KINDS", "OneDnnReference"]
