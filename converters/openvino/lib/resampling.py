"""Interpolation one axis at a time, for cases that Resize or its kernel in ONNX Runtime does not support."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import onnx_ir as ir

from ortconv.converters.openvino.lib.compute_types import chained, dtype_of, polynomial, rounded, single
from ortconv.converters.openvino.lib.sizes import joined, numbers_below, size_of
from ortconv.graph.builder import Builder

__all__ = ["Coordinates", "Nearest", "Resampled", "along", "index_of", "places_of", "resample", "resample_nearest"]

Coordinates = Literal["half_pixel", "pytorch_half_pixel", "asymmetric", "tf_half_pixel_for_nn", "align_corners"]
Nearest = Literal["round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple"]

_F32, _I64 = ir.DataType.FLOAT, ir.DataType.INT64
Resampled = tuple[int, ir.Value, bool]
"""An axis, its size or scale as a vector of one entry, and whether it is a scale."""


def resample_nearest(
    b: Builder, data: ir.Value, axes: Sequence[Resampled], coordinates: Coordinates, nearest: Nearest
) -> ir.Value:
    """Gathers the nearest elements along each axis."""
    value = data
    for axis, target, by_scale in axes:
        places, scale, last = places_of(b, data, axis, target, by_scale, coordinates)
        half = single(b, 0.5)
        if nearest == "round_prefer_floor":
            chosen = b.op("Ceil", b.op("Sub", places, half))
        elif nearest == "round_prefer_ceil":
            chosen = b.op("Floor", b.op("Add", places, half))
        elif nearest == "simple":
            shrinks = b.op("Less", scale, single(b, 1))
            chosen = b.op("Where", shrinks, b.op("Ceil", places), b.op("Floor", places))
        else:
            chosen = b.op({"floor": "Floor", "ceil": "Ceil"}[nearest], places)
        value = b.op("Gather", value, index_of(b, chosen, last), axis=axis)
    return value


def resample(
    b: Builder,
    data: ir.Value,
    axes: Sequence[Resampled],
    mode: Literal["linear", "cubic"],
    coordinates: Coordinates,
    cube_coeff: float,
) -> ir.Value:
    """Interpolates along each axis: sums weighted elements."""
    taps: Callable[..., list[tuple[ir.Value, ir.Value]]] = _linear if mode == "linear" else _cubic
    rank = len(data.shape or ())

    def formula(x: ir.Value) -> ir.Value:
        value = x
        for axis, target, by_scale in axes:
            places, _, last = places_of(b, data, axis, target, by_scale, coordinates)
            weighted = taps(b, places, last, cube_coeff)
            columns = ((index, along(b, weight, axis, rank)) for index, weight in weighted)
            parts = (
                b.op("Mul", b.op("Gather", value, index, axis=axis), b.cast(column, dtype_of(x)))
                for index, column in columns
            )
            value = b.typed(chained(b, "Add", parts), x.dtype, [None] * rank)
        return value

    return rounded(b, formula, data, op_types=("Add", "Mul"))


def along(b: Builder, weights: ir.Value, axis: int, rank: int) -> ir.Value:
    """Returns a vector with as many axes of size 1 behind it as follow an axis of a tensor."""
    return b.op("Unsqueeze", weights, b.constant(list(range(1, rank - axis)))) if axis < rank - 1 else weights


def _linear(b: Builder, places: ir.Value, last: ir.Value, _: float) -> list[tuple[ir.Value, ir.Value]]:
    """Returns indices and weights of the two elements around each position."""
    inside = b.op("Max", b.op("Min", places, last), single(b, 0))
    floor = b.op("Floor", inside)
    share = b.typed(b.op("Sub", inside, floor), _F32, None)
    rest = b.typed(b.op("Sub", single(b, 1), share), _F32, None)
    return [(index_of(b, floor, last), rest), (index_of(b, b.op("Add", floor, single(b, 1)), last), share)]


def _cubic(b: Builder, places: ir.Value, last: ir.Value, a: float) -> list[tuple[ir.Value, ir.Value]]:
    """Returns indices and weights of the four elements around each position."""
    floor = b.op("Floor", places)
    share = b.op("Sub", places, floor)
    polynomials = [
        (a, -2 * a, a, 0),
        (a + 2, -(a + 3), 0, 1),
        (-(a + 2), 2 * a + 3, -a, 0),
        (-a, a, 0, 0),
    ]
    taps = []
    for offset, coefficients in enumerate(polynomials, -1):
        weight = b.typed(polynomial(b, share, coefficients), _F32, None)
        taps.append((index_of(b, b.op("Add", floor, single(b, offset)), last), weight))
    return taps


def places_of(
    b: Builder, data: ir.Value, axis: int, target: ir.Value, by_scale: bool, coordinates: Coordinates
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Returns the source position of each element of the result, the scale, and the last index, all float32."""
    size = b.op("Cast", joined(b, [size_of(b, data, axis)]), to=int(_F32))
    if by_scale:
        scale = target
        goal = b.op("Floor", b.op("Mul", size, scale))
    else:
        goal = b.op("Cast", target, to=int(_F32))
        scale = b.op("Div", goal, size)
    numbers = b.op("Cast", numbers_below(b, b.op("Cast", goal, to=int(_I64))), to=int(_F32))
    one, half, last = single(b, 1), single(b, 0.5), b.op("Sub", size, single(b, 1))
    if coordinates == "asymmetric":
        places = b.op("Div", numbers, scale)
    elif coordinates == "align_corners":
        places = b.op("Mul", numbers, b.op("Div", last, b.op("Sub", goal, one)))
    else:
        places = b.op("Div", b.op("Add", numbers, half), scale)
        if coordinates != "tf_half_pixel_for_nn":
            places = b.op("Sub", places, half)
        else:  # OpenVINO's CPU plugin copies an axis that keeps its size
            places = b.op("Where", b.op("Equal", goal, size), numbers, places)
    if coordinates in ("align_corners", "pytorch_half_pixel"):
        places = b.op("Where", b.op("Greater", goal, one), places, single(b, 0))
    return places, scale, last


def index_of(b: Builder, places: ir.Value, last: ir.Value) -> ir.Value:
    """Casts integral positions to int64, clipped to the axis."""
    return b.op("Cast", b.op("Max", b.op("Min", places, last), single(b, 0)), to=int(_I64))
