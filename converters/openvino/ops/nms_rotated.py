"""NMSRotated: suppression of rotated boxes.

Overlaps are computed in float64, and again in the plugin's own arithmetic where that may decide otherwise: near the
threshold, for small boxes, and for boxes with parallel edges, whose overlap the plugin underestimates if they coincide.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.compute_types import FLOATS, require
from ortconv.converters.openvino.lib.constants import int64_vector, one_number
from ortconv.converters.openvino.lib.greedy_suppression import greedy
from ortconv.converters.openvino.lib.index_type import IndexType
from ortconv.converters.openvino.lib.selected_boxes import one_float, selected
from ortconv.converters.openvino.lib.sizes import require_sizes, size_of
from ortconv.converters.openvino.parity.polygon_overlap import corners, overlap
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import ConversionError
from ortconv.graph.builder import Builder

_F32, _F64 = ir.DataType.FLOAT, ir.DataType.DOUBLE
_COLUMNS = 8
"""Columns of a `_Boxes`."""
_NEAR, _SMALL, _PARALLEL = 0.01, 0.01, 1e-3
"""When an overlap is computed again: distance to the threshold, area of a box, and angle between edges."""


@dataclasses.dataclass(frozen=True)
class _Boxes:
    """Rotated boxes in float64: values of one shape; the area of an invalid box is 0."""

    x: ir.Value
    y: ir.Value
    half_width: ir.Value
    half_height: ir.Value
    cosine: ir.Value
    sine: ir.Value
    area: ir.Value
    radius: ir.Value


@REGISTRY.lowering("NMSRotated", since=13)
def nms_rotated(
    b: Builder,
    boxes: ir.Value,
    scores: ir.Value,
    max_output_boxes_per_class: ir.Value,
    iou_threshold: ir.Value,
    score_threshold: ir.Value,
    /,
    *,
    sort_result_descending: bool = True,
    output_type: IndexType = "i64",
    clockwise: bool = True,
) -> tuple[ir.Value, ...]:
    """A Loop that selects the best box of each class and drops those that it overlaps; rows are sorted by score."""
    require(boxes, "boxes", FLOATS)
    require_sizes(boxes, "boxes", None, None, 5)
    require_sizes(scores, "scores", size_of(b, boxes, 0), None, size_of(b, boxes, 1))
    most = one_number(b, max_output_boxes_per_class, "max_output_boxes_per_class")
    if most is not None and most < 0:
        raise ConversionError(f"input max_output_boxes_per_class = [{most:g}]; allowed: 0 or more.")
    b.follow("score_threshold: OpenVINO's CPU plugin requires greater scores; the specification allows equal ones")
    b.follow("overlaps: OpenVINO's CPU plugin underestimates overlaps of boxes with coinciding edges")
    each = b.cast(scores, _F32)
    lowest, threshold = one_float(b, score_threshold), one_float(b, iou_threshold)
    candidates = b.op("Where", b.op("Greater", each, lowest), each, b.constant(-np.inf, np.float32))
    places = b.cast(boxes, _F32)
    packed, exact = _prepared(b, places, clockwise), corners(b, places, clockwise)
    # [batch, 1, box] each.
    others = _unpacked(b, b.op("Transpose", packed, perm=[0, 2, 1]), 1)

    def suppressed(index: ir.Value) -> ir.Value:
        # [batch, class, 1] each.
        taken = _unpacked(b, b.op("GatherND", packed, index, batch_dims=1), 2)
        close = _close(b, taken, others)
        found = b.op("Cast", b.op("Where", close, _overlap(b, taken, others), _number(b, 0.0)), to=int(_F32))
        over = b.op("Greater", found, threshold)
        near = b.op("LessOrEqual", b.op("Abs", b.op("Sub", found, threshold)), b.constant(_NEAR, np.float32))
        small = b.op("Less", b.op("Min", taken.area, others.area), _number(b, _SMALL))
        unsure = b.op("And", close, b.op("Or", b.op("Or", near, small), _parallel(b, taken, others)))
        some = b.op(
            "Greater", b.op("ReduceMax", b.op("Cast", unsure, to=int(_F32)), keepdims=0), b.constant(0, np.float32)
        )
        with b.body() as again:
            corrected = again.graph([_computed_again(b, over, unsure, index, exact, threshold)])
        with b.body() as sure:
            same = sure.graph([over])
        return b.op("If", some, then_branch=corrected, else_branch=same)

    count = int64_vector(b, max_output_boxes_per_class)
    chosen, found = greedy(b, b.typed(candidates, _F32, scores.shape), count, suppressed)
    return selected(b, chosen, found, sort_result_descending, output_type)


def _number(b: Builder, number: float) -> ir.Value:
    return b.constant(number, np.float64)


def _computed_again(
    b: Builder, over: ir.Value, unsure: ir.Value, index: ir.Value, boxes: ir.Value, threshold: ir.Value
) -> ir.Value:
    """Emits which boxes are suppressed; uncertain ones are computed in the plugin's arithmetic."""
    pairs = b.op("Transpose", b.op("NonZero", unsure), perm=[1, 0])
    batch, class_, box = b.op("Split", pairs, outputs=3, axis=1, num_outputs=3)
    taken = b.op("GatherND", index, b.op("Concat", batch, class_, axis=1))
    candidate, other = (b.op("GatherND", boxes, b.op("Concat", batch, place, axis=1)) for place in (box, taken))
    return b.op("ScatterND", over, pairs, b.op("Greater", overlap(b, candidate, other), threshold))


