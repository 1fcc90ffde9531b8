"""Interpolate as ONNX Resize, wherever the two agree to the last index, and else one axis at a time."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import onnx_ir as ir

from ortconv.builder import Builder, Ints
from ortconv.converters.openvino.ops.broadcasting import rank_of
from ortconv.converters.openvino.ops.constants import constant_ints, int64_vector, known_ints, normalized
from ortconv.converters.openvino.ops.padding import pad_zeros
from ortconv.converters.openvino.ops.resampling import Coordinates, Nearest, Resampled, resample, resample_nearest
from ortconv.converters.openvino.ops.types import FLOATS, INTEGERS, compute, in_32_bits, require, rounded
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import ShapeError, UnsupportedAttributeError

Mode = Literal["nearest", "linear", "linear_onnx", "cubic"]
PillowMode = Literal["nearest", "linear", "linear_onnx", "cubic", "bilinear_pillow", "bicubic_pillow"]
ShapeMode = Literal["sizes", "scales"]

_PILLOW_COEFFICIENT = -0.5
_LINEAR_AXES: dict[int, tuple[Ints, ...]] = {4: ((2, 3), (1, 2)), 5: ((2, 3, 4),)}
_SMOOTHED_RANK = 5
"""The one at which OpenVINO's CPU plugin smooths what shrinks."""
_CUBIC_AXES: dict[int, tuple[Ints, ...]] = {2: ((0, 1),), 4: ((2, 3),)}


@dataclasses.dataclass(frozen=True)
class _Target:
    """What the result's sizes are.

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


@REGISTRY.lowering("Interpolate")
def interpolate(
    b: Builder,
    data: ir.Value,
    target_spatial_shape: ir.Value,
    /,
    *,
    axes: Ints,
    mode: Literal["nearest", "linear", "cubic", "area"],
    align_corners: bool = True,
    antialias: bool = False,
    pads_begin: Ints = (),
    pads_end: Ints = (),
) -> ir.Value:
    """Resize; coordinates that the page leaves open are those of OpenVINO's conversion to Interpolate-4."""
    rank = rank_of(data, "data")
    if mode == "area":
        raise UnsupportedAttributeError("mode", mode, "nearest, linear, cubic; ONNX has no area interpolation")
    if any(pads_begin + pads_end):
        raise UnsupportedAttributeError("pads_begin", (*pads_begin, *pads_end), "0; the page and OpenVINO disagree")
    coordinates: Coordinates = "align_corners" if align_corners else "asymmetric"
    if mode == "linear" and not align_corners and (rank, set(axes)) != (4, {2, 3}):
        coordinates = "half_pixel"
    target = _target(b, data, target_spatial_shape, normalized(axes, rank, "axes"), by_scales=False)
    return _interpolate(b, data, target, mode, coordinates, "simple", antialias, -0.75)


@REGISTRY.lowering("Interpolate", since=4, how="exact")
def interpolate_4(
    b: Builder,
    data: ir.Value,
    sizes: ir.Value,
    scales: ir.Value,
    axes: ir.Value | None = None,
    /,
    *,
    mode: Mode,
    shape_calculation_mode: ShapeMode,
    coordinate_transformation_mode: Coordinates = "half_pixel",
    nearest_mode: Nearest = "round_prefer_floor",
    antialias: bool = False,
    pads_begin: Ints = (),
    pads_end: Ints = (),
    cube_coeff: float = -0.75,
) -> ir.Value:
    """Resize, after a Pad where there is padding."""
    by_scales = shape_calculation_mode == "scales"
    padded = _padded(b, data, pads_begin, pads_end)
    target = _target(b, padded, scales if by_scales else sizes, _axes(b, data, axes), by_scales=by_scales)
    return _interpolate(b, padded, target, mode, coordinate_transformation_mode, nearest_mode, antialias, cube_coeff)


