"""Shapes and element types of the outputs of oneDNN ops, for the builder.

The rules check nothing. If sizes contradict each other, or the shape depends on runtime values, it is unknown; the
conversion reports errors.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ortconv.convolution_arithmetic import (
    conv_size,
    conv_transpose_size,
    extent,
    given_size_padding,
    pool_size,
    same_padding,
)

__all__ = [
    "Attributes",
    "Rule",
    "Shape",
    "broadcast",
    "channel_axis",
    "convolved",
    "given",
    "interpolated",
    "like",
    "pooled",
]

Shape = tuple[int | None, ...] | None
Attributes = Mapping[str, Any]
Rule = Callable[[Sequence[Shape], Attributes], "Shape | list[Shape]"]
"""Takes the shapes of the inputs and the attributes; returns the shape of the output, or of each output."""


def like(*numbers: int) -> Rule:
    """Returns the rule that each output has the shape of an input, given by its number."""
    return lambda inputs, attributes: [inputs[number] for number in numbers]


def given(name: str, count: int) -> Rule:
    """Returns the rule that an attribute gives the shape; unknown if input number `count`, which overrides it, is."""
    return lambda inputs, attributes: attributes.get(name, ()) or None if len(inputs) == count else None


def broadcast(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """Returns the shape to which all inputs are broadcast."""
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(shapes):
        return None
    rank = max(map(len, known))
    padded = [(1,) * (rank - len(shape)) + shape for shape in known]
    result: list[int | None] = []
    for dims in zip(*padded, strict=True):
        sizes = {dim for dim in dims if dim is not None and dim != 1}
        if len(sizes) > 1:
            return None
        result.append(sizes.pop() if sizes else None if None in dims else 1)
    return tuple(result)


def interpolated(inputs: Sequence[Shape], attributes: Attributes) -> Shape:
    """Returns the shape of Interpolate."""
    src = inputs[0]
    if src is None or len(src) < 3 or len(inputs) > 1:
        return None
    sizes: tuple[int | None, ...] = attributes.get("sizes", ())
    if not sizes:
        pairs = zip(_spatial(src, attributes), attributes.get("scales", ()), strict=False)
        sizes = tuple(None if dim is None else int(_single(dim * _single(scale))) for dim, scale in pairs)
    return _with_spatial(src, sizes, attributes) if len(sizes) == len(src) - 2 else None


def pooled(inputs: Sequence[Shape], attributes: Attributes) -> Shape:
    """Returns the shape of AvgPool and MaxPool."""
    src = inputs[0]
    if src is None or len(src) < 3:
        return None
    names = ("kernel", "strides", "pads_begin", "pads_end")
    rows = [attributes.get(name, ()) for name in names]
    rows.append(attributes.get("dilations", ()) or (1,) * (len(src) - 2))
    if any(len(row) != len(src) - 2 for row in rows):
        return None
    rounds_up = str(attributes.get("rounding_type", "floor")).casefold() == "ceil"
    auto_pad = str(attributes.get("auto_pad", "none")).casefold()
    sizes: list[int | None] = []
    for dim, k, s, begin, end, d in zip(_spatial(src, attributes), *rows, strict=True):
        if rounds_up and dim is not None and s > 0:
            # The library rounds up under every auto_pad.
            padding = {"none": begin + end, "valid": 0}.get(auto_pad, same_padding(dim, k, s, d))
            sizes.append(pool_size(dim, k, s, d, padding, ceil=True))
        else:
            sizes.append(_forward_size(auto_pad, dim, k, s, d, begin, end, 0))
    return _with_spatial(src, tuple(sizes), attributes)


def convolved(inputs: Sequence[Shape], attributes: Attributes, *, transpose: bool = False) -> Shape:
    """Returns the shape of a convolution, or of ConvTranspose if `transpose` is set."""
    src, weights = inputs[0], inputs[1]
    if src is None or weights is None or len(src) < 3 or len(src) != len(weights):
        return None
    spatial = len(src) - 2
    kernel_first = str(attributes.get("weights_format", "XIO")).upper().startswith("X")
    kernel = weights[:spatial] if kernel_first else weights[2:]
    # XIO and XOI have the axes O and I in reverse order.
    first, second = (weights[-1], weights[-2]) if kernel_first else weights[:2]
    channels = first
    if transpose:
        channels = None if second is None else second * attributes.get("groups", 1)
    names = ("strides", "dilations", "pads_begin", "pads_end")
    rows = [_spatial(src, attributes), kernel, *(attributes.get(name, ()) for name in names)]
    if any(len(row) != spatial for row in rows):
        return None
    padding = attributes.get("output_padding", ()) or (0,) * spatial
    auto_pad = str(attributes.get("auto_pad", "none")).casefold()
    size = _transposed_size if transpose else _forward_size
    sizes = tuple(size(auto_pad, *axis) for axis in zip(*rows, padding, strict=False))
    return (src[0], *sizes, channels) if channel_axis(attributes) == -1 else (src[0], channels, *sizes)


def _forward_size(
    auto_pad: str, x: int | None, k: int | None, s: int, d: int, begin: int, end: int, _: int
) -> int | None:
    if x is None or k is None or s < 1:
        return None
    if auto_pad.startswith("same"):
        return -(-x // s)
    return conv_size(x, k, s, d, 0 if auto_pad == "valid" else begin + end)


def _transposed_size(
    auto_pad: str, x: int | None, k: int | None, s: int, d: int, begin: int, end: int, padding: int
) -> int | None:
    if x is None or k is None:
        return None
    pads = {"valid": 0, "none": begin + end}.get(auto_pad, given_size_padding(extent(k, d), s))
    return conv_transpose_size(x, k, s, d, pads - padding)


def _single(number: float) -> float:
    """Rounds to float32: the library multiplies sizes in float32."""
    (rounded,) = struct.unpack("f", struct.pack("f", number))
    return float(rounded)


def channel_axis(attributes: Attributes) -> int:
    """Returns the axis of the channels."""
    return -1 if str(attributes.get("data_format", "NXC")).upper() == "NXC" else 1


def _spatial(src: tuple[int | None, ...], attributes: Attributes) -> tuple[int | None, ...]:
    return src[1:-1] if channel_axis(attributes) == -1 else src[2:]


def _with_spatial(src: tuple[int | None, ...], sizes: tuple[int | None, ...], attributes: Attributes) -> Shape:
    return (src[0], *sizes, src[-1]) if channel_axis(attributes) == -1 else (*src[:2], *sizes)
