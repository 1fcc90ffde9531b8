"""Moves the selected elements of each row to its front."""

from __future__ import annotations

import onnx_ir as ir

from ortconv.graph.builder import Builder

__all__ = ["packed"]

_I64 = ir.DataType.INT64


def packed(b: Builder, classes: ir.Value, kept: ir.Value) -> ir.Value:
    """Packs the kept int64 values, [row, column], to the front of each row; the rest becomes -1."""
    along = b.constant(1)
    place = b.op("CumSum", b.op("Cast", kept, to=int(_I64)), along)
    width = b.op("Shape", classes, start=1, end=2)
    # Other values go to an extra column, which is cut off.
    column = b.op("Where", kept, b.op("Sub", place, b.constant(1)), width)
    wide = b.op("Expand", b.constant(-1), b.op("Add", b.op("Shape", classes), b.constant([0, 1])))
    scattered = b.op("ScatterElements", wide, column, classes, axis=1)
    return b.typed(b.op("Slice", scattered, b.constant([0]), width, b.constant([1])), _I64, None)
