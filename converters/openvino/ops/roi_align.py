"""ROIAlign and ROIAlignRotated: boxes of an image pooled to a fixed size by bilinear sampling."""

from __future__ import annotations

import dataclasses
from typing import Literal

import onnx_ir as ir

from ortconv.converters.openvino.lib.compute_types import FLOATS, in_single, require, single
from ortconv.converters.openvino.lib.roi_sampling import (
    LAST_OPSET,
    Mode,
    pool_points,
    sampling_grid,
    sampling_points,
    split_columns,
)
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import UnsupportedAttributeError
from ortconv.graph.builder import Builder

AlignedMode = Literal["asymmetric", "half_pixel_for_nn", "half_pixel"]


@REGISTRY.lowering("ROIAlign", since=3, how="composed", without=["aligned_mode"])
@REGISTRY.lowering("ROIAlign", since=9, how="composed")
def roi_align(
    b: Builder,
    data: ir.Value,
    rois: ir.Value,
    batch_indices: ir.Value,
    /,
    *,
    pooled_h: int,
    pooled_w: int,
    spatial_scale: float,
    sampling_ratio: int = 0,
    mode: Mode = "avg",
    aligned_mode: AlignedMode = "asymmetric",
) -> ir.Value:
    """RoiAlign; for max the formula over gathered elements."""
    require(data, "data", FLOATS)
    _require_points(sampling_ratio)
    shift = 0.0 if aligned_mode == "asymmetric" else -0.5

    def boxes_of(boxes: ir.Value) -> ir.Value:
        return b.op("Add", boxes, single(b, 0.5)) if aligned_mode == "half_pixel" else boxes

    def average(x: ir.Value, boxes: ir.Value) -> ir.Value:
        return b.op(
            "RoiAlign",
            x,
            boxes_of(boxes),
            b.cast(batch_indices, ir.DataType.INT64),
            coordinate_transformation_mode="half_pixel" if shift else "output_half_pixel",
            mode="avg",
            output_height=pooled_h,
            output_width=pooled_w,
            sampling_ratio=sampling_ratio,
            spatial_scale=spatial_scale,
        )

    def composed(x: ir.Value, boxes: ir.Value) -> ir.Value:
        moved = b.op("Add", b.op("Mul", boxes_of(boxes), single(b, spatial_scale)), single(b, shift))
        left, top, right, bottom = split_columns(b, moved, 4)
        axes = []
        for start, end, goal in ((top, bottom, pooled_h), (left, right, pooled_w)):
            size = b.op("Sub", end, start)
            size = size if shift else b.op("Max", size, single(b, 1.0))
            axes.append(sampling_points(b, start, size, goal, sampling_ratio))
        return pool_points(b, x, batch_indices, sampling_grid(b, *axes), mode)

    return in_single(b, average if mode == "avg" and b.options.opset <= LAST_OPSET else composed, data, rois)


@REGISTRY.lowering("ROIAlignRotated", since=15)
def roi_align_rotated(
    b: Builder,
    data: ir.Value,
    rois: ir.Value,
    batch_indices: ir.Value,
    /,
    *,
    pooled_h: int,
    pooled_w: int,
    spatial_scale: float,
    sampling_ratio: int = 0,
    clockwise_mode: bool = False,
) -> ir.Value:
    """The mean of samples gathered at the points of rotated boxes."""
    require(data, "data", FLOATS)
    _require_points(sampling_ratio)

    def formula(x: ir.Value, boxes: ir.Value) -> ir.Value:
        center_x, center_y, width, height, angle = split_columns(b, boxes, 5)
        scale, half = single(b, spatial_scale), single(b, 0.5)
        sizes = [b.op("Mul", size, scale) for size in (height, width)]
        goals = (pooled_h, pooled_w)
        rows, columns = (
            sampling_points(b, b.op("Mul", size, single(b, -0.5)), size, goal, sampling_ratio)
            for size, goal in zip(sizes, goals, strict=True)
        )
        y, column = sampling_grid(b, rows, columns)
        turned = b.op("Neg", angle) if clockwise_mode else angle
        cosine, sine = (b.op("Unsqueeze", b.op(op, turned), b.constant([2, 3, 4])) for op in ("Cos", "Sin"))
        centers = [
            b.op("Unsqueeze", b.op("Sub", b.op("Mul", center, scale), half), b.constant([2, 3, 4]))
            for center in (center_y, center_x)
        ]
        turned_y = b.op("Sub", b.op("Mul", y.positions, cosine), b.op("Mul", column.positions, sine))
        turned_x = b.op("Add", b.op("Mul", y.positions, sine), b.op("Mul", column.positions, cosine))
        points = (
            dataclasses.replace(y, positions=b.op("Add", turned_y, centers[0])),
            dataclasses.replace(column, positions=b.op("Add", turned_x, centers[1])),
        )
        return pool_points(b, x, batch_indices, points, "avg")

    return in_single(b, formula, data, rois)


def _require_points(ratio: int) -> None:
    if ratio < 0:
        hint = "OpenVINO's CPU plugin samples no points then; 0 adapts the number of points to the box."
        raise UnsupportedAttributeError("sampling_ratio", ratio, "0 or a positive number", hint=hint)
