"""Region proposals: Proposal, GenerateProposals, ExperimentalDetectronGenerateProposalsSingleImage.

Each moves anchors by predicted offsets, selects the best boxes and suppresses those that overlap better ones. Results
are those of OpenVINO's CPU plugin: each step is rounded as there, so that boxes at a threshold fall on the same side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.compute_types import FLOATS, dtype_of, exponential, require, single
from ortconv.converters.openvino.lib.index_type import INDEX_TYPES, IndexType
from ortconv.converters.openvino.lib.sizes import Size, calculate, counted, reshaped, size_of
from ortconv.converters.openvino.parity.region_selection import Limits, choose, closed, filled, places
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import UnsupportedAttributeError
from ortconv.graph.builder import Builder

_BOOL, _F32, _F64 = ir.DataType.BOOL, ir.DataType.FLOAT, ir.DataType.DOUBLE
_MOST_GROWTH = np.float32(math.log(1000 / 16))
"""The logarithm of the largest factor by which GenerateProposals enlarges an anchor."""
_FEWEST = 8
"""With fewer boxes, Proposal in OpenVINO's CPU plugin reads out of bounds."""

Floats = tuple[float, ...]


@REGISTRY.lowering("Proposal", since=1)
@REGISTRY.lowering("Proposal", since=4)
def proposal(
    b: Builder,
    class_probs: ir.Value,
    bbox_deltas: ir.Value,
    image_shape: ir.Value,
    /,
    *,
    base_size: int,
    pre_nms_topn: int,
    post_nms_topn: int,
    nms_thresh: float = 0.0,
    feat_stride: int = 1,
    min_size: int = 1,
    ratio: Floats,
    scale: Floats,
    clip_before_nms: bool = True,
    clip_after_nms: bool = False,
    normalize: bool = False,
    box_size_scale: float = 1.0,
    box_coordinate_scale: float = 1.0,
    framework: Literal["", "tensorflow"] = "",
) -> tuple[ir.Value, ...]:
    """Anchors moved, TopK and suppression: NonMaxSuppression, or a Loop if sides are one longer."""
    require(class_probs, "class_probs", FLOATS)
    own = dtype_of(class_probs)
    turned = framework == "tensorflow"
    limits = Limits.of(
        ("pre_nms_topn", "post_nms_topn", "nms_thresh"), pre_nms_topn, post_nms_topn, nms_thresh, int(not turned)
    )
    _tell_of_small_boxes(b, min_size)
    anchors = _anchors(base_size, ratio, scale, turned)
    count = len(anchors)
    scores, deltas, info = (_single(b, value) for value in (class_probs, bbox_deltas, image_shape))
    # From here on the axes are image, row, column, anchor and x or y.
    foreground = b.op("Slice", scores, b.constant([count]), b.constant([2 * count]), b.constant([1]))
    images, rows, columns = (size_of(b, scores, axis) for axis in (0, 2, 3))
    total = calculate(b, "Mul", calculate(b, "Mul", rows, columns), count)
    if isinstance(total, int) and min(total, limits.before) < _FEWEST:
        b.warn(f"fewer than {_FEWEST} boxes: OpenVINO's CPU plugin may fail; the result follows the specification")
    image = b.op("Gather", info, b.constant([0, 1] if turned else [1, 0]), axis=0)
    factors = _factors(b, info, _width(image_shape))
    low, high = _spread(b, anchors, rows, columns, feat_stride, turned)
    extra = single(b, limits.extra)
    if turned:
        low, high = _clipped(b, low, image), _clipped(b, high, image)
    moves, growths = _offsets(b, deltas, images, count, rows, columns)
    moves = b.op("Div", moves, single(b, box_coordinate_scale))
    growths = b.op("Div", growths, single(b, box_size_scale))
    sides = b.op("Add", b.op("Sub", high, low), extra)
    middle = b.op("Add", low, b.op("Mul", sides, single(b, 0.5)))
    # One rounding for the product and the sum.
    product = b.op("Mul", b.cast(moves, _F64), b.cast(b.typed(sides, _F32, None), _F64))
    center = b.op("Cast", b.op("Add", product, b.op("Cast", middle, to=int(_F64))), to=int(_F32))
    low, high = _around(b, center, b.op("Mul", exponential(b, growths), sides))
    if clip_before_nms:
        edge = b.op("Sub", image, extra)
        low, high = _clipped(b, low, edge), _clipped(b, high, edge)
    smallest = b.op("Mul", single(b, min_size), factors)
    good = _large_enough(b, low, high, smallest, extra)
    by_anchor = b.op("Transpose", foreground, perm=[0, 2, 3, 1])
    lowered = b.op("Mul", b.op("Cast", good, to=int(_F32)), by_anchor)
    chosen = choose(b, _flat(b, low, high, images, total), _reshaped(b, lowered, [images, total]), None, limits)
    boxes = chosen.boxes
    both = b.op("Concat", image, image, axis=0)
    if clip_after_nms:
        boxes = _clipped(b, boxes, both)
    if normalize:
        boxes = b.op("Div", boxes, both)
    heads = b.op("Unsqueeze", b.op("Cast", chosen.image, to=int(_F32)), b.constant([1]))
    regions = closed(b, b.op("Concat", heads, boxes, axis=1), chosen, images, post_nms_topn)
    if len(b.node.outputs) == 1:
        return (b.cast(regions, own),)
    b.warn("probs: those behind the last box of an image are 0; OpenVINO's CPU plugin leaves what was in memory")
    at = places(b, chosen, post_nms_topn)
    probs = filled(b, chosen.scores, at, [calculate(b, "Mul", images, post_nms_topn)])
    return b.cast(regions, own), b.cast(probs, own)


