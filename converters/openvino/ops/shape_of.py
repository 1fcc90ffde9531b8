"""ShapeOf."""

from __future__ import annotations

import onnx_ir as ir

from ortconv.converters.openvino.lib.index_type import IndexType
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.graph.builder import Builder


@REGISTRY.lowering("ShapeOf")
def shape_of(b: Builder, data: ir.Value, /) -> ir.Value:
    """Shape."""
    return b.op("Shape", data)


@REGISTRY.lowering("ShapeOf", since=3)
def shape_of_3(b: Builder, data: ir.Value, /, *, output_type: IndexType = "i64") -> ir.Value:
    """Shape, cast to output_type."""
    shape = b.op("Shape", data)
    return shape if output_type == "i64" else b.op("Cast", shape, to=int(ir.DataType.INT32))
