"""ExperimentalDetectronROIFeatureExtractor."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.compute_types import FLOATS, in_single, require
from ortconv.converters.openvino.lib.roi_sampling import average_boxes
from ortconv.converters.openvino.lib.sizes import joined, require_sizes, size_of
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import ConversionError, UnsupportedAttributeError
from ortconv.graph.builder import Builder, Ints

_I64 = ir.DataType.INT64
_CORNERS = 4
_WHOLE_IMAGE = 224.0
"""Side length of boxes that belong to the pyramid level `_WHOLE_LEVEL`."""

_WHOLE_LEVEL = 2


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
    """RoiAlign of the boxes of each pyramid level, in the order of the boxes."""
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
        b.follow("the second output: OpenVINO's CPU plugin keeps the boxes' order; the specification sorts by level")

    def formula(boxes: ir.Value, *maps: ir.Value) -> ir.Value:
        level = _levels(b, boxes, len(maps))
        parts, places = [], []
        for number, (data, scale) in enumerate(zip(maps, pyramid_scales, strict=False)):
            own = b.op("Squeeze", b.op("NonZero", b.op("Equal", level, b.constant(number))), b.constant([0]))
            chosen = b.op("Gather", boxes, own, axis=0)
            goals = (output_size, output_size)
            parts.append(
                average_boxes(b, data, chosen, goals, max(sampling_ratio, 0), float(np.float32(1) / scale), aligned)
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