@REGISTRY.lowering("GenerateProposals", since=9)
def generate_proposals(
    b: Builder,
    im_info: ir.Value,
    anchors: ir.Value,
    boxesdeltas: ir.Value,
    scores: ir.Value,
    /,
    *,
    min_size: float,
    nms_threshold: float,
    pre_nms_count: int,
    post_nms_count: int,
    normalized: bool = True,
    nms_eta: float = 1.0,
    roi_num_type: IndexType = "i64",
) -> tuple[ir.Value, ...]:
    """Anchors moved, TopK and suppression: NonMaxSuppression, or a Loop if sides are one longer."""
    require(scores, "scores", FLOATS)
    names = ("pre_nms_count", "post_nms_count", "nms_threshold")
    limits = Limits.of(names, pre_nms_count, post_nms_count, nms_threshold, int(not normalized))
    if nms_eta != 1:
        raise UnsupportedAttributeError(
            "nms_eta", nms_eta, "1, as for OpenVINO itself: a threshold that stays the same"
        )
    own = dtype_of(scores)
    values = [_single(b, value) for value in (im_info, anchors, boxesdeltas, scores)]
    info, fixed, deltas, given = values
    images, count, rows, columns = (size_of(b, given, axis) for axis in range(4))
    total = calculate(b, "Mul", calculate(b, "Mul", rows, columns), count)
    per_image = [images, 1, 1, 1, -1]
    # Axes as in Proposal; im_info has a row for each image.
    image = _reshaped(b, b.op("Gather", info, b.constant([1, 0]), axis=1), [*per_image[:-1], 2])
    factors = _reshaped(b, _factors(b, info, _width(im_info), axis=1), [*per_image[:-1], 2])
    extra = single(b, limits.extra)
    low, high = b.op("Split", fixed, outputs=2, axis=3, num_outputs=2)
    moves, growths = _offsets(b, deltas, images, count, rows, columns)
    low, high = _moved(b, low, high, moves, growths, extra, image)
    good = _large_enough(b, low, high, b.op("Mul", single(b, min_size), factors), extra)
    by_anchor = _reshaped(b, b.op("Transpose", given, perm=[0, 2, 3, 1]), [images, total])
    candidates = _reshaped(b, good, [images, total], _BOOL)
    chosen = choose(b, _flat(b, low, high, images, total), by_anchor, candidates, limits)
    to = INDEX_TYPES[roi_num_type]
    return (
        b.cast(b.typed(chosen.boxes, _F32, [None, 4]), own),
        b.cast(b.typed(chosen.scores, _F32, [None]), own),
        b.cast(chosen.numbers, to),
    )


