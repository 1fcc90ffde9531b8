"""DeformableConvolution: convolution that samples the data at positions shifted by offsets."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.bilinear_sampling import Image, interpolated
from ortconv.converters.openvino.lib.broadcasting import rank_of
from ortconv.converters.openvino.lib.compute_types import FLOATS, in_single, require
from ortconv.converters.openvino.lib.convolution_window import AUTO_PAD, AutoPadName
from ortconv.converters.openvino.lib.sizes import (
    Size,
    halved,
    joined,
    numbers_below,
    same_padding,
    same_windows,
    size_of,
)
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.convolution_arithmetic import extent
from ortconv.errors import ShapeError, UnsupportedAttributeError
from ortconv.graph.builder import Builder, Ints

_SPATIAL = 2


@REGISTRY.lowering("DeformableConvolution")
def deformable_convolution(
    b: Builder,
    data: ir.Value,
    offsets: ir.Value,
    filters: ir.Value,
    /,
    *,
    strides: Ints,
    pads_begin: Ints = (),
    pads_end: Ints = (),
    dilations: Ints = (),
    auto_pad: AutoPadName = "explicit",
    group: int = 1,
    deformable_group: int = 1,
) -> ir.Value:
    """A Conv of gathered elements; samples outside of the image are zero, and edges do not fade."""
    return deformable_convolution_8(
        b,
        data,
        offsets,
        filters,
        strides=strides,
        pads_begin=pads_begin,
        pads_end=pads_end,
        dilations=dilations,
        auto_pad=auto_pad,
        group=group,
        deformable_group=deformable_group,
    )


@REGISTRY.lowering("DeformableConvolution", since=8)
def deformable_convolution_8(
    b: Builder,
    data: ir.Value,
    offsets: ir.Value,
    filters: ir.Value,
    mask: ir.Value | None = None,
    /,
    *,
    strides: Ints,
    pads_begin: Ints = (),
    pads_end: Ints = (),
    dilations: Ints = (),
    auto_pad: AutoPadName = "explicit",
    group: int = 1,
    deformable_group: int = 1,
    bilinear_interpolation_pad: bool = False,
) -> ir.Value:
    """DeformConv where edges fade (bilinear_interpolation_pad), otherwise a Conv of gathered elements."""
    window = _Window(b, data, filters, strides, pads_begin, pads_end, dilations, auto_pad)
    require(data, "data", FLOATS)

    def faded(x: ir.Value, moves: ir.Value, weights: ir.Value, factors: ir.Value | None) -> ir.Value:
        pads = [*window.begin, *window.end]
        if not all(isinstance(pad, int) for pad in pads):  # samples outside are zero, as padding is
            ends = joined(b, [0, 0, *window.begin, 0, 0, *window.end])
            x, pads = b.typed(b.op("Pad", x, ends), x.dtype, None), [0] * (2 * _SPATIAL)
        return b.op(
            "DeformConv",
            x,
            weights,
            moves,
            None,
            factors,
            kernel_shape=window.kernel,
            strides=window.strides,
            dilations=window.dilations,
            pads=pads,
            group=group,
            offset_group=deformable_group,
        )

    def sharp(x: ir.Value, moves: ir.Value, weights: ir.Value, factors: ir.Value | None) -> ir.Value:
        return _gathered(b, x, moves, weights, factors, window, group, deformable_group)

    return in_single(b, faded if bilinear_interpolation_pad else sharp, data, offsets, filters, mask)


class _Window:
    """How the kernel moves over an image: one entry per axis."""

    def __init__(
        self,
        b: Builder,
        data: ir.Value,
        filters: ir.Value,
        strides: Ints,
        begin: Ints,
        end: Ints,
        dilations: Ints,
        auto_pad: AutoPadName,
    ) -> None:
        if rank_of(data, "data") != _SPATIAL + 2:
            raise ShapeError("data", data.shape, f"its rank must be {_SPATIAL + 2}.")
        assert data.shape is not None
        rank_of(filters, "filters")
        assert filters.shape is not None
        kernel = [size for size in filters.shape[2:] if isinstance(size, int)]
        if len(kernel) != _SPATIAL:
            raise ShapeError("filters", filters.shape, f"it must have {_SPATIAL} spatial axes of known sizes.")
        self.kernel = tuple(kernel)
        self.strides = strides
        self.dilations = dilations or (1,) * _SPATIAL
        none = () if auto_pad == "explicit" else (0,) * _SPATIAL
        front, back = none or begin or (0,) * _SPATIAL, none or end or (0,) * _SPATIAL
        self.begin: tuple[Size, ...] = front
        self.end: tuple[Size, ...] = back
        for attribute, values, least in (
            ("strides", self.strides, 1),
            ("dilations", self.dilations, 1),
            ("pads_begin", front, 0),
            ("pads_end", back, 0),
        ):
            if len(values) != _SPATIAL or min(values) < least:
                raise UnsupportedAttributeError(attribute, values, f"{_SPATIAL} integers of at least {least}")
        if auto_pad.startswith("same"):
            totals = []
            for axis, (taps, stride, dilation) in enumerate(
                zip(self.kernel, self.strides, self.dilations, strict=True), 2
            ):
                size = size_of(b, data, axis)
                windows = same_windows(b, size, stride)
                totals.append(same_padding(b, size, windows, extent(taps, dilation), stride))
            pads = [halved(b, AUTO_PAD[auto_pad], total) for total in totals]
            self.begin, self.end = tuple(pad[0] for pad in pads), tuple(pad[1] for pad in pads)
            if all(isinstance(total, int) for total in totals):
                b.note(f"auto_pad {auto_pad}: pads {pads}")


def _gathered(
    b: Builder,
    x: ir.Value,
    moves: ir.Value,
    weights: ir.Value,
    factors: ir.Value | None,
    window: _Window,
    group: int,
    parts: int,
) -> ir.Value:
    """Gathers the elements of every window as channels, for a convolution by a kernel of one element.

    D parts of the channels have offsets of their own; K elements are in a window.
    """
    elements = window.kernel[0] * window.kernel[1]
    area = b.op("Shape", moves, start=2)
    pieces = b.op(
        "Reshape",
        x,
        b.op("Concat", b.constant([-1, _depth(x, weights, group, parts)]), b.op("Shape", x, start=2), axis=0),
    )
    image = Image.of(b, pieces)
    shape = b.op("Concat", b.constant([-1, elements, 2]), area, axis=0)
    down, across = b.op("Split", b.op("Reshape", moves, shape), outputs=2, axis=2, num_outputs=2)
    points, within = [], []
    for axis, (offset, size) in enumerate(zip((down, across), (image.height, image.width), strict=True)):
        place = b.op("Add", b.op("Squeeze", offset, b.constant([2])), _places(b, window, axis, area))
        limit = b.op("Cast", size, to=int(ir.DataType.FLOAT))
        within.append(b.op("And", b.op("GreaterOrEqual", place, b.constant(0, np.float32)), b.op("Less", place, limit)))
        points.append(place)
    inside = b.op("And", *within)
    owner = b.op("Unsqueeze", numbers_below(b, b.op("Shape", pieces, end=1)), b.constant([1, 2, 3]))
    values = interpolated(b, image, owner, *points)
    kept = b.op("Cast", inside, to=int(ir.DataType.FLOAT))
    if factors is not None:
        kept = b.op("Mul", kept, b.op("Reshape", factors, b.op("Shape", kept)))
    scaled = b.op("Mul", values, b.op("Unsqueeze", kept, b.constant([4])))
    columns = b.op("Transpose", scaled, perm=[0, 4, 1, 2, 3])
    batch = b.op("Shape", x, end=1)
    merged = b.op("Reshape", columns, b.op("Concat", batch, b.constant([-1]), area, axis=0))
    flat = b.op("Reshape", weights, b.constant([0, -1, 1, 1]))
    return b.op("Conv", merged, flat, group=group, kernel_shape=[1, 1])


def _depth(x: ir.Value, weights: ir.Value, group: int, parts: int) -> int:
    """Returns the number of channels of each deformable group, from the weights if the data's is dynamic."""
    assert x.shape is not None
    assert weights.shape is not None
    channels, each = x.shape[1], weights.shape[1]
    if not isinstance(channels, int) and isinstance(each, int):
        channels = each * group
    if not isinstance(channels, int) or parts < 1 or channels % parts:
        raise ShapeError("data", x.shape, f"its channels must be a known multiple of deformable_group, {parts}.")
    return channels // parts


def _places(b: Builder, window: _Window, axis: int, area: ir.Value) -> ir.Value:
    """Returns the positions of the windows' elements along an axis before offsets, [K, OH, 1] or [K, 1, OW]."""
    begin = window.begin[axis]
    steps = b.budget.arange("the kernel", window.kernel[axis]) * window.dilations[axis]
    steps -= begin if isinstance(begin, int) else 0
    b.budget.require("the kernel", window.kernel, *window.kernel, steps.itemsize)
    within = np.broadcast_to(steps[:, None] if axis == 0 else steps, window.kernel)
    count = b.op("Gather", area, b.constant(axis))
    starts = b.op("Mul", b.op("Range", b.constant(0), count, b.constant(1)), b.constant(window.strides[axis]))
    column = b.op("Unsqueeze", starts, b.constant([1])) if axis == 0 else starts
    places = b.op("Add", column, b.constant(within.reshape(-1, 1, 1)))
    places = places if isinstance(begin, int) else b.op("Sub", places, begin)
    return b.op("Cast", places, to=int(ir.DataType.FLOAT))
