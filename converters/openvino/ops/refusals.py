"""Ops that are refused, and why."""

from __future__ import annotations

from ortconv.converters.openvino.registry import REGISTRY

REGISTRY.refuse(
    "BinaryConvolution",
    reason="OpenVINO's CPU plugin does not read its one-bit weights in the order that the page states",
)
REGISTRY.refuse("GroupedMatMul", reason="OpenVINO's CPU plugin does not run it, so that there is nothing to follow")
REGISTRY.refuse(
    "PagedAttention",
    "PagedAttentionExtension",
    reason="it works on the key-value cache of a server, which a model file does not hold",
)
