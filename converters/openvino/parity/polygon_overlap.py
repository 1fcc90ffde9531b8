"""The overlap of rotated boxes in the arithmetic of OpenVINO's CPU plugin, step by step in float32.

The plugin collects the intersections of edges and the corners inside of the other box, computes their convex hull
and sums triangles. Its tolerances and the order of its sort decide where points are nearly equal; all of that is
repeated here, except for more than 17 points (coinciding edges), where the plugin's sort starts differently.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.compute_types import single
from ortconv.converters.openvino.lib.loops import iteration
from ortconv.graph.builder import Builder

__all__ = ["ENTRIES", "corners", "overlap"]

_F32, _F64, _I64 = ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.INT64
_POINTS = 24
"""4 by 4 intersections of edges, and 4 corners of each box."""
_PARALLEL, _IN_LINE, _SAME = 1e-14, 1e-6, 1e-8
"""The plugin's tolerances: for edges without a crossing, for points in one direction, and for a squared distance."""

ENTRIES = 9
"""Entries that describe a box: x and y of its corners, and its area."""


@dataclasses.dataclass(frozen=True)
class _Vectors:
    """x and y of points, of one shape."""

    x: ir.Value
    y: ir.Value

    def minus(self, b: Builder, other: _Vectors) -> _Vectors:
        return _Vectors(b.op("Sub", self.x, other.x), b.op("Sub", self.y, other.y))

    def picked(self, b: Builder, index: ir.Value) -> _Vectors:
        """Returns the points of each row at [row, place]."""
        return _Vectors(*(b.op("GatherElements", part, index, axis=1) for part in (self.x, self.y)))

    def widened(self, b: Builder, axis: int) -> _Vectors:
        return _Vectors(*(b.op("Unsqueeze", part, b.constant([axis])) for part in (self.x, self.y)))


def _cross(b: Builder, one: _Vectors, other: _Vectors) -> ir.Value:
    return b.op("Sub", b.op("Mul", one.x, other.y), b.op("Mul", other.x, one.y))


def _dot(b: Builder, one: _Vectors, other: _Vectors) -> ir.Value:
    return b.op("Add", b.op("Mul", one.x, other.x), b.op("Mul", one.y, other.y))


def _slots(b: Builder) -> ir.Value:
    return b.constant([list(range(_POINTS))])


def corners(b: Builder, boxes: ir.Value, clockwise: bool) -> ir.Value:
    """Emits corners and area of boxes.

    Args:
        b: The builder.
        boxes: float32 center, width, height and angle, [batch, box, 5].
        clockwise: The direction of rotation.

    Returns:
        [batch, box, `ENTRIES`].
    """
    x, y, width, height, angle = b.op("Split", boxes, outputs=5, axis=2, num_outputs=5)
    turned = b.op("Cast", angle if clockwise else b.op("Neg", angle), to=int(_F64))
    half, two = single(b, 0.5), single(b, 2.0)
    # Rounded once, as the C library's float functions nearly always do.
    cosine, sine = (b.op("Mul", b.op("Cast", b.op(op, turned), to=int(_F32)), half) for op in ("Cos", "Sin"))
    up, across = (
        (b.op("Mul", sine, height), b.op("Mul", cosine, width)),
        (b.op("Mul", cosine, height), b.op("Mul", sine, width)),
    )
    xs = [b.op("Sub", b.op(op, x, up[0]), up[1]) for op in ("Sub", "Add")]
    ys = [b.op("Sub", b.op(op, y, across[0]), across[1]) for op in ("Add", "Sub")]
    xs += [b.op("Sub", b.op("Mul", two, x), corner) for corner in xs]
    ys += [b.op("Sub", b.op("Mul", two, y), corner) for corner in ys]
    return b.op("Concat", *xs, *ys, b.op("Mul", width, height), axis=2)


def overlap(b: Builder, first: ir.Value, second: ir.Value) -> ir.Value:
    """Emits the intersection over union of pairs of boxes, [pair]; 0 where one has no area.

    Args:
        b: The builder.
        first: Boxes as `corners` describes them, [pair, `ENTRIES`].
        second: The other box of each pair.
    """
    sizes = b.constant([4, 4, 1])
    parts = [b.op("Split", boxes, sizes, outputs=3, axis=1) for boxes in (first, second)]
    common = _common(b, *(_Vectors(x, y) for x, y, _ in parts))
    areas = [b.op("Squeeze", area, b.constant([1])) for _, _, area in parts]
    union = b.op("Sub", b.op("Add", *areas), common)
    zero = single(b, 0.0)
    return b.op("Where", b.op("Greater", b.op("Min", *areas), zero), b.op("Div", common, union), zero)


