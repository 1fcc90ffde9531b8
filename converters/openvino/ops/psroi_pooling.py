"""PSROIPooling."""

from __future__ import annotations

from typing import Literal

import onnx_ir as ir

from ortconv.converters.openvino.lib.bilinear_sampling import Image, half_away
from ortconv.converters.openvino.lib.compute_types import (
    FLOATS,
    dtype_of,
    in_one_type,
    narrowed,
    require,
    single,
)
from ortconv.converters.openvino.lib.defaults import warn_of_default
from ortconv.converters.openvino.lib.roi_bins import (
    batch_indices_of,
    elements_between,
    last_position,
    pool_until_end,
    sampled_inside,
)
from ortconv.converters.openvino.lib.sizes import counted_row
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.graph.builder import Builder

_F32 = ir.DataType.FLOAT


_LEAST = 0.1
"""The minimum width of a box with exchanged ends."""


@REGISTRY.lowering("PSROIPooling")
def psroi_pooling(
    b: Builder,
    data: ir.Value,
    rois: ir.Value,
    /,
    *,
    output_dim: int,
    group_size: int = 1,
    spatial_scale: float,
    spatial_bins_x: int = 1,
    spatial_bins_y: int = 1,
    mode: Literal["average", "bilinear"] = "average",
) -> ir.Value:
    """Means over bins, each in its own channels: a masked sum, or a formula over gathered elements."""
    require(data, "data", FLOATS)
    require(rois, "rois", FLOATS)
    own = dtype_of(data)
    data, rois = in_one_type(b, data, rois)
    if mode == "average":
        pooled = pool_until_end(b, lambda x, r: _averaged(b, x, r, output_dim, group_size, spatial_scale), data, rois)
        return narrowed(b, pooled, data, own)

    for name in ("spatial_bins_x", "spatial_bins_y"):
        warn_of_default(b, name, 1, "takes 0, and refuses that")

    def formula(x: ir.Value, boxes: ir.Value) -> ir.Value:
        owner, left, top, right, bottom = b.op("Split", boxes, outputs=5, axis=1, num_outputs=5)
        scale = single(b, spatial_scale)
        count = spatial_bins_x * spatial_bins_y
        parts = b.op("Split", x, outputs=count, axis=1, num_outputs=count)
        total: ir.Value | None = None
        for row in range(spatial_bins_y):
            for column in range(spatial_bins_x):
                image = Image.of(b, parts[row * spatial_bins_x + column])
                rows, columns = (
                    _bin(b, b.op("Mul", start, scale), b.op("Mul", end, scale), size, place, bins, group_size)
                    for start, end, size, place, bins in (
                        (top, bottom, image.height, row, spatial_bins_y),
                        (left, right, image.width, column, spatial_bins_x),
                    )
                )
                value = sampled_inside(b, image, batch_indices_of(b, owner, 3), rows, columns)
                total = value if total is None else b.op("Add", total, value)
        assert total is not None
        mean = b.op("Div", total, single(b, count))
        return b.op("Transpose", mean, perm=[0, 3, 1, 2])

    return narrowed(b, pool_until_end(b, formula, data, rois), data, own)


def _bin(b: Builder, start: ir.Value, end: ir.Value, size: ir.Value, place: int, bins: int, goal: int) -> ir.Value:
    """Returns the positions [R, goal] of the points in one bin along an axis, computed in the plugin's order."""
    last = last_position(b, size)
    width = b.op("Div", b.op("Sub", end, start), single(b, bins))
    first, behind = (b.op("Add", start, b.op("Mul", width, single(b, number))) for number in (place, place + 1))
    if goal == 1:
        return b.op("Mul", b.op("Mul", b.op("Add", first, behind), single(b, 0.5)), last)
    step = b.op("Div", b.op("Mul", b.op("Sub", behind, first), last), single(b, goal - 1))
    places = counted_row(b, goal)
    return b.op("Add", b.op("Mul", places, step), b.op("Mul", first, last))


def _averaged(b: Builder, x: ir.Value, boxes: ir.Value, channels: int, goal: int, scale: float) -> ir.Value:
    owner, left, top, right, bottom = b.op("Split", boxes, outputs=5, axis=1, num_outputs=5)
    own = b.op("Gather", x, batch_indices_of(b, owner, 1), axis=0)
    bins = b.op("Concat", b.constant([0, channels, goal, goal]), b.op("Shape", x, start=2), axis=0)
    split = b.op("Reshape", own, bins)
    rows = _members(b, top, bottom, b.op("Shape", x, start=2, end=3), goal, scale)
    columns = _members(b, left, right, b.op("Shape", x, start=3, end=4), goal, scale)
    mask = b.op(
        "Mul", b.op("Unsqueeze", rows, b.constant([1, 3, 5])), b.op("Unsqueeze", columns, b.constant([1, 2, 4]))
    )
    both = b.constant([4, 5])
    total = b.op("ReduceSum", b.op("Mul", split, mask), both, keepdims=0)
    return b.op("Div", total, b.op("Max", b.op("ReduceSum", mask, both, keepdims=0), single(b, 1.0)))


def _members(b: Builder, start: ir.Value, end: ir.Value, size: ir.Value, goal: int, scale: float) -> ir.Value:
    """Returns 1 where an element is in a bin, [R, goal, size]; boxes include the elements at both ends."""
    factor, one = single(b, scale), single(b, 1.0)
    first = b.op("Mul", half_away(b, start), factor)
    whole = b.op("Sub", b.op("Mul", b.op("Add", half_away(b, end), one), factor), first)
    width = b.op("Div", b.op("Max", whole, single(b, _LEAST)), single(b, goal))
    places = counted_row(b, goal)
    limit = b.op("Cast", size, to=int(_F32))
    begin = b.op("Floor", b.op("Add", first, b.op("Mul", places, width)))
    stop = b.op("Ceil", b.op("Add", first, b.op("Mul", b.op("Add", places, one), width)))
    stop = b.op("Min", stop, limit)
    return b.op("Cast", elements_between(b, begin, stop, size), to=int(_F32))
