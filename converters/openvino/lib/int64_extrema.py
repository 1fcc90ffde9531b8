"""Min and Max of 64-bit integers, which ONNX Runtime compares wrongly.

Its Min, Max, Clip, Sign, ReduceMin and ReduceMax of int64 take the lower halves for signed numbers: 2^31 is below 0 to
them. Sizes of tensors are less than that, and keep these ops.
"""

from __future__ import annotations

import onnx_ir as ir

from ortconv.converters.openvino.lib.compute_types import apply
from ortconv.graph.builder import Builder

__all__ = ["extreme", "holds_sizes"]


def holds_sizes(b: Builder, value: ir.Value) -> bool:
    """Tells whether a value holds tensor sizes or similar values, which are assumed to be less than 2^31."""
    known = b.entries(value)
    if known is None:
        return False
    numbers: list[int] = []
    for entry in known.entries.ravel().tolist():
        numbers += () if entry is None else (entry,) if isinstance(entry, int) else (entry.scale, entry.offset)
    return all(abs(number) < 1 << 31 for number in numbers)


def extreme(b: Builder, onnx_op: str, x: ir.Value, y: ir.Value) -> ir.Value:
    """Emits Min or Max; of int64 that are no tensor sizes a Where of Less."""
    if x.dtype != ir.DataType.INT64 or (holds_sizes(b, x) and holds_sizes(b, y)):
        return apply(b, onnx_op, x, y)
    less, more = (x, y) if onnx_op == "Min" else (y, x)
    return b.typed(b.op("Where", b.op("Less", less, more), x, y), ir.DataType.INT64, None)
