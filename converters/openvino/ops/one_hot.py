"""OneHot."""

from __future__ import annotations

from typing import Literal

import onnx_ir as ir

from ortconv.converters.openvino.lib.broadcasting import rank_of
from ortconv.converters.openvino.lib.compute_types import compute
from ortconv.converters.openvino.lib.constants import known_ints, normalized
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.graph.builder import Builder

_BOOL, _I64 = ir.DataType.BOOL, ir.DataType.INT64


@REGISTRY.lowering("OneHot", since=1, without=["negative_indices_mode"])
@REGISTRY.lowering("OneHot", since=16)
def one_hot(
    b: Builder,
    indices: ir.Value,
    depth: ir.Value,
    on_value: ir.Value,
    off_value: ir.Value,
    /,
    *,
    axis: int,
    negative_indices_mode: Literal["ignore_negative", "normalize"] = "ignore_negative",
) -> ir.Value:
    """Where of an Equal; an index out of range gives off_value; normalize counts negative ones from the end."""
    rank = rank_of(indices, "indices")
    (along,) = normalized((axis,), rank + 1, "axis")
    size = known_ints(b, depth)
    if size is not None and len(size) == 1:
        classes = b.counted(size[0])
    else:
        end = b.op("Reshape", b.cast(depth, _I64), b.constant([]))
        classes = b.op("Range", b.constant(0), end, b.constant(1))
    places = b.typed(b.op("Unsqueeze", b.cast(indices, _I64), b.constant([along])), _I64, None)
    if negative_indices_mode == "normalize":
        behind = b.op("Add", places, b.cast(depth, _I64))
        places = b.op("Where", b.op("Less", places, b.constant(0)), behind, places)
    if along < rank:
        classes = b.op("Unsqueeze", classes, b.constant(list(range(1, rank - along + 1))))
    hot = b.typed(b.op("Equal", places, classes), _BOOL, None)
    on, off = (
        b.op("Reshape", value, b.constant([])) if value.shape != () else value for value in (on_value, off_value)
    )
    b.typed(on, on_value.dtype, None)
    b.typed(off, on_value.dtype, None)
    if on_value.dtype == _BOOL:
        return b.op("Or", b.op("And", hot, on), b.op("And", b.op("Not", hot), off))
    return compute(b, lambda yes, no: b.op("Where", hot, yes, no), on, off, op_types=("Where",), modular=True)
