"""Interpolate as ONNX Resize where both select the same elements, otherwise one axis at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.broadcasting import rank_of
from ortconv.converters.openvino.lib.compute_types import FLOATS, INTEGERS, compute, in_32_bits, name, require, rounded
from ortconv.converters.openvino.lib.constants import known_ints, normalized
from ortconv.converters.openvino.lib.dynamic_axes import view_along
from ortconv.converters.openvino.lib.interpolation_target import Target, target_along, target_of
from ortconv.converters.openvino.lib.padding import pad_zeros
from ortconv.converters.openvino.lib.resampling import Coordinates, Nearest, Resampled, resample, resample_nearest
from ortconv.converters.openvino.parity.linear_interpolation_5d import smooth, whole_mean
from ortconv.converters.openvino.plugin_bugs.interpolation import BATCH_OR_CHANNELS, PADDING_OF_OTHER_AXES, RUNTIME_AXES
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import UnsupportedAttributeError
from ortconv.graph.builder import Builder, Ints

Mode = Literal["nearest", "linear", "linear_onnx", "cubic"]
PillowMode = Literal["nearest", "linear", "linear_onnx", "cubic", "bilinear_pillow", "bicubic_pillow"]
ShapeMode = Literal["sizes", "scales"]

_PILLOW_COEFFICIENT = -0.5
_FIRST_SPATIAL, _IMAGE_RANK = 2, 4
_SMOOTHED_RANK = 5
"""The rank for which OpenVINO's CPU plugin supports antialias."""
_BYTES = (ir.DataType.INT8, ir.DataType.UINT8)
_KERNELS: dict[str, dict[int, tuple[Ints, ...]]] = {
    "linear": {2: ((0, 1),), 3: ((0, 1, 2),), 4: ((2, 3), (1, 2)), 5: ((2, 3, 4),)},
    "cubic": {2: ((0, 1),), 4: ((2, 3),)},
}
"""For each mode and rank, the sets of axes that one Resize of ONNX Runtime supports."""


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
    """Resize, after a Pad where there is padding; coordinates are those of OpenVINO's Interpolate-4."""
    rank = rank_of(data, "data")
    if mode == "area":
        raise UnsupportedAttributeError("mode", mode, "nearest, linear, cubic; ONNX has no area interpolation")
    along = normalized(axes, rank, "axes")
    if any(pad and axis not in along for pads in (pads_begin, pads_end) for axis, pad in enumerate(pads)):
        raise UnsupportedAttributeError(
            "pads_begin",
            (*pads_begin, *pads_end),
            "paddings of the interpolated axes; of others OpenVINO returns more than it declares",
        )
    padded = _padded(b, data, pads_begin, pads_end)
    if padded is not data:
        b.follow("follows OpenVINO: pads count from the first axis; the specification pads spatial axes alike")
    coordinates: Coordinates = "align_corners" if align_corners else "asymmetric"
    if mode == "linear" and not align_corners and (rank, set(axes)) != (4, {2, 3}):
        coordinates = "half_pixel"
    target = target_of(b, padded, target_spatial_shape, along, by_scales=False)
    _warn_of_errors(b, mode, target, rank, is_padded=padded is not data)
    return _interpolate(b, padded, target, mode, coordinates, "simple", antialias, -0.75)


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
    _require_regular(b, data, axes, mode, antialias)
    padded = _padded(b, data, pads_begin, pads_end)
    target = target_along(b, padded, scales if by_scales else sizes, axes, by_scales=by_scales)
    _warn_of_errors(b, mode, target, rank_of(data, "data"), is_padded=padded is not data)
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
    _require_regular(b, image, axes, mode, antialias)
    padded = _padded(b, image, pads_begin, pads_end)
    by_scales = shape_calculation_mode == "scales"
    target = target_along(b, padded, scales_or_sizes, axes, by_scales=by_scales)
    _warn_of_errors(b, mode, target, rank_of(image, "image"), is_padded=padded is not image)
    if mode == "bilinear_pillow" or mode == "bicubic_pillow":
        require(image, "image", (*FLOATS, *INTEGERS))
        folded = b.array(image) is not None and b.array(scales_or_sizes) is not None  # by OpenVINO's own reference
        if mode == "bicubic_pillow" and cube_coeff != _PILLOW_COEFFICIENT and not folded:
            b.follow(f"follows OpenVINO's CPU plugin: uses cube_coeff = {_PILLOW_COEFFICIENT} instead of {cube_coeff}")
            cube_coeff = _PILLOW_COEFFICIENT
        return _pillow(b, padded, target, "linear" if mode == "bilinear_pillow" else "cubic", cube_coeff)
    return _interpolate(b, padded, target, mode, coordinate_transformation_mode, nearest_mode, antialias, cube_coeff)


