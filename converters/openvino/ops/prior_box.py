"""PriorBox and PriorBoxClustered: boxes around the center of each element of a feature map, and their variances.

Which boxes there are follows from the attributes alone; where they lie, from the sizes of the map and of the image.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.compute_types import INTEGERS, require, single
from ortconv.converters.openvino.lib.defaults import warn_of_default
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import UnsupportedAttributeError
from ortconv.graph.builder import Builder

Floats = tuple[float, ...]
_Box = tuple[float, float, float, float, bool]
"""A box: offset of the center in x and y, half of width and height, whether it is clipped to the image."""

_SAME_RATIO = 1e-6
_DEFAULT_VARIANCE = 0.1
_CORNERS = 4

_BOX_BYTES = 256
"""Bytes per box while the boxes are generated."""


@REGISTRY.lowering("PriorBox", without=["min_max_aspect_ratios_order"])
@REGISTRY.lowering("PriorBox", since=8)
def prior_box(
    b: Builder,
    output_size: ir.Value,
    image_size: ir.Value,
    /,
    *,
    offset: float,
    min_size: Floats = (),
    max_size: Floats = (),
    aspect_ratio: Floats = (),
    flip: bool = False,
    clip: bool = False,
    step: float = 0,
    variance: Floats = (),
    scale_all_sizes: bool = True,
    fixed_ratio: Floats = (),
    fixed_size: Floats = (),
    density: Floats = (),
    min_max_aspect_ratios_order: bool = True,
) -> ir.Value:
    """The boxes in corners, as a formula of Range and broadcasting, over their variances."""
    ratios = _ratios(aspect_ratio, flip)
    fixed = list(_fixed_boxes(b, ratios, fixed_ratio, fixed_size, density))
    sized = list(_sized_boxes(ratios, min_size, max_size, scale_all_sizes, ratios_last=min_max_aspect_ratios_order))
    if not fixed and not sized:
        raise UnsupportedAttributeError("min_size", None, "at least one number, or fixed_size")
    if fixed and sized:
        raise UnsupportedAttributeError(
            "min_size", len(sized), "no number beside fixed_size: OpenVINO reserves no room"
        )
    if not scale_all_sizes and any(box[2] for box in sized):
        raise UnsupportedAttributeError("max_size", len(sized), "no number without scale_all_sizes, as above")
    rows, columns, image_height, image_width = _sizes(b, output_size, image_size)
    if step == 0:
        strides = [b.op("Div", image_height, _real(b, rows)), b.op("Div", image_width, _real(b, columns))]
        offset = 0.5
    elif scale_all_sizes:
        strides = [single(b, step)] * 2
    elif step == -1:
        strides = [b.op("Div", image_height, _real(b, rows))] * 2
    else:
        strides = [b.op("Mul", image_height, single(b, step))] * 2
    centers = _centers(b, (rows, columns), strides, offset)
    halves = []
    for axis in (1, 0):
        plain = [box[2 + axis] for box in fixed]
        sizes = [box[axis] for box in sized]
        if scale_all_sizes or not sized:
            halves.append(b.constant(np.array(plain + sizes, np.float32)))
            continue
        # Sizes are fractions of the image's height; under a square root of two sizes, one of them is.
        root = b.op("Sqrt", image_height)
        is_root = b.constant(np.array([box[2] for box in sized]))
        scaled = b.op("Mul", b.constant(np.array(sizes, np.float32)), b.op("Where", is_root, root, image_height))
        halves.append(b.op("Concat", b.constant(np.array(plain, np.float32)), scaled, axis=0) if plain else scaled)
    if fixed:
        none = [0.0] * len(sized)
        moves = [b.constant(np.array([box[axis] for box in fixed] + none, np.float32)) for axis in (1, 0)]
        centers = [b.op("Add", center, move) for center, move in zip(centers, moves, strict=True)]
    corners = _corners(b, centers, halves, [image_height, image_width], divide=False)
    if clip:
        corners = _clipped(b, corners)
    elif fixed:
        inside = np.array([box[4] for box in fixed] + [False] * len(sized))[:, None]
        corner = np.array(range(_CORNERS))
        low = np.where(inside & (corner < 2), 0, -np.inf).astype(np.float32)
        high = np.where(inside & (corner >= 2), 1, np.inf).astype(np.float32)
        corners = b.op("Min", b.op("Max", corners, b.constant(low)), b.constant(high))
    return _with_variances(b, corners, variance)


@REGISTRY.lowering("PriorBoxClustered")
def prior_box_clustered(
    b: Builder,
    output_size: ir.Value,
    image_size: ir.Value,
    /,
    *,
    offset: float,
    width: Floats = (),
    height: Floats = (),
    clip: bool = False,
    step: float = 0,
    step_w: float = 0,
    step_h: float = 0,
    variance: Floats = (),
) -> ir.Value:
    """The boxes in corners, as a formula of Range and broadcasting, over their variances."""
    warn_of_default(b, "clip", False, "takes true")
    if len(width) != len(height) or not width:
        raise UnsupportedAttributeError("width", width, f"as many numbers as height has, {len(height)}, and at least 1")
    rows, columns, image_height, image_width = _sizes(b, output_size, image_size)
    steps = [step_h or step, step_w or step]
    if not any(steps):
        strides = [b.op("Div", image_height, _real(b, rows)), b.op("Div", image_width, _real(b, columns))]
    else:
        strides = [single(b, size) for size in steps]
    centers = _centers(b, (rows, columns), strides, offset)
    halves = [b.constant(np.array(sizes, np.float32) / np.float32(2)) for sizes in (height, width)]
    corners = _corners(b, centers, halves, [image_height, image_width], divide=True)
    return _with_variances(b, _clipped(b, corners) if clip else corners, variance)


def _ratios(given: Floats, flip: bool) -> list[float]:
    """Returns the aspect ratios without repetitions, 1 first."""
    if not all(0 < ratio < math.inf for ratio in given):
        raise UnsupportedAttributeError("aspect_ratio", given, "numbers above 0")
    ratios = [1.0]
    for ratio in given:
        if all(abs(ratio - other) >= _SAME_RATIO for other in ratios):
            ratios += [ratio, 1 / ratio] if flip else [ratio]
    return ratios


def _fixed_boxes(
    b: Builder, ratios: list[float], fixed_ratio: Floats, fixed_size: Floats, density: Floats
) -> Iterator[_Box]:
    """Yields the boxes of fixed sizes; each is repeated on a grid of density x density centers."""
    if fixed_ratio and fixed_size and len(fixed_ratio) != len(ratios):
        allowed = f"{len(ratios)}, as many as there are aspect ratios: OpenVINO reserves room for these"
        raise UnsupportedAttributeError("fixed_ratio", fixed_ratio, allowed)
    if len(density) < len(fixed_size):
        raise UnsupportedAttributeError("density", density, f"one number for each fixed_size, {len(fixed_size)}")
    for label, numbers in (("fixed_ratio", fixed_ratio), ("fixed_size", fixed_size), ("density", density)):
        if not all(0 < number < math.inf for number in numbers):
            raise UnsupportedAttributeError(label, numbers, "numbers above 0")
    for size, per_side in zip(fixed_size, density, strict=False):
        count = int(per_side)
        if count < 1:
            raise UnsupportedAttributeError("density", density, "numbers of at least 1")
        b.budget.require("density", density, count, count, len(fixed_ratio or ratios), _BOX_BYTES)
        shift = int(size / count)
        grid = [-int(size) / 2 + shift / 2 + place * shift for place in range(count)]
        shapes = fixed_ratio or [1.0, *(ratio for ratio in ratios if abs(ratio - 1) >= _SAME_RATIO)]
        for ratio in shapes:
            root = math.sqrt(ratio)
            side = size if fixed_ratio or root != 1 else int(size)
            for dy in grid:
                for dx in grid:
                    yield dx, dy, side * 0.5 * root, side * 0.5 / root, True


def _sized_boxes(
    ratios: list[float], min_size: Floats, max_size: Floats, every: bool, *, ratios_last: bool
) -> Iterator[tuple[float, float, bool]]:
    """Yields half of width and height of the boxes by min_size, and whether they are the square root of two sizes."""
    for label, numbers in (("min_size", min_size), ("max_size", max_size)):
        if not all(0 <= number < math.inf for number in numbers):
            raise UnsupportedAttributeError(label, numbers, "numbers of at least 0")
    if min_size and len(max_size) > len(min_size):
        raise UnsupportedAttributeError(
            "max_size", max_size, f"at most one number for each min_size, {len(min_size)}: OpenVINO leaves boxes unset"
        )
    for place, size in enumerate(min_size):
        yield size * 0.5, size * 0.5, False
        middle = [(math.sqrt(size * max_size[place]) * 0.5,) * 2] if place < len(max_size) else []
        shaped = []
        if every or place == len(min_size) - 1:
            base = size if every else min_size[0]
            roots = [math.sqrt(ratio) for ratio in ratios if abs(ratio - 1) >= _SAME_RATIO]
            shaped = [(base * 0.5 * root, base * 0.5 / root) for root in roots]
        for pair in middle if ratios_last else shaped:
            yield *pair, ratios_last
        for pair in shaped if ratios_last else middle:
            yield *pair, not ratios_last


def _real(b: Builder, value: ir.Value) -> ir.Value:
    return b.op("Cast", value, to=int(ir.DataType.FLOAT))


def _counted(b: Builder, count: ir.Value) -> ir.Value:
    """Returns 0, 1, ... as a column [count, 1] of float32."""
    scalar = b.op("Squeeze", count, b.constant([0]))
    numbers = b.op("Range", b.constant(0), scalar, b.constant(1))
    return _real(b, b.op("Unsqueeze", numbers, b.constant([1])))


def _sizes(b: Builder, output_size: ir.Value, image_size: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value, ir.Value]:
    """Returns rows and columns as int64, height and width as float32, each a vector of one entry."""
    require(output_size, "output_size", INTEGERS)
    require(image_size, "image_size", INTEGERS)
    rows, columns = b.op("Split", b.cast(output_size, ir.DataType.INT64), outputs=2, axis=0, num_outputs=2)
    height, width = b.op("Split", b.cast(image_size, ir.DataType.INT64), outputs=2, axis=0, num_outputs=2)
    return rows, columns, _real(b, height), _real(b, width)


def _centers(b: Builder, counts: Sequence[ir.Value], strides: Sequence[ir.Value], offset: float) -> list[ir.Value]:
    """Returns the centers of boxes along both axes, each as a column."""
    return [
        b.op("Mul", b.op("Add", _counted(b, count), single(b, offset)), stride)
        for count, stride in zip(counts, strides, strict=True)
    ]


def _corners(
    b: Builder, centers: Sequence[ir.Value], halves: Sequence[ir.Value], image: Sequence[ir.Value], *, divide: bool
) -> ir.Value:
    """Returns the corners [H, W, P, 4] of boxes, x first, in parts of the image.

    Args:
        b: The builder.
        centers: Rows [H, 1] or [H, P], and columns [W, 1] or [W, P].
        halves: Half of the heights, and of the widths, [P].
        image: Its height and width.
        divide: Divide by the image's size, instead of multiplying by its reciprocal.
    """
    edges = []
    shape = b.op("Concat", *[b.op("Shape", center, end=1) for center in centers], b.op("Shape", halves[0]), axis=0)
    for axis, (center, half, size) in enumerate(zip(centers, halves, image, strict=True)):
        for op in ("Sub", "Add"):
            edge = b.op(op, center, half)
            part = b.op("Div", edge, size) if divide else b.op("Mul", edge, b.op("Reciprocal", size))
            spread = b.op("Expand", b.op("Unsqueeze", part, b.constant([1 - axis])), shape)
            edges.append(b.op("Unsqueeze", spread, b.constant([3])))
    top, bottom, left, right = edges
    return b.op("Concat", left, top, right, bottom, axis=3)


def _clipped(b: Builder, corners: ir.Value) -> ir.Value:
    return b.op("Clip", corners, single(b, 0.0), single(b, 1.0))


def _with_variances(b: Builder, corners: ir.Value, variance: Floats) -> ir.Value:
    """Returns the boxes and, in a second row, the variances of their corners."""
    if len(variance) not in (0, 1, _CORNERS):
        raise UnsupportedAttributeError("variance", variance, f"none, 1 or {_CORNERS} numbers")
    numbers = np.broadcast_to(np.array(variance or (_DEFAULT_VARIANCE,), np.float32), _CORNERS)
    spread = b.op("Expand", b.constant(numbers), b.op("Shape", corners))
    flat = b.constant([1, -1])
    return b.op("Concat", b.op("Reshape", corners, flat), b.op("Reshape", spread, flat), axis=0)
