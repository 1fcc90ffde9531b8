"""Relu, LeakyRelu and Clip -> activation.

Sigmoid and Tanh stay nodes of their own. Behind the image and mask heads where they occur they take 3 to 17 % of the
time of both nodes, but ONNX Runtime spends 0.22 to 0.29 ns on an element whether it is in memory or in the first-level
cache: it is the arithmetic that takes the time, which would be the same in ours, and no pass over memory would be
saved.
"""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from ortconv.graph.constant_values import constant
from ortconv.opset.convolution_terms import NO_ACTIVATION
from ortconv.optimizer.neighbours import reader, require_alone
from ortconv.optimizer.site import Kept, Site, named

__all__ = ["fold"]

_DEFAULT_SLOPE = float(np.float32(0.01))


def fold(site: Site) -> str | None:
    """Fuses the Relu, LeakyRelu or Clip that consumes the output.

    Ours applies its slope before it clips, so a LeakyRelu comes first; several ranges become the one they share.
    """
    node = reader(site, "Relu", "LeakyRelu", "Clip")
    if node is None:
        return None
    require_alone(site.output, node, site)
    slope, minimum, maximum = site.activation
    if node.op_type == "LeakyRelu":
        if site.activation != NO_ACTIVATION:
            raise Kept(f"{named(node)}: there is an activation already, which ours would apply after it")
        slope = node.attributes.get_float("alpha", _DEFAULT_SLOPE)
        if not math.isfinite(slope):
            raise Kept(f"{named(node)}: alpha = {slope}")
    else:
        low, high = (0.0, math.inf) if node.op_type == "Relu" else _bounds(node)
        minimum, maximum = max(minimum, low), min(maximum, high)
        if not minimum <= maximum:
            raise Kept(f"{named(node)}: no number is at least {minimum} and at most {maximum}")
    site.activation = (slope, minimum, maximum)
    site.take(node)
    return f"{named(node)} as activation"


def _bounds(node: ir.Node) -> tuple[float, float]:
    """Returns the range of a Clip.

    Raises:
        Kept: It is known at run time only.
    """
    found = [-math.inf, math.inf]
    for index in range(2):
        value = node.inputs[index + 1] if index + 1 < len(node.inputs) else None
        if value is None:
            continue
        data = constant(value)
        if data is None:
            raise Kept(f"{named(node)}: {value.name} is not a constant")
        found[index] = float(data.numpy().reshape(-1)[0])
        if math.isnan(found[index]):
            raise Kept(f"{named(node)}: {value.name} is not a number")
    return found[0], found[1]