def _interpolate(
    b: Builder,
    data: ir.Value,
    target: Target,
    mode: Mode,
    coordinates: Coordinates,
    nearest: Nearest,
    antialias: bool,
    cube_coeff: float,
) -> ir.Value:
    if mode == "nearest":
        return _nearest(b, data, target, coordinates, nearest)
    rank = rank_of(data, "data")
    if mode != "linear_onnx" and rank == _SMOOTHED_RANK and data.dtype in INTEGERS:
        return _whole(b, data, target, mode, coordinates, antialias)
    require(data, "data", (*FLOATS, *INTEGERS))
    if mode == "linear" and antialias and target.moving(b).axes:
        if rank == _SMOOTHED_RANK:
            return _smoothed(b, data, target, coordinates)
        if target.where(lambda scale: scale >= 1) != target.axes:
            b.follow(f"follows OpenVINO's CPU plugin: ignores antialias where the rank is not {_SMOOTHED_RANK}")
    kind: Literal["linear", "cubic"] = "cubic" if mode == "cubic" else "linear"
    moving = target.moving(b)
    inner = _resized_together(kind, rank, moving)
    outer = [axis for axis in moving.axes if axis not in (inner or ())]
    if inner is None or coordinates == "tf_half_pixel_for_nn" or (outer and data.dtype in INTEGERS):
        b.note("resized one axis at a time: ONNX Runtime's Resize does not support it")
        return resample(b, data, moving.entries(b), kind, coordinates, cube_coeff)
    if outer:
        b.note(f"axes {outer} are resized separately: ONNX Runtime's Resize does not support them")
        data = _unless_they_stay(
            b, data, moving.along(b, outer), lambda x, axes: resample(b, x, axes, kind, coordinates, cube_coeff)
        )
    attributes = {"cubic_coeff_a": cube_coeff} if kind == "cubic" else {}
    return _resize(b, data, moving.along(b, inner), kind, coordinates, **attributes)


def _resized_together(mode: str, rank: int, moving: Target) -> Ints | None:
    """Returns axes that one Resize of ONNX Runtime supports, with all that change for certain; None if there are none.

    Axes that may change are included as far as possible.
    """
    known = {axis for axis, scale in zip(moving.axes, moving.scales, strict=True) if scale is not None}
    fitting = [axes for axes in _KERNELS[mode].get(rank, ()) if known <= set(axes)]
    return max(fitting, key=lambda axes: len({*axes} & {*moving.axes}), default=None)


def _unless_they_stay(
    b: Builder, data: ir.Value, target: Target, resampled: Callable[[ir.Value, list[Resampled]], ir.Value]
) -> ir.Value:
    """Emits an If that skips the formula when all axes keep their sizes."""
    sizes = b.op("Gather", b.op("Shape", data), b.constant(list(target.axes)))
    moved = b.op("ReduceMax", b.op("Abs", b.op("Sub", target.sizes(b, data), sizes)), keepdims=0)
    with b.body() as same:
        as_it_is = same.graph([data])
    with b.body() as other:
        anew = other.graph([resampled(data, target.entries(b))])
    value = b.op("If", b.op("Cast", moved, to=int(ir.DataType.BOOL)), then_branch=anew, else_branch=as_it_is)
    assert data.shape is not None
    shape = [None if axis in target.axes else size for axis, size in enumerate(data.shape)]
    return b.typed(value, data.dtype, [size if isinstance(size, int) else None for size in shape])