def _common(b: Builder, first: _Vectors, second: _Vectors) -> ir.Value:
    """Emits the intersection area of pairs of boxes, [pair]."""
    points, count = _collected(b, first, second)
    points = _around(b, points, count)
    points = _sorted(b, points, count)
    points, length = _hull(b, points, count)
    here, following = (_column_range(b, points, bounds) for bounds in ((0, -1), (1, _POINTS)))
    parts = b.op("Abs", _cross(b, here, following))
    places = b.constant([list(range(_POINTS - 1))])
    inside = b.op(
        "And", b.op("Greater", places, b.constant(0)), b.op("Less", places, b.op("Sub", length, b.constant(1)))
    )
    zero = single(b, 0.0)
    # Summed one after the other, as in the plugin.
    sums = b.op("CumSum", b.op("Where", inside, parts, zero), b.constant(1))
    total = b.op("Slice", sums, b.constant([-1]), b.constant([_POINTS]), b.constant([1]))
    area = b.op("Mul", total, single(b, 0.5))
    enough = b.op("Greater", count, b.constant(2))
    return b.op("Squeeze", b.op("Where", enough, area, zero), b.constant([1]))


def _column_range(b: Builder, points: _Vectors, bounds: tuple[int, int]) -> _Vectors:
    start, stop, axis = b.constant([bounds[0]]), b.constant([bounds[1]]), b.constant([1])
    return _Vectors(*(b.op("Slice", part, start, stop, axis) for part in (points.x, points.y)))


def _collected(b: Builder, first: _Vectors, second: _Vectors) -> tuple[_Vectors, ir.Value]:
    """Emits the candidate corners of the intersection, [pair, 24], and their number, [pair, 1]."""
    turn = b.constant([1, 2, 3, 0])
    edges = []
    for box in (first, second):
        following = _Vectors(*(b.op("Gather", part, turn, axis=1) for part in (box.x, box.y)))
        edges.append(following.minus(b, box))
    start, edge = first.widened(b, 2), edges[0].widened(b, 2)
    other_start, other_edge = second.widened(b, 1), edges[1].widened(b, 1)
    zero, one = single(b, 0.0), single(b, 1.0)
    slope = _cross(b, other_edge, edge)
    between = other_start.minus(b, start)
    along = b.op("Div", _cross(b, other_edge, between), slope)
    other_along = b.op("Div", _cross(b, edge, between), slope)
    met = b.op("Greater", b.op("Abs", slope), single(b, _PARALLEL))
    for part in (along, other_along):
        met = b.op("And", met, b.op("And", b.op("GreaterOrEqual", part, zero), b.op("LessOrEqual", part, one)))
    crossing = (b.op("Add", start.x, b.op("Mul", edge.x, along)), b.op("Add", start.y, b.op("Mul", edge.y, along)))
    row = b.constant([0, _POINTS - 8])
    xs, ys = (b.op("Reshape", part, row) for part in crossing)
    found = b.op(
        "Concat",
        b.op("Reshape", met, row),
        _within(b, first, second, edges[1]),
        _within(b, second, first, edges[0]),
        axis=1,
    )
    points = [
        b.op("Where", found, b.op("Concat", *parts, axis=1), zero)
        for parts in ((xs, first.x, second.x), (ys, first.y, second.y))
    ]
    whole = b.op("Cast", found, to=int(_I64))
    # Valid points first, in order.
    keys = b.op("Sub", b.op("Mul", whole, b.constant(_POINTS)), _slots(b))
    _, order = b.op("TopK", keys, b.constant([_POINTS]), outputs=2, axis=1)
    return _Vectors(*points).picked(b, order), b.op("ReduceSum", whole, b.constant([1]), keepdims=1)


def _within(b: Builder, points: _Vectors, box: _Vectors, edges: _Vectors) -> ir.Value:
    """Tells which points are in the other box of their pair, [pair, 4]."""
    away = points.minus(b, _column_range(b, box, (0, 1)))
    along, back = (_column_range(b, edges, bounds) for bounds in ((0, 1), (3, 4)))
    conditions = []
    for edge, reach in ((along, _dot(b, away, along)), (back, b.op("Neg", _dot(b, away, back)))):
        conditions.append(b.op("GreaterOrEqual", reach, single(b, 0.0)))
        conditions.append(b.op("LessOrEqual", reach, _dot(b, edge, edge)))
    return b.op("And", b.op("And", *conditions[:2]), b.op("And", *conditions[2:]))


def _around(b: Builder, points: _Vectors, count: ir.Value) -> _Vectors:
    """Emits the points relative to the one with the lowest y, then x, which is swapped to the front."""
    slots, far, last = _slots(b), single(b, np.inf), b.constant([1])
    able = b.op("Less", slots, count)
    for part in (points.y, points.x):
        values = b.op("Where", able, part, far)
        able = b.op("And", able, b.op("Equal", values, b.op("ReduceMin", values, last, keepdims=1)))
    start = b.op("ArgMax", b.op("Cast", able, to=int(_I64)), axis=1, keepdims=1)
    zero = b.constant(0)
    seen = points.minus(b, points.picked(b, start))
    moved = b.op("Where", b.op("Equal", slots, start), zero, slots)
    return seen.picked(b, b.op("Where", b.op("Equal", slots, zero), start, moved))


