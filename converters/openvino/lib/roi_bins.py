"""Bins of regions of interest, shared by ROIPooling and PSROIPooling."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.bilinear_sampling import Image, interpolated
from ortconv.converters.openvino.lib.compute_types import chained, in_single, single
from ortconv.converters.openvino.lib.sizes import numbers_below
from ortconv.graph.builder import Builder

__all__ = ["batch_indices_of", "elements_between", "last_position", "pool_until_end", "sampled_inside"]

_F32, _I32, _I64 = ir.DataType.FLOAT, ir.DataType.INT32, ir.DataType.INT64


def pool_until_end(
    b: Builder, pool: Callable[..., ir.Value], data: ir.Value, rois: ir.Value, *more: ir.Value | None
) -> ir.Value:
    """Pools the boxes before the first one with batch index -1, and returns zeros from there on.

    Proposal pads its boxes that way.
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


def batch_indices_of(b: Builder, owner: ir.Value, rank: int) -> ir.Value:
    """Returns the batch of each box, [R, 1, ...]."""
    return b.op("Reshape", b.op("Cast", owner, to=int(_I64)), b.constant([-1] + [1] * (rank - 1)))


def last_position(b: Builder, size: ir.Value) -> ir.Value:
    """Returns the last index of an axis as float32."""
    return b.op("Cast", b.op("Sub", size, b.constant([1])), to=int(_F32))


def sampled_inside(b: Builder, image: Image, owner: ir.Value, rows: ir.Value, columns: ir.Value) -> ir.Value:
    """Samples at rows [R, PH] and columns [R, PW], zero outside of the image, as [R, PH, PW, C]."""
    y, x = b.op("Unsqueeze", rows, b.constant([2])), b.op("Unsqueeze", columns, b.constant([1]))
    conditions = []
    for position, size in ((y, image.height), (x, image.width)):
        conditions.append(b.op("GreaterOrEqual", position, single(b, 0.0)))
        conditions.append(b.op("LessOrEqual", position, last_position(b, size)))
    inside = chained(b, "And", conditions)
    values = interpolated(b, image, owner, y, x)
    return b.op("Where", b.op("Unsqueeze", inside, b.constant([-1])), values, single(b, 0.0))


def elements_between(b: Builder, begin: ir.Value, stop: ir.Value, size: ir.Value) -> ir.Value:
    """Tells which elements of an axis lie from begin to stop, [R, goal, size]."""
    positions = b.op("Cast", numbers_below(b, size), to=int(_F32))
    column = b.constant([2])
    return b.op(
        "And",
        b.op("GreaterOrEqual", positions, b.op("Unsqueeze", begin, column)),
        b.op("Less", positions, b.op("Unsqueeze", stop, column)),
    )
