"""Range."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.compute_types import (
    FLOATS,
    INTEGERS,
    compute,
    dtype_of,
    name,
    saturated,
    to_nearest,
)
from ortconv.converters.openvino.lib.element_types import DTYPES
from ortconv.converters.openvino.plugin_bugs.empty_inputs import RANGE_AWAY_FROM_STOP
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import UnsupportedAttributeError
from ortconv.graph.builder import Builder

_MOVES = ("Cast", "Gather", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Unsqueeze")
_GROWS = ("Add", "Concat", "Div", "Max", "Min", "Mul", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum")
"""Ops whose results are not negative if their inputs are not; of the first kind, only the first input counts."""


@REGISTRY.lowering("Range")
def range_(b: Builder, start: ir.Value, stop: ir.Value, step: ir.Value, /) -> ir.Value:
    """Range."""
    return _range(b, start, stop, step, dtype_of(start))


@REGISTRY.lowering("Range", since=4)
def range_4(b: Builder, start: ir.Value, stop: ir.Value, step: ir.Value, /, *, output_type: str) -> ir.Value:
    """Range of the bounds cast; of floats in float32, rounded to the nearest where output_type is an integer."""
    to = DTYPES.get(output_type.lower())
    if to not in (*FLOATS, *INTEGERS):
        raise UnsupportedAttributeError("output_type", output_type, ", ".join(map(name, (*FLOATS, *INTEGERS))))
    return _range(b, start, stop, step, to)


def _range(b: Builder, start: ir.Value, stop: ir.Value, step: ir.Value, to: ir.DataType) -> ir.Value:
    bounds = [
        value if value.shape == () else b.typed(b.op("Reshape", value, b.constant([])), value.dtype, ())
        for value in (start, stop, step)
    ]
    if all(b.array(value) is not None for value in bounds):  # OpenVINO casts them when it reads the model
        return _in_own_type(b, [b.cast(value, to) for value in bounds])
    _warn_of_direction(b, *bounds)
    if not any(dtype in FLOATS for dtype in (to, *(dtype_of(value) for value in bounds))):
        if all(value.dtype == to for value in bounds):
            return _in_own_type(b, bounds)
        integers = _in_own_type(b, [b.cast(value, ir.DataType.INT64) for value in bounds])
        narrow = to.bitwidth == 8
        return saturated(b, b.cast(integers, ir.DataType.INT32), to) if narrow else b.cast(integers, to)
    if to == ir.DataType.DOUBLE:
        b.follow("f64: computed in f32, as in OpenVINO's CPU plugin")
    numbers = _in_single(b, *(b.cast(value, ir.DataType.FLOAT) for value in bounds))
    if to in FLOATS:
        return b.cast(numbers, to)
    b.follow(
        "floats: computed in f32 and rounded to nearest, as in OpenVINO's CPU plugin; the specification casts first"
    )
    return to_nearest(b, numbers, to)


def _warn_of_direction(b: Builder, start: ir.Value, stop: ir.Value, step: ir.Value) -> None:
    """Warns of a Range whose step may lead away from stop, unless it is known to go up by a non-negative step."""
    first, each, node = b.array(start), b.array(step), stop.producer()
    if each is not None and each.item() > 0:
        if first is not None and first.item() <= 0 and _is_size(b, stop):
            return
        added = node.inputs if node is not None and node.op_type == "Add" else ()
        if start in added and all(value is start or _is_size(b, value) for value in added):
            return
    if first is None or each is None or b.array(stop) is None:
        RANGE_AWAY_FROM_STOP.warn(b)


def _is_size(b: Builder, value: ir.Value | None) -> bool:
    """Tells whether a value is computed from tensor sizes so that it is never negative."""
    left, seen = [value], set()
    while left:
        each = left.pop()
        if each is None or each in seen:
            continue
        seen.add(each)
        known, node = b.array(each), each.producer()
        if known is not None:
            if (known < 0).any():
                return False
        elif node is None or node.op_type not in ("Shape", *_MOVES, *_GROWS):
            return False
        elif node.op_type != "Shape":
            left += node.inputs[:1] if node.op_type in _MOVES else node.inputs
    return True


def _in_own_type(b: Builder, bounds: Sequence[ir.Value]) -> ir.Value:
    return compute(b, lambda *values: b.op("Range", *values), *bounds, op_types=("Range",), modular=True)


def _in_single(b: Builder, start: ir.Value, stop: ir.Value, step: ir.Value) -> ir.Value:
    """Emits Range of float32 whose length is computed in float32; ONNX Runtime computes it in double."""
    first, each = b.array(start), b.array(step)
    nothing_rounds = first is not None and first.item() == 0 and each is not None and _is_power_of_2(each.item())
    if not nothing_rounds:
        half = b.constant(0.5, np.float32)
        count = b.op("Ceil", b.op("Div", b.op("Sub", stop, start), step))
        stop = b.op("Add", start, b.op("Mul", b.op("Sub", count, half), step))
    return b.typed(b.op("Range", start, stop, step), ir.DataType.FLOAT, [None])


def _is_power_of_2(number: float) -> bool:
    return abs(math.frexp(number)[0]) == 0.5
