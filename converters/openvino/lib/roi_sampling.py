"""Sampling points of ROIAlign, ROIAlignRotated and ExperimentalDetectronROIFeatureExtractor."""

from __future__ import annotations

import dataclasses
from typing import Literal

import onnx_ir as ir

from ortconv.converters.openvino.lib.bilinear_sampling import Image, interpolated
from ortconv.converters.openvino.lib.compute_types import chained, single
from ortconv.converters.openvino.lib.sizes import counted_row
from ortconv.graph.builder import Builder

__all__ = ["LAST_OPSET", "Mode", "average_boxes", "pool_points", "sampling_grid", "sampling_points", "split_columns"]

Mode = Literal["avg", "max"]
LAST_OPSET = 21
"""The last opset whose RoiAlign has a kernel in ONNX Runtime."""


def average_boxes(
    b: Builder, data: ir.Value, rois: ir.Value, goals: tuple[int, int], ratio: int, scale: float, shifted: bool
) -> ir.Value:
    """Emits the mean of float32 boxes of the first image; a box smaller than one element counts as one.

    Args:
        b: The builder.
        data: The images, [N, C, H, W].
        rois: Corners x, y, x, y.
        goals: Height and width of the results.
        ratio: How many points of each bin count along each axis; 0 for about one per element.
        scale: What corners are multiplied by.
        shifted: Whether elements lie at half numbers.
    """
    indices = b.op("Expand", b.constant(0), b.op("Shape", rois, end=1))
    # With one bin per axis the number of points depends on how a size of 1 is rounded.
    if b.options.opset <= LAST_OPSET and not (shifted and not ratio and 1 in goals):
        if shifted:
            # ONNX lets such boxes be smaller than one element.
            rois, scale = b.op("Mul", rois, single(b, scale)), 1.0
            low, high = b.op("Split", rois, outputs=2, axis=1, num_outputs=2)
            rois = b.op("Concat", low, b.op("Max", high, b.op("Add", low, single(b, 1.0))), axis=1)
        return b.op(
            "RoiAlign",
            data,
            rois,
            indices,
            coordinate_transformation_mode="half_pixel" if shifted else "output_half_pixel",
            mode="avg",
            output_height=goals[0],
            output_width=goals[1],
            sampling_ratio=ratio,
            spatial_scale=scale,
        )
    moved = b.op("Sub", b.op("Mul", rois, single(b, scale)), single(b, 0.5 if shifted else 0.0))
    left, top, right, bottom = split_columns(b, moved, 4)
    axes = []
    for start, end, goal in ((top, bottom, goals[0]), (left, right, goals[1])):
        axes.append(sampling_points(b, start, b.op("Max", b.op("Sub", end, start), single(b, 1.0)), goal, ratio))
    return pool_points(b, data, indices, sampling_grid(b, *axes), "avg")


def split_columns(b: Builder, boxes: ir.Value, count: int) -> tuple[ir.Value, ...]:
    """Returns the columns [R, 1] of the boxes."""
    return b.op("Split", boxes, outputs=count, axis=1, num_outputs=count)


@dataclasses.dataclass(frozen=True)
class _Points:
    """Points along an axis.

    Attributes:
        positions: [R, bins, K].
        used: Whether each point counts, [R, 1, K]; None where all do.
        count: How many do, [R, 1].
    """

    positions: ir.Value
    used: ir.Value | None
    count: ir.Value

    def moved(self, b: Builder, axes: list[int]) -> _Points:
        """Returns the points with new axes."""
        used = None if self.used is None else b.op("Unsqueeze", self.used, b.constant(axes))
        return _Points(b.op("Unsqueeze", self.positions, b.constant(axes)), used, self.count)


def sampling_points(b: Builder, start: ir.Value, size: ir.Value, goal: int, ratio: int) -> _Points:
    """Spreads `ratio` points over each bin of boxes that begin at `start`, [R, 1]; for 0 about one per element."""
    bin_size = b.op("Div", size, single(b, goal))
    if ratio:
        count, steps = single(b, ratio), b.cast(b.counted(ratio), ir.DataType.FLOAT)
    else:
        count = b.op("Ceil", bin_size)
        most = b.op("Cast", b.op("ReduceMax", count, keepdims=0), to=int(ir.DataType.INT64))
        steps = b.op("Cast", b.op("Range", b.constant(0), most, b.constant(1)), to=int(ir.DataType.FLOAT))
    columns = b.constant([2])
    bins = counted_row(b, goal)
    first = b.op("Unsqueeze", b.op("Add", start, b.op("Mul", bin_size, bins)), columns)
    distance = b.op("Unsqueeze", b.op("Div", bin_size, count), columns)
    positions = b.op("Add", first, b.op("Mul", distance, b.op("Add", steps, single(b, 0.5))))
    used = None if ratio else b.op("Less", steps, b.op("Unsqueeze", count, columns))
    return _Points(positions, used, count)


def sampling_grid(b: Builder, rows: _Points, columns: _Points) -> tuple[_Points, _Points]:
    """Returns rows as [R, PH, 1, KH, 1] and columns as [R, 1, PW, 1, KW]."""
    return rows.moved(b, [2, 4]), columns.moved(b, [1, 3])


def pool_points(
    b: Builder, x: ir.Value, batch_indices: ir.Value, points: tuple[_Points, _Points], mode: Mode
) -> ir.Value:
    """Emits the mean of the points of each bin, or the largest or 0; points further than 1 outside count as zero."""
    image = Image.of(b, x)
    conditions = [point.used for point in points if point.used is not None]
    for point, size in zip(points, (image.height, image.width), strict=True):
        limit = b.op("Cast", size, to=int(ir.DataType.FLOAT))
        conditions.append(b.op("GreaterOrEqual", point.positions, single(b, -1.0)))
        conditions.append(b.op("LessOrEqual", point.positions, limit))
    inside = chained(b, "And", conditions)
    batch = b.op("Reshape", b.cast(batch_indices, ir.DataType.INT64), b.constant([-1, 1, 1, 1, 1]))
    values = interpolated(b, image, batch, points[0].positions, points[1].positions)
    kept = b.op("Where", b.op("Unsqueeze", inside, b.constant([5])), values, single(b, 0.0))
    channels = b.op("Transpose", kept, perm=[0, 5, 1, 2, 3, 4])
    axes = b.constant([4, 5])
    if mode == "max":
        return b.op("Max", b.op("ReduceMax", channels, axes, keepdims=0), single(b, 0.0))
    number = b.op("Mul", points[0].count, points[1].count)
    if points[0].used is not None:
        number = b.op("Unsqueeze", number, b.constant([2, 3]))
    return b.op("Div", b.op("ReduceSum", channels, axes, keepdims=0), number)
