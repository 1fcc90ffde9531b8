"""Reading the activations that integer convolutions of ours have: times a slope if negative, then clipped."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from ortconv.graph.constant_values import clip_range

__all__ = ["activation_of", "leaky_slope"]

_DEFAULT_SLOPE = 0.01


def leaky_slope(node: ir.Node) -> float | None:
    """Returns the slope of a LeakyRelu; None where it is not finite."""
    slope = float(np.float32(node.attributes.get_float("alpha", _DEFAULT_SLOPE)))
    return slope if math.isfinite(slope) else None


def activation_of(node: ir.Node) -> tuple[float, float, float] | None:
    """Returns slope, minimum and maximum of a Relu, Clip or LeakyRelu; None for other nodes and unusual numbers."""
    if node.domain or node.op_type not in ("Relu", "Clip", "LeakyRelu"):
        return None
    if node.op_type == "LeakyRelu":
        slope = leaky_slope(node)
        return None if slope is None else (slope, -math.inf, math.inf)
    bounds = clip_range(node)
    return None if bounds is None or bounds[0] > bounds[1] else (1.0, *bounds)
