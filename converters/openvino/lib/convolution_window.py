"""The sliding window of convolutions, from attributes and shapes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import onnx_ir as ir

from ortconv.converters.conv.window import Window
from ortconv.convolution_arithmetic import LARGEST, AutoPad
from ortconv.errors import ShapeError, UnsupportedAttributeError
from ortconv.graph.builder import Builder, Ints

__all__ = ["AUTO_PAD", "AutoPadName", "explicit_pads", "per_axis", "window_of"]

AutoPadName = Literal["explicit", "same_upper", "same_lower", "valid"]
"""The attribute auto_pad as OpenVINO spells it."""

AUTO_PAD: Mapping[AutoPadName, AutoPad] = {
    "explicit": AutoPad.NOTSET,
    "same_upper": AutoPad.SAME_UPPER,
    "same_lower": AutoPad.SAME_LOWER,
    "valid": AutoPad.NOTSET,
}
"""auto_pad of OpenVINO -> that of ONNX; "valid" becomes NOTSET, with all pads 0."""


def window_of(data: ir.Value, filter: ir.Value, strides: Ints, dilations: Ints, groups: int) -> Window:
    """Returns the sliding window.

    Raises:
        ShapeError: The rank is unknown, or a rank or size is out of range.
        UnsupportedAttributeError: The strides or dilations have the wrong length or are out of range.
    """
    shape = data.shape if data.shape is not None else filter.shape
    if shape is None:
        raise ShapeError("data", None, "the rank must be known.")
    if len(shape) < 3:
        raise ShapeError("data", list(shape), "rank 3 or more is required.")
    for name, value in (("data", data), ("filter", filter)):
        if value.shape is not None and any(isinstance(dim, int) and dim > LARGEST for dim in value.shape):
            raise ShapeError(name, list(value.shape), f"sizes of at most {LARGEST} are required.")
    rank = len(shape) - 2
    return Window(per_axis("strides", strides, rank, 1, 1), per_axis("dilations", dilations, rank, 1, 1), groups)


def explicit_pads(
    b: Builder, window: Window, pads_begin: Ints, pads_end: Ints, auto_pad: AutoPadName, *, allow_negative_end: bool
) -> tuple[Ints, Ints]:
    """Returns the begin and end padding: the attributes if auto_pad is "explicit", else zeros.

    Raises:
        UnsupportedAttributeError: pads_begin or pads_end has the wrong length or an entry out of range.
    """
    begin = per_axis("pads_begin", pads_begin, window.rank, 0, 0)
    end = per_axis("pads_end", pads_end, window.rank, 0, None if allow_negative_end else 0)
    if auto_pad == "explicit":
        return begin, end
    if any(begin) or any(end):
        b.note(f"pads_begin and pads_end are ignored if auto_pad = {auto_pad}, as the specification says")
    return (0,) * window.rank, (0,) * window.rank


def per_axis(name: str, values: Ints, rank: int, default: int, least: int | None) -> Ints:
    """Returns `values`, one per spatial axis; if there are none, `default` for every axis.

    Raises:
        UnsupportedAttributeError: There are not `rank` values, or one is below `least` or of more than 31 bits.
    """
    if not values:
        return (default,) * rank
    low = -LARGEST if least is None else least
    if len(values) != rank or any(not low <= value <= LARGEST for value in values):
        raise UnsupportedAttributeError(
            name, list(values), f"{rank} integers from {low} to {LARGEST}, one per spatial axis"
        )
    return values