@REGISTRY.lowering("Interpolate", since=11)
def interpolate_11(
    b: Builder,
    image: ir.Value,
    scales_or_sizes: ir.Value,
    axes: ir.Value | None = None,
    /,
    *,
    mode: PillowMode,
    shape_calculation_mode: ShapeMode,
    coordinate_transformation_mode: Coordinates = "half_pixel",
    nearest_mode: Nearest = "round_prefer_floor",
    antialias: bool = False,
    pads_begin: Ints = (),
    pads_end: Ints = (),
    cube_coeff: float = -0.75,
) -> ir.Value:
    """Resize, after a Pad where there is padding."""
    padded = _padded(b, image, pads_begin, pads_end)
    by_scales = shape_calculation_mode == "scales"
    target = _target(b, padded, scales_or_sizes, _axes(b, image, axes), by_scales=by_scales)
    if mode == "bilinear_pillow" or mode == "bicubic_pillow":
        require(image, "image", (*FLOATS, *INTEGERS))
        if mode == "bicubic_pillow" and cube_coeff != _PILLOW_COEFFICIENT:
            b.warn(f"OpenVINO's CPU plugin is followed: it takes {_PILLOW_COEFFICIENT} for cube_coeff = {cube_coeff}")
            cube_coeff = _PILLOW_COEFFICIENT
        return _pillow(
            b, padded, _pillow_target(b, padded, target), "linear" if mode == "bilinear_pillow" else "cubic", cube_coeff
        )
    return _interpolate(b, padded, target, mode, coordinate_transformation_mode, nearest_mode, antialias, cube_coeff)


def _interpolate(
    b: Builder,
    data: ir.Value,
    target: _Target,
    mode: Mode,
    coordinates: Coordinates,
    nearest: Nearest,
    antialias: bool,
    cube_coeff: float,
) -> ir.Value:
    if mode == "nearest":
        return _nearest(b, data, target, coordinates, nearest)
    rank = rank_of(data, "data")
    # OpenVINO's CPU plugin does not round integers there.
    require(data, "data", FLOATS if mode != "linear_onnx" and rank == _SMOOTHED_RANK else (*FLOATS, *INTEGERS))
    if mode == "linear" and antialias and not _all(target, lambda scale: scale >= 1):
        if rank == _SMOOTHED_RANK:
            return _smoothed(b, data, target, coordinates)
        b.warn(f"OpenVINO's CPU plugin is followed: it ignores antialias where the rank is not {_SMOOTHED_RANK}")
    kind: Literal["linear", "cubic"] = "cubic" if mode == "cubic" else "linear"
    moving = _moving(b, target)
    # Batch and channels whose scale is not known are taken to stay: where they do not, ONNX Runtime says so.
    axes = tuple(a for a, scale in zip(moving.axes, moving.scales, strict=True) if a > 1 or scale is not None)
    if coordinates == "tf_half_pixel_for_nn" or not _has_kernel(kind, rank, axes):
        b.note("one axis at a time: ONNX Runtime's Resize lacks it")
        return resample(b, data, _axes_of(b, moving), kind, coordinates, cube_coeff)
    attributes = {"cubic_coeff_a": cube_coeff} if kind == "cubic" else {}
    return _resize(b, data, target, kind, coordinates, **attributes)


def _moving(b: Builder, target: _Target) -> _Target:
    return _chosen(b, target, [scale != 1 for scale in target.scales])


def _has_kernel(mode: str, rank: int, axes: Ints) -> bool:
    """Tells whether ONNX Runtime resizes these axes of data of a rank."""
    if mode == "linear" and rank not in _LINEAR_AXES:
        return rank < max(_LINEAR_AXES)
    supported = (_LINEAR_AXES if mode == "linear" else _CUBIC_AXES).get(rank, ())
    return not axes or any(set(axes) <= set(each) for each in supported)


def _axes_of(b: Builder, target: _Target) -> list[Resampled]:
    entries = [b.op("Gather", target.value, b.constant([place])) for place in range(len(target.axes))]
    return [(axis, entry, target.by_scales) for axis, entry in zip(target.axes, entries, strict=True)]


def _smoothed(b: Builder, data: ir.Value, target: _Target, coordinates: Coordinates) -> ir.Value:
    """Emits linear interpolation with antialias where every axis shrinks or stays."""
    if coordinates != "half_pixel" or not _all(target, lambda scale: scale <= 1):
        raise UnsupportedAttributeError(
            "antialias", True, "false, or half_pixel coordinates with scales known to be at most 1"
        )
    return _resize(b, data, target, "linear", coordinates, antialias=1, exclude_outside=1)


