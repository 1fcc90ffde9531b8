"""TopK."""

from __future__ import annotations

from typing import Literal

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.compute_types import (
    INTEGERS,
    dtype_of,
    type_for,
)
from ortconv.converters.openvino.lib.constants import int64_vector
from ortconv.converters.openvino.lib.index_type import INDEX_TYPES, IndexType
from ortconv.converters.openvino.plugin_bugs.selection import STABLE_TOP_K_BY_INDEX
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.graph.builder import Builder

_BOOL, _I64 = ir.DataType.BOOL, ir.DataType.INT64


@REGISTRY.lowering("TopK", since=1, how="composed", without=["stable"])
@REGISTRY.lowering("TopK", since=3, how="composed", without=["stable"])
@REGISTRY.lowering("TopK", since=11, how="composed")
def top_k(
    b: Builder,
    data: ir.Value,
    k: ir.Value,
    /,
    *,
    axis: int = 0,
    mode: Literal["min", "max"] = "max",
    sort: Literal["none", "index", "value"] = "none",
    index_element_type: IndexType = "i32",
    stable: bool = False,
) -> tuple[ir.Value, ...]:
    """TopK; with sort = index, a second TopK sorts the selected elements by index."""
    if not stable:
        _warn_of_ties(b, data, sort)
    elif sort == "index":
        STABLE_TOP_K_BY_INDEX.warn(b)
    return _top_k(b, data, k, axis, mode, sort, index_element_type)


def _warn_of_ties(b: Builder, data: ir.Value, sort: str) -> None:
    if sort == "value" and len(b.node.outputs) == 1:
        return  # only the indices depend on ties
    if data.dtype in (*INTEGERS, _BOOL):
        b.warn("equal integers: the first ones are selected; OpenVINO's CPU plugin may select others")


def _top_k(
    b: Builder, data: ir.Value, k: ir.Value, axis: int, mode: str, sort: str, index_type: IndexType
) -> tuple[ir.Value, ...]:
    own = dtype_of(data)
    count = int64_vector(b, k)
    if own == ir.DataType.UINT64:  # flipping the sign bit gives signed integers of the same order
        sign_bit = b.constant(np.iinfo(np.int64).min)
        signed = b.typed(b.op("BitwiseXor", b.cast(data, _I64), sign_bit), _I64, data.shape)
        values, indices = _top_k(b, signed, k, axis, mode, sort, index_type)
        return b.cast(b.typed(b.op("BitwiseXor", values, sign_bit), _I64, None), own), indices
    x = b.cast(data, type_for(own, ("TopK",)))
    values, indices = b.op("TopK", x, count, outputs=2, axis=axis, largest=int(mode == "max"))
    if sort == "index":
        b.typed(indices, _I64, None)
        indices, _ = b.op("TopK", indices, count, outputs=2, axis=axis, largest=0)
        values = b.op("GatherElements", x, indices, axis=axis)
    b.typed(values, x.dtype, None)
    b.typed(indices, _I64, None)
    return b.cast(values, own), b.cast(indices, INDEX_TYPES[index_type])
