"""Interpolation of spatial axes and its gradient.

Element i of `large` elements reads position ``(2i+1) * small / (2 * large) - 1/2`` of `small` ones under half_pixel and
``i * (small-1) / (large-1)`` under align_corners. The nearest element is that position rounded half up. Positions
are fractions of integers, and are computed as such where float32 could round a tie the wrong way.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

import numpy as np
import onnx_ir as ir

from ortconv.converters.conv.layout import Sizes, inverse, transpose
from ortconv.converters.onednn_graph.lib.data_format import DataFormat, known_dims, plain_sizes, rank_of, to_ncx
from ortconv.converters.onednn_graph.lib.dtypes import check_type, one_type
from ortconv.converters.onednn_graph.registry import REGISTRY
from ortconv.errors import ConversionError, ShapeError, UnsupportedAttributeError
from ortconv.graph.builder import Builder, Ints

Mode = Literal["nearest", "linear", "bilinear", "trilinear"]
Coordinates = Literal["half_pixel", "align_corners"]

_AXES = {"bilinear": 2, "trilinear": 3}
_INDEX_BYTES = 8
_LARGEST_EXACT = 1 << 22
"""Largest size for which float32 distinguishes every position from a tie."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ResizeAttributes:
    """The attributes of both ops."""

    mode: Mode
    coordinate_transformation_mode: Coordinates = "half_pixel"
    sizes: Ints = ()
    scales: tuple[float, ...] = ()
    data_format: DataFormat = "NXC"


@REGISTRY.lowering("Interpolate", how="exact")
def interpolate(
    b: Builder, src: ir.Value, sizes_input: ir.Value | None = None, /, *, attrs: ResizeAttributes
) -> ir.Value:
    """Lowers to ai.onnx Resize, or Gather where float32 could miss a tie; computed in float32."""
    one_type(b, src=src)
    perm = to_ncx(rank_of("src", src), attrs.data_format)
    x = transpose(b, b.cast(src, ir.DataType.FLOAT), perm)
    small = _spatial(b, "src", x, attrs.mode)
    large = _target(b, x, small, sizes_input, attrs.sizes, attrs.scales)
    spatial = _known(large, len(small))
    axes = range(2, len(perm))
    coordinates = attrs.coordinate_transformation_mode
    if attrs.mode != "nearest":
        result = _resized(b, x, large, "linear", coordinates)
    else:
        result, rest = x, False
        for axis, before, after in zip(axes, small, spatial, strict=True):
            if after is not None and coordinates == "half_pixel" and _exact(before, after):
                rest |= before != after
                continue
            few = _length(b, before, x, axis)
            many = b.op("Gather", large, b.constant([axis - 2])) if isinstance(large, ir.Value) else large[axis - 2]
            indices = _nearest(b, few, many, coordinates)
            result = b.op("Gather", result, indices, axis=axis)
        if rest:
            b.typed(result, ir.DataType.FLOAT, [*plain_sizes(x)[:2], *[None] * len(small)])
            result = _resized(b, result, large, "nearest", "half_pixel")
        elif result is x:
            result = b.op("Identity", x)
    b.typed(result, ir.DataType.FLOAT, [*plain_sizes(x)[:2], *spatial])
    return b.cast(transpose(b, result, inverse(perm)), b.node.outputs[0].dtype)


@REGISTRY.lowering("InterpolateBackward")
def interpolate_backward(
    b: Builder, src: ir.Value, diff_dst: ir.Value, sizes_input: ir.Value | None = None, /, *, attrs: ResizeAttributes
) -> ir.Value:
    """Lowers to ai.onnx MatMul with the transposed matrix of the interpolation along every axis; in float32."""
    one_type(b, src=src, diff_dst=diff_dst)
    rank = rank_of("src", src)
    perm = to_ncx(rank, attrs.data_format)
    x = transpose(b, src, perm)
    if rank_of("diff_dst", diff_dst) != rank:
        raise ShapeError("diff_dst", known_dims(diff_dst), f"{rank} dimensions are required, as src has.")
    g = transpose(b, b.cast(diff_dst, ir.DataType.FLOAT), perm)
    small, found = _spatial(b, "src", x, attrs.mode), plain_sizes(g)
    large = _target(
        b, x, small, sizes_input, attrs.sizes, attrs.scales, b.op("Shape", g, start=2) if None in found[2:] else None
    )
    wanted = (*plain_sizes(x)[:2], *_known(large, len(small)))
    for required, given in zip(wanted, found, strict=True):
        if None not in (required, given) and required != given:
            raise ShapeError("diff_dst", known_dims(diff_dst), f"{list(wanted)} is required in the order NCX.")
    dims = list(found)
    for axis in range(2, rank):
        before, after = small[axis - 2], found[axis] if found[axis] is not None else wanted[axis]
        lengths = _length(b, before, x, axis), _length(b, after, g, axis)
        matrix = _matrix(b, *lengths, attrs.mode, attrs.coordinate_transformation_mode)
        dims[axis] = before
        g = b.typed(_contracted(b, g, matrix, axis, rank), ir.DataType.FLOAT, dims)
    return b.cast(transpose(b, b.typed(g, None, known_dims(x)), inverse(perm)), b.node.outputs[0].dtype)


