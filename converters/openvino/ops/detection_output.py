"""DetectionOutput: boxes decoded from priors, suppressed class by class, the best of each image kept.

OpenVINO's CPU plugin compares overlaps with the threshold as ONNX's NonMaxSuppression does, and in the same arithmetic,
but for boxes whose corners are in the wrong order: these overlap nothing. Results are ordered by image, class, score
and prior. Where a prior has the same score in several classes and not all of them can be kept, the first ones are; the
plugin leaves that open.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.compute_types import FLOATS, dtype_of, exponential, in_single, require, single
from ortconv.converters.openvino.lib.sizes import (
    Size,
    at_most,
    calculate,
    counted,
    joined,
    require_sizes,
    reshaped,
    size_of,
)
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import ConversionError, UnsupportedAttributeError
from ortconv.graph.builder import Builder, Ints

_F32 = ir.DataType.FLOAT
_ALL = np.iinfo(np.int64).max
_INPUTS = (
    *("box_logits", "class_predictions", "proposals"),
    *("additional_class_predictions", "additional_box_predictions"),
)
_ROW = 7
"""Entries of a detection: image, class, score and corners."""
_BACKGROUND_OF_PAIRS = 0
"""The class that decrease_label_id excludes."""

CodeType = Literal["caffe.PriorBoxParameter.CORNER", "caffe.PriorBoxParameter.CENTER_SIZE"]


@dataclasses.dataclass(frozen=True)
class _Rules:
    """The attributes by name."""

    background_label_id: int
    top_k: int
    variance_encoded_in_target: bool
    keep_top_k: int
    centers: bool
    share_location: bool
    nms_threshold: float
    confidence_threshold: float
    clip_after_nms: bool
    clip_before_nms: bool
    decrease_label_id: bool
    normalized: bool
    image: tuple[int, int]
    """Width and height."""
    objectness_score: float


@dataclasses.dataclass(frozen=True)
class _Counts:
    """The numbers of images, priors and classes."""

    images: Size
    priors: Size
    classes: Size


@REGISTRY.lowering("DetectionOutput", since=1)
@REGISTRY.lowering("DetectionOutput", since=8)
def detection_output(
    b: Builder,
    box_logits: ir.Value,
    class_predictions: ir.Value,
    proposals: ir.Value,
    additional_class_predictions: ir.Value | None = None,
    additional_box_predictions: ir.Value | None = None,
    /,
    *,
    num_classes: int | None = None,
    background_label_id: int = 0,
    top_k: int = -1,
    variance_encoded_in_target: bool = False,
    keep_top_k: Ints,
    code_type: CodeType = "caffe.PriorBoxParameter.CORNER",
    share_location: bool = True,
    nms_threshold: float,
    confidence_threshold: float = 0.0,
    clip_after_nms: bool = False,
    clip_before_nms: bool = False,
    decrease_label_id: bool = False,
    normalized: bool = False,
    input_height: int = 1,
    input_width: int = 1,
    objectness_score: float = 0.0,
) -> ir.Value:
    """NonMaxSuppression of decoded boxes, and sorts."""
    if (additional_class_predictions is None) != (additional_box_predictions is None):
        raise ConversionError("has one of the two additional inputs; allowed: none, or both.")
    if not keep_top_k or (keep_top_k[0] < 1 and keep_top_k[0] != -1):
        raise UnsupportedAttributeError("keep_top_k", keep_top_k, "-1 or a positive number")
    rules = _Rules(
        background_label_id=background_label_id,
        top_k=top_k,
        variance_encoded_in_target=variance_encoded_in_target,
        keep_top_k=keep_top_k[0],
        centers=code_type.endswith("CENTER_SIZE"),
        share_location=share_location,
        nms_threshold=nms_threshold,
        confidence_threshold=confidence_threshold,
        clip_after_nms=clip_after_nms,
        clip_before_nms=clip_before_nms,
        decrease_label_id=decrease_label_id,
        normalized=normalized,
        image=(input_width, input_height),
        objectness_score=objectness_score,
    )
    _check(rules)
    _tell(b, rules, moves=additional_box_predictions is not None)
    given = (box_logits, class_predictions, proposals, additional_class_predictions, additional_box_predictions)
    values = [value for value in given if value is not None]
    counts = _counts(b, values, num_classes, rules)

    def formula(*values: ir.Value) -> ir.Value:
        logits, predictions, proposed, *additional = values
        actors, moves = additional or (None, None)
        boxes = _boxes(b, logits, proposed, moves, rules, counts)
        scores = _scores(b, predictions, actors, rules, counts)
        return _detections(b, boxes, _candidates(b, scores, proposed, rules, counts), rules, counts)

    own, stated = dtype_of(box_logits), b.node.outputs[0].dtype
    if {dtype_of(value) for value in values} == {stated}:
        return in_single(b, formula, *values)
    # In float16 models the priors are float32, and old files declare the result as float32, too.
    result = in_single(b, formula, *[b.cast(value, ir.DataType.FLOAT) for value in values])
    return result if (own, stated) == (ir.DataType.FLOAT16, ir.DataType.FLOAT) else b.cast(result, own)


def _check(rules: _Rules) -> None:
    """Rejects attributes that are out of range."""
    if rules.top_k < -1:
        raise UnsupportedAttributeError("top_k", rules.top_k, "-1, 0 or a positive number")
    if rules.decrease_label_id and rules.background_label_id != _BACKGROUND_OF_PAIRS:
        raise UnsupportedAttributeError("background_label_id", rules.background_label_id, "0 with decrease_label_id")
    for name, size in zip(("input_width", "input_height"), rules.image, strict=True):
        if not rules.normalized and size < 1:
            raise UnsupportedAttributeError(name, size, "a positive number")


def _tell(b: Builder, rules: _Rules, *, moves: bool) -> None:
    """Notes where the specification and the plugin differ; `moves`: there are additional predictions."""
    if rules.keep_top_k > 0:
        b.note("equal scores of a prior in several classes: keeps the first classes")
    if rules.top_k > 0:
        what = "image" if rules.decrease_label_id else "class"
        b.note(f"top_k: as OpenVINO's CPU plugin, takes the best of each {what} before suppression, not after it")
    if moves and not rules.normalized:
        b.note(
            "normalized: as OpenVINO's CPU plugin, divides by the image's size again after the additional predictions"
        )


def _counts(b: Builder, given: Sequence[ir.Value], num_classes: int | None, rules: _Rules) -> _Counts:
    """Checks types and sizes of the inputs, and returns how many images, priors and classes there are."""
    for name, operand in zip(_INPUTS, given, strict=False):
        require(operand, name, FLOATS)
    box_logits, class_predictions, proposals, *additional = given
    entries = 4 if rules.normalized else 5
    require_sizes(proposals, "proposals", None, 1 if rules.variance_encoded_in_target else 2, None)
    require_sizes(class_predictions, "class_predictions", None, None)
    priors = calculate(b, "Div", size_of(b, proposals, 2), entries)
    classes = calculate(b, "Div", size_of(b, class_predictions, 1), priors) if num_classes is None else num_classes
    images = size_of(b, class_predictions, 0)
    require_sizes(class_predictions, "class_predictions", images, calculate(b, "Mul", priors, classes))
    corners = calculate(b, "Mul", priors, calculate(b, "Mul", 1 if rules.share_location else classes, 4))
    require_sizes(box_logits, "box_logits", images, corners)
    require_sizes(proposals, "proposals", None, None, calculate(b, "Mul", priors, entries))
    if additional:
        actors, moves = additional
        require_sizes(actors, "additional_class_predictions", images, calculate(b, "Mul", priors, 2))
        require_sizes(moves, "additional_box_predictions", images, corners)
    return _Counts(images, priors, classes)


def _shaped(b: Builder, value: ir.Value, sizes: Sequence[Size]) -> ir.Value:
    """Reshapes float32."""
    return reshaped(b, b.typed(value, _F32, None), sizes)


def _boxes(
    b: Builder, logits: ir.Value, proposals: ir.Value, moves: ir.Value | None, rules: _Rules, counts: _Counts
) -> ir.Value:
    """Emits corners, [images, places, priors, 4]."""
    batches, first = size_of(b, proposals, 0), b.constant([1])
    entries = 4 if rules.normalized else 5
    places: Size = 1 if rules.share_location else counts.classes
    rows = b.op("Slice", proposals, b.constant([0]), b.constant([1]), first)
    corners = _shaped(b, rows, [batches, 1, counts.priors, entries])
    if not rules.normalized:
        corners = b.op("Slice", corners, b.constant([1]), b.constant([5]), b.constant([3]))
    variances: tuple[ir.Value, ...] | None = None
    if not rules.variance_encoded_in_target:
        # Four numbers for each prior, whatever the length of the row.
        length = joined(b, [calculate(b, "Mul", counts.priors, 4)])
        behind = b.op("Slice", proposals, b.constant([1]), b.constant([2]), first)
        packed = b.op("Slice", behind, b.constant([0]), length, b.constant([2]))
        variances = b.op("Split", _shaped(b, packed, [batches, 1, counts.priors, 4]), outputs=2, axis=3, num_outputs=2)
    low, high = b.op("Split", corners, outputs=2, axis=3, num_outputs=2)
    for values in (moves, logits):
        if values is None:
            continue
        if not rules.normalized:
            image = b.constant(rules.image, np.float32)
            low, high = b.op("Div", low, image), b.op("Div", high, image)
        by_prior = _shaped(b, values, [counts.images, counts.priors, places, 4])
        by_place = b.op("Transpose", by_prior, perm=[0, 2, 1, 3])
        offsets = b.op("Split", by_place, outputs=2, axis=3, num_outputs=2)
        if variances is not None:
            offsets = tuple(b.op("Mul", *pair) for pair in zip(variances, offsets, strict=True))
        low, high = _moved(b, low, high, offsets, rules.centers)
        if rules.clip_before_nms:
            low, high = _clipped(b, low), _clipped(b, high)
    return b.op("Concat", low, high, axis=3)


def _moved(
    b: Builder, low: ir.Value, high: ir.Value, offsets: tuple[ir.Value, ...], centers: bool
) -> tuple[ir.Value, ir.Value]:
    """Applies predicted offsets to boxes: to their corners, or to their centers and sizes."""
    if not centers:
        return b.op("Add", low, offsets[0]), b.op("Add", high, offsets[1])
    half = single(b, 0.5)
    size = b.op("Sub", high, low)
    middle = b.op("Add", b.op("Mul", offsets[0], size), b.op("Mul", b.op("Add", low, high), half))
    reach = b.op("Mul", b.op("Mul", exponential(b, offsets[1]), size), half)
    return b.op("Sub", middle, reach), b.op("Add", middle, reach)


def _clipped(b: Builder, value: ir.Value) -> ir.Value:
    return b.op("Clip", value, single(b, 0.0), single(b, 1.0))


def _scores(b: Builder, predictions: ir.Value, actors: ir.Value | None, rules: _Rules, counts: _Counts) -> ir.Value:
    """Emits scores, [images, classes, priors]; a prior that shows no object is all background."""
    by_prior = _shaped(b, predictions, [counts.images, counts.priors, counts.classes])
    if actors is not None:
        pairs = _shaped(b, actors, [counts.images, counts.priors, 2])
        object_ = b.op("Slice", pairs, b.constant([1]), b.constant([2]), b.constant([2]))
        none = b.op("Less", object_, single(b, rules.objectness_score))
        background = b.op("Equal", counted(b, counts.classes), b.constant(rules.background_label_id))
        by_prior = b.op("Where", none, b.op("Cast", background, to=int(_F32)), by_prior)
    return b.op("Transpose", by_prior, perm=[0, 2, 1])


def _candidates(b: Builder, scores: ir.Value, proposals: ir.Value, rules: _Rules, counts: _Counts) -> ir.Value:
    """Sets the scores of boxes that are no candidates to -inf."""
    never, threshold = single(b, -np.inf), single(b, rules.confidence_threshold)
    # What is not background, [classes, 1].
    background = b.op("Equal", counted(b, counts.classes), b.constant(rules.background_label_id))
    allowed = b.op("Unsqueeze", b.op("Not", background), b.constant([1]))
    if not rules.normalized:
        allowed = b.op("And", allowed, _before_end(b, proposals, counts))
    reached = b.op("GreaterOrEqual" if rules.decrease_label_id else "Greater", scores, threshold)
    scores = b.op("Where", b.op("And", reached, allowed), scores, never)
    if not rules.decrease_label_id:
        return _best(b, scores, rules.top_k, counts.priors)
    # Only the best class of each prior counts, if its score exceeds -1.
    best = b.op("ReduceMax", scores, b.constant([1]), keepdims=1)
    class_ = b.op("ArgMax", scores, axis=1, keepdims=1)
    own = b.op("Equal", b.op("Unsqueeze", counted(b, counts.classes), b.constant([1])), class_)
    chosen = b.op("And", own, b.op("Greater", best, single(b, -1.0)))
    total = calculate(b, "Mul", counts.classes, counts.priors)
    flat = _shaped(b, b.op("Where", chosen, scores, never), [counts.images, 1, total])
    return _shaped(b, _best(b, flat, rules.top_k, total), [counts.images, counts.classes, counts.priors])


def _before_end(b: Builder, proposals: ir.Value, counts: _Counts) -> ir.Value:
    """Tells which priors come before the first whose image is -1, [batches, 1, priors]."""
    rows = b.op("Slice", proposals, b.constant([0]), b.constant([1]), b.constant([1]))
    split = _shaped(b, rows, [size_of(b, proposals, 0), 1, counts.priors, 5])
    owner = b.op("Squeeze", b.op("Slice", split, b.constant([0]), b.constant([1]), b.constant([3])), b.constant([3]))
    ends = b.op("Cast", b.op("Equal", owner, single(b, -1.0)), to=int(_F32))
    return b.op("Less", b.op("CumSum", ends, b.constant(2)), single(b, 0.5))


def _best(b: Builder, scores: ir.Value, most: int, size: Size) -> ir.Value:
    """Sets all but the best scores along the last axis, of size `size`, to -inf."""
    if most < 0 or (isinstance(size, int) and size <= most):
        return scores
    values, order = b.op("TopK", scores, joined(b, [at_most(b, size, most)]), outputs=2, axis=2)
    nothing = b.op("Expand", single(b, -np.inf), b.op("Shape", scores))
    return b.op("ScatterElements", nothing, order, values, axis=2)


def _detections(b: Builder, boxes: ir.Value, scores: ir.Value, rules: _Rules, counts: _Counts) -> ir.Value:
    """Emits the rows of the result."""
    chosen = _suppressed(b, boxes, scores, rules, counts)
    if rules.keep_top_k > 0:
        chosen = _kept(b, chosen, scores, rules.keep_top_k, counts)
    image, class_, prior = b.op("Split", chosen, outputs=3, axis=1, num_outputs=3)
    place = b.op("Mul", class_, b.constant(0)) if rules.share_location else class_
    corners = b.op("GatherND", boxes, b.op("Concat", image, place, prior, axis=1))
    if rules.clip_after_nms:
        corners = _clipped(b, corners)
    label = b.op("Sub", class_, b.constant(1)) if rules.decrease_label_id else class_
    score = b.op("Unsqueeze", b.op("GatherND", scores, chosen), b.constant([1]))
    heads = [b.op("Cast", number, to=int(_F32)) for number in (image, label)]
    rows = b.op("Concat", *heads, score, corners, axis=1)
    if rules.keep_top_k > 0:
        each: Size = rules.keep_top_k
    else:
        each = calculate(b, "Mul", counts.classes, rules.top_k if rules.top_k > 0 else counts.priors)
    total = calculate(b, "Mul", counts.images, each)
    return _shaped(b, _filled(b, rows, total), [1, 1, total, _ROW])


def _suppressed(b: Builder, boxes: ir.Value, scores: ir.Value, rules: _Rules, counts: _Counts) -> ir.Value:
    """Emits image, class and prior of the boxes that remain after suppression."""
    low, high = b.op("Split", boxes, outputs=2, axis=3, num_outputs=2)
    # ONNX's op would exchange corners in the wrong order; a box without area overlaps nothing.
    ordered = b.op("Concat", low, b.op("Max", low, high), axis=3)
    most, overlap = _ALL, rules.nms_threshold
    if overlap < 0:
        # No overlap at all exceeds it.
        most, overlap = 1, 0.0
    limits = (
        b.constant([most]),
        b.constant([min(overlap, 1.0)], np.float32),
        b.constant([-np.inf], np.float32),
    )
    if rules.share_location:
        return b.op("NonMaxSuppression", b.op("Squeeze", ordered, b.constant([1])), scores, *limits)
    both = calculate(b, "Mul", counts.images, counts.classes)
    chosen = b.op(
        "NonMaxSuppression",
        _shaped(b, ordered, [both, counts.priors, 4]),
        _shaped(b, scores, [both, 1, counts.priors]),
        *limits,
    )
    place, _, prior = b.op("Split", chosen, outputs=3, axis=1, num_outputs=3)
    classes = joined(b, [counts.classes])
    return b.op("Concat", b.op("Div", place, classes), b.op("Mod", place, classes), prior, axis=1)


def _kept(b: Builder, chosen: ir.Value, scores: ir.Value, most: int, counts: _Counts) -> ir.Value:
    """Keeps the best of each image, in their order."""
    total = calculate(b, "Mul", counts.classes, counts.priors)
    nothing = b.op("Expand", single(b, -np.inf), b.op("Shape", scores))
    only = b.op("ScatterND", nothing, chosen, b.op("GatherND", scores, chosen))
    # Of equal scores the lowest prior is kept, then the lowest class.
    flat = _shaped(b, b.op("Transpose", only, perm=[0, 2, 1]), [counts.images, total])
    _, order = b.op("TopK", flat, joined(b, [at_most(b, total, most)]), outputs=2, axis=1)
    none = b.op("Expand", single(b, 0.0), b.op("Shape", flat))
    marks = b.op("ScatterElements", none, order, b.op("Expand", single(b, 1.0), b.op("Shape", order)), axis=1)
    by_prior = _shaped(b, marks, [counts.images, counts.priors, counts.classes])
    kept = b.op("GatherND", b.op("Transpose", by_prior, perm=[0, 2, 1]), chosen)
    return b.op("Compress", chosen, b.op("Cast", kept, to=int(ir.DataType.BOOL)), axis=0)


def _filled(b: Builder, rows: ir.Value, total: Size) -> ir.Value:
    """Pads with a row that begins with -1 and rows of zeros, up to a number of rows."""
    end = b.constant(np.array([[-1] + [0] * (_ROW - 1)], np.float32))
    closed = b.op("Concat", rows, end, axis=0)
    missing = b.op("Sub", joined(b, [total]), b.op("Shape", rows, end=1))
    pads = b.op("Concat", b.constant([0, 0]), missing, b.constant([0]), axis=0)
    return b.op("Slice", b.op("Pad", closed, pads), b.constant([0]), joined(b, [total]), b.constant([0]))
