"""Detections of MulticlassNms and MatrixNms: overlaps, limits, sorting and outputs."""

from __future__ import annotations

import dataclasses
from typing import Literal

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.index_type import INDEX_TYPES, IndexType
from ortconv.converters.openvino.lib.sizes import at_most, joined, numbers_below, size_of
from ortconv.graph.builder import Builder

__all__ = [
    "Detections",
    "SortBy",
    "best_of_each_batch",
    "box_limit",
    "chosen_boxes",
    "detection_outputs",
    "is_class",
    "marked_boxes",
    "pairwise_overlaps",
    "sorted_detections",
]

_F32, _I64 = ir.DataType.FLOAT, ir.DataType.INT64
SortBy = Literal["classid", "score", "none"]


@dataclasses.dataclass(frozen=True)
class Detections:
    """Selected boxes: vectors of the same length, ordered by batch, class and score."""

    batch: ir.Value
    class_: ir.Value
    box: ir.Value
    score: ir.Value

    def picked(self, b: Builder, order: ir.Value) -> Detections:
        """Returns some of them, or all in another order."""
        vectors = (self.batch, self.class_, self.box, self.score)
        return Detections(*(b.op("Gather", vector, order, axis=0) for vector in vectors))


def marked_boxes(b: Builder, marks: ir.Value, order: ir.Value, scores: ir.Value) -> Detections:
    """Returns the boxes marked at [batch, class, place], whose numbers `order` has."""
    chosen = b.op("Transpose", b.op("NonZero", marks), perm=[1, 0])
    columns = b.op("Split", chosen, outputs=3, axis=1, num_outputs=3)
    batch, class_, _ = (b.op("Squeeze", column, b.constant([1])) for column in columns)
    return Detections(batch, class_, b.op("GatherND", order, chosen), b.op("GatherND", scores, chosen))


def is_class(b: Builder, scores: ir.Value, number: int) -> ir.Value:
    """Tells of each class of scores [batch, class, box] whether it is that one."""
    classes = b.op("Range", b.constant(0), b.op("Squeeze", b.op("Shape", scores, start=1, end=2)), b.constant(1))
    return b.op("Equal", classes, b.constant(number))


def box_limit(b: Builder, most: int, scores: ir.Value) -> ir.Value:
    """Returns the smaller of a limit, where there is one, and the number of boxes."""
    size = size_of(b, scores, 2)
    return joined(b, [size if most < 0 else at_most(b, size, most)])


def _sorted_by(b: Builder, found: Detections, key: ir.Value, *, largest: bool = False) -> Detections:
    """Sorts by a key; equal ones keep their order."""
    _, order = b.op("TopK", key, b.op("Shape", key), outputs=2, axis=0, largest=int(largest))
    return found.picked(b, order)


def _by_score(b: Builder, found: Detections) -> Detections:
    by_score = _sorted_by(b, found, found.score, largest=True)
    return _sorted_by(b, by_score, by_score.batch)


def best_of_each_batch(b: Builder, found: Detections, most: int) -> Detections:
    """Keeps the best of each batch."""
    if most < 0:
        return found
    sorted_ = _by_score(b, found)
    # The number of a box within its batch: its place, less the places of the batches before.
    earlier = b.op("Less", sorted_.batch, b.op("Unsqueeze", sorted_.batch, b.constant([1])))
    starts = b.op("ReduceSum", b.op("Cast", earlier, to=int(_I64)), b.constant([1]), keepdims=0)
    number = b.op("Sub", numbers_below(b, b.op("Shape", sorted_.batch)), starts)
    good = b.op("NonZero", b.op("Less", number, b.constant(most)))
    return sorted_.picked(b, b.op("Squeeze", good, b.constant([0])))


def sorted_detections(b: Builder, found: Detections, by: SortBy, across: bool) -> Detections:
    """Sorts the boxes of each batch, by score where nothing else is asked for, or those of all of them."""
    by_score = _by_score(b, found)
    if by == "none" or (by == "score" and not across):
        return by_score
    if by == "score":
        return _sorted_by(b, by_score, by_score.score, largest=True)
    by_class = _sorted_by(b, by_score, by_score.class_)
    return by_class if across else _sorted_by(b, by_class, by_class.batch)


def detection_outputs(
    b: Builder, boxes: ir.Value, found: Detections, output_type: IndexType, roisnum: ir.Value | None = None
) -> tuple[ir.Value, ...]:
    """Returns rows of class, score and corners; numbers of boxes through all batches; and how many each batch has.

    Where each class has boxes of its own, OpenVINO numbers those of all classes at one place one after the other.
    """
    to = INDEX_TYPES[output_type]
    first, count = b.op("Shape", boxes, start=0, end=1), b.op("Shape", boxes, start=1, end=2)
    behind = b.constant([1])
    if roisnum is None:
        box = b.op("Add", b.op("Mul", found.batch, count), found.box)
        number, batches = box, first
    else:
        box = b.op("Add", b.op("Mul", found.class_, count), found.box)
        number = b.op("Add", b.op("Mul", found.box, first), found.class_)
        batches = b.op("Shape", roisnum)
    flat = b.op("Reshape", b.cast(boxes, _F32), b.constant([-1, 4]))
    heads = [b.op("Unsqueeze", vector, behind) for vector in (b.op("Cast", found.class_, to=int(_F32)), found.score)]
    rows = b.typed(b.op("Concat", *heads, b.op("Gather", flat, box, axis=0), axis=1), _F32, ["selected", 6])
    indices = b.typed(b.op("Unsqueeze", number, behind), _I64, ["selected", 1])
    ones = b.op("Expand", b.constant(1), b.op("Shape", found.batch))
    zeros = b.op("Expand", b.constant(0), batches)
    numbers = b.typed(b.op("ScatterElements", zeros, found.batch, ones, axis=0, reduction="add"), _I64, None)
    own = boxes.dtype
    assert own is not None
    return b.cast(rows, own), b.cast(indices, to), b.cast(numbers, to)


def chosen_boxes(b: Builder, boxes: ir.Value, order: ir.Value) -> ir.Value:
    """Returns the corners of the boxes of each class in order, [batch, class, box, 4]."""
    return b.op("GatherND", boxes, b.op("Unsqueeze", order, b.constant([-1])), batch_dims=1)


def pairwise_overlaps(b: Builder, boxes: ir.Value, normalized: bool) -> ir.Value:
    """Returns the intersection over union of any two boxes of a class, [batch, class, box, box]."""
    low, high = b.op("Split", boxes, outputs=2, axis=3, num_outputs=2)
    extra = b.constant(0 if normalized else 1, np.float32)
    rows = [b.op("Unsqueeze", corner, b.constant([3])) for corner in (low, high)]
    columns = [b.op("Unsqueeze", corner, b.constant([2])) for corner in (low, high)]
    sides = b.op("Sub", b.op("Min", rows[1], columns[1]), b.op("Max", rows[0], columns[0]))
    zero = b.constant(0, np.float32)
    apart = b.op("ReduceMin", sides, b.constant([-1]), keepdims=0)
    common = b.op("ReduceProd", b.op("Max", b.op("Add", sides, extra), zero), b.constant([-1]), keepdims=0)
    common = b.op("Where", b.op("Less", apart, zero), zero, common)
    area = b.op("ReduceProd", b.op("Add", b.op("Sub", high, low), extra), b.constant([-1]), keepdims=1)
    union = b.op("Sub", b.op("Add", area, b.op("Transpose", area, perm=[0, 1, 3, 2])), common)
    return b.op("Div", common, union)
