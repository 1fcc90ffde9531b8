"""Non-maximum suppression class by class, with classes and scores in the result: MulticlassNms, MatrixNms."""

from __future__ import annotations

import dataclasses
from typing import Literal

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.sizes import counted, size_of
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import UnsupportedAttributeError
from ortconv.graph.builder import Builder

_BOOL, _F32, _I32, _I64 = ir.DataType.BOOL, ir.DataType.FLOAT, ir.DataType.INT32, ir.DataType.INT64
_LEAST = float(np.finfo(np.float32).min)
_END = np.iinfo(np.int64).max

SortBy = Literal["classid", "score", "none"]
IndexType = Literal["i64", "i32"]


@dataclasses.dataclass(frozen=True)
class _Found:
    """Boxes that are left: vectors of the same length, ordered by batch, class and score."""

    batch: ir.Value
    class_: ir.Value
    box: ir.Value
    score: ir.Value

    def picked(self, b: Builder, order: ir.Value) -> _Found:
        """Returns some of them, or all in another order."""
        vectors = (self.batch, self.class_, self.box, self.score)
        return _Found(*(b.op("Gather", vector, order, axis=0) for vector in vectors))


@REGISTRY.lowering("MulticlassNms", since=8)
@REGISTRY.lowering("MulticlassNms", since=9)
def multiclass_nms(
    b: Builder,
    boxes: ir.Value,
    scores: ir.Value,
    roisnum: ir.Value | None = None,
    /,
    *,
    sort_result_type: SortBy = "none",
    sort_result_across_batch: bool = False,
    output_type: IndexType = "i64",
    iou_threshold: float = 0.0,
    score_threshold: float = 0.0,
    nms_top_k: int = -1,
    keep_top_k: int = -1,
    background_class: int = -1,
    normalized: bool = True,
    nms_eta: float = 1.0,
) -> tuple[ir.Value, ...]:
    """NonMaxSuppression, and sorts; a Loop over the boxes where nms_eta lowers the threshold.

    Boxes that belong to a class, and by roisnum to an image, are suppressed as if each pair of the two were a batch.
    """
    if not 0 <= nms_eta <= 1:
        raise UnsupportedAttributeError("nms_eta", nms_eta, "0 to 1")
    places, each = b.cast(boxes, _F32), b.cast(scores, _F32)
    if roisnum is not None:
        each = _of_images(b, each, roisnum)
    each = _candidates(b, each, nms_top_k, background_class)
    if not normalized:
        places = b.op("Add", places, b.constant([0, 0, 1, 1], np.float32))
    if roisnum is not None:
        places, each = _of_pairs(b, places, each)
    if nms_eta < 1:
        found = _suppressed(b, places, each, b.constant([iou_threshold], np.float32), score_threshold, nms_eta)
    else:
        # Any overlap reaches a threshold of 0, so that only the best box of each class is left.
        most = _END if iou_threshold > 0 else 1
        reached = np.clip(np.nextafter(np.float32(iou_threshold), np.float32(-np.inf)), 0, 1)
        # A score that is the threshold is enough for OpenVINO; ONNX asks for more.
        beyond = b.constant([np.nextafter(np.float32(score_threshold), np.float32(-np.inf))], np.float32)
        chosen = b.op("NonMaxSuppression", places, each, b.constant([most]), b.constant([reached], np.float32), beyond)
        columns = b.op("Split", chosen, outputs=3, axis=1, num_outputs=3)
        batch, class_, box = (b.op("Squeeze", column, b.constant([1])) for column in columns)
        found = _Found(batch, class_, box, b.op("GatherND", each, chosen))
    if roisnum is not None:
        classes = b.op("Shape", boxes, start=0, end=1)
        batch, class_ = b.op("Div", found.batch, classes), b.op("Mod", found.batch, classes)
        found = dataclasses.replace(found, batch=batch, class_=class_)
    kept = _kept(b, found, keep_top_k)
    ordered = _ordered(b, kept, sort_result_type, sort_result_across_batch)
    return _results(b, boxes, ordered, output_type, roisnum)


