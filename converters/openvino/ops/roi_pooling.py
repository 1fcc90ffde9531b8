"""ROIPooling."""

from __future__ import annotations

from typing import Literal

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.bilinear_sampling import Image, half_away
from ortconv.converters.openvino.lib.compute_types import (
    FLOATS,
    require,
    single,
)
from ortconv.converters.openvino.lib.roi_bins import (
    batch_indices_of,
    elements_between,
    last_position,
    pool_until_end,
    sampled_inside,
)
from ortconv.converters.openvino.lib.sizes import counted_row
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import UnsupportedAttributeError
from ortconv.graph.builder import Builder, Ints

_LAST_OPSET = 21
"""The last opset whose MaxRoiPool has a kernel in ONNX Runtime."""

_F32 = ir.DataType.FLOAT


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
    """MaxRoiPool, with unused boxes masked; for bilinear a formula over gathered elements."""
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

        return pool_until_end(b, largest, data, rois)

    def formula(x: ir.Value, boxes: ir.Value) -> ir.Value:
        image = Image.of(b, x)
        owner, left, top, right, bottom = b.op("Split", boxes, outputs=5, axis=1, num_outputs=5)
        rows = _spread(b, top, bottom, image.height, goals[0])
        columns = _spread(b, left, right, image.width, goals[1])
        sampled = sampled_inside(b, image, batch_indices_of(b, owner, 3), rows, columns)
        return b.op("Transpose", sampled, perm=[0, 3, 1, 2])

    return pool_until_end(b, formula, data, rois)


def _largest(b: Builder, x: ir.Value, boxes: ir.Value, goals: Ints, scale: float) -> ir.Value:
    """Emits the maximum of each bin, 0 for an empty bin, one axis after the other."""
    owner, left, top, right, bottom = b.op("Split", boxes, outputs=5, axis=1, num_outputs=5)
    own = b.op("Gather", x, batch_indices_of(b, owner, 1), axis=0)
    sides = ((left, right, 3, goals[1]), (top, bottom, 2, goals[0]))
    value = own
    inside: list[ir.Value] = []
    for start, end, axis, goal in sides:
        member = _touched(b, start, end, b.op("Shape", x, start=axis, end=axis + 1), goal, scale)
        # The first pass moves rows last; the second one moves them back in front of the columns.
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
    """Tells which elements belong to each bin of a box with integer corners, [R, goal, size]."""
    factor, one = single(b, scale), single(b, 1.0)
    first, last = (half_away(b, b.op("Mul", edge, factor)) for edge in (start, end))
    length = b.op("Max", b.op("Add", b.op("Sub", last, first), one), one)
    width = b.op("Div", length, single(b, goal))
    places = counted_row(b, goal)
    begin = b.op("Add", b.op("Floor", b.op("Mul", places, width)), first)
    stop = b.op("Add", b.op("Ceil", b.op("Mul", b.op("Add", places, one), width)), first)
    return elements_between(b, begin, stop, size)


def _spread(b: Builder, start: ir.Value, end: ir.Value, size: ir.Value, goal: int) -> ir.Value:
    """Returns sample positions [R, goal] from start to end of boxes, given relative to the image; the center for 1."""
    last = last_position(b, size)
    if goal == 1:
        return b.op("Mul", b.op("Mul", b.op("Add", start, end), single(b, 0.5)), last)
    step = b.op("Div", b.op("Mul", b.op("Sub", end, start), last), single(b, goal - 1))
    places = counted_row(b, goal)
    points = b.op("Add", b.op("Mul", places, step), b.op("Mul", start, last))
    # The last position is the end itself, so that rounding cannot move it out of the image.
    is_last = b.op("Equal", b.counted(goal), b.constant([goal - 1]))
    return b.op("Where", is_last, b.op("Mul", last, end), points)
