"""RegionYolo and ReorgYolo."""

from __future__ import annotations

import onnx_ir as ir

from ortconv.converters.openvino.lib.broadcasting import rank_of
from ortconv.converters.openvino.lib.compute_types import FLOATS, compute, require, warn_of_float32_integers
from ortconv.converters.openvino.lib.constants import normalized
from ortconv.converters.openvino.lib.defaults import warn_of_default
from ortconv.converters.openvino.lib.sizes import Size, calculate, reshaped, sizes_of
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import ShapeError, UnsupportedAttributeError
from ortconv.graph.builder import Builder, Ints

_RANK = 4
_CENTRE = 2
"""Coordinates that get a Sigmoid: the box's center."""


@REGISTRY.lowering("RegionYolo")
def region_yolo(
    b: Builder,
    data: ir.Value,
    /,
    *,
    axis: int,
    coords: int,
    classes: int,
    end_axis: int,
    num: int,
    do_softmax: bool = True,
    mask: Ints = (),
    anchors: tuple[float, ...] = (),
) -> ir.Value:
    """Sigmoid of the center and score of each region, and Softmax (do_softmax) or Sigmoid of its classes."""
    require(data, "data", FLOATS)
    warn_of_default(b, "do_softmax", True, "takes false")
    if rank_of(data, "data") != _RANK:
        raise ShapeError("data", data.shape, f"its rank must be {_RANK}.")
    if coords < _CENTRE:
        raise UnsupportedAttributeError("coords", coords, f"an integer of at least {_CENTRE}")
    regions = num if do_softmax else len(mask)
    entries = coords + 1 + classes
    assert data.shape is not None
    if data.shape[1] not in (None, regions * entries) and isinstance(data.shape[1], int):
        raise ShapeError(
            "data", data.shape, f"{regions} regions of {entries} entries make {regions * entries} channels."
        )

    def formula(x: ir.Value) -> ir.Value:
        shape = b.op("Shape", x)
        area = b.op("Shape", x, start=2)
        split = b.op("Concat", b.op("Shape", x, end=1), b.constant([regions, entries]), area, axis=0)
        sizes = b.constant([_CENTRE, coords - _CENTRE, 1, classes])
        parts = b.op("Split", b.op("Reshape", x, split, allowzero=1), sizes, outputs=4, axis=2)
        scores = b.op("Softmax", parts[3], axis=2) if do_softmax else b.op("Sigmoid", parts[3])
        joined = [b.op("Sigmoid", parts[0]), parts[1], b.op("Sigmoid", parts[2]), scores]
        return b.op("Reshape", b.op("Concat", *joined, axis=2), shape, allowzero=1)

    value = compute(b, formula, data, op_types=("Sigmoid", "Softmax"))
    if not do_softmax:
        return value
    first, last = normalized((axis, end_axis), _RANK, "axis")
    if first > last:
        raise UnsupportedAttributeError("end_axis", end_axis, f"at least axis, {axis}")
    sizes = sizes_of(b, data, "data")
    flat: Size = 1
    for size in sizes[first : last + 1]:
        flat = calculate(b, "Mul", flat, size)
    return reshaped(b, value, [*sizes[:first], flat, *sizes[last + 1 :]])


@REGISTRY.lowering("ReorgYolo", since=2)
def reorg_yolo(b: Builder, data: ir.Value, /, *, stride: Ints) -> ir.Value:
    """SpaceToDepth of the data reinterpreted as a larger image with fewer channels, as in Darknet."""
    if rank_of(data, "data") != _RANK:
        raise ShapeError("data", data.shape, f"its rank must be {_RANK}.")
    if not stride or min(stride) < 1 or len(set(stride)) > 1:
        raise UnsupportedAttributeError("stride", stride, "one integer of at least 1")
    warn_of_float32_integers(b, data)
    step = stride[0]
    block = b.constant([step])
    batch, depth, height, width = b.op("Split", b.op("Shape", data), outputs=_RANK, axis=0, num_outputs=_RANK)
    area = b.constant([step * step])
    # An output channel is (row in block, column in block, input channel), as in SpaceToDepth.
    thin = b.op("Div", depth, area)
    split = b.op("Concat", batch, thin, height, block, width, block, axis=0)
    moved = b.op("Transpose", b.op("Reshape", data, split), perm=[0, 3, 5, 1, 2, 4])
    shrunk = [b.op("Div", size, block) for size in (height, width)]
    return b.op("Reshape", moved, b.op("Concat", batch, b.op("Mul", depth, area), *shrunk, axis=0))
