"""Bugs of Interpolate, which the plugin implements for spatial axes."""

from __future__ import annotations

import numpy as np

from ortconv.converters.openvino.plugin_bugs.bug import Bug, Live, random

__all__ = ["BATCH_OR_CHANNELS", "PADDING_OF_OTHER_AXES", "RUNTIME_AXES"]

_WIDE = (1, 2, 3, 4)

BATCH_OR_CHANNELS = Bug(
    op="Interpolate",
    case="the batch, or in some modes channels, are interpolated",
    fault="may return wrong numbers or crash",
    live=Live(
        lambda ov, x: ov.opset11.interpolate(x, np.array([2, 2]), "nearest", "sizes", axes=np.array([0, 1])),
        [random(*_WIDE)],
        np.repeat(random(*_WIDE), 2, 0),
        shapes=[[-1, -1, -1, -1]],
        steady=False,
    ),
)

PADDING_OF_OTHER_AXES = Bug(
    op="Interpolate",
    case="padding, and batch or channels among the axes",
    fault="pads other axes",
    live=Live(
        lambda ov, x: ov.opset11.interpolate(
            x, np.array([3]), "nearest", "sizes", pads_begin=[0, 1, 0, 0], axes=np.array([1])
        ),
        [random(*_WIDE)],
        np.concatenate([np.zeros((1, 1, 3, 4), np.float32), random(*_WIDE)], 1),
    ),
)

RUNTIME_AXES = Bug(
    op="Interpolate",
    case="axes known only at run time, in mode linear_onnx or a pillow mode",
    fault="may return wrong numbers or nothing, or crash, unless they are all spatial axes in order",
    live=Live(
        lambda ov, x, axes: ov.opset11.interpolate(x, np.array([3, 4]), "linear_onnx", "sizes", axes=axes),
        [random(*_WIDE), np.array([2, 3])],
        random(*_WIDE),
        steady=False,
    ),
)
