"""Padding of pooling.

Paddings are made explicit, so that what a window holds does not depend on how a runtime reads ceil_mode: rounding up is
rounding down with a larger end padding. Only same_* with dynamic sizes stays an auto_pad. What ONNX's attributes cannot
say, a Pad in front of the pooling does: windows that hold padding only, and paddings that depend on sizes of the run.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any, Literal

import onnx_ir as ir

from ortconv.converters.openvino.lib.broadcasting import rank_of
from ortconv.converters.openvino.lib.compute_types import chained, dtype_of, scalar
from ortconv.converters.openvino.lib.convolution_window import AUTO_PAD, AutoPadName
from ortconv.converters.openvino.lib.sizes import (
    Size,
    at_least_zero,
    calculate,
    halved,
    joined,
    same_padding,
    same_windows,
    size_of,
)
from ortconv.convolution_arithmetic import extent, pool_size, split
from ortconv.convolution_arithmetic import same_padding as total_padding
from ortconv.errors import ConversionError, ShapeError, UnsupportedAttributeError
from ortconv.graph.builder import Builder, Ints

__all__ = ["Plan", "Rounding", "apart", "plan_pooling"]

Rounding = Literal["floor", "ceil", "ceil_torch"]


@dataclasses.dataclass(frozen=True)
class _Windows:
    """The windows along one axis; `size` is None where it is dynamic."""

    size: int | None
    kernel: int
    stride: int
    dilation: int
    begin: int
    end: int

    @property
    def extent(self) -> int:
        return extent(self.kernel, self.dilation)


@dataclasses.dataclass(frozen=True)
class _Pool:
    """Attributes of ONNX pooling ops."""

    kernel_shape: Ints
    strides: Ints
    dilations: Ints
    pads: Ints | None = None
    auto_pad: str | None = None

    def attributes(self) -> dict[str, Any]:
        """Returns them; opsets before 19 have no dilations of AveragePool."""
        attributes = dataclasses.asdict(self)
        if set(self.dilations) == {1}:
            del attributes["dilations"]
        return attributes


@dataclasses.dataclass(frozen=True)
class Plan:
    """How to pool.

    Attributes:
        pool: Attributes; without paddings where `obstacle` is set.
        obstacle: Why attributes alone cannot say it.
        pads: Paddings that a Pad has to make then: those in front, those behind.
        asked: Those that the source asks for, without what rounding up adds.
    """

    pool: _Pool
    obstacle: ConversionError | None = None
    pads: tuple[list[Size], list[Size]] = ([], [])
    asked: tuple[Size, ...] = ()

    def asks_for_padding(self, b: Builder) -> bool | ir.Value:
        """Tells whether any axis is padded: a bool, or a bool scalar value if that depends on runtime sizes."""
        if any(isinstance(size, int) and size > 0 for size in self.asked):
            return True
        unknown = [size for size in self.asked if not isinstance(size, int)]
        if not unknown:
            return False
        most = b.op("ReduceMax", joined(b, unknown), keepdims=0)
        return b.typed(b.op("Greater", most, b.constant(0)), ir.DataType.BOOL, [])

    def padded(self, b: Builder, x: ir.Value, fill: ir.Value) -> ir.Value:
        """Emits a Pad with axes: ONNX Runtime fuses a Pad without axes into the pooling."""
        front, back = self.pads
        axes = b.constant(list(range(len(front) + 2)))
        padded = b.op("Pad", x, joined(b, [0, 0, *front, 0, 0, *back]), fill, axes, mode="constant")
        return b.typed(padded, x.dtype, None)

    def marked(self, b: Builder, data: ir.Value, like: ir.Value) -> ir.Value:
        """Emits what OpenVINO's CPU plugin counts of padded data: ones inside, zeros outside, and ones far behind.

        It divides by how many elements of a window are inside, multiplied over the axes. Where a window begins right
        behind the data that is zero, and zero divided by it NaN; where it begins further behind, by a dilation at
        least, it is negative.
        """
        front, back = self.pads
        rank = len(front) + 2

        def inside(place: int, before: Size, behind: Size) -> ir.Value:
            reach = self.pool.kernel_shape[place] * self.pool.dilations[place]
            far = at_least_zero(b, calculate(b, "Sub", behind, reach))
            near = calculate(b, "Sub", behind, far)
            counts: list[Size] = [before, size_of(b, data, place + 2), near, far]
            runs = [
                b.op("Expand", scalar(b, value, like), joined(b, [count]))
                for value, count in zip((0, 1, 0, 1), counts, strict=True)
            ]
            column = b.typed(b.op("Concat", *runs, axis=0), like.dtype, [None])
            others = [axis for axis in range(rank) if axis != place + 2]
            return b.typed(b.op("Unsqueeze", column, b.constant(others)), like.dtype, None)

        sides = zip(itertools.count(), front, back)
        return b.typed(chained(b, "Mul", itertools.starmap(inside, sides)), like.dtype, None)


def apart(b: Builder, data: ir.Value) -> ir.Value:
    """Returns data whose Pad ONNX Runtime does not fuse into the pooling.

    It takes a Pad of zeros for padding of the pooling behind it: that of a MaxPool is not zeros, and that of an
    AveragePool must be smaller than the kernel. One that names its axes it leaves alone.
    """
    node = data.producer()
    if node is None or node.domain or node.op_type not in ("Cast", "Pad"):
        return data
    before = node.inputs[0]
    assert before is not None
    if node.op_type == "Cast":
        padded = apart(b, before)
        return data if padded is before else b.cast(padded, dtype_of(data))
    mode = node.attributes.get("mode")
    if len(node.inputs) > 3 or (mode is not None and mode.as_string() != "constant"):
        return data
    axes = b.constant(list(range(rank_of(data, "data"))))
    fill = node.inputs[2] if len(node.inputs) > 2 else None
    return b.typed(b.op("Pad", before, node.inputs[1], fill, axes, mode="constant"), data.dtype, data.shape)


def plan_pooling(
    b: Builder,
    data: ir.Value,
    kernel: Ints,
    strides: Ints,
    dilations: Ints,
    pads_begin: Ints,
    pads_end: Ints,
    rounding: Rounding,
    auto_pad: AutoPadName,
    *,
    in_front: bool = True,
) -> Plan:
    """Plans the padding.

    Args:
        b: The builder.
        data: The data.
        kernel: Window sizes.
        strides: One per spatial axis.
        dilations: One per spatial axis, or none.
        pads_begin: One per spatial axis, or none.
        pads_end: One per spatial axis, or none.
        rounding: How output sizes are rounded.
        auto_pad: How paddings are found.
        in_front: Whether same_* pads on both sides; without it all padding along dynamic axes is behind the data.

    Raises:
        ShapeError: The rank does not fit.
        UnsupportedAttributeError: A list has a wrong length.
    """
    spatial = rank_of(data, "data") - 2
    if spatial not in (1, 2, 3):
        raise ShapeError("data", data.shape, "its rank must be 3, 4 or 5.")
    assert data.shape is not None
    none = () if auto_pad == "explicit" else (0,) * spatial
    lists = {
        "kernel": kernel,
        "strides": strides,
        "dilations": dilations or (1,) * spatial,
        "pads_begin": none or pads_begin or (0,) * spatial,
        "pads_end": none or pads_end or (0,) * spatial,
    }
    for attribute, values in lists.items():
        if len(values) != spatial or min(values) < (0 if attribute.startswith("pads") else 1):
            raise UnsupportedAttributeError(attribute, values, f"{spatial} sizes, one per spatial axis")
    sizes = [size if isinstance(size, int) else None for size in data.shape[2:]]
    windows = [_Windows(*each) for each in zip(sizes, *lists.values(), strict=True)]
    pool = _Pool(kernel, strides, lists["dilations"])
    pads: list[tuple[int, int]] = []
    try:
        if auto_pad.startswith("same") and None in sizes:
            if not in_front:
                raise ShapeError("data", data.shape, f"auto_pad {auto_pad} behind the data: its sizes must be known.")
            return Plan(_by_runtime(pool, windows, auto_pad, data))
        for window in windows:
            pads.append(_pads(window, rounding, auto_pad, data))
    except ConversionError as obstacle:
        b.note(f"a separate Pad: {obstacle}")
        sides = list(enumerate(windows, 2))
        asked = [_asked(b, data, axis, window, auto_pad, in_front) for axis, window in sides]
        ends = [
            _rounded_end(b, size_of(b, data, axis), window, *pair, rounding)
            for (axis, window), pair in zip(sides, asked, strict=True)
        ]
        return Plan(pool, obstacle, ([begin for begin, _ in asked], ends), tuple(itertools.chain(*asked)))
    if auto_pad != "explicit" or rounding != "floor":
        b.note(f"auto_pad {auto_pad}, rounding_type {rounding}: pads {pads}")
    return Plan(dataclasses.replace(pool, pads=tuple(begin for begin, _ in pads) + tuple(end for _, end in pads)))


def _by_runtime(pool: _Pool, windows: list[_Windows], auto_pad: AutoPadName, data: ir.Value) -> _Pool:
    """Emits auto_pad for same_*, whose padding leaves nothing to round.

    Raises:
        ShapeError: A window is dilated, or smaller than the stride: ONNX Runtime pads these otherwise.
    """
    if any(window.dilation > 1 for window in windows):
        raise ShapeError("data", data.shape, f"auto_pad {auto_pad} with dilations: its sizes must be known.")
    if any(window.kernel < window.stride for window in windows):
        raise ShapeError("data", data.shape, f"auto_pad {auto_pad} with gaps: its sizes must be known.")
    return dataclasses.replace(pool, auto_pad=auto_pad.upper())


def _pads(window: _Windows, rounding: Rounding, auto_pad: AutoPadName, data: ir.Value) -> tuple[int, int]:
    """Returns the paddings along an axis.

    Raises:
        ConversionError: ONNX's attributes cannot say them.
    """
    if auto_pad.startswith("same"):
        assert window.size is not None
        total = total_padding(window.size, window.kernel, window.stride, window.dilation)
        begin, end = split(AUTO_PAD[auto_pad], total)
        window = dataclasses.replace(window, begin=begin, end=end)
    pads = (window.begin, window.end) if rounding == "floor" else _rounded_up(window, rounding, data)
    if max(pads) >= window.kernel:
        raise UnsupportedAttributeError("kernel", window.kernel, f"more than the padding, {max(pads)}")
    return pads


def _asked(
    b: Builder, data: ir.Value, axis: int, window: _Windows, auto_pad: AutoPadName, in_front: bool
) -> tuple[Size, Size]:
    """Returns the paddings along a dynamic axis, without the elements that rounding up adds."""
    if not auto_pad.startswith("same"):
        return window.begin, window.end
    size = size_of(b, data, axis)
    total = same_padding(b, size, same_windows(b, size, window.stride), window.extent, window.stride)
    if window.size is None and not in_front:
        return 0, total
    return halved(b, AUTO_PAD[auto_pad], total)


def _rounded_end(b: Builder, size: Size, window: _Windows, begin: Size, end: Size, rounding: Rounding) -> Size:
    """Returns the end padding of a dynamic axis that gives all windows."""
    if rounding == "floor":
        return end
    covered = calculate(b, "Add", size, begin)
    free = calculate(b, "Sub", calculate(b, "Add", covered, end), window.extent)
    last = calculate(b, "Div", calculate(b, "Add", free, window.stride - 1), window.stride)
    if rounding == "ceil_torch":  # a window that would begin outside is dropped
        inside = calculate(b, "Div", calculate(b, "Sub", covered, 1), window.stride)
        before = calculate(b, "Sub", last, 1)
        if isinstance(last, int) and isinstance(inside, int) and isinstance(before, int):
            last = min(last, max(inside, before))
        else:
            least = b.op("Max", joined(b, [inside]), joined(b, [before]))
            last = b.op("Min", joined(b, [last]), least)
    needed = calculate(b, "Add", calculate(b, "Mul", last, window.stride), window.extent)
    return at_least_zero(b, calculate(b, "Sub", needed, covered))


def _rounded_up(window: _Windows, rounding: Rounding, data: ir.Value) -> tuple[int, int]:
    """Returns paddings for which rounding down gives the same number of windows as rounding up."""
    if window.size is None:
        # ceil(x / stride) is floor((x + stride - 1) / stride).
        end = window.end + window.stride - 1
        if end >= window.kernel:
            raise ShapeError("data", data.shape, f"rounding_type {rounding}: its spatial sizes must be known.")
        return window.begin, end
    covered = window.begin + window.size
    count = pool_size(covered, window.kernel, window.stride, window.dilation, window.end, ceil=True)
    if (count - 1) * window.stride >= covered:
        if rounding == "ceil":
            raise UnsupportedAttributeError(
                "rounding_type", rounding, "floor or ceil_torch, since the last window holds padding only"
            )
        count -= 1
    return window.begin, max((count - 1) * window.stride + window.extent - covered, 0)
