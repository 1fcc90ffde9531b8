"""ExperimentalDetectronDetectionOutput: boxes moved by predictions, suppressed class by class, the best ones kept.

Coordinates are those of elements: a box from 2 to 4 is 3 wide. OpenVINO's CPU plugin orders the results by class, or
by score where there are more than can be kept: then, of equal scores, the first box comes first, and of equal scores of
one box the class that its sort happens to leave in front.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.compute_types import FLOATS, exponential, require, single
from ortconv.converters.openvino.lib.greedy_suppression import greedy
from ortconv.converters.openvino.lib.sizes import Size, require_sizes, reshaped, size_of
from ortconv.converters.openvino.parity.partial_sort import partly_sorted
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import UnsupportedAttributeError
from ortconv.graph.builder import Builder

_F32, _I64 = ir.DataType.FLOAT, ir.DataType.INT64
_ALL = np.iinfo(np.int64).max
_CORNERS = 4
_BACKGROUND = 0


@REGISTRY.lowering("ExperimentalDetectronDetectionOutput", since=6)
def detectron_detection_output(
    b: Builder,
    rois: ir.Value,
    deltas: ir.Value,
    scores: ir.Value,
    image_size: ir.Value,
    /,
    *,
    score_threshold: float,
    nms_threshold: float,
    num_classes: int,
    post_nms_count: int,
    max_detections_per_image: int,
    class_agnostic_box_regression: bool = False,
    max_delta_log_wh: float,
    deltas_weights: tuple[float, ...],
) -> tuple[ir.Value, ...]:
    """A Loop that takes the best box of each class and drops those that it overlaps, and sorts."""
    require(rois, "rois", FLOATS)
    require_sizes(rois, "rois", None, _CORNERS)
    require_sizes(deltas, "deltas", size_of(b, rois, 0), num_classes * _CORNERS)
    require_sizes(scores, "scores", size_of(b, rois, 0), num_classes)
    if len(deltas_weights) != _CORNERS:
        raise UnsupportedAttributeError("deltas_weights", deltas_weights, f"{_CORNERS} numbers")
    if post_nms_count < -1:
        raise UnsupportedAttributeError("post_nms_count", post_nms_count, "-1, 0 or a positive number")
    if max_detections_per_image < 1:
        raise UnsupportedAttributeError("max_detections_per_image", max_detections_per_image, "a positive number")
    b.follow("OpenVINO's CPU plugin clips boxes at 0 only; the specification clips them to the image")
    if class_agnostic_box_regression:
        b.follow("class_agnostic_box_regression: ignored, as in OpenVINO's CPU plugin; the specification removes boxes")
    if rois.dtype == ir.DataType.DOUBLE:
        b.follow("f64: computed in f32, as in OpenVINO's CPU plugin")
    boxes, moves, each = (b.cast(value, _F32) for value in (rois, deltas, scores))
    boxes = b.typed(b.op("Unsqueeze", boxes, b.constant([1])), _F32, [None, 1, _CORNERS])
    whole = _whole(b, boxes)
    by_class = _shaped(b, moves, [size_of(b, rois, 0), num_classes, _CORNERS])
    # [1, classes, boxes, 4] and [1, classes, boxes].
    refined = _turned(b, b.op("Where", whole, _refined(b, boxes, by_class, max_delta_log_wh, deltas_weights), _zero(b)))
    likely = b.op("Where", b.op("Squeeze", whole, b.constant([2])), each, _zero(b))
    likely = b.op("Unsqueeze", b.op("Transpose", likely, perm=[1, 0]), b.constant([0]))
    is_background = b.op("Equal", b.counted(num_classes), b.constant([_BACKGROUND]))
    foreground = b.op("Unsqueeze", b.op("Not", is_background), b.constant([1]))
    reached = b.op("And", b.op("Greater", likely, single(b, score_threshold)), foreground)
    candidates = b.typed(b.op("Where", reached, likely, single(b, -np.inf)), _F32, [1, num_classes, None])
    area = b.op("Where", b.op("Squeeze", whole, b.constant([1, 2])), _area(b, refined), _zero(b))
    chosen, found = greedy(
        b,
        candidates,
        b.constant([_ALL if post_nms_count < 0 else post_nms_count]),
        lambda taken: _overlapped(b, refined, area, taken, nms_threshold),
    )
    order = _order(b, chosen, found, max_detections_per_image)
    rows = b.op("Gather", chosen, order, axis=0)
    classes = b.op("Squeeze", b.op("Split", rows, outputs=3, axis=1, num_outputs=3)[1], b.constant([1]))
    results = (b.op("GatherND", refined, rows), classes, b.op("Gather", found, order, axis=0))
    types = (_F32, _I64, _F32)
    return tuple(
        b.cast(b.typed(_filled(b, value, max_detections_per_image, rank), dtype, None), output.dtype)
        for value, dtype, rank, output in zip(results, types, (2, 1, 1), b.node.outputs, strict=False)
    )


def _zero(b: Builder) -> ir.Value:
    return single(b, 0.0)


def _shaped(b: Builder, value: ir.Value, sizes: list[Size]) -> ir.Value:
    return reshaped(b, b.typed(value, _F32, None), sizes)


def _halves(b: Builder, boxes: ir.Value, axis: int = 2) -> tuple[ir.Value, ...]:
    """Returns the first and the second two of four numbers."""
    return b.op("Split", boxes, outputs=2, axis=axis, num_outputs=2)


def _whole(b: Builder, boxes: ir.Value) -> ir.Value:
    """Tells which boxes have an area, [boxes, 1, 1]."""
    low, high = _halves(b, boxes)
    shortest = b.op("ReduceMin", b.op("Sub", high, low), b.constant([2]), keepdims=1)
    return b.op("Greater", shortest, _zero(b))


def _refined(b: Builder, boxes: ir.Value, moves: ir.Value, largest: float, weights: tuple[float, ...]) -> ir.Value:
    """Emits the boxes of each class, [boxes, classes, 4], in the plugin's order of operations."""
    half, one, zero = single(b, 0.5), single(b, 1.0), _zero(b)
    low, high = _halves(b, boxes)
    size = b.op("Add", b.op("Sub", high, low), one)
    center = b.op("Add", low, b.op("Mul", half, size))
    shift, growth = _halves(b, b.op("Div", moves, b.constant(weights, np.float32)))
    middle = b.op("Add", b.op("Mul", shift, size), center)
    reach = b.op("Mul", half, b.op("Mul", exponential(b, b.op("Min", growth, single(b, largest))), size))
    corners = (b.op("Sub", middle, reach), b.op("Sub", b.op("Add", middle, reach), one))
    return b.op("Concat", *[b.op("Max", corner, zero) for corner in corners], axis=2)


