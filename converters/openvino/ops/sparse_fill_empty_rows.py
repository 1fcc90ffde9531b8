"""SparseFillEmptyRows."""

from __future__ import annotations

import onnx_ir as ir

from ortconv.converters.openvino.lib.compute_types import compute
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.graph.builder import Builder

_BOOL, _I64 = ir.DataType.BOOL, ir.DataType.INT64


@REGISTRY.lowering("SparseFillEmptyRows", since=16)
def sparse_fill_empty_rows(
    b: Builder, values: ir.Value, dense_shape: ir.Value, indices: ir.Value, default_value: ir.Value, /
) -> tuple[ir.Value, ...]:
    """Concat of the entries and one entry per empty row, sorted by row with TopK, which is stable."""
    index_type = indices.dtype
    places = b.cast(indices, _I64)
    rows = b.op("Gather", places, b.constant(0), axis=1)
    count = b.op("Gather", b.cast(dense_shape, _I64), b.constant([0]))
    ones = b.op("Expand", b.constant(1), b.op("Shape", rows))
    counts = b.op("ScatterElements", b.op("Expand", b.constant(0), count), rows, ones, axis=0, reduction="add")
    empty = b.typed(b.op("Equal", counts, b.constant(0)), _BOOL, None)
    missing = b.op("Transpose", b.op("NonZero", empty), perm=[1, 0])
    added = b.op("Pad", missing, b.constant([0, 0, 0, 1]))
    whole = b.op("Concat", places, added, axis=0)
    every = b.op("Gather", whole, b.constant(0), axis=1)
    _, order = b.op("TopK", every, b.op("Shape", every), outputs=2, axis=0, largest=0)
    chosen = b.typed(b.op("Gather", whole, order, axis=0), _I64, None)
    shape = b.op("Shape", missing, start=0, end=1)

    def fill(given: ir.Value, default: ir.Value) -> ir.Value:
        filler = b.op("Expand", b.op("Reshape", default, b.constant([])), shape)
        return b.op("Gather", b.op("Concat", given, filler, axis=0), order, axis=0)

    filled = compute(b, fill, values, default_value, op_types=("Expand",), modular=True)
    assert index_type is not None
    return b.cast(chosen, index_type), filled, empty