def _nearest(b: Builder, data: ir.Value, target: _Target, coordinates: Coordinates, nearest: Nearest) -> ir.Value:
    if nearest == "simple":
        return _simple(b, data, target, coordinates)
    if coordinates == "tf_half_pixel_for_nn":
        if nearest != "floor":
            return resample_nearest(b, data, _axes_of(b, _moving(b, target)), coordinates, nearest)
        # Floor of a coordinate that lies half a pixel further is half_pixel rounded half up.
        return _resize(b, data, target, "nearest", "half_pixel", nearest_mode="round_prefer_ceil")
    return _resize(b, data, target, "nearest", coordinates, nearest_mode=nearest)


def _simple(b: Builder, data: ir.Value, target: _Target, coordinates: Coordinates) -> ir.Value:
    """Rounds up along axes that shrink and down along the others, whose coordinates are not below zero when clamped."""
    if None in target.scales or coordinates == "tf_half_pixel_for_nn":
        return resample_nearest(b, data, _axes_of(b, _moving(b, target)), coordinates, "simple")
    value = data
    for rounding, chosen in (
        ("floor", [scale is not None and scale >= 1 for scale in target.scales]),
        ("ceil", [scale is not None and scale < 1 for scale in target.scales]),
    ):
        if any(chosen):
            value = _nearest(b, value, _chosen(b, target, chosen), coordinates, rounding)  # type: ignore[arg-type]
    return value


def _resize(b: Builder, data: ir.Value, target: _Target, mode: str, coordinates: str, **attributes: Any) -> ir.Value:
    moving = _moving(b, target)
    if not moving.axes:
        return b.typed(b.op("Identity", data), data.dtype, data.shape)
    rank = rank_of(data, "data")
    if mode != "nearest" and None not in moving.scales and not _has_kernel(mode, rank, moving.axes):
        raise UnsupportedAttributeError("axes", moving.axes, f"axes that ONNX Runtime resizes with mode {mode}")
    sizes = None if moving.by_scales else _of_all_axes(b, data, moving)
    scales = _of_all_axes(b, data, moving) if moving.by_scales else None

    def resize(x: ir.Value) -> ir.Value:
        resized: ir.Value = b.op(
            "Resize",
            x,
            None,
            scales,
            sizes,
            mode=mode,
            coordinate_transformation_mode=coordinates,
            **attributes,
        )
        return resized

    if mode == "nearest":
        resized = in_32_bits(b, lambda x: compute(b, resize, x, kernels=("Resize",)), data)
    else:
        resized = rounded(b, resize, data, kernels=("Resize",))
    return b.typed(resized, data.dtype, [None] * rank)


def _of_all_axes(b: Builder, data: ir.Value, target: _Target) -> ir.Value:
    """Returns the sizes or scales of all axes, those that stay included.

    Resize could be given the axes instead, but ONNX Runtime's optimizer then fails to move a Transpose past it.
    """
    assert data.shape is not None
    known = b.array(target.value)
    sizes = [size if isinstance(size, int) else None for size in data.shape]
    fixed = all(size for axis, size in enumerate(sizes) if axis not in target.axes)
    if known is not None and (target.by_scales or fixed):
        of_all = np.array([1 if target.by_scales else size or 0 for size in sizes], known.dtype)
        of_all[list(target.axes)] = known
        return b.constant(of_all)
    base = b.constant(np.ones(len(sizes), np.float32)) if target.by_scales else b.op("Shape", data)
    return b.op("ScatterElements", base, b.constant(list(target.axes)), target.value)


def _padded(b: Builder, data: ir.Value, begin: Ints, end: Ints) -> ir.Value:
    """Pads with zeros; lists that are too short go on with zeros."""
    rank = rank_of(data, "data")
    front, back = ((*pads, *[0] * rank)[:rank] for pads in (begin, end))
    if min(front + back) < 0:
        raise UnsupportedAttributeError("pads_begin", (*begin, *end), "sizes of at least 0")
    if not any(front + back):
        return data
    assert data.shape is not None
    sizes = [size + front[axis] + back[axis] if isinstance(size, int) else None for axis, size in enumerate(data.shape)]
    return b.typed(pad_zeros(b, data, front, back), data.dtype, sizes)


def _axes(b: Builder, data: ir.Value, axes: ir.Value | None) -> Ints:
    rank = rank_of(data, "data")
    return tuple(range(rank)) if axes is None else normalized(constant_ints(b, axes, "axes"), rank, "axes")