def _turned(b: Builder, boxes: ir.Value) -> ir.Value:
    """Returns boxes [boxes, classes, 4] as [1, classes, boxes, 4]."""
    return b.op("Unsqueeze", b.op("Transpose", boxes, perm=[1, 0, 2]), b.constant([0]))


def _area(b: Builder, boxes: ir.Value) -> ir.Value:
    """Emits the areas of boxes of elements."""
    low, high = _halves(b, boxes, 3)
    return b.op("ReduceProd", b.op("Add", b.op("Sub", high, low), single(b, 1.0)), b.constant([3]), keepdims=0)


def _overlapped(b: Builder, boxes: ir.Value, area: ir.Value, taken: ir.Value, threshold: float) -> ir.Value:
    """Tells which boxes overlap one of their class by more than a threshold, [1, classes, boxes]."""
    index = b.op("Unsqueeze", taken, b.constant([3]))
    own = b.op("GatherND", boxes, index, batch_dims=2)
    own_area = b.op("GatherND", area, index, batch_dims=2)
    low, high = _halves(b, boxes, 3)
    own_low, own_high = _halves(b, own, 3)
    # Disjoint boxes have no intersection, even if they are less than an element apart. Of a box narrower than
    # an element the upper corner is before the lower one, which is not the same as being apart.
    apart = b.op("Or", b.op("Greater", low, own_high), b.op("Less", high, own_low))
    sides = b.op("Add", b.op("Sub", b.op("Min", high, own_high), b.op("Max", low, own_low)), single(b, 1.0))
    inside = b.op("Max", b.op("Where", apart, _zero(b), sides), _zero(b))
    common = b.op("ReduceProd", inside, b.constant([3]), keepdims=0)
    overlap = b.op("Div", common, b.op("Sub", b.op("Add", area, own_area), common))
    none = b.op("LessOrEqual", common, _zero(b))
    return b.op("Greater", b.op("Where", none, _zero(b), overlap), single(b, threshold))


