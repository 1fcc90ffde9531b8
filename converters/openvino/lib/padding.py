"""Emits Pad in a type that ONNX Runtime has a kernel for."""

from __future__ import annotations

from typing import Literal

import onnx_ir as ir

from ortconv.converters.openvino.lib.compute_types import compute
from ortconv.converters.openvino.lib.constants import as_scalar
from ortconv.graph.builder import Builder, Ints

__all__ = ["PadMode", "emit_pad", "pad_zeros"]

PadMode = Literal["constant", "edge", "reflect", "symmetric"]


def pad_zeros(b: Builder, data: ir.Value, begin: Ints, end: Ints) -> ir.Value:
    """Pads with zeros by non-negative sizes."""
    return emit_pad(b, data, b.constant([*begin, *end]), None, "constant")


def emit_pad(b: Builder, data: ir.Value, pads: ir.Value, fill: ir.Value | None, mode: str) -> ir.Value:
    """Emits Pad; `pads` is an int64 vector, and `fill` counts for the mode constant alone."""
    if mode != "constant":
        fill = None
    elif fill is not None:
        fill = as_scalar(b, fill)
    return compute(
        b, lambda x, value: b.op("Pad", x, pads, value, mode=mode), data, fill, op_types=("Pad",), modular=True
    )