@REGISTRY.lowering("ExperimentalDetectronGenerateProposalsSingleImage", since=6)
def single_image_proposals(
    b: Builder,
    im_info: ir.Value,
    anchors: ir.Value,
    deltas: ir.Value,
    scores: ir.Value,
    /,
    *,
    min_size: float,
    nms_threshold: float,
    pre_nms_count: int,
    post_nms_count: int,
) -> tuple[ir.Value, ...]:
    """Anchors moved, TopK and NonMaxSuppression."""
    require(scores, "scores", FLOATS)
    names = ("pre_nms_count", "post_nms_count", "nms_threshold")
    limits = Limits.of(names, pre_nms_count, post_nms_count, nms_threshold, 0)
    _tell_of_small_boxes(b, min_size)
    own = dtype_of(scores)
    info, fixed, offsets, given = (_single(b, value) for value in (im_info, anchors, deltas, scores))
    count, rows, columns = (size_of(b, given, axis) for axis in range(3))
    total = calculate(b, "Mul", calculate(b, "Mul", rows, columns), count)
    image = b.op("Gather", info, b.constant([1, 0]), axis=0)
    # Sides are one longer while the anchors are moved, but not when boxes are compared.
    extra = single(b, 1.0)
    spread = _reshaped(b, fixed, [1, rows, columns, count, 4])
    low, high = b.op("Split", spread, outputs=2, axis=4, num_outputs=2)
    moves, growths = _offsets(b, b.op("Unsqueeze", offsets, b.constant([0])), 1, count, rows, columns)
    low, high = _moved(b, low, high, moves, growths, extra, image)
    good = _large_enough(b, low, high, single(b, min_size), extra)
    by_anchor = b.op("Transpose", b.op("Unsqueeze", given, b.constant([0])), perm=[0, 2, 3, 1])
    lowered = _reshaped(b, b.op("Mul", b.op("Cast", good, to=int(_F32)), by_anchor), [1, total])
    chosen = choose(b, _flat(b, low, high, 1, total), lowered, None, limits)
    at = places(b, chosen, post_nms_count)
    regions = filled(b, chosen.boxes, at, [post_nms_count, 4])
    return b.cast(regions, own), b.cast(filled(b, chosen.scores, at, [post_nms_count]), own)


def _tell_of_small_boxes(b: Builder, min_size: float) -> None:
    if min_size > 0:
        b.follow("min_size: OpenVINO's CPU plugin keeps smaller boxes with score 0; the specification removes them")


def _single(b: Builder, value: ir.Value) -> ir.Value:
    if value.dtype == _F64:
        b.follow("f64: computed in f32, as in OpenVINO's CPU plugin")
    return b.cast(value, _F32)


def _reshaped(b: Builder, value: ir.Value, sizes: Sequence[Size], dtype: ir.DataType = _F32) -> ir.Value:
    return reshaped(b, b.typed(value, dtype, None), sizes)


def _width(info: ir.Value) -> int | None:
    """Returns the number of entries per image; None if dynamic."""
    width = info.shape[-1] if info.shape else None
    return width if isinstance(width, int) else None


def _factors(b: Builder, info: ir.Value, width: int | None, axis: int = 0) -> ir.Value:
    """Returns the scales of x and y: the last number, and the third, which is the last if there are three."""
    if width is not None:
        return b.op("Gather", info, b.constant([width - 1, 2]), axis=axis)
    last = b.op("Sub", b.op("Shape", info, start=axis, end=axis + 1), b.constant([1]))
    return b.op("Gather", info, b.op("Concat", last, b.constant([2]), axis=0), axis=axis)