def _smoothed(b: Builder, data: ir.Value, target: Target, coordinates: Coordinates) -> ir.Value:
    """Emits linear interpolation with antialias: Resize if no axis grows, otherwise MatMul."""
    moving = target.moving(b)
    if not {*moving.axes} <= {*_KERNELS["linear"][_SMOOTHED_RANK][0]}:
        raise UnsupportedAttributeError("antialias", True, "false, or spatial axes")
    if coordinates == "half_pixel" and moving.where(lambda scale: scale < 1) == moving.axes:
        return _resize(b, data, target, "linear", coordinates, antialias=1, exclude_outside=1)
    b.note("resized one axis at a time: ONNX Runtime's Resize does not support it")
    return smooth(b, data, moving.entries(b), coordinates)


def _whole(
    b: Builder, data: ir.Value, target: Target, mode: Mode, coordinates: Coordinates, antialias: bool
) -> ir.Value:
    """Emits 5-D interpolation of integers in the order of OpenVINO's CPU plugin, which may truncate."""
    moving = target.moving(b)
    if mode != "linear" or not {*moving.axes} <= {*_KERNELS["linear"][_SMOOTHED_RANK][0]}:
        require(data, "data", FLOATS, hint="5-D integers are interpolated linearly along spatial axes only.")
    if antialias and moving.where(lambda scale: scale > 1) != moving.axes:
        raise UnsupportedAttributeError("antialias", True, f"false for {name(data.dtype)}, or scales known to exceed 1")
    if not moving.axes:
        return b.typed(b.op("Identity", data), data.dtype, data.shape)
    return whole_mean(b, data, moving.entries(b), coordinates, narrow=antialias)


def _nearest(b: Builder, data: ir.Value, target: Target, coordinates: Coordinates, nearest: Nearest) -> ir.Value:
    if nearest == "simple":
        return _simple(b, data, target, coordinates)
    if coordinates == "tf_half_pixel_for_nn":
        if nearest != "floor":
            return resample_nearest(b, data, target.moving(b).entries(b), coordinates, nearest)
        # Floor of the coordinate plus half a pixel equals half_pixel rounded half up.
        return _resize(b, data, target, "nearest", "half_pixel", nearest_mode="round_prefer_ceil")
    return _resize(b, data, target, "nearest", coordinates, nearest_mode=nearest)


def _simple(b: Builder, data: ir.Value, target: Target, coordinates: Coordinates) -> ir.Value:
    """Rounds up along axes that shrink and down along the others, whose clamped coordinates are not negative."""
    if None in target.scales or coordinates == "tf_half_pixel_for_nn":
        return resample_nearest(b, data, target.moving(b).entries(b), coordinates, "simple")
    value = data
    for rounding, axes in (
        ("floor", target.where(lambda scale: scale >= 1)),
        ("ceil", target.where(lambda scale: scale < 1)),
    ):
        if axes:
            value = _nearest(b, value, target.along(b, axes), coordinates, rounding)  # type: ignore[arg-type]
    return value


def _resize(b: Builder, data: ir.Value, target: Target, mode: str, coordinates: str, **attributes: Any) -> ir.Value:
    moving = target.moving(b)
    if not moving.axes:
        return b.typed(b.op("Identity", data), data.dtype, data.shape)
    rank = rank_of(data, "data")
    if coordinates == "pytorch_half_pixel" and not moving.may_become_one(b):
        coordinates = "half_pixel"  # ONNX Runtime has more kernels for it
    sizes = None if moving.by_scales else _of_all_axes(b, data, moving)
    scales = _of_all_axes(b, data, moving) if moving.by_scales else None

    stated: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": coordinates, **attributes}

    def resize(x: ir.Value) -> ir.Value:
        resized: ir.Value = b.op("Resize", x, None, scales, sizes, **stated)
        return resized

    if mode == "nearest":
        resized = in_32_bits(b, lambda x: compute(b, resize, x, op_types=("Resize",)), data)
    else:
        resized = rounded(b, resize, data, op_types=("Resize",))
    return b.typed(resized, data.dtype, [None] * rank)


def _of_all_axes(b: Builder, data: ir.Value, target: Target) -> ir.Value:
    """Returns the sizes or scales of all axes, including those that do not change.

    Resize has an attribute axes, but with it ONNX Runtime's optimizer fails to move a Transpose past the node.
    """
    assert data.shape is not None
    known = b.array(target.value)
    sizes = [size if isinstance(size, int) else None for size in data.shape]
    fixed = all(size for axis, size in enumerate(sizes) if axis not in target.axes)
    if known is not None and (target.by_scales or fixed):
        of_all = np.array([1 if target.by_scales else size or 0 for size in sizes], known.dtype)
        of_all[list(target.axes)] = known
        return b.constant(of_all)
    base = b.constant(np.array([1] * len(sizes), np.float32)) if target.by_scales else b.op("Shape", data)
    return b.op("ScatterElements", base, b.constant(list(target.axes)), target.value)


