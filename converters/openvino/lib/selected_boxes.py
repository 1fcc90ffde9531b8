"""Outputs of NonMaxSuppression and NMSRotated."""

from __future__ import annotations

import onnx_ir as ir

from ortconv.converters.openvino.lib.index_type import INDEX_TYPES, IndexType
from ortconv.graph.builder import Builder

__all__ = ["one_float", "selected"]

_F32, _I64 = ir.DataType.FLOAT, ir.DataType.INT64


def selected(
    b: Builder, chosen: ir.Value, found: ir.Value, in_order: bool, output_type: IndexType
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Emits the results of the ops: rows of batch, class and box; the same with scores; and how many rows there are.

    Args:
        b: The builder.
        chosen: Batch, class and box of each row, ordered by batch and class.
        found: Their float32 scores.
        in_order: Whether to sort the rows by score.
        output_type: Type of the integers.
    """
    b.typed(found, _F32, [None])
    if in_order:
        found, order = b.op("TopK", found, b.op("Shape", found), outputs=2, axis=0)
        chosen = b.op("Gather", chosen, order, axis=0)
    b.typed(chosen, _I64, ["selected", 3])
    to = INDEX_TYPES[output_type]
    which = b.op("Slice", chosen, b.constant([0]), b.constant([2]), b.constant([1]))
    rows = b.op("Concat", b.op("Cast", which, to=int(_F32)), b.op("Unsqueeze", found, b.constant([1])), axis=1)
    total = b.typed(b.op("Shape", chosen, start=0, end=1), _I64, [1])
    outputs = b.node.outputs
    score_type = outputs[1].dtype if len(outputs) > 1 else _F32
    return b.cast(chosen, to), b.cast(b.typed(rows, _F32, [None, 3]), score_type), b.cast(total, to)


def one_float(b: Builder, value: ir.Value) -> ir.Value:
    """Returns a number as float32 of shape [1]."""
    return b.typed(b.op("Reshape", b.cast(value, _F32), b.constant([1])), _F32, [1])
