"""FakeQuantize."""

from __future__ import annotations

import onnx_ir as ir

from ortconv.builder import Builder
from ortconv.converters.openvino.ops.broadcasting import AutoBroadcast, aligned
from ortconv.converters.openvino.ops.types import FLOATS, compute, require, scalar
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import UnsupportedAttributeError

_KERNELS = ("Add", "Div", "Greater", "LessOrEqual", "Max", "Min", "Mul", "Round", "Sub", "Where")


@REGISTRY.lowering("FakeQuantize")
def fake_quantize(
    b: Builder,
    data: ir.Value,
    input_low: ir.Value,
    input_high: ir.Value,
    output_low: ir.Value,
    output_high: ir.Value,
    /,
    *,
    levels: int,
    auto_broadcast: AutoBroadcast = "numpy",
    auto_broadcast_auto_broadcast_axis: int = -1,
) -> ir.Value:
    """The page's formula in single ops, with Round to even; bounds may differ per element."""
    require(data, "data", FLOATS)
    if levels < 2:
        raise UnsupportedAttributeError("levels", levels, "an integer of at least 2")
    bounds = [
        aligned(b, data, bound, auto_broadcast, auto_broadcast_auto_broadcast_axis)[1]
        for bound in (input_low, input_high, output_low, output_high)
    ]

    def formula(x: ir.Value, low: ir.Value, high: ir.Value, first: ir.Value, last: ir.Value) -> ir.Value:
        steps = scalar(b, levels - 1, x)
        place = b.op("Div", b.op("Sub", x, low), b.op("Sub", high, low))
        step = b.op("Round", b.op("Mul", place, steps))
        value = b.op("Add", b.op("Mul", b.op("Div", step, steps), b.op("Sub", last, first)), first)
        below = b.op("LessOrEqual", x, b.op("Min", low, high))
        above = b.op("Greater", x, b.op("Max", low, high))
        return b.op("Where", below, first, b.op("Where", above, last, value))

    return compute(b, formula, data, *bounds, kernels=_KERNELS)