def _padded(b: Builder, data: ir.Value, begin: Ints, end: Ints) -> ir.Value:
    """Pads with zeros; short lists are extended with zeros."""
    rank = rank_of(data, "data")
    front, back = ((*pads, *[0] * rank)[:rank] for pads in (begin, end))
    if any(pad < 0 for pad in front + back):
        raise UnsupportedAttributeError("pads_begin", (*begin, *end), "sizes of at least 0")
    if not any(front + back):
        return data
    assert data.shape is not None
    sizes = [size + front[axis] + back[axis] if isinstance(size, int) else None for axis, size in enumerate(data.shape)]
    return b.typed(pad_zeros(b, data, front, back), data.dtype, sizes)


def _warn_of_errors(b: Builder, mode: str, target: Target, rank: int, *, is_padded: bool) -> None:
    """Warns where OpenVINO's CPU plugin is wrong or crashes because axes are not the spatial ones."""
    moved = {*target.axes} - {*target.where(lambda scale: scale == 1)}
    if rank <= 2 or not (moved or is_padded):
        return
    if "pillow" in mode:
        wrong = rank > _IMAGE_RANK or 0 in moved or (1 in moved and moved != {1, 2})
    elif mode == "cubic":
        wrong = 0 in moved or (rank == _IMAGE_RANK and 1 in moved and len(moved) > 1)
    else:
        wrong = rank >= _IMAGE_RANK and 0 in moved
    if wrong and moved:
        BATCH_OR_CHANNELS.warn(b, f"axes {sorted(moved)} of {rank}, mode {mode}")
    if is_padded and min(target.axes) < _FIRST_SPATIAL:
        PADDING_OF_OTHER_AXES.warn(b)


def _require_regular(b: Builder, data: ir.Value, axes: ir.Value | None, mode: str, antialias: bool) -> None:
    """Rejects runtime axes where OpenVINO's CPU plugin computes otherwise than for constant ones.

    Raises:
        UnsupportedAttributeError: The data would be smoothed.
        UnsupportedTypeError: Integers would be rounded.
    """
    if axes is None or known_ints(b, axes) is not None:
        return
    if mode != "nearest":
        require(data, "data", FLOATS, hint="Integers along runtime axes require mode nearest.")
    if mode == "linear" and antialias:
        raise UnsupportedAttributeError("antialias", True, "false, or constant axes")
    if mode == "linear_onnx" or "pillow" in mode:
        RUNTIME_AXES.warn(b, f"mode {mode}")


def _pillow(b: Builder, data: ir.Value, target: Target, mode: str, cube_coeff: float) -> ir.Value:
    """Emits one Resize if ONNX Runtime supports it; else, and for 8-bit integers (rounded per axis), several.

    Pillow scales by ratios of sizes, not by the given scales, and starts with the last axis.
    """
    moving = Target(target.axes, target.sizes(b, data), False, target.scales).moving(b)
    attributes = {"antialias": 1, "cubic_coeff_a": cube_coeff, "exclude_outside": 1}
    together = [set(axes) for axes in _KERNELS[mode].get(rank_of(data, "data"), ())]
    passes: list[Ints] = [(axis,) for axis in sorted(moving.axes, reverse=True)] or [()]
    if data.dtype not in _BYTES and any(axes >= {*moving.axes} for axes in together):
        passes = [moving.axes]
    value = data
    for axes in passes:
        part = moving.along(b, axes)
        if not axes or any(each >= {*axes} for each in together):
            value = _resize(b, value, part, mode, "half_pixel", **attributes)
            continue
        view = view_along(b, value, b.constant([*axes]))
        plane = b.typed(b.op("Unsqueeze", view.value, b.constant([1])), data.dtype, [None] * 4)
        resized = _resize(b, plane, Target((2,), part.value, False, (None,)), mode, "half_pixel", **attributes)
        value = view.restored(b, b.op("Squeeze", resized, b.constant([1])), part.value)
    return value
