"""ExperimentalDetectronPriorGridGenerator."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.compute_types import FLOATS, in_single, require
from ortconv.converters.openvino.lib.defaults import warn_of_default
from ortconv.converters.openvino.lib.sizes import Size, counted, joined, require_sizes, size_of
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import UnsupportedAttributeError
from ortconv.graph.builder import Builder

_F32 = ir.DataType.FLOAT
_CORNERS = 4


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
    """Adds the center of each cell to each prior."""
    require(priors, "priors", FLOATS)
    warn_of_default(b, "flatten", True, "takes false")
    require_sizes(priors, "priors", None, _CORNERS)
    require_sizes(feature_map, "feature_map", None, None, None, None)
    require_sizes(image, "image", None, None, None, None)
    sizes = [size_of(b, feature_map, axis) for axis in (2, 3)]
    for name, given, size in (("h", h, sizes[0]), ("w", w, sizes[1])):
        if given and given != size:
            found = size if isinstance(size, int) else "a runtime value"
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
    """Returns the centers of cells along an axis; by default the cells cover the image."""
    places = b.op("Add", b.op("Cast", counted(b, size), to=int(_F32)), b.constant(0.5, np.float32))
    if stride:
        step = b.constant(stride, np.float32)
    else:
        lengths = [b.op("Cast", joined(b, [number]), to=int(_F32)) for number in (length, size)]
        step = b.op("Div", *lengths)
    return b.op("Mul", places, step)