def _sorted(b: Builder, points: _Vectors, count: ir.Value) -> _Vectors:
    """Sorts the points after the first by direction, and by distance if directions are nearly equal.

    The plugin's comparison is not a strict order for nearly equal directions, so that the steps of the sort
    matter: it is an insertion sort.
    """
    slots, one = _slots(b), b.constant(1)
    most = b.op("ReduceMax", count, keepdims=0)
    trips = b.op("Max", b.op("Sub", most, b.constant(2)), b.constant(0))
    with b.body() as body:
        step = iteration(body)
        current = _Vectors(body.input("x", _F32, [None, _POINTS]), body.input("y", _F32, [None, _POINTS]))
        place = b.op("Add", step, b.constant(2))
        index = b.op("Add", b.op("Mul", count, b.constant(0)), place)
        own = current.picked(b, index)
        turn = _cross(b, own, current)
        nearer = b.op("Less", _dot(b, own, own), _dot(b, current, current))
        in_line = b.op("Less", b.op("Abs", turn), single(b, _IN_LINE))
        left = b.op("And", b.op("Not", in_line), b.op("Greater", turn, single(b, 0.0)))
        before = b.op("Or", b.op("And", in_line, nearer), left)
        behind = b.op("And", b.op("Not", before), b.op("Less", slots, place))
        last = b.op("ReduceMax", b.op("Where", behind, slots, b.constant(0)), b.constant([1]), keepdims=1)
        foremost = b.op("Slice", before, b.constant([1]), b.constant([2]), b.constant([1]))
        goal = b.op("Where", foremost, one, b.op("Add", last, one))
        goal = b.op("Where", b.op("Less", index, count), goal, index)
        passed = b.op("And", b.op("Greater", slots, goal), b.op("LessOrEqual", slots, place))
        source = b.op("Where", passed, b.op("Sub", slots, one), slots)
        moved = current.picked(b, b.op("Where", b.op("Equal", slots, goal), place, source))
        graph = body.graph([b.constant(True), moved.x, moved.y])
    return _Vectors(*b.op("Loop", trips, b.constant(True), points.x, points.y, outputs=2, body=graph))


def _hull(b: Builder, points: _Vectors, count: ir.Value) -> tuple[_Vectors, ir.Value]:
    """Emits the corners of the convex hull first, and their number, [pair, 1].

    For each point, corners are popped while the point is not to the left of the last edge.
    """
    slots, one, two = _slots(b), b.constant(1), b.constant(2)
    able = b.op("And", b.op("Greater", slots, b.constant(0)), b.op("Less", slots, count))
    away = b.op("And", able, b.op("Greater", _dot(b, points, points), single(b, _SAME)))
    found = b.op("Cast", away, to=int(_I64))
    second = b.op("ArgMax", found, axis=1, keepdims=1)
    some = b.op("ReduceMax", found, b.constant([1]), keepdims=1)
    points = points.picked(b, b.op("Where", b.op("Equal", slots, one), second, slots))
    start, length = b.op("Add", second, one), b.op("Add", some, one)
    # Coinciding points end the hull.
    limit = b.op("Mul", count, some)
    flags = b.op("Less", start, limit)
    with b.body() as body:
        iteration(body)
        place, kept = body.input("place", _I64, [None, 1]), body.input("length", _I64, [None, 1])
        current = _Vectors(body.input("x", _F32, [None, _POINTS]), body.input("y", _F32, [None, _POINTS]))
        active = b.op("Less", place, limit)
        own = current.picked(b, b.op("Min", place, b.constant(_POINTS - 1)))
        last = current.picked(b, b.op("Sub", kept, one))
        base = current.picked(b, b.op("Max", b.op("Sub", kept, two), b.constant(0)))
        turn = _cross(b, own.minus(b, base), last.minus(b, base))
        bent = b.op("And", b.op("Greater", kept, one), b.op("GreaterOrEqual", turn, single(b, 0.0)))
        drops, takes = b.op("And", active, bent), b.op("And", active, b.op("Not", bent))
        dropped, taken = (b.op("Cast", flag, to=int(_I64)) for flag in (drops, takes))
        here = b.op("And", takes, b.op("Equal", slots, kept))
        new = [b.op("Where", here, *parts) for parts in ((own.x, current.x), (own.y, current.y))]
        after = b.op("Add", place, taken)
        size = b.op("Sub", b.op("Add", kept, taken), dropped)
        graph = body.graph([_any(b, b.op("Less", after, limit)), after, size, *new])
    _, length, *found_points = b.op(
        "Loop", None, _any(b, flags), start, length, points.x, points.y, outputs=4, body=graph
    )
    return _Vectors(*found_points), length


def _any(b: Builder, flags: ir.Value) -> ir.Value:
    return b.op("Greater", b.op("ReduceMax", b.op("Cast", flags, to=int(_I64)), keepdims=0), b.constant(0))
