"""Col2Im."""

from __future__ import annotations

import math
from collections.abc import Callable

import onnx_ir as ir

from ortconv.converters.openvino.lib.broadcasting import rank_of
from ortconv.converters.openvino.lib.compute_types import compute
from ortconv.converters.openvino.lib.constants import (
    int64_vector,
    known_ints,
)
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.graph.builder import Builder, Ints

_I32, _I64, _F32 = ir.DataType.INT32, ir.DataType.INT64, ir.DataType.FLOAT
_MANTISSA, _PART = 24, 11
"""Bits of an integer that float32 represents exactly, and bits of each part into which an int32 is split."""


@REGISTRY.lowering("Col2Im", since=15, how="exact")
def col2im(
    b: Builder,
    data: ir.Value,
    output_size: ir.Value,
    kernel_size: ir.Value,
    /,
    *,
    strides: Ints = (1, 1),
    dilations: Ints = (1, 1),
    pads_begin: Ints = (0, 0),
    pads_end: Ints = (0, 0),
) -> ir.Value:
    """Col2Im, of a batch of one where the data has no batch; of int32 three, of 11 bits each, whose sums are exact."""
    batched = rank_of(data, "data") == 3
    sizes = [int64_vector(b, value) for value in (output_size, kernel_size)]

    def emit(x: ir.Value) -> ir.Value:
        columns = x if batched else b.op("Unsqueeze", x, b.constant([0]))
        pads = (*pads_begin, *pads_end)
        image = b.op("Col2Im", columns, *sizes, strides=strides, dilations=dilations, pads=pads)
        return image if batched else b.op("Squeeze", image, b.constant([0]))

    kernel = known_ints(b, kernel_size)
    assert data.shape is not None
    terms = data.shape[-2] if kernel is None else math.prod(kernel)  # of a sum, at most
    if data.dtype == _I32 and isinstance(terms, int) and terms <= 1 << (_MANTISSA - _PART):
        return _of_parts(b, emit, data)
    return compute(b, emit, data, op_types=("Col2Im",))


def _of_parts(b: Builder, formula: Callable[[ir.Value], ir.Value], data: ir.Value) -> ir.Value:
    """Emits a formula of int32 sums in float32, over three parts of the data that add up to it."""
    rest, base = b.cast(data, _I64), b.constant(1 << _PART)
    parts = []
    for _ in range(2):
        low = b.typed(b.op("Mod", rest, base), _I64, data.shape)
        rest = b.typed(b.op("Div", b.op("Sub", rest, low), base), _I64, data.shape)
        parts.append(low)
    total: ir.Value | None = None
    for part in (rest, *reversed(parts)):
        image = b.cast(b.typed(formula(b.cast(part, _F32)), _F32, None), _I64)
        total = image if total is None else b.op("Add", b.op("Mul", total, base), image)
    assert total is not None
    return b.cast(b.typed(total, _I64, None), _I32)
