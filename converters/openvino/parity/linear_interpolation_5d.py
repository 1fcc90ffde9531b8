"""Linear interpolation of 5-D data as OpenVINO's CPU plugin computes it.

Each element of the result is a weighted mean with triangular weights around its position along each axis.
Where the data is smoothed, these are as wide as an element of the result: wider than one of the data where an axis
shrinks, narrower where it grows. A position that no triangle reaches gets a zero.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import onnx_ir as ir

from ortconv.converters.openvino.lib.compute_types import dtype_of, rounded, single, to_nearest
from ortconv.converters.openvino.lib.dynamic_axes import view_along
from ortconv.converters.openvino.lib.resampling import Coordinates, Resampled, along, index_of, places_of
from ortconv.converters.openvino.lib.sizes import counted, size_of
from ortconv.graph.builder import Builder

__all__ = ["smooth", "whole_mean"]

_F32 = ir.DataType.FLOAT


def smooth(b: Builder, data: ir.Value, axes: Sequence[Resampled], coordinates: Coordinates) -> ir.Value:
    """Multiplies by a matrix of weights along each axis, smoothing the data."""
    rank = len(data.shape or ())

    def formula(x: ir.Value) -> ir.Value:
        value = x
        for axis, target, by_scale in axes:
            places, scale, _ = places_of(b, data, axis, target, by_scale, coordinates)
            columns = b.op("Cast", counted(b, size_of(b, data, axis)), to=int(_F32))
            distance = b.op("Sub", b.op("Unsqueeze", places, b.constant([1])), columns)
            weights = _triangle(b, distance, scale)
            total = b.op("ReduceSum", weights, b.constant([1]), keepdims=1)
            matrix = b.typed(_quotient(b, weights, total), _F32, [None, None])
            view = view_along(b, value, b.constant([axis]))
            moved = b.op("MatMul", b.cast(matrix, dtype_of(x)), view.value)
            value = b.typed(view.restored(b, moved, b.op("Shape", places)), x.dtype, [None] * rank)
        return value

    return rounded(b, formula, data, op_types=("MatMul",))


def whole_mean(
    b: Builder, data: ir.Value, axes: Sequence[Resampled], coordinates: Coordinates, *, narrow: bool
) -> ir.Value:
    """Sums the elements around each position in the plugin's order, in float32; 8-bit results are truncated.

    Args:
        b: The builder.
        data: Integers.
        axes: The axes, none of which shrinks if `narrow`.
        coordinates: How places follow from numbers.
        narrow: The weights of the smoothing apply.
    """
    rank, own = len(data.shape or ()), dtype_of(data)
    how = "truncated" if own.bitwidth == 8 else "rounded to the nearest"
    b.note(
        f"integers of five axes: computed in f32 and {how}, as in OpenVINO's CPU plugin; "
        "the specification does not define it"
    )
    floats = b.cast(data, _F32)
    taps = []
    for axis, target, by_scale in axes:
        places, scale, last = places_of(b, data, axis, target, by_scale, coordinates)
        floor = b.op("Floor", places)
        pair = []
        for place in (floor, b.op("Add", floor, single(b, 1))):
            weight = _triangle(b, b.op("Sub", places, place), scale if narrow else None)
            outside = b.op("Or", b.op("Less", place, single(b, 0)), b.op("Greater", place, last))
            inside = along(b, b.op("Where", outside, single(b, 0), weight), axis, rank)
            pair.append((axis, index_of(b, place, last), inside))
        taps.append(pair)
    sums: tuple[ir.Value, ir.Value] | None = None
    for chosen in itertools.product(*taps):
        element, product = floats, None
        for axis, index, weight in chosen:
            element = b.op("Gather", element, index, axis=axis)
            product = weight if product is None else b.op("Mul", product, weight)
        assert product is not None
        part = b.op("Mul", product, element)
        sums = (part, product) if sums is None else (b.op("Add", sums[0], part), b.op("Add", sums[1], product))
    assert sums is not None
    mean = b.typed(_quotient(b, *sums), _F32, [None] * rank)
    return b.cast(mean, own) if own.bitwidth == 8 else to_nearest(b, mean, own)


def _triangle(b: Builder, distance: ir.Value, scale: ir.Value | None) -> ir.Value:
    """Returns the weight of an element at a distance."""
    near = distance if scale is None else b.op("Mul", scale, distance)
    height = b.op("Max", b.op("Sub", single(b, 1), b.op("Abs", near)), single(b, 0))
    return height if scale is None else b.op("Mul", scale, height)


def _quotient(b: Builder, parts: ir.Value, total: ir.Value) -> ir.Value:
    """Divides; 0 / 0 gives 0."""
    none = b.op("Equal", total, single(b, 0))
    return b.op("Div", parts, b.op("Where", none, single(b, 1), total))
