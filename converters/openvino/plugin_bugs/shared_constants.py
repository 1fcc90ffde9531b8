"""Constants that several nodes share: what the others do with one."""

from __future__ import annotations

import onnx_ir as ir

from ortconv.graph.annotations import LOCATION_USES
from ortconv.graph.builder import Builder

__all__ = ["is_used_otherwise", "warn_of_shared_filters"]


def is_used_otherwise(weights: ir.Value, use: str, way: bool) -> bool:
    """Notes how a node uses a constant, and tells whether a node before it does so the other way.

    Args:
        weights: The constant, or what a node makes of one.
        use: What the ways are of.
        way: The node's.
    """
    node = weights.producer()
    origin = weights if node is None else node.inputs[0]
    if origin is None or origin.const_value is None:
        return False
    uses = LOCATION_USES.get(origin.const_value) or LOCATION_USES.get(origin)
    if uses is None:
        uses = {}
        LOCATION_USES.set(origin, uses)
    return bool(uses.setdefault(use, way) != way)


def warn_of_shared_filters(b: Builder, weights: ir.Value, *, backward: bool) -> None:
    """Warns of a constant that a convolution and a transposed one share: OpenVINO's CPU plugin keeps one for both.

    It does where there are as many channels on either side, so that the weights have the same sizes in both.
    """
    outer, inner = (*(weights.shape or ()), None, None)[:2]
    if outer == inner != 1 and is_used_otherwise(weights, "by a transposed convolution", backward):
        b.warn(
            "the page is followed: where a convolution and a transposed one share weights of as many input as output "
            "channels, OpenVINO's CPU plugin computes one of them wrongly"
        )
