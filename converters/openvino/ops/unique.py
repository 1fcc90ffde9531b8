"""Unique."""

from __future__ import annotations

import onnx_ir as ir

from ortconv.converters.openvino.lib.broadcasting import rank_of
from ortconv.converters.openvino.lib.compute_types import (
    dtype_of,
    type_for,
)
from ortconv.converters.openvino.lib.constants import axis_of
from ortconv.converters.openvino.lib.index_type import INDEX_TYPES, IndexType
from ortconv.converters.openvino.plugin_bugs.selection import (
    UNIQUE_SLICES_BEHIND_AXES,
    UNIQUE_SLICES_OF_8_BITS,
    UNIQUE_WITHOUT_INVERSE,
)
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.graph.builder import Builder

_I64 = ir.DataType.INT64
_INVERSE = 2
"""The output of Unique with the index of the unique value of each element."""


@REGISTRY.lowering("Unique", since=10, how="composed")
def unique(
    b: Builder,
    data: ir.Value,
    axis: ir.Value | None = None,
    /,
    *,
    sorted: bool = True,
    index_element_type: IndexType = "i64",
    count_element_type: IndexType = "i64",
) -> tuple[ir.Value, ...]:
    """Unique; of all elements without an axis."""
    own = dtype_of(data)
    along = None if axis is None else axis_of(b, axis, rank_of(data, "data"))
    if along is not None:
        _warn_of_slices(b, data, along, sorted)
    elif not sorted and (len(b.node.outputs) <= _INVERSE or _INVERSE in b.node.unused):
        UNIQUE_WITHOUT_INVERSE.warn(b)
    x = b.cast(data, type_for(own, ("Unique",)))
    values, first, inverse, counts = b.op("Unique", x, outputs=4, axis=along, sorted=int(sorted))
    b.typed(values, x.dtype, None)
    for result in (first, inverse, counts):
        b.typed(result, _I64, None)
    index, count = INDEX_TYPES[index_element_type], INDEX_TYPES[count_element_type]
    return b.cast(values, own), b.cast(first, index), b.cast(inverse, index), b.cast(counts, count)


def _warn_of_slices(b: Builder, data: ir.Value, axis: int, sorted: bool) -> None:
    """Warns of slices that OpenVINO's CPU plugin reads from wrong memory."""
    assert data.shape is not None
    if any(size != 1 for size in data.shape[:axis]):
        UNIQUE_SLICES_BEHIND_AXES.warn(b)
    if dtype_of(data).bitwidth == 8 and not (sorted and rank_of(data, "data") == 1):
        UNIQUE_SLICES_OF_8_BITS.warn(b)
