"""NonZero."""

from __future__ import annotations

import onnx_ir as ir

from ortconv.converters.openvino.lib.index_type import INDEX_TYPES, IndexType
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.graph.builder import Builder

_BOOL, _I32, _I64 = ir.DataType.BOOL, ir.DataType.INT32, ir.DataType.INT64


@REGISTRY.lowering("NonZero", since=3, how="exact")
def non_zero(b: Builder, data: ir.Value, /, *, output_type: IndexType = "i64") -> ir.Value:
    """NonZero."""
    x = data if data.dtype in (_BOOL, _I32, _I64, ir.DataType.FLOAT) else b.cast(data, _BOOL)
    # ONNX returns no axis for a scalar; OpenVINO declares none, and returns one.
    is_scalar = data.shape is not None and not len(data.shape)
    if is_scalar:
        x = b.op("Unsqueeze", x, b.constant([0]))
    places = b.typed(b.op("NonZero", x), _I64, ["axes", None] if is_scalar else None)
    return b.cast(places, INDEX_TYPES[output_type])
