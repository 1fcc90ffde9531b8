"""DeformablePSROIPooling: position-sensitive average pooling of boxes over bins that offsets shift."""

from __future__ import annotations

from typing import Literal

import onnx_ir as ir

from ortconv.converters.openvino.lib.bilinear_sampling import Image, half_away, interpolated
from ortconv.converters.openvino.lib.compute_types import FLOATS, require, single
from ortconv.converters.openvino.lib.roi_bins import pool_until_end
from ortconv.converters.openvino.lib.sizes import counted_row
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import ShapeError
from ortconv.graph.builder import Builder

_LEAST_SIZE = 0.1
_F32, _I64 = ir.DataType.FLOAT, ir.DataType.INT64


@REGISTRY.lowering("DeformablePSROIPooling")
def deformable_psroi_pooling(
    b: Builder,
    data: ir.Value,
    rois: ir.Value,
    offsets: ir.Value | None = None,
    /,
    *,
    output_dim: int,
    spatial_scale: float,
    group_size: int = 1,
    mode: Literal["bilinear_deformable"] = "bilinear_deformable",
    spatial_bins_x: int = 1,
    spatial_bins_y: int = 1,
    trans_std: float = 1,
    part_size: int = 1,
) -> ir.Value:
    """The mean of elements gathered in each bin; those outside of the image do not count."""
    del mode
    require(data, "data", FLOATS)
    goal = group_size

    def formula(x: ir.Value, boxes: ir.Value, moves: ir.Value | None) -> ir.Value:
        owner, left, top, right, bottom = b.op("Split", boxes, outputs=5, axis=1, num_outputs=5)
        shifts = _shifts(b, moves, output_dim, goal, part_size, trans_std)
        image = Image.of(b, b.op("Reshape", x, b.op("Concat", b.constant([-1, 1]), b.op("Shape", x, start=2), axis=0)))
        sides = []
        for axis, (start, end, size, bins) in enumerate(
            ((top, bottom, image.height, spatial_bins_y), (left, right, image.width, spatial_bins_x))
        ):
            points = _points(b, start, end, spatial_scale, shifts[axis], axis, goal, bins)
            within = _counts(b, points, size)
            sides.append((points, within))
        (rows, rows_count), (columns, columns_count) = sides
        inside = b.op("Cast", b.op("And", rows_count, columns_count), to=int(_F32))
        values = b.op(
            "Squeeze", interpolated(b, image, _owners(b, x, owner, output_dim, goal), rows, columns), _axis(b, 6)
        )
        total = b.op("ReduceSum", b.op("Mul", values, inside), b.constant([4, 5]), keepdims=0)
        count = b.op("ReduceSum", inside, b.constant([4, 5]), keepdims=0)
        return b.op("Div", total, b.op("Max", count, single(b, 1.0)))

    return pool_until_end(b, formula, data, rois, offsets)


def _axis(b: Builder, axis: int) -> ir.Value:
    return b.constant([axis])


def _shifts(
    b: Builder, offsets: ir.Value | None, channels: int, goal: int, part_size: int, factor: float
) -> list[ir.Value | None]:
    """Returns the shifts of bins along rows and columns in parts of the box, [R, channels, goal, goal, 1, 1] each."""
    if offsets is None:
        return [None, None]
    count = offsets.shape[1] if offsets.shape is not None and len(offsets.shape) == 4 else None
    if not isinstance(count, int) or count < 2 or count % 2 or channels % (count // 2):
        raise ShapeError("offsets", offsets.shape, "its second size must be twice a known divisor of output_dim.")
    classes = count // 2
    owner = b.op("Div", b.counted(channels), b.constant([channels // classes]))
    part = b.op("Div", b.op("Mul", b.counted(goal), b.constant([part_size])), b.constant([goal]))
    shifts: list[ir.Value | None] = []
    for coordinate in (1, 0):
        places = b.op("Add", b.op("Mul", owner, b.constant([2])), b.constant([coordinate]))
        chosen = b.op("Gather", offsets, places, axis=1)
        binned = b.op("Gather", b.op("Gather", chosen, part, axis=2), part, axis=3)
        shifts.append(b.op("Unsqueeze", b.op("Mul", binned, single(b, factor)), b.constant([4, 5])))
    return shifts


def _points(
    b: Builder, start: ir.Value, end: ir.Value, scale: float, shift: ir.Value | None, axis: int, goal: int, bins: int
) -> ir.Value:
    """Returns the positions of the points along an axis, [R, channels or 1, goal or 1, goal or 1, bins or 1, ...]."""
    factor, half = single(b, scale), single(b, 0.5)
    first = b.op("Sub", b.op("Mul", half_away(b, start), factor), half)
    last = b.op("Sub", b.op("Mul", b.op("Add", half_away(b, end), single(b, 1.0)), factor), half)
    size = b.op("Max", b.op("Sub", last, first), single(b, _LEAST_SIZE))
    first, size = (b.op("Unsqueeze", value, b.constant([2, 3, 4, 5])) for value in (first, size))
    width = b.op("Div", size, single(b, goal))
    shape, sub_shape = [1] * 6, [1] * 6
    shape[2 + axis], sub_shape[4 + axis] = goal, bins
    places = b.op("Reshape", counted_row(b, goal), b.constant(shape))
    corner = b.op("Add", first, b.op("Mul", places, width))
    if shift is not None:
        corner = b.op("Add", corner, b.op("Mul", shift, size))
    steps = b.op("Reshape", counted_row(b, bins), b.constant(sub_shape))
    return b.op("Add", corner, b.op("Mul", steps, b.op("Div", width, single(b, bins))))


def _counts(b: Builder, points: ir.Value, size: ir.Value) -> ir.Value:
    """Tells which points are sampled: those at most half an element outside."""
    limit = b.op("Sub", b.op("Cast", size, to=int(_F32)), single(b, 0.5))
    return b.op("And", b.op("GreaterOrEqual", points, single(b, -0.5)), b.op("LessOrEqual", points, limit))


def _owners(b: Builder, x: ir.Value, owner: ir.Value, channels: int, goal: int) -> ir.Value:
    """Returns which image of [N * C] each bin reads, [R, channels, goal, goal, 1, 1]."""
    batch = b.op("Reshape", b.op("Cast", owner, to=int(_I64)), b.constant([-1, 1, 1, 1, 1, 1]))
    own = b.op("Reshape", b.counted(channels * goal * goal), b.constant([1, channels, goal, goal, 1, 1]))
    return b.op("Add", b.op("Mul", batch, b.op("Shape", x, start=1, end=2)), own)
