"""Selection of region proposals: the best boxes of each image after suppression, and rows made of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.sizes import Size, at_most, calculate, counted, joined, size_of
from ortconv.converters.openvino.parity.ordered_suppression import unsuppressed
from ortconv.converters.openvino.parity.partial_sort import partly_sorted
from ortconv.errors import UnsupportedAttributeError
from ortconv.graph.builder import Builder

__all__ = ["Chosen", "Limits", "choose", "closed", "filled", "places"]

_BOOL, _F32, _I64 = ir.DataType.BOOL, ir.DataType.FLOAT, ir.DataType.INT64
_ALL = 2**31
"""A limit that no number of boxes reaches."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """Limits of the selection.

    Attributes:
        before: The number of best boxes of each image that are considered.
        after: The largest number of boxes selected per image.
        overlap: IoU above which a box is suppressed.
        extra: Added to the distance of two corners for the length of a side, 0 or 1.
    """

    before: int
    after: int
    overlap: float
    extra: int

    @classmethod
    def of(cls, names: tuple[str, str, str], before: int, after: int, overlap: float, extra: int) -> Limits:
        """Checks the attributes.

        Args:
            names: How the source names the first three.
            before: See `Limits`; -1 for all of them.
            after: See `Limits`.
            overlap: See `Limits`.
            extra: See `Limits`.

        Raises:
            UnsupportedAttributeError: One is out of range.
        """
        if before < -1:
            raise UnsupportedAttributeError(names[0], before, "-1, 0 or a positive number")
        if after < 1:
            raise UnsupportedAttributeError(names[1], after, "a positive number")
        if not overlap >= 0:
            raise UnsupportedAttributeError(names[2], overlap, "0 or a positive number")
        return cls(_ALL if before == -1 else before, after, overlap, extra)


@dataclasses.dataclass(frozen=True)
class Chosen:
    """The selected boxes, ordered by image and score.

    Attributes:
        image: int64 [R].
        place: int64 [R], the index of the box within its image.
        boxes: [R, 4].
        scores: [R].
        numbers: The number of boxes of each image, int64 [N].
    """

    image: ir.Value
    place: ir.Value
    boxes: ir.Value
    scores: ir.Value
    numbers: ir.Value


def choose(b: Builder, boxes: ir.Value, scores: ir.Value, candidates: ir.Value | None, limits: Limits) -> Chosen:
    """Emits the best boxes of each image after suppression.

    Args:
        b: The builder.
        boxes: Corners, [N, P, 4].
        scores: [N, P].
        candidates: Boxes that take part, bool [N, P]; None for all.
        limits: Limits of the selection.
    """
    size = size_of(b, boxes, 1)
    count, looked = (at_most(b, size, most) for most in (limits.before, limits.before + 1))
    best, looked_at = b.op("TopK", scores, joined(b, [looked]), outputs=2, axis=1)
    order = b.op("Slice", looked_at, b.constant([0]), joined(b, [count]), b.constant([1]))
    kept = _kept(b, boxes, candidates, order, limits)
    with b.body() as slow:
        sorted_ = partly_sorted(b, scores, b.op("Squeeze", joined(b, [count]), b.constant([0])))
        as_there = slow.graph([sorted_, _kept(b, boxes, candidates, sorted_, limits)])
    with b.body() as fast:
        as_found = fast.graph([order, kept])
    open_ = _open(b, best, kept, limits.after)
    order, kept = b.op("If", open_, outputs=2, then_branch=as_there, else_branch=as_found)
    b.typed(order, _I64, [None, None])
    b.typed(kept, _BOOL, [None, None])
    return _gathered(b, boxes, scores, order, kept)


def _kept(b: Builder, boxes: ir.Value, candidates: ir.Value | None, order: ir.Value, limits: Limits) -> ir.Value:
    """Emits which boxes of an order remain."""
    index = b.op("Unsqueeze", order, b.constant([2]))
    sorted_ = b.typed(b.op("GatherND", boxes, index, batch_dims=1), _F32, [None, None, 4])
    able = None if candidates is None else b.op("GatherElements", candidates, order, axis=1)
    return unsuppressed(b, sorted_, able, limits.after, limits.overlap, limits.extra)


def _open(b: Builder, best: ir.Value, kept: ir.Value, most: int) -> ir.Value:
    """Tells whether the result may depend on the order of equal scores.

    It does not if no scores are equal up to the last selected box, provided that the limit is reached.
    """
    first, last = b.constant([0]), b.constant([-1])
    one, end = b.constant([1]), b.constant([np.iinfo(np.int64).max])
    equal = b.op("Equal", b.op("Slice", best, first, last, one), b.op("Slice", best, one, end, one))
    numbers = b.op("CumSum", b.op("Cast", kept, to=int(_I64)), b.constant(1))
    # Up to the last selected box, fewer than the limit come before.
    width = b.op("Shape", equal, start=1, end=2)
    before = b.op("Sub", numbers, b.op("Cast", kept, to=int(_I64)))
    reached = b.op("Slice", b.op("Less", before, b.constant(most)), first, width, one)
    ties = b.op("Cast", b.op("And", equal, reached), to=int(_F32))
    return b.op("Greater", b.op("ReduceSum", ties, keepdims=0), b.constant(0, np.float32))


def _gathered(b: Builder, boxes: ir.Value, scores: ir.Value, order: ir.Value, kept: ir.Value) -> Chosen:
    marks = b.op("Cast", kept, to=int(_I64))
    rows = b.op("Transpose", b.op("NonZero", kept), perm=[1, 0])
    image = b.op("Squeeze", b.op("Slice", rows, b.constant([0]), b.constant([1]), b.constant([1])), b.constant([1]))
    index = b.op("GatherND", order, rows)
    pairs = b.op("Concat", b.op("Unsqueeze", image, b.constant([1])), b.op("Unsqueeze", index, b.constant([1])), axis=1)
    running = b.op("GatherND", b.op("CumSum", marks, b.constant(1)), rows)
    return Chosen(
        image,
        b.op("Sub", running, b.constant(1)),
        b.op("GatherND", boxes, pairs),
        b.op("GatherND", scores, pairs),
        b.typed(b.op("ReduceSum", marks, b.constant([1]), keepdims=0), _I64, [None]),
    )


def places(b: Builder, chosen: Chosen, each: int) -> ir.Value:
    """Returns the row of each box if every image has `each` rows, [R, 1]."""
    numbers = b.op("Add", b.op("Mul", chosen.image, b.constant(each)), chosen.place)
    return b.op("Unsqueeze", numbers, b.constant([1]))


def filled(b: Builder, rows: ir.Value, at: ir.Value, sizes: Sequence[Size]) -> ir.Value:
    """Scatters rows to their positions, with zeros elsewhere."""
    nothing = b.op("Expand", b.constant(0, np.float32), joined(b, sizes))
    known = [size if isinstance(size, int) else None for size in sizes]
    return b.typed(b.op("ScatterND", nothing, at, rows), _F32, known)


def closed(b: Builder, rows: ir.Value, chosen: Chosen, images: Size, each: int) -> ir.Value:
    """Scatters the rows of each image, followed by a row that begins with -1, and zeros."""
    boxes = filled(b, rows, places(b, chosen, each), [calculate(b, "Mul", images, each), 5])
    short = b.op("Less", chosen.numbers, b.constant(each))
    ends = b.op("Add", b.op("Mul", counted(b, images), b.constant(each)), chosen.numbers)
    behind = b.op("Unsqueeze", b.op("Compress", ends, short, axis=0), b.constant([1]))
    mark = b.constant(np.array([[-1, 0, 0, 0, 0]], np.float32))
    marks = b.op("Expand", mark, b.op("Concat", b.op("Shape", behind, start=0, end=1), b.constant([1]), axis=0))
    return b.typed(b.op("ScatterND", boxes, behind, marks), _F32, boxes.shape)