def _spatial(b: Builder, argument: str, x: ir.Value, mode: Mode) -> Sizes:
    """Returns the spatial sizes of [N, C, spatial...].

    Raises:
        ShapeError: There are none or more than three, or the number contradicts the name of the mode.
    """
    spatial = plain_sizes(x)[2:]
    if not 1 <= len(spatial) <= 3:
        raise ShapeError(argument, known_dims(x), "one to three spatial axes are required.")
    if len(spatial) != _AXES.get(mode, len(spatial)):
        b.note(f"{mode} over {len(spatial)} spatial axes is linear along each")
    return spatial


def _target(
    b: Builder,
    x: ir.Value,
    small: Sizes,
    tensor: ir.Value | None,
    sizes: Ints,
    scales: tuple[float, ...],
    given: ir.Value | None = None,
) -> Ints | ir.Value:
    """Returns the spatial sizes of the result: the input, else sizes, else the source's times scales, rounded down.

    Args:
        b: The builder.
        x: Data, [N, C, spatial...].
        small: Its spatial sizes.
        tensor: The input, s32 [spatial axes].
        sizes: The attribute.
        scales: The attribute.
        given: For a gradient with dynamic sizes, its sizes as a value.

    Raises:
        ConversionError: Neither sizes nor scales are given.
        ShapeError: The input has another shape.
        UnsupportedAttributeError: A list does not have one entry per spatial axis, or a size is below 1.
    """
    if tensor is not None:
        check_type("sizes", tensor.dtype, ["s32"])
        dims = known_dims(tensor)
        if dims is not None and (len(dims) != 1 or dims[0] not in (len(small), None)):
            raise ShapeError("sizes", dims, f"[{len(small)}] is required: one size per spatial axis.")
        data = b.array(tensor)
        if data is None:
            return b.typed(b.cast(tensor, ir.DataType.INT64), None, [len(small)])
        sizes = tuple(int(size) for size in data)
    if sizes:
        return _checked("sizes", sizes, len(small))
    if not scales:
        raise ConversionError("has neither sizes nor scales; one of them is required.")
    if len(scales) != len(small) or min(scales) <= 0:
        raise UnsupportedAttributeError("scales", scales, f"{len(small)} numbers above 0, one per spatial axis")
    factors = np.array(scales, np.float32)
    known = [size for size in small if size is not None]
    if len(known) == len(small):
        # The library multiplies in float32, which matters if the product is close to an integer.
        products = np.array(known, np.float32) * factors
        return _checked("scales", tuple(int(size) for size in np.floor(products)), len(small))
    if given is not None:
        return given
    lengths = b.cast(b.typed(b.op("Shape", x, start=2), ir.DataType.INT64, [len(small)]), ir.DataType.FLOAT)
    return b.cast(
        b.typed(b.op("Floor", b.op("Mul", lengths, b.constant(factors))), ir.DataType.FLOAT, None), ir.DataType.INT64
    )


def _checked(name: str, sizes: Ints, count: int) -> Ints:
    if len(sizes) != count or min(sizes) < 1:
        raise UnsupportedAttributeError(name, sizes, f"{count} sizes of at least 1, one per spatial axis")
    return sizes


def _known(large: Ints | ir.Value, count: int) -> Sizes:
    return (None,) * count if isinstance(large, ir.Value) else large


def _exact(small: int | None, large: int) -> bool:
    """Returns whether Resize, which divides by large/small in float32, finds the same nearest elements."""
    if small is None or max(small, large) > _LARGEST_EXACT:
        return False
    return float(np.float32(large / small)) * small == large


def _resized(b: Builder, x: ir.Value, large: Ints | ir.Value, mode: str, coordinates: Coordinates) -> ir.Value:
    """Emits Resize with the sizes of all axes: ONNX Runtime fails to move Transposes past one with only some."""
    head = plain_sizes(x)[:2]
    if isinstance(large, ir.Value) or len(head) < 2 or None in head:
        spatial = large if isinstance(large, ir.Value) else b.constant(large)
        target = b.op("Concat", b.op("Shape", x, end=2), spatial, axis=0)
    else:
        target = b.constant([*(size for size in head if size is not None), *large])
    return b.op(
        "Resize",
        x,
        None,
        None,
        target,
        mode=mode,
        coordinate_transformation_mode=coordinates,
        nearest_mode="round_prefer_ceil" if mode == "nearest" else None,
    )


