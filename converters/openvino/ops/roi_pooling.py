"""ROIPooling and PSROIPooling: boxes of an image pooled to a fixed size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.bilinear_sampling import Image, half_away, interpolated
from ortconv.converters.openvino.lib.compute_types import (
    FLOATS,
    dtype_of,
    in_one_type,
    in_single,
    narrowed,
    require,
    single,
)
from ortconv.converters.openvino.lib.defaults import warn_of_default
from ortconv.converters.openvino.lib.sizes import counted_row
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import UnsupportedAttributeError
from ortconv.graph.builder import Builder, Ints

__all__ = ["up_to_the_end"]

_LAST_OPSET = 21
"""The last with a MaxRoiPool that ONNX Runtime has a kernel for."""

_F32, _I32, _I64 = ir.DataType.FLOAT, ir.DataType.INT32, ir.DataType.INT64


@REGISTRY.lowering("ROIPooling", since=1, until=2, how="composed")
def roi_pooling(
    b: Builder,
    data: ir.Value,
    rois: ir.Value,
    /,
    *,
    spatial_scale: float,
    pooled_h: int = 0,
    pooled_w: int = 0,
    output_roi: Ints = (),
    output_size: Ints = (),
    method: Literal["max", "bilinear"] = "max",
) -> ir.Value:
    """MaxRoiPool, with boxes behind the last hidden; for bilinear a formula over gathered elements."""
    require(data, "data", FLOATS)
    goals = tuple(output_roi) or tuple(output_size) or (pooled_h, pooled_w)
    if len(goals) != 2 or min(goals) < 1:
        raise UnsupportedAttributeError("output_roi", goals, "two sizes of at least 1")
    if method == "max":
        standard = b.options.opset <= _LAST_OPSET

        def largest(x: ir.Value, boxes: ir.Value) -> ir.Value:
            if standard:
                return b.op("MaxRoiPool", x, boxes, pooled_shape=goals, spatial_scale=spatial_scale)
            return _largest(b, x, boxes, goals, spatial_scale)

        return up_to_the_end(b, largest, data, rois)

    def formula(x: ir.Value, boxes: ir.Value) -> ir.Value:
        image = Image.of(b, x)
        owner, left, top, right, bottom = b.op("Split", boxes, outputs=5, axis=1, num_outputs=5)
        rows = _spread(b, top, bottom, image.height, goals[0])
        columns = _spread(b, left, right, image.width, goals[1])
        return _channels_first(b, _inside(b, image, _owners(b, owner, 3), rows, columns))

    return up_to_the_end(b, formula, data, rois)


def up_to_the_end(
    b: Builder, pool: Callable[..., ir.Value], data: ir.Value, rois: ir.Value, *more: ir.Value | None
) -> ir.Value:
    """Emits what is pooled from the boxes in front of the first of batch -1, and zeros from there on.

    That is how Proposal fills up its boxes.
    """
    known = b.array(rois)
    if known is not None and not (known[:, 0] == -1).any():
        return in_single(b, pool, data, rois, *more)

    def masked(x: ir.Value, boxes: ir.Value, *others: ir.Value | None) -> ir.Value:
        is_end = b.op("Equal", b.op("Gather", boxes, b.constant([0]), axis=1), single(b, -1.0))
        ends = b.op("CumSum", b.op("Cast", is_end, to=int(_I32)), b.constant(0))
        goes_on = b.op("Equal", ends, b.constant(0, np.int32))
        pooled = pool(x, b.op("Where", goes_on, boxes, single(b, 0.0)), *others)
        return b.op("Where", b.op("Unsqueeze", goes_on, b.constant([2, 3])), pooled, single(b, 0.0))

    return in_single(b, masked, data, rois, *more)


def _largest(b: Builder, x: ir.Value, boxes: ir.Value, goals: Ints, scale: float) -> ir.Value:
    """Emits the largest element of each bin, and 0 for a bin that has none, one axis after the other."""
    owner, left, top, right, bottom = b.op("Split", boxes, outputs=5, axis=1, num_outputs=5)
    batches = b.op("Reshape", b.op("Cast", owner, to=int(_I64)), b.constant([-1]))
    own = b.op("Gather", x, batches, axis=0)
    sides = ((left, right, 3, goals[1]), (top, bottom, 2, goals[0]))
    value = own
    inside: list[ir.Value] = []
    for start, end, axis, goal in sides:
        member = _touched(b, start, end, b.op("Shape", x, start=axis, end=axis + 1), goal, scale)
        # Rows come last for the second pass, which puts them back in front of the columns.
        spread = b.op("Unsqueeze", member, b.constant([1, 2]))
        lined = b.op("Unsqueeze", value, b.constant([3]))
        chosen = b.op("Where", spread, lined, single(b, -np.inf))
        value = b.op("Transpose", b.op("ReduceMax", chosen, b.constant([4]), keepdims=0), perm=[0, 1, 3, 2])
        inside.append(
            b.op(
                "Cast",
                b.op("ReduceMax", b.op("Cast", member, to=int(_F32)), b.constant([2]), keepdims=0),
                to=int(ir.DataType.BOOL),
            )
        )
    some = b.op(
        "And", b.op("Unsqueeze", inside[1], b.constant([1, 3])), b.op("Unsqueeze", inside[0], b.constant([1, 2]))
    )
    return b.op("Where", some, value, single(b, 0.0))


def _touched(b: Builder, start: ir.Value, end: ir.Value, size: ir.Value, goal: int, scale: float) -> ir.Value:
    """Tells which elements belong to each bin of a box of whole elements, [R, goal, size]."""
    factor, one = single(b, scale), single(b, 1.0)
    first, last = (half_away(b, b.op("Mul", edge, factor)) for edge in (start, end))
    length = b.op("Max", b.op("Add", b.op("Sub", last, first), one), one)
    width = b.op("Div", length, single(b, goal))
    places = counted_row(b, goal)
    begin = b.op("Add", b.op("Floor", b.op("Mul", places, width)), first)
    stop = b.op("Add", b.op("Ceil", b.op("Mul", b.op("Add", places, one), width)), first)
    return _between(b, begin, stop, size)


def _owners(b: Builder, owner: ir.Value, rank: int) -> ir.Value:
    """Returns the batch of each box, [R, 1, ...]."""
    return b.op("Reshape", b.op("Cast", owner, to=int(_I64)), b.constant([-1] + [1] * (rank - 1)))


def _last(b: Builder, size: ir.Value) -> ir.Value:
    """Returns the last position along an axis as a number with fractions."""
    return b.op("Cast", b.op("Sub", size, b.constant([1])), to=int(_F32))


def _spread(b: Builder, start: ir.Value, end: ir.Value, size: ir.Value, goal: int) -> ir.Value:
    """Returns positions [R, goal] from the start to the end of boxes, given in parts of the image; the middle for 1."""
    last = _last(b, size)
    if goal == 1:
        return b.op("Mul", b.op("Mul", b.op("Add", start, end), single(b, 0.5)), last)
    step = b.op("Div", b.op("Mul", b.op("Sub", end, start), last), single(b, goal - 1))
    places = counted_row(b, goal)
    points = b.op("Add", b.op("Mul", places, step), b.op("Mul", start, last))
    # The last point is computed from the end itself, so that rounding does not move it out of the image.
    is_last = b.op("Equal", b.counted(goal), b.constant([goal - 1]))
    return b.op("Where", is_last, b.op("Mul", last, end), points)


def _inside(b: Builder, image: Image, owner: ir.Value, rows: ir.Value, columns: ir.Value) -> ir.Value:
    """Emits the elements at rows [R, PH] and columns [R, PW], zero outside of the image, as [R, PH, PW, C]."""
    y, x = b.op("Unsqueeze", rows, b.constant([2])), b.op("Unsqueeze", columns, b.constant([1]))
    conditions = []
    for position, size in ((y, image.height), (x, image.width)):
        conditions.append(b.op("GreaterOrEqual", position, single(b, 0.0)))
        conditions.append(b.op("LessOrEqual", position, _last(b, size)))
    inside = conditions[0]
    for condition in conditions[1:]:
        inside = b.op("And", inside, condition)
    values = interpolated(b, image, owner, y, x)
    return b.op("Where", b.op("Unsqueeze", inside, b.constant([-1])), values, single(b, 0.0))


def _channels_first(b: Builder, value: ir.Value) -> ir.Value:
    return b.op("Transpose", value, perm=[0, 3, 1, 2])


_LEAST = 0.1
"""How wide a box is at least whose ends are exchanged."""


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
    """Means over windows, each of channels of its own: a masked sum, or a formula over gathered elements."""
    require(data, "data", FLOATS)
    require(rois, "rois", FLOATS)
    own = dtype_of(data)
    data, rois = in_one_type(b, data, rois)
    if mode == "average":
        pooled = up_to_the_end(b, lambda x, r: _averaged(b, x, r, output_dim, group_size, spatial_scale), data, rois)
        return narrowed(b, pooled, data, own)

    for name in ("spatial_bins_x", "spatial_bins_y"):
        warn_of_default(b, name, 1, "takes 0, and refuses that")

    def formula(x: ir.Value, boxes: ir.Value) -> ir.Value:
        owner, left, top, right, bottom = b.op("Split", boxes, outputs=5, axis=1, num_outputs=5)
        scale = single(b, spatial_scale)
        parts = b.op(
            "Split", x, outputs=spatial_bins_x * spatial_bins_y, axis=1, num_outputs=spatial_bins_x * spatial_bins_y
        )
        total: ir.Value | None = None
        for row in range(spatial_bins_y):
            for column in range(spatial_bins_x):
                image = Image.of(b, parts[row * spatial_bins_x + column])
                rows = _bin(
                    b,
                    b.op("Mul", top, scale),
                    b.op("Mul", bottom, scale),
                    image.height,
                    row,
                    spatial_bins_y,
                    group_size,
                )
                columns = _bin(
                    b,
                    b.op("Mul", left, scale),
                    b.op("Mul", right, scale),
                    image.width,
                    column,
                    spatial_bins_x,
                    group_size,
                )
                value = _inside(b, image, _owners(b, owner, 3), rows, columns)
                total = value if total is None else b.op("Add", total, value)
        assert total is not None
        mean = b.op("Div", total, single(b, spatial_bins_x * spatial_bins_y))
        return _channels_first(b, mean)

    return narrowed(b, up_to_the_end(b, formula, data, rois), data, own)


def _bin(b: Builder, start: ir.Value, end: ir.Value, size: ir.Value, place: int, bins: int, goal: int) -> ir.Value:
    """Returns the positions [R, goal] of the points in one bin along an axis, computed in the plugin's order."""
    last = _last(b, size)
    width = b.op("Div", b.op("Sub", end, start), single(b, bins))
    first, behind = (b.op("Add", start, b.op("Mul", width, single(b, number))) for number in (place, place + 1))
    if goal == 1:
        return b.op("Mul", b.op("Mul", b.op("Add", first, behind), single(b, 0.5)), last)
    step = b.op("Div", b.op("Mul", b.op("Sub", behind, first), last), single(b, goal - 1))
    places = counted_row(b, goal)
    return b.op("Add", b.op("Mul", places, step), b.op("Mul", first, last))


def _averaged(b: Builder, x: ir.Value, boxes: ir.Value, channels: int, goal: int, scale: float) -> ir.Value:
    owner, left, top, right, bottom = b.op("Split", boxes, outputs=5, axis=1, num_outputs=5)
    batches = b.op("Reshape", b.op("Cast", owner, to=int(_I64)), b.constant([-1]))
    own = b.op("Gather", x, batches, axis=0)
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
    return b.op("Cast", _between(b, begin, stop, size), to=int(_F32))


def _between(b: Builder, begin: ir.Value, stop: ir.Value, size: ir.Value) -> ir.Value:
    """Tells which elements of an axis lie from begin to stop, [R, goal, size]."""
    scalar = b.op("Squeeze", size, b.constant([0]))
    positions = b.op("Cast", b.op("Range", b.constant(0), scalar, b.constant(1)), to=int(_F32))
    column = b.constant([2])
    return b.op(
        "And",
        b.op("GreaterOrEqual", positions, b.op("Unsqueeze", begin, column)),
        b.op("Less", positions, b.op("Unsqueeze", stop, column)),
    )
