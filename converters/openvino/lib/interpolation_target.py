"""Target sizes of an interpolation: sizes or scales, constant or runtime values."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Container, Iterable, Sequence

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.broadcasting import rank_of
from ortconv.converters.openvino.lib.constants import int64_vector, known_ints, normalized
from ortconv.converters.openvino.lib.resampling import Resampled
from ortconv.errors import ShapeError, UnsupportedAttributeError
from ortconv.graph.builder import Builder, Ints

__all__ = ["Target", "target_along", "target_of"]

_F32, _I64 = ir.DataType.FLOAT, ir.DataType.INT64
_GROWS = 2
"""The smallest scale that enlarges every size."""


@dataclasses.dataclass(frozen=True)
class Target:
    """The target of an interpolation.

    Attributes:
        axes: The axes that are interpolated.
        value: One size or scale for each.
        by_scales: Which of the two.
        scales: The scale of each axis, None where it is not known.
    """

    axes: Ints
    value: ir.Value
    by_scales: bool
    scales: tuple[float | None, ...]

    def sizes(self, b: Builder, data: ir.Value) -> ir.Value:
        """Returns the target sizes of the axes."""
        if not self.by_scales:
            return self.value
        sizes = b.op("Cast", b.op("Gather", b.op("Shape", data), b.constant(list(self.axes))), to=int(_F32))
        return b.op("Cast", b.op("Floor", b.op("Mul", sizes, self.value)), to=int(_I64))

    def entries(self, b: Builder) -> list[Resampled]:
        """Returns each axis by itself."""
        entries = [b.op("Gather", self.value, b.constant([place])) for place in range(len(self.axes))]
        return [(axis, entry, self.by_scales) for axis, entry in zip(self.axes, entries, strict=True)]

    def may_become_one(self, b: Builder) -> bool:
        """Tells whether the target size of an axis is 1 or dynamic."""
        known = None if self.by_scales else b.array(self.value)
        return known is None or 1 in known

    def along(self, b: Builder, axes: Container[int]) -> Target:
        """Returns the target along some of its axes."""
        places = [place for place, axis in enumerate(self.axes) if axis in axes]
        if len(places) == len(self.axes):
            return self
        known = b.array(self.value)
        value = b.op("Gather", self.value, b.constant(places)) if known is None else b.constant(known[places])
        return Target(
            tuple(self.axes[place] for place in places),
            value,
            self.by_scales,
            tuple(self.scales[place] for place in places),
        )

    def where(self, condition: Callable[[float], bool]) -> Ints:
        """Returns the axes whose scale is a constant that meets a condition."""
        pairs = zip(self.axes, self.scales, strict=True)
        return tuple(axis for axis, scale in pairs if scale is not None and condition(scale))

    def moving(self, b: Builder) -> Target:
        """Returns the target without the axes that are known to keep their sizes."""
        staying = self.where(lambda scale: scale == 1)
        return self.along(b, [axis for axis in self.axes if axis not in staying])


def target_along(b: Builder, data: ir.Value, value: ir.Value, axes: ir.Value | None, *, by_scales: bool) -> Target:
    """Returns the target that an input states for the axes of another, which may be computed at run time.

    The target has all axes then: axes that are not named keep their sizes.

    Args:
        b: The builder.
        data: What is interpolated.
        value: One size or scale for each of the axes.
        axes: The axes, counted from the front or from the end; None for all.
        by_scales: Whether the value is scales.

    Raises:
        ShapeError: See `target_of`.
        UnsupportedAttributeError: See `target_of`.
    """
    rank = rank_of(data, "data")
    everything = tuple(range(rank))
    if axes is None:
        return target_of(b, data, value, everything, by_scales=by_scales)
    known = known_ints(b, axes)
    if known is not None:
        return target_of(b, data, value, normalized(known, rank, "axes"), by_scales=by_scales)
    counts = [each.shape[0] if each.shape is not None and len(each.shape) == 1 else None for each in (axes, value)]
    if all(isinstance(count, int) for count in counts) and counts[0] != counts[1]:
        raise _length_error(value.shape, counts[0], by_scales)
    given = b.cast(value, _F32) if by_scales else int64_vector(b, value)
    kept = b.constant(np.array([1] * rank, np.float32)) if by_scales else b.op("Shape", data)
    whole = b.op("ScatterElements", kept, int64_vector(b, axes), given)
    whole = b.typed(whole, _F32 if by_scales else _I64, [rank])
    return target_of(b, data, whole, everything, by_scales=by_scales)


def target_of(b: Builder, data: ir.Value, value: ir.Value, axes: Ints, *, by_scales: bool) -> Target:
    """Returns the target that an input of the source states.

    Raises:
        ShapeError: It has not one entry for each axis.
        UnsupportedAttributeError: A scale gives a size only by the way in which a product is rounded.
    """
    assert data.shape is not None
    known = b.array(value)
    if known is not None and known.shape != (len(axes),):
        raise _length_error(known.shape, len(axes), by_scales)
    sizes = [size if isinstance(size, int) and size else None for size in (data.shape[axis] for axis in axes)]
    if by_scales:
        return _by_scales(b, data, value, axes, sizes)
    goals = known_ints(b, value)
    _require_elements(axes, sizes, goals or ())
    pairs = zip(goals or [None] * len(axes), sizes, strict=True)
    scales = tuple(None if goal is None or size is None else goal / size for goal, size in pairs)
    return Target(axes, int64_vector(b, value), False, scales)


def _length_error(shape: Iterable[object] | None, count: object, by_scales: bool) -> ShapeError:
    return ShapeError("scales" if by_scales else "sizes", shape, f"it must have one entry per axis, {count}.")


def _by_scales(b: Builder, data: ir.Value, value: ir.Value, axes: Ints, sizes: Sequence[int | None]) -> Target:
    known = b.array(value)
    if known is None:
        return Target(axes, _one_where_it_stays(b, data, axes, value), True, (None,) * len(axes))
    scales = [float(scale) for scale in known.astype(np.float32)]
    goals = [None if size is None else _scaled(size, scale) for size, scale in zip(sizes, scales, strict=True)]
    _require_elements(axes, sizes, goals)
    for place, (size, goal) in enumerate(zip(sizes, goals, strict=True)):
        if size is not None and goal == size and scales[place] != 1:
            b.follow(f"follows OpenVINO's CPU plugin: axis {axes[place]} keeps its size and is copied, not scaled")
            scales[place] = 1.0
    exact = [
        size is not None and goal is not None and np.float32(goal / size) == np.float32(scale)
        for size, goal, scale in zip(sizes, goals, scales, strict=True)
    ]
    if all(exact):
        # Sizes are equivalent and do not depend on how a product is rounded.
        return Target(axes, b.constant(np.array(goals, np.int64)), False, tuple(scales))
    for size, goal, scale in zip(sizes, goals, scales, strict=True):
        if size is not None and math.floor(size * scale) != goal:
            raise UnsupportedAttributeError(
                "shape_calculation_mode", "scales", f"sizes, since {scale} times {size} is next to an integer"
            )
    chosen = b.constant(scales, np.float32)
    if any(size is None and 1 < scale < _GROWS for size, scale in zip(sizes, scales, strict=True)):
        chosen = _one_where_it_stays(b, data, axes, chosen)
    return Target(axes, chosen, True, tuple(scales))


def _require_elements(axes: Ints, sizes: Sequence[int | None], goals: Sequence[int | None]) -> None:
    for axis, size, goal in zip(axes, sizes, goals, strict=False):
        if size is not None and goal is not None and goal < 1:
            raise ShapeError("data", sizes, f"axis {axis} would get {goal} entries; it must keep one.")


def _one_where_it_stays(b: Builder, data: ir.Value, axes: Ints, scales: ir.Value) -> ir.Value:
    """Returns float32 scales, set to 1 along axes that keep their sizes: OpenVINO copies these."""
    scales = b.cast(scales, _F32)
    sizes = b.op("Cast", b.op("Gather", b.op("Shape", data), b.constant(list(axes))), to=int(_F32))
    stays = b.op("Equal", b.op("Floor", b.op("Mul", sizes, scales)), sizes)
    return b.op("Where", stays, b.constant(1, np.float32), scales)


def _scaled(size: int, scale: float) -> int:
    """Returns the scaled size as OpenVINO and ONNX Runtime compute it: the float32 product, rounded down."""
    return int(np.float32(size) * np.float32(scale))
