"""Ops that are not supported, with the reason."""

from __future__ import annotations

from ortconv.converters.openvino.registry import REGISTRY

REGISTRY.refuse("BGRtoNV12", "RGBtoNV12", reason="OpenVINO's CPU plugin does not run it, so there is no reference")
REGISTRY.refuse(
    "PagedAttention",
    "PagedAttentionExtension",
    reason="it works on the key-value cache of a server, which a model file does not hold",
)
REGISTRY.refuse("StringTensorPack", "StringTensorUnpack", reason="ONNX has no strings as bytes with offsets")
REGISTRY.refuse(
    "AUGRUCell",
    "AUGRUSequence",
    reason="it is internal to OpenVINO, whose reader does not take it",
)
REGISTRY.refuse("RMS", "RoPE", reason="OpenVINO makes it when it compiles a model, and its reader does not take it")
