"""Roll."""

from __future__ import annotations

import onnx_ir as ir

from ortconv.converters.openvino.lib.broadcasting import rank_of
from ortconv.converters.openvino.lib.constants import (
    constant_ints,
    int64_vector,
    known_ints,
    length_of,
    normalized,
)
from ortconv.converters.openvino.lib.dynamic_axes import view_along
from ortconv.converters.openvino.lib.sizes import (
    counted,
    joined,
    size_of,
)
from ortconv.converters.openvino.plugin_bugs.empty_inputs import SINGLE_SHIFT_OF_SEVERAL_AXES
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import ShapeError
from ortconv.graph.builder import Builder

_I64 = ir.DataType.INT64


@REGISTRY.lowering("Roll", since=7)
def roll(b: Builder, data: ir.Value, shift: ir.Value, axes: ir.Value, /) -> ir.Value:
    """Concat of Slices for constant shifts, else Gather, per axis."""
    rank = rank_of(data, "data")
    if shift.shape is not None and not len(shift.shape) and axes.shape is not None and axes.shape[:1] != (1,):
        SINGLE_SHIFT_OF_SEVERAL_AXES.warn(b)
    if b.array(axes) is None:
        return _rolled_along(b, data, int64_vector(b, shift), axes)
    along = normalized(constant_ints(b, axes, "axes"), rank, "axes")
    known = known_ints(b, shift)
    if known is None:
        shifts = b.op("Expand", int64_vector(b, shift), b.constant([len(along)]))
        for place, axis in enumerate(along):
            data = _rolled(b, data, b.op("Slice", shifts, b.constant([place]), b.constant([place + 1])), axis)
        return data
    if len(known) == 1:
        known *= len(along)
    if len(known) != len(along):
        raise ShapeError("shift", shift.shape, f"axes has {len(along)} entries.")
    value = data
    for axis, by in zip(along, known, strict=True):
        size = None if data.shape is None else data.shape[axis]
        if not isinstance(size, int):
            value = _rolled(b, value, b.constant([by]), axis)
        elif size and by % size:
            middle = size - by % size
            parts = [
                b.op("Slice", value, b.constant([start]), b.constant([stop]), b.constant([axis]))
                for start, stop in ((middle, size), (0, middle))
            ]
            value = b.op("Concat", *parts, axis=axis)
    return b.op("Identity", data) if value is data else value


def _rolled_along(b: Builder, data: ir.Value, shift: ir.Value, axes: ir.Value) -> ir.Value:
    """Rolls along runtime axes."""
    count = 1 if axes.shape is not None and not len(axes.shape) else length_of(axes, "axes")
    shifts, along = b.op("Expand", shift, b.constant([count])), int64_vector(b, axes)
    for place in range(count):
        one = (b.constant([place]), b.constant([place + 1]))
        view = view_along(b, data, b.typed(b.op("Slice", along, *one), _I64, [1]))
        data = view.restored(b, _rolled(b, view.value, b.op("Slice", shifts, *one), 1), view.size)
    return data


def _rolled(b: Builder, data: ir.Value, shift: ir.Value, axis: int) -> ir.Value:
    size = size_of(b, data, axis)
    places = b.op("Mod", b.op("Sub", counted(b, size), shift), b.op("Max", joined(b, [size]), b.constant([1])))
    return b.typed(b.op("Gather", data, places, axis=axis), data.dtype, data.shape)