def _order(b: Builder, chosen: ir.Value, found: ir.Value, most: int) -> ir.Value:
    """Returns the indices of the rows to keep: all of them in order, or the best if there are too many."""
    first, one = b.constant([0]), b.constant([1])
    count = b.op("Shape", found)
    total = b.op("Squeeze", count, first)
    box = b.op("Squeeze", b.op("Split", chosen, outputs=3, axis=1, num_outputs=3)[2], one)
    _, by_box = b.op("TopK", box, count, outputs=2, axis=0, largest=0)
    _, by_score = b.op("TopK", b.op("Gather", found, by_box, axis=0), count, outputs=2, axis=0)
    sorted_ = b.op("Gather", by_box, by_score, axis=0)
    new = b.op("Or", *[_changes(b, b.op("Gather", values, sorted_, axis=0)) for values in (found, box)])
    equal = b.op("Cast", b.op("Not", b.op("Slice", new, first, b.constant([most]))), to=int(_I64))
    ties = b.op("Greater", b.op("ReduceSum", equal, keepdims=0), b.constant(0))
    more = b.op("Greater", total, b.constant(most))
    with b.body() as slow:
        # The number of each row among those that differ, as a score.
        number = b.op("CumSum", b.op("Cast", new, to=int(_I64)), b.constant(0))
        ranks = b.op("Neg", b.op("Cast", b.op("Concat", first, number, axis=0), to=int(_F32)))
        scores = b.op("ScatterElements", b.op("Expand", _zero(b), count), sorted_, ranks, axis=0)
        row = b.typed(b.op("Unsqueeze", scores, first), _F32, [1, None])
        as_there = slow.graph([b.op("Squeeze", partly_sorted(b, row, b.constant(most)), first)])
    with b.body() as fast:
        numbers = b.op("Range", b.constant(0), total, b.constant(1))
        kept = b.op("Slice", b.op("Where", more, sorted_, numbers), first, b.constant([most]))
        as_found = fast.graph([kept])
    order = b.op("If", b.op("And", more, ties), then_branch=as_there, else_branch=as_found)
    return b.typed(order, _I64, [None])


def _changes(b: Builder, values: ir.Value) -> ir.Value:
    """Tells which values differ from the previous one, for all but the first."""
    before = b.op("Slice", values, b.constant([0]), b.constant([-1]))
    return b.op("Not", b.op("Equal", b.op("Slice", values, b.constant([1]), b.constant([_ALL])), before))


def _filled(b: Builder, rows: ir.Value, most: int, rank: int) -> ir.Value:
    """Appends zeros up to a number of rows."""
    missing = b.op("Sub", b.constant([most]), b.op("Shape", rows, end=1))
    zeros = [b.constant([0] * (rank - 1))] if rank > 1 else []
    return b.op("Pad", rows, b.op("Concat", b.constant([0] * rank), missing, *zeros, axis=0))
