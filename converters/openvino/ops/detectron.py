"""Detectron's own ops for the boxes between its networks: grids of priors, the likeliest boxes, features of boxes."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.compute_types import FLOATS, in_single, require
from ortconv.converters.openvino.lib.defaults import warn_of_default
from ortconv.converters.openvino.lib.sizes import Size, counted, joined, require_sizes, size_of
from ortconv.converters.openvino.ops.roi_align import averages
from ortconv.converters.openvino.parity.sort import IN_ORDER, fully_sorted
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import ConversionError, UnsupportedAttributeError
from ortconv.graph.builder import Builder, Ints

_F32, _I64 = ir.DataType.FLOAT, ir.DataType.INT64
_CORNERS = 4
_END = np.iinfo(np.int64).max
_WHOLE_IMAGE = 224.0
"""Side of the boxes that belong to the level `_WHOLE_LEVEL` of a pyramid."""
_WHOLE_LEVEL = 2


@REGISTRY.lowering("ExperimentalDetectronPriorGridGenerator", since=6)
def prior_grid_generator(
    b: Builder,
    priors: ir.Value,
    feature_map: ir.Value,
    image: ir.Value,
    /,
    *,
    flatten: bool = True,
    h: int = 0,
    w: int = 0,
    stride_x: float = 0.0,
    stride_y: float = 0.0,
) -> ir.Value:
    """Adds the middle of each cell to each prior."""
    require(priors, "priors", FLOATS)
    warn_of_default(b, "flatten", True, "takes false")
    require_sizes(priors, "priors", None, _CORNERS)
    require_sizes(feature_map, "feature_map", None, None, None, None)
    require_sizes(image, "image", None, None, None, None)
    sizes = [size_of(b, feature_map, axis) for axis in (2, 3)]
    for name, given, size in (("h", h, sizes[0]), ("w", w, sizes[1])):
        if given and given != size:
            found = size if isinstance(size, int) else "known at run time only"
            raise UnsupportedAttributeError(
                name, given, f"0, or the feature map's size, which is {found}: OpenVINO leaves the other cells unset"
            )

    def formula(boxes: ir.Value) -> ir.Value:
        middles = [
            _middles(b, size, stride, size_of(b, image, axis))
            for size, stride, axis in zip(sizes, (stride_y, stride_x), (2, 3), strict=True)
        ]
        shape = joined(b, sizes)
        down = b.op("Expand", b.op("Unsqueeze", middles[0], b.constant([1])), shape)
        across = b.op("Expand", b.op("Unsqueeze", middles[1], b.constant([0])), shape)
        behind = b.constant([2])
        point = b.op("Concat", *[b.op("Unsqueeze", part, behind) for part in (across, down) * 2], axis=2)
        # [height, width, priors, 4].
        grid = b.typed(b.op("Add", b.op("Unsqueeze", point, behind), boxes), _F32, [None] * 4)
        return b.op("Reshape", grid, b.constant([-1, _CORNERS])) if flatten else grid

    return in_single(b, formula, priors)


def _middles(b: Builder, size: Size, stride: float, length: Size) -> ir.Value:
    """Returns the middle of each cell along an axis of an image, by default as long as the image."""
    places = b.op("Add", b.op("Cast", counted(b, size), to=int(_F32)), b.constant(0.5, np.float32))
    if stride:
        step = b.constant(stride, np.float32)
    else:
        lengths = [b.op("Cast", joined(b, [number]), to=int(_F32)) for number in (length, size)]
        step = b.op("Div", *lengths)
    return b.op("Mul", places, step)


@REGISTRY.lowering("ExperimentalDetectronTopKROIs", since=6)
def top_k_rois(b: Builder, rois: ir.Value, probabilities: ir.Value, /, *, max_rois: int = 0) -> ir.Value:
    """TopK, and a Gather of the boxes; equal ones in the order of OpenVINO's CPU plugin."""
    require(rois, "rois", FLOATS)
    require_sizes(rois, "rois", None, _CORNERS)
    require_sizes(probabilities, "probabilities", size_of(b, rois, 0))
    count = size_of(b, rois, 0)
    if max_rois < 0:
        raise UnsupportedAttributeError("max_rois", max_rois, "0 or a positive number")
    if isinstance(count, int) and count < max_rois:
        raise UnsupportedAttributeError(
            "max_rois", max_rois, f"at most {count}, the number of boxes: OpenVINO leaves the other rows unset"
        )
    if not isinstance(count, int):
        b.warn("max_rois: of fewer boxes OpenVINO leaves the other rows unset; here they are zeros")

    def formula(boxes: ir.Value, scores: ir.Value) -> ir.Value:
        most = b.constant([max_rois])
        kept = most if isinstance(count, int) else b.op("Min", most, count)
        best = b.op("Gather", boxes, _likeliest(b, scores, count, kept), axis=0)
        if isinstance(count, int):
            return best
        pads = b.op("Concat", b.constant([0, 0]), b.op("Sub", most, kept), b.constant([0]), axis=0)
        return b.op("Pad", best, pads)

    return in_single(b, formula, rois, probabilities)


