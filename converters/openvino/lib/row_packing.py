"""Rows of classes that end at different places: what CTC ops select of them moves to the front."""

from __future__ import annotations

import onnx_ir as ir

from ortconv.graph.builder import Builder

__all__ = ["blank_of", "packed", "without_repeats"]

_I64 = ir.DataType.INT64


def blank_of(b: Builder, scores: ir.Value, blank_index: ir.Value | None) -> ir.Value:
    """Returns the blank class, a vector of one entry; by default the last one of scores [batch, step, class]."""
    if blank_index is None:
        return b.op("Sub", b.op("Shape", scores, start=2, end=3), b.constant([1]))
    return b.op("Reshape", b.cast(blank_index, _I64), b.constant([1]))


def without_repeats(b: Builder, classes: ir.Value, kept: ir.Value) -> ir.Value:
    """Drops the classes, [row, column], that equal the one before them from those that are kept."""
    before = b.op("Pad", classes, b.constant([0, 1, 0, -1]), b.constant(-1))
    return b.op("And", kept, b.op("Not", b.op("Equal", classes, before)))


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