def _of_images(b: Builder, scores: ir.Value, roisnum: ir.Value) -> ir.Value:
    """Returns scores [class, box] for each image, [image, class, box]: the lowest where a box is another image's."""
    numbers = b.cast(roisnum, _I64)
    ends = b.op("Unsqueeze", b.op("CumSum", numbers, b.constant(0)), b.constant([1]))
    starts = b.op("Sub", ends, b.op("Unsqueeze", numbers, b.constant([1])))
    places = counted(b, size_of(b, scores, 1))
    own = b.op("And", b.op("GreaterOrEqual", places, starts), b.op("Less", places, ends))
    least = b.constant(_LEAST, np.float32)
    return b.typed(b.op("Where", b.op("Unsqueeze", own, b.constant([1])), scores, least), _F32, [None] * 3)


def _of_pairs(b: Builder, boxes: ir.Value, scores: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Returns the boxes [pair, box, 4] and the scores [pair, 1, box] of each pair of an image and a class."""
    every = b.op("Expand", boxes, b.op("Concat", b.op("Shape", scores), b.constant([4]), axis=0))
    count = b.op("Shape", boxes, start=1, end=2)
    pairs = b.op("Mul", b.op("Shape", scores, start=0, end=1), b.op("Shape", boxes, start=0, end=1))
    places = b.op("Reshape", every, b.op("Concat", pairs, count, b.constant([4]), axis=0))
    each = b.op("Reshape", scores, b.op("Concat", pairs, b.constant([1]), count, axis=0))
    return b.typed(places, _F32, [None, None, 4]), b.typed(each, _F32, [None, 1, None])


def _suppressed(b: Builder, boxes: ir.Value, scores: ir.Value, threshold: ir.Value, least: float, eta: float) -> _Found:
    """Keeps a box whose overlap with none kept before reaches the threshold, which each one lowers until it is 0.5.

    A box whose score is the least that is wanted OpenVINO compares with the box kept last only.
    """
    size = b.op("Shape", scores, start=2, end=3)
    values, order = b.op("TopK", scores, size, outputs=2, axis=2)
    overlaps = _overlaps(b, _chosen_boxes(b, boxes, order), True)
    bound = b.constant(least, np.float32)
    good, edge = b.op("GreaterOrEqual", values, bound), b.op("Equal", values, bound)
    last, one = b.constant([-1]), b.constant(1)
    places = b.op("Range", b.constant(0), b.op("Squeeze", size, b.constant([0])), one)
    nothing = b.op("Expand", b.constant(False), b.op("Shape", scores))
    groups = b.op("Concat", b.op("Shape", scores, start=0, end=2), b.constant([1]), axis=0)
    with b.body() as body:
        number = body.input("box", _I64, ())
        body.input("condition", _BOOL, ())
        kept, latest = body.input("kept", _BOOL, [None] * 3), body.input("latest", _BOOL, [None] * 3)
        limit = body.input("threshold", _F32, [None] * 3)
        place = b.op("Unsqueeze", number, b.constant([0]))
        better = b.op("Not", b.op("Gather", edge, place, axis=2))
        compared = b.op("Or", latest, b.op("And", better, kept))
        close = b.op("And", compared, b.op("GreaterOrEqual", b.op("Gather", overlaps, number, axis=2), limit))
        covered = b.op("ReduceMax", b.op("Cast", close, to=int(_I32)), last, keepdims=1)
        free = b.op("Equal", covered, b.constant(0, np.int32))
        taken = b.op("And", b.op("Gather", good, place, axis=2), free)
        own = b.op("And", taken, b.op("Equal", places, number))
        after, newest = b.op("Or", kept, own), b.op("Or", own, b.op("And", b.op("Not", taken), latest))
        high = b.op("And", taken, b.op("Greater", limit, b.constant(0.5, np.float32)))
        lower = b.op("Where", high, b.op("Mul", limit, b.constant(eta, np.float32)), limit)
        graph = body.graph([b.constant(True), after, newest, lower])
    trips = b.op("Squeeze", size, b.constant([0]))
    start = (nothing, nothing, b.op("Expand", threshold, groups))
    kept, _, _ = b.op("Loop", trips, b.constant(True), *start, outputs=3, body=graph)
    chosen = b.op("Transpose", b.op("NonZero", kept), perm=[1, 0])
    columns = b.op("Split", chosen, outputs=3, axis=1, num_outputs=3)
    batch, class_, _ = (b.op("Squeeze", column, b.constant([1])) for column in columns)
    return _Found(batch, class_, b.op("GatherND", order, chosen), b.op("GatherND", values, chosen))


@REGISTRY.lowering("MatrixNms", since=8)
def matrix_nms(
    b: Builder,
    boxes: ir.Value,
    scores: ir.Value,
    /,
    *,
    sort_result_type: SortBy = "none",
    sort_result_across_batch: bool = False,
    output_type: IndexType = "i64",
    score_threshold: float = 0.0,
    nms_top_k: int = -1,
    keep_top_k: int = -1,
    background_class: int = -1,
    decay_function: Literal["gaussian", "linear"] = "linear",
    gaussian_sigma: float = 2.0,
    post_threshold: float = 0.0,
    normalized: bool = True,
) -> tuple[ir.Value, ...]:
    """TopK of each class, scores lowered by the overlaps, and sorts."""
    places, each = b.cast(boxes, _F32), b.cast(scores, _F32)
    count = _limit(b, nms_top_k, each)
    values, order = b.op("TopK", each, count, outputs=2, axis=2)
    corners = _chosen_boxes(b, places, order)
    overlaps = _overlaps(b, corners, normalized)
    # Only better boxes count: those before a box.
    rows = b.op("Unsqueeze", b.op("Range", b.constant(0), b.op("Squeeze", count), b.constant(1)), b.constant([1]))
    before = b.op("Less", b.op("Transpose", rows, perm=[1, 0]), rows)
    zero, one = b.constant(0, np.float32), b.constant(1, np.float32)
    with_better = b.op("Where", before, overlaps, zero)
    own_most = b.op("ReduceMax", with_better, b.constant([3]), keepdims=1)
    most = b.op("Transpose", own_most, perm=[0, 1, 3, 2])
    if decay_function == "gaussian":
        difference = b.op("Sub", b.op("Mul", most, most), b.op("Mul", overlaps, overlaps))
        decays = b.op("Exp", b.op("Mul", difference, b.constant(gaussian_sigma, np.float32)))
    else:
        decays = b.op("Div", b.op("Sub", one, overlaps), b.op("Sub", one, most))
    decay = b.op("ReduceMin", b.op("Where", before, decays, one), b.constant([3]), keepdims=0)
    lowered = b.op("Mul", values, decay)
    good = b.op(
        "And",
        b.op("Greater", values, b.constant(score_threshold, np.float32)),
        b.op("Greater", lowered, b.constant(post_threshold, np.float32)),
    )
    if background_class >= 0:
        classes = b.op("Range", b.constant(0), b.op("Squeeze", b.op("Shape", each, start=1, end=2)), b.constant(1))
        other = b.op("Not", b.op("Equal", classes, b.constant(background_class)))
        good = b.op("And", good, b.op("Unsqueeze", other, b.constant([1])))
    chosen = b.op("Transpose", b.op("NonZero", good), perm=[1, 0])
    columns = b.op("Split", chosen, outputs=3, axis=1, num_outputs=3)
    batch, class_, _ = (b.op("Squeeze", column, b.constant([1])) for column in columns)
    found = _Found(batch, class_, b.op("GatherND", order, chosen), b.op("GatherND", lowered, chosen))
    kept = _kept(b, found, keep_top_k)
    if sort_result_type == "classid" and not sort_result_across_batch:
        b.follow("sort_result_type classid: OpenVINO sorts by score where it does not sort across batches")
        sort_result_type = "score"
    ordered = _ordered(b, kept, sort_result_type, sort_result_across_batch)
    return _results(b, boxes, ordered, output_type)


def _limit(b: Builder, most: int, scores: ir.Value) -> ir.Value:
    """Returns the smaller of a limit, where there is one, and the number of boxes."""
    size = size_of(b, scores, 2)
    if isinstance(size, int):
        return b.constant([size if most < 0 else min(most, size)])
    return size if most < 0 else b.op("Min", size, b.constant([most]))


def _candidates(b: Builder, scores: ir.Value, top: int, background_class: int) -> ir.Value:
    """Lowers the scores of the background and of all but the best boxes of each class, so that none is chosen."""
    least = b.constant(_LEAST, np.float32)
    if top >= 0:
        values, order = b.op("TopK", scores, _limit(b, top, scores), outputs=2, axis=2)
        scores = b.op("ScatterElements", b.op("Expand", least, b.op("Shape", scores)), order, values, axis=2)
    if background_class >= 0:
        classes = b.op("Range", b.constant(0), b.op("Squeeze", b.op("Shape", scores, start=1, end=2)), b.constant(1))
        background = b.op("Equal", classes, b.constant(background_class))
        scores = b.op("Where", b.op("Unsqueeze", background, b.constant([1])), least, scores)
    return scores


def _sorted_by(b: Builder, found: _Found, key: ir.Value, *, largest: bool = False) -> _Found:
    """Sorts by a key; equal ones keep their order."""
    _, order = b.op("TopK", key, b.op("Shape", key), outputs=2, axis=0, largest=int(largest))
    return found.picked(b, order)


def _by_score(b: Builder, found: _Found) -> _Found:
    by_score = _sorted_by(b, found, found.score, largest=True)
    return _sorted_by(b, by_score, by_score.batch)


def _kept(b: Builder, found: _Found, most: int) -> _Found:
    """Keeps the best of each batch."""
    if most < 0:
        return found
    sorted_ = _by_score(b, found)
    # The number of a box within its batch: its place, less the places of the batches before.
    earlier = b.op("Less", sorted_.batch, b.op("Unsqueeze", sorted_.batch, b.constant([1])))
    starts = b.op("ReduceSum", b.op("Cast", earlier, to=int(_I64)), b.constant([1]), keepdims=0)
    count = b.op("Squeeze", b.op("Shape", sorted_.batch), b.constant([0]))
    number = b.op("Sub", b.op("Range", b.constant(0), count, b.constant(1)), starts)
    good = b.op("NonZero", b.op("Less", number, b.constant(most)))
    return sorted_.picked(b, b.op("Squeeze", good, b.constant([0])))


def _ordered(b: Builder, found: _Found, by: SortBy, across: bool) -> _Found:
    """Sorts the boxes of each batch, by score where nothing else is asked for, or those of all of them."""
    by_score = _by_score(b, found)
    if by == "none" or (by == "score" and not across):
        return by_score
    if by == "score":
        return _sorted_by(b, by_score, by_score.score, largest=True)
    by_class = _sorted_by(b, by_score, by_score.class_)
    return by_class if across else _sorted_by(b, by_class, by_class.batch)


def _results(
    b: Builder, boxes: ir.Value, found: _Found, output_type: IndexType, roisnum: ir.Value | None = None
) -> tuple[ir.Value, ...]:
    """Returns rows of class, score and corners; numbers of boxes through all batches; and how many each batch has.

    Where each class has boxes of its own, OpenVINO numbers those of all classes at one place one after the other.
    """
    to = _I64 if output_type == "i64" else _I32
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


def _chosen_boxes(b: Builder, boxes: ir.Value, order: ir.Value) -> ir.Value:
    """Returns the corners of the boxes of each class in order, [batch, class, box, 4]."""
    return b.op("GatherND", boxes, b.op("Unsqueeze", order, b.constant([-1])), batch_dims=1)


def _overlaps(b: Builder, boxes: ir.Value, normalized: bool) -> ir.Value:
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
