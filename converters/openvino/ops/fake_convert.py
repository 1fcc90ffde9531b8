"""FakeConvert."""

from __future__ import annotations

from typing import Literal

import onnx_ir as ir

from ortconv.converters.openvino.lib.compute_types import (
    FLOATS,
    dtype_of,
    require,
)
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.graph.builder import Builder


@REGISTRY.lowering("FakeConvert", since=13)
def fake_convert(
    b: Builder,
    data: ir.Value,
    scale: ir.Value,
    shift: ir.Value | None = None,
    /,
    *,
    destination_type: Literal["f8e4m3", "f8e5m2"] = "f8e4m3",
) -> ir.Value:
    """Cast to f16, to an 8-bit float and back, saturating, of the data scaled and shifted."""
    require(data, "data", FLOATS)
    narrow = {"f8e4m3": ir.DataType.FLOAT8E4M3FN, "f8e5m2": ir.DataType.FLOAT8E5M2}[destination_type]

    x, factor = b.cast(data, ir.DataType.FLOAT), b.cast(scale, ir.DataType.FLOAT)
    offset = None if shift is None else b.cast(shift, ir.DataType.FLOAT)
    moved = b.op("Mul", x, factor)
    moved = moved if offset is None else b.op("Sub", moved, offset)
    # OpenVINO rounds to the data's type and to f16 before it rounds to 8 bits.
    if data.dtype == ir.DataType.BFLOAT16:
        moved = b.op("Cast", b.op("Cast", moved, to=int(data.dtype)), to=int(ir.DataType.FLOAT))
    half = b.op("Cast", moved, to=int(ir.DataType.FLOAT16))
    stored = b.op("Cast", b.op("Cast", half, to=int(narrow), saturate=1), to=int(ir.DataType.FLOAT))
    value = b.op("Div", stored if offset is None else b.op("Add", stored, offset), factor)
    return b.cast(b.typed(value, ir.DataType.FLOAT, None), dtype_of(data))