def _close(b: Builder, first: _Boxes, second: _Boxes) -> ir.Value:
    """Tells which boxes have intersecting circumscribed circles."""
    offsets = (b.op("Sub", second.x, first.x), b.op("Sub", second.y, first.y))
    squares = [b.op("Mul", value, value) for value in (*offsets, b.op("Add", first.radius, second.radius))]
    return b.op("LessOrEqual", b.op("Add", *squares[:2]), squares[2])


def _parallel(b: Builder, first: _Boxes, second: _Boxes) -> ir.Value:
    """Tells which boxes have parallel edges."""
    turns = (
        _turned(b, "Add", (first.cosine, second.cosine), (first.sine, second.sine)),
        _turned(b, "Sub", (first.cosine, second.sine), (first.sine, second.cosine)),
    )
    return b.op("Less", b.op("Min", *(b.op("Abs", turn) for turn in turns)), _number(b, _PARALLEL))


def _prepared(b: Builder, boxes: ir.Value, clockwise: bool) -> ir.Value:
    """Returns the columns of `_Boxes`, [batch, box, column]."""
    x, y, width, height, angle = b.op("Split", b.op("Cast", boxes, to=int(_F64)), outputs=5, axis=2, num_outputs=5)
    turned = angle if clockwise else b.op("Neg", angle)
    halves = [b.op("Mul", b.op("Abs", size), _number(b, 0.5)) for size in (width, height)]
    area = b.op("Max", b.op("Mul", width, height), _number(b, 0.0))
    # A little more than half of the diagonal, since corners are rounded.
    radius = b.op("Mul", b.op("Add", *halves), _number(b, 1.001))
    return b.op("Concat", x, y, *halves, b.op("Cos", turned), b.op("Sin", turned), area, radius, axis=2)


def _unpacked(b: Builder, packed: ir.Value, axis: int) -> _Boxes:
    return _Boxes(*b.op("Split", packed, outputs=_COLUMNS, axis=axis, num_outputs=_COLUMNS))


def _overlap(b: Builder, first: _Boxes, second: _Boxes) -> ir.Value:
    """Emits the intersection over union, 0 where a box has no area."""
    common = _intersection(b, first, second)
    union = b.op("Sub", b.op("Add", first.area, second.area), common)
    smaller, zero = b.op("Min", first.area, second.area), _number(b, 0.0)
    return b.op("Where", b.op("Greater", smaller, zero), b.op("Div", common, union), zero)