def _likeliest(b: Builder, scores: ir.Value, count: Size, most: ir.Value) -> ir.Value:
    """Returns the indices of the highest scores."""
    if isinstance(count, int) and count <= IN_ORDER:
        return b.op("TopK", scores, most, outputs=2, axis=0)[1]
    first, one = b.constant([0]), b.constant([1])
    looked = b.op("Min", b.op("Add", most, one), b.op("Shape", scores))
    values, order = b.op("TopK", scores, looked, outputs=2, axis=0)
    pairs = b.op("Slice", values, first, b.constant([-1])), b.op("Slice", values, one, b.constant([_END]))
    equal = b.op("ReduceSum", b.op("Cast", b.op("Equal", *pairs), to=int(_I64)), keepdims=0)
    with b.body() as slow:
        as_there = slow.graph([b.op("Slice", fully_sorted(b, scores), first, most)])
    with b.body() as fast:
        as_found = fast.graph([b.op("Slice", order, first, most)])
    return b.op("If", b.op("Greater", equal, b.constant(0)), then_branch=as_there, else_branch=as_found)


@REGISTRY.lowering("ExperimentalDetectronROIFeatureExtractor", since=6)
def roi_feature_extractor(
    b: Builder,
    rois: ir.Value,
    /,
    *features: ir.Value,
    output_size: int,
    sampling_ratio: int,
    pyramid_scales: Ints,
    aligned: bool = False,
) -> tuple[ir.Value, ...]:
    """RoiAlign of the boxes of each level of a pyramid, put together in their order."""
    require(rois, "rois", FLOATS)
    if output_size < 1:
        raise UnsupportedAttributeError("output_size", output_size, "a positive number")
    if not features:
        raise ConversionError("has no feature maps; allowed: one or more.")
    if len(pyramid_scales) < len(features) or min(pyramid_scales) < 1:
        raise UnsupportedAttributeError("pyramid_scales", pyramid_scales, f"{len(features)} positive numbers")
    require_sizes(rois, "rois", None, _CORNERS)
    for number, data in enumerate(features):
        require_sizes(data, f"features {number}", 1, size_of(b, features[0], 1), None, None)
    if len(b.node.outputs) > 1:
        b.follow("the second output: OpenVINO's CPU plugin gives the boxes in their order; the page by level")

    def formula(boxes: ir.Value, *maps: ir.Value) -> ir.Value:
        level = _levels(b, boxes, len(maps))
        parts, places = [], []
        for number, (data, scale) in enumerate(zip(maps, pyramid_scales, strict=False)):
            own = b.op("Squeeze", b.op("NonZero", b.op("Equal", level, b.constant(number))), b.constant([0]))
            chosen = b.op("Gather", boxes, own, axis=0)
            goals = (output_size, output_size)
            parts.append(
                averages(b, data, chosen, goals, max(sampling_ratio, 0), float(np.float32(1) / scale), aligned)
            )
            places.append(own)
        order = b.op("Unsqueeze", b.op("Concat", *places, axis=0), b.constant([1]))
        shape = joined(b, [size_of(b, boxes, 0), size_of(b, maps[0], 1), output_size, output_size])
        # Boxes without area belong to no level.
        nothing = b.op("Expand", b.constant(0, np.float32), shape)
        return b.op("ScatterND", nothing, order, b.op("Concat", *parts, axis=0))

    return in_single(b, formula, rois, *features), rois


def _levels(b: Builder, boxes: ir.Value, levels: int) -> ir.Value:
    """Emits the level of each box: floor(log2(side / 224 + 1e-6) + 2), held inside; `levels` for boxes without area."""
    low, high = b.op("Split", boxes, outputs=2, axis=1, num_outputs=2)
    width, height = b.op("Split", b.op("Sub", high, low), outputs=2, axis=1, num_outputs=2)
    area = b.op("Squeeze", b.op("Mul", width, height), b.constant([1]))
    side = b.op("Div", b.op("Sqrt", area), b.constant(_WHOLE_IMAGE, np.float32))
    size = b.op("Unsqueeze", b.op("Add", side, b.constant(1e-6, np.float32)), b.constant([1]))
    starts = b.constant(np.array([[_start(level) for level in range(1, levels)]], np.float32).reshape(1, -1))
    reached = b.op("Cast", b.op("GreaterOrEqual", size, starts), to=int(_I64))
    level = b.op("ReduceSum", reached, b.constant([1]), keepdims=0)
    return b.op("Where", b.op("Greater", area, b.constant(0, np.float32)), level, b.constant(levels))


def _start(level: int) -> np.float32:
    """Returns the smallest size of a level, in the float32 arithmetic of OpenVINO's CPU plugin."""
    size = np.float32(2.0 ** (level - _WHOLE_LEVEL))
    while np.floor(np.log2(below := np.nextafter(size, np.float32(0))) + np.float32(_WHOLE_LEVEL)) >= level:
        size = below
    return size