def _length(b: Builder, known: int | None, value: ir.Value, axis: int) -> int | ir.Value:
    """Returns the size of an axis: known, or int64 [1]."""
    return b.op("Shape", value, start=axis, end=axis + 1) if known is None else known


def _nearest(b: Builder, small: int | ir.Value, large: int | ir.Value, coordinates: Coordinates) -> ir.Value:
    """Returns the index that each of `large` elements reads, int64 [large]."""
    if isinstance(small, int) and isinstance(large, int) and b.budget.fits(large, _INDEX_BYTES):
        i = b.budget.arange("sizes", large)
        if coordinates == "half_pixel":
            return b.constant((2 * i + 1) * small // (2 * large))
        steps = max(large - 1, 1)
        return b.constant((2 * i * (small - 1) + steps) // (2 * steps))
    one, two = b.constant([1]), b.constant([2])
    twice = b.op("Mul", _range(b, large), two)
    few, many = (_vector(b, length) for length in (small, large))
    if coordinates == "half_pixel":
        return b.op("Div", b.op("Mul", b.op("Add", twice, one), few), b.op("Mul", many, two))
    steps_value = b.op("Max", b.op("Sub", many, one), one)
    product = b.op("Mul", twice, b.op("Sub", few, one))
    return b.op("Div", b.op("Add", product, steps_value), b.op("Mul", steps_value, two))


def _matrix(b: Builder, small: int | ir.Value, large: int | ir.Value, mode: Mode, coordinates: Coordinates) -> ir.Value:
    """Returns the matrix that takes `small` elements to `large`, float32 [large, small].

    A row holds the weights of one result: 1 at the nearest element, or those of linear interpolation at the position,
    clipped to the first and last element.
    """
    if isinstance(small, int) and isinstance(large, int) and b.budget.fits(small, large, _INDEX_BYTES):
        elements = b.budget.arange("sizes", small)
        if mode == "nearest":
            (picked,) = [b.array(_nearest(b, small, large, coordinates))]
            return b.constant((np.asarray(picked)[:, None] == elements).astype(np.float32))
        i = b.budget.arange("sizes", large)
        if coordinates == "half_pixel":
            position = (2 * i + 1) * small / (2 * large) - 0.5
        else:
            position = i * (small - 1) / max(large - 1, 1)
        distance = np.abs(np.clip(position, 0, small - 1)[:, None] - elements)
        return b.constant(np.maximum(0, 1 - distance).astype(np.float32))
    columns = _range(b, small)
    if mode == "nearest":
        rows = b.op("Unsqueeze", _nearest(b, small, large, coordinates), b.constant([1]))
        return b.op("Cast", b.op("Equal", rows, columns), to=int(ir.DataType.FLOAT))
    half, one, zero = (b.constant(number, "float32") for number in (0.5, 1, 0))
    i_value, few, many, column = (
        b.op("Cast", value, to=int(ir.DataType.FLOAT))
        for value in (_range(b, large), _vector(b, small), _vector(b, large), columns)
    )
    last = b.op("Sub", few, one)
    if coordinates == "half_pixel":
        place = b.op("Sub", b.op("Div", b.op("Mul", b.op("Add", i_value, half), few), many), half)
    else:
        place = b.op("Div", b.op("Mul", i_value, last), b.op("Max", b.op("Sub", many, one), one))
    place = b.op("Unsqueeze", b.op("Min", b.op("Max", place, zero), last), b.constant([1]))
    return b.op("Max", b.op("Sub", one, b.op("Abs", b.op("Sub", place, column))), zero)


def _vector(b: Builder, length: int | ir.Value) -> ir.Value:
    return length if isinstance(length, ir.Value) else b.constant([length])


def _range(b: Builder, length: int | ir.Value) -> ir.Value:
    """Returns [0, 1, ..., length - 1], int64."""
    if isinstance(length, int):
        return b.counted(length)
    return b.op("Range", b.constant(0), b.op("Squeeze", length), b.constant(1))


def _contracted(b: Builder, g: ir.Value, matrix: ir.Value, axis: int, rank: int) -> ir.Value:
    """Multiplies by the matrix along one axis, which reduces `large` elements to `small`."""
    if axis == rank - 1:
        return b.op("MatMul", g, matrix)
    swap = [*range(rank)]
    swap[axis], swap[-1] = swap[-1], swap[axis]
    return b.op("Transpose", b.op("MatMul", b.op("Transpose", g, perm=swap), matrix), perm=swap)