def _anchors(base: int, ratios: Floats, scales: Floats, turned: bool) -> np.ndarray:
    """Returns the corners of Proposal's anchors, [ratios x scales, 4]."""
    f32 = np.float32
    extra, half, size = f32(0 if turned else 1), f32(0.5), f32(base)
    center = half * (size - extra)
    boxes = []
    for ratio in np.array(ratios, f32):
        width = np.sqrt(f32(base * base) / ratio)
        if not turned:
            width = np.floor(width + half)
        height = width * ratio
        if not turned:
            height = np.floor(height + half)
        for scale in np.array(scales, f32):
            reach = half * (np.array([width, height], f32) * scale - extra)
            corners = np.concatenate([center - reach, center + reach])
            boxes.append(corners - size * half if turned else corners)
    return np.array(boxes, f32).reshape(-1, 4)


def _spread(
    b: Builder, anchors: np.ndarray, rows: Size, columns: Size, stride: int, turned: bool
) -> tuple[ir.Value, ir.Value]:
    """Returns the corners of the anchors at each element, [1, rows, columns, anchors, 2]; turned: with x down."""
    places = []
    for size, axes in ((rows, [0, 2, 3, 4]), (columns, [0, 1, 3, 4])):
        steps = b.op("Mul", counted(b, size), b.constant(stride))
        places.append(b.op("Unsqueeze", b.op("Cast", steps, to=int(_F32)), b.constant(axes)))
    down, across = (b.constant(entries, np.float32) for entries in (([1, 0], [0, 1]) if turned else ([0, 1], [1, 0])))
    grid = b.op("Add", b.op("Mul", places[0], down), b.op("Mul", places[1], across))
    return b.op("Add", grid, b.constant(anchors[:, :2])), b.op("Add", grid, b.constant(anchors[:, 2:]))


def _offsets(
    b: Builder, deltas: ir.Value, images: Size, count: Size, rows: Size, columns: Size
) -> tuple[ir.Value, ir.Value]:
    """Returns the offsets and scales of anchors, each [images, rows, columns, anchors, 2]."""
    split = _reshaped(b, deltas, [images, count, 4, rows, columns])
    moves, growths = b.op("Split", b.op("Transpose", split, perm=[0, 3, 4, 1, 2]), outputs=2, axis=4, num_outputs=2)
    return b.typed(moves, _F32, None), b.typed(growths, _F32, None)


def _moved(
    b: Builder, low: ir.Value, high: ir.Value, moves: ir.Value, growths: ir.Value, extra: ir.Value, image: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """Moves anchors that are given as corners, and clips them to the image."""
    sides = b.op("Add", b.op("Sub", high, low), extra)
    middle = b.op("Add", low, b.op("Mul", sides, single(b, 0.5)))
    center = b.op("Add", b.op("Mul", moves, sides), middle)
    growth = exponential(b, b.op("Min", growths, b.constant(_MOST_GROWTH)))
    low, high = _around(b, center, b.op("Mul", growth, sides))
    edge = b.op("Sub", image, extra)
    return _clipped(b, low, edge), _clipped(b, b.op("Sub", high, extra), edge)


def _around(b: Builder, center: ir.Value, sides: ir.Value) -> tuple[ir.Value, ir.Value]:
    half = b.op("Mul", sides, single(b, 0.5))
    return b.op("Sub", center, half), b.op("Add", center, half)


def _clipped(b: Builder, corners: ir.Value, edge: ir.Value) -> ir.Value:
    return b.op("Max", b.op("Min", corners, edge), single(b, 0.0))


def _large_enough(b: Builder, low: ir.Value, high: ir.Value, smallest: ir.Value, extra: ir.Value) -> ir.Value:
    """Tells which boxes have sides of at least a minimum length."""
    sides = b.op("Add", b.op("Sub", high, low), extra)
    enough = b.op("LessOrEqual", smallest, sides)
    # The axis is counted from the front: with a negative one ONNX Runtime keeps the axis if there are no boxes.
    each = b.op("ReduceMin", b.op("Cast", enough, to=int(_F32)), b.constant([4]), keepdims=0)
    return b.op("Cast", each, to=int(_BOOL))


def _flat(b: Builder, low: ir.Value, high: ir.Value, images: Size, total: Size) -> ir.Value:
    """Returns corners as [images, boxes, 4]."""
    return _reshaped(b, b.op("Concat", low, high, axis=4), [images, total, 4])
