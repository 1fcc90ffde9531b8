"""CumSum."""

from __future__ import annotations

import onnx_ir as ir

from ortconv.converters.openvino.lib.compute_types import (
    FLOATS,
    INTEGERS,
    compute,
    require,
    scalar,
)
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.graph.builder import Builder

_I32, _I64 = ir.DataType.INT32, ir.DataType.INT64


@REGISTRY.lowering("CumSum", since=3, how="exact")
def cum_sum(
    b: Builder, data: ir.Value, axis: ir.Value | None = None, /, *, exclusive: bool = False, reverse: bool = False
) -> ir.Value:
    """CumSum; of a scalar the scalar, or zero (exclusive)."""
    require(data, "data", (*FLOATS, *INTEGERS))
    if data.shape is not None and data.shape.rank() == 0:
        return scalar(b, 0, data) if exclusive else b.op("Identity", data)
    along = b.constant(0) if axis is None else axis if axis.dtype in (_I32, _I64) else b.cast(axis, _I64)
    return compute(
        b,
        lambda x: b.op("CumSum", x, along, exclusive=int(exclusive) or None, reverse=int(reverse) or None),
        data,
        op_types=("CumSum",),
        modular=True,
    )