def _target(b: Builder, data: ir.Value, value: ir.Value, axes: Ints, *, by_scales: bool) -> _Target:
    assert data.shape is not None
    known = b.array(value)
    if known is not None and known.shape != (len(axes),):
        raise ShapeError(
            "scales" if by_scales else "sizes", known.shape, f"it must have one entry per axis, {len(axes)}."
        )
    sizes = [size if isinstance(size, int) and size else None for size in (data.shape[axis] for axis in axes)]
    if by_scales:
        return _by_scales(b, value, axes, sizes)
    goals = known_ints(b, value)
    pairs = zip(goals or [None] * len(axes), sizes, strict=True)
    scales = tuple(None if goal is None or size is None else goal / size for goal, size in pairs)
    return _Target(axes, int64_vector(b, value), False, scales)


def _by_scales(b: Builder, value: ir.Value, axes: Ints, sizes: Sequence[int | None]) -> _Target:
    known = b.array(value)
    if known is None:
        return _Target(axes, b.cast(value, ir.DataType.FLOAT), True, (None,) * len(axes))
    scales = [float(scale) for scale in known.astype(np.float32)]
    goals = [None if size is None else _scaled(size, scale) for size, scale in zip(sizes, scales, strict=True)]
    for place, (size, goal) in enumerate(zip(sizes, goals, strict=True)):
        if size is not None and goal == size and scales[place] != 1:
            b.warn(f"OpenVINO's CPU plugin is followed: axis {axes[place]}, whose size stays, is copied, not scaled")
            scales[place] = 1.0
    exact = [
        size is not None and goal is not None and np.float32(goal / size) == np.float32(scale)
        for size, goal, scale in zip(sizes, goals, scales, strict=True)
    ]
    if all(exact):
        # Sizes say the same and leave nothing to how a product is rounded.
        return _Target(axes, b.constant(np.array(goals, np.int64)), False, tuple(scales))
    for size, goal, scale in zip(sizes, goals, scales, strict=True):
        if size is not None and math.floor(size * scale) != goal:
            raise UnsupportedAttributeError(
                "shape_calculation_mode", "scales", f"sizes, since {scale} times {size} is next to an integer"
            )
    return _Target(axes, b.constant(scales, np.float32), True, tuple(scales))


def _scaled(size: int, scale: float) -> int:
    """Returns the size that OpenVINO and ONNX Runtime make of another: their product in float32, rounded down."""
    return int(np.float32(size) * np.float32(scale))


def _pillow_target(b: Builder, data: ir.Value, target: _Target) -> _Target:
    """Returns the target as sizes: Pillow scales by their quotients, not by the scales it was given."""
    if not target.by_scales:
        return target
    sizes = b.op("Cast", b.op("Gather", b.op("Shape", data), b.constant(list(target.axes))), to=int(ir.DataType.FLOAT))
    goals = b.op("Cast", b.op("Floor", b.op("Mul", sizes, target.value)), to=int(ir.DataType.INT64))
    return _Target(target.axes, goals, False, (None,) * len(target.axes))


def _pillow(b: Builder, data: ir.Value, target: _Target, mode: str, cube_coeff: float) -> ir.Value:
    """Emits one Resize, or on 8-bit integers one per axis, the last axis first, since Pillow rounds after each."""
    passes = [target]
    if data.dtype in (ir.DataType.INT8, ir.DataType.UINT8):
        order = sorted(range(len(target.axes)), key=lambda place: -target.axes[place])
        passes = [_chosen(b, target, [place == taken for place in range(len(target.axes))]) for taken in order]
    value = data
    for each in passes:
        value = _resize(b, value, each, mode, "half_pixel", antialias=1, cubic_coeff_a=cube_coeff, exclude_outside=1)
    return value


def _chosen(b: Builder, target: _Target, chosen: list[bool]) -> _Target:
    """Returns the target along some of its axes."""
    if all(chosen):
        return target
    places = [place for place, taken in enumerate(chosen) if taken]
    known = b.array(target.value)
    value = b.op("Gather", target.value, b.constant(places)) if known is None else b.constant(known[places])
    return _Target(
        tuple(target.axes[place] for place in places),
        value,
        target.by_scales,
        tuple(target.scales[place] for place in places),
    )


def _all(target: _Target, condition: Callable[[float], bool]) -> bool:
    """Tells whether every scale is known and meets a condition."""
    return all(scale is not None and condition(scale) for scale in target.scales)