def _intersection(b: Builder, first: _Boxes, second: _Boxes) -> ir.Value:
    """Emits the area that boxes have in common.

    Where the first box lies along the axes, around the origin, that area is the integral of x along the part of the
    second box's outline whose y is inside, with x held inside. Unlike corners of the intersection, this stays right
    where edges lie on each other.
    """
    right, up = b.op("Sub", second.x, first.x), b.op("Sub", second.y, first.y)
    x = _turned(b, "Add", (right, first.cosine), (up, first.sine))
    y = _turned(b, "Sub", (up, first.cosine), (right, first.sine))
    cosine = _turned(b, "Add", (first.cosine, second.cosine), (first.sine, second.sine))
    sine = _turned(b, "Sub", (first.cosine, second.sine), (first.sine, second.cosine))
    behind = b.constant([-1])

    def corners(center: ir.Value, along: ir.Value, across: ir.Value) -> ir.Value:
        widths, heights = b.constant([1, -1, -1, 1], np.float64), b.constant([1, 1, -1, -1], np.float64)
        parts = [
            b.op("Mul", b.op("Unsqueeze", part, behind), signs) for part, signs in ((along, widths), (across, heights))
        ]
        return b.op("Add", b.op("Unsqueeze", center, behind), b.op("Add", *parts))

    xs = corners(x, b.op("Mul", cosine, second.half_width), b.op("Neg", b.op("Mul", sine, second.half_height)))
    ys = corners(y, b.op("Mul", sine, second.half_width), b.op("Mul", cosine, second.half_height))
    next_ = b.constant([1, 2, 3, 0])
    end_xs, end_ys = b.op("Gather", xs, next_, axis=-1), b.op("Gather", ys, next_, axis=-1)
    wide, high = b.op("Unsqueeze", first.half_width, behind), b.op("Unsqueeze", first.half_height, behind)
    heights = [_held(b, value, high) for value in (ys, end_ys)]
    climb = b.op("Sub", end_ys, ys)
    level = b.op("Equal", climb, _number(b, 0.0))
    slope = b.op("Div", b.op("Sub", end_xs, xs), b.op("Where", level, _number(b, 1.0), climb))
    start, end = (b.op("Add", xs, b.op("Mul", b.op("Sub", held, ys), slope)) for held in heights)
    parts = b.op("Mul", _mean_held(b, start, end, wide), b.op("Sub", heights[1], heights[0]))
    return b.op("ReduceSum", parts, behind, keepdims=0)


def _turned(b: Builder, op_type: str, one: tuple[ir.Value, ir.Value], other: tuple[ir.Value, ir.Value]) -> ir.Value:
    return b.op(op_type, b.op("Mul", *one), b.op("Mul", *other))


def _held(b: Builder, value: ir.Value, limit: ir.Value) -> ir.Value:
    """Clips values to [-limit, limit]."""
    return b.op("Max", b.op("Min", value, limit), b.op("Neg", limit))


def _mean_held(b: Builder, start: ir.Value, end: ir.Value, limit: ir.Value) -> ir.Value:
    """Emits the mean of a value that goes linearly from start to end, clipped to [-limit, limit]."""
    zero = _number(b, 0.0)
    low, high = b.op("Min", start, end), b.op("Max", start, end)
    low_held, high_held = _held(b, low, limit), _held(b, high, limit)
    whole = b.op("Sub", high, low)
    inside = b.op("Sub", high_held, low_held)
    middle = b.op("Mul", b.op("Add", low_held, high_held), _number(b, 0.5))
    # The parts outside count as -limit and limit.
    above = b.op("Max", b.op("Sub", high, b.op("Max", low, limit)), zero)
    below = b.op("Max", b.op("Sub", b.op("Min", high, b.op("Neg", limit)), low), zero)
    outside = b.op("Mul", limit, b.op("Sub", above, below))
    moves = b.op("Greater", whole, zero)
    mean = b.op("Div", b.op("Add", b.op("Mul", middle, inside), outside), b.op("Where", moves, whole, _number(b, 1.0)))
    return b.op("Where", moves, mean, low_held)
