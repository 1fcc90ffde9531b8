"""Gathers and bilinear samples of images at computed positions."""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.compute_types import chained
from ortconv.graph.builder import Builder

__all__ = ["Image", "half_away", "interpolated"]


@dataclasses.dataclass(frozen=True)
class Image:
    """Images transposed to channels last for gathering.

    Attributes:
        elements: The elements as [N, H, W, C].
        height: H, as a vector of one entry.
        width: W, as a vector of one entry.
    """

    elements: ir.Value
    height: ir.Value
    width: ir.Value

    @classmethod
    def of(cls, b: Builder, data: ir.Value) -> Image:
        """Transposes images [N, C, H, W] for gathering."""
        height, width = (b.op("Shape", data, start=axis, end=axis + 1) for axis in (2, 3))
        return cls(b.op("Transpose", data, perm=[0, 2, 3, 1]), height, width)


def _picked(b: Builder, image: Image, *indices: ir.Value) -> ir.Value:
    """Emits the channels of elements.

    Args:
        b: The builder.
        image: The images.
        *indices: int64 batch, row and column, of shapes that broadcast to one, S.

    Returns:
        [*S, C].
    """
    zero = b.op("Mul", b.op("Add", b.op("Add", *indices[:2]), indices[2]), b.constant(0))
    columns = [b.op("Unsqueeze", b.op("Add", index, zero), b.constant([-1])) for index in indices]
    return b.op("GatherND", image.elements, b.op("Concat", *columns, axis=-1))


def interpolated(b: Builder, image: Image, batch: ir.Value, y: ir.Value, x: ir.Value) -> ir.Value:
    """Emits bilinear samples; points outside are moved to the nearest edge.

    Args:
        b: The builder.
        image: The images, of float32.
        batch: int64.
        y: float32 rows.
        x: float32 columns; the three broadcast to one shape, S.

    Returns:
        [*S, C].
    """
    low: list[ir.Value] = []
    high: list[ir.Value] = []
    parts: list[ir.Value] = []
    for position, size in ((y, image.height), (x, image.width)):
        last = b.op("Sub", size, b.constant([1]))
        edge = b.op("Cast", last, to=int(ir.DataType.FLOAT))
        held = b.op("Min", b.op("Max", position, b.constant(0, np.float32)), edge)
        floor = b.op("Floor", held)
        before = b.op("Cast", floor, to=int(ir.DataType.INT64))
        low.append(before)
        high.append(b.op("Min", b.op("Add", before, b.constant(1)), last))
        parts.append(b.op("Unsqueeze", b.op("Sub", held, floor), b.constant([-1])))
    one = b.constant(1, np.float32)
    rest = [b.op("Sub", one, part) for part in parts]
    terms = [
        b.op("Mul", b.op("Mul", weight_y, weight_x), _picked(b, image, batch, row, column))
        for row, weight_y in ((low[0], rest[0]), (high[0], parts[0]))
        for column, weight_x in ((low[1], rest[1]), (high[1], parts[1]))
    ]
    return chained(b, "Add", terms)


def half_away(b: Builder, x: ir.Value) -> ir.Value:
    """Rounds float32 to the nearest integer, half away from zero."""
    size = b.op("Floor", b.op("Add", b.op("Abs", x), b.constant(0.5, np.float32)))
    return b.op("Mul", b.op("Sign", x), size)
