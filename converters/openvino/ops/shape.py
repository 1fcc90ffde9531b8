"""Ops that change or report shapes and leave the data as it is."""

from __future__ import annotations

import math
from typing import Literal

import onnx_ir as ir

from ortconv.converters.openvino.lib.broadcasting import rank_of
from ortconv.converters.openvino.lib.compute_types import in_bytes, is_static
from ortconv.converters.openvino.lib.constants import (
    constant_ints,
    int64_vector,
    known_ints,
    normalized,
    warn_of_no_axes,
    with_axes,
)
from ortconv.converters.openvino.lib.dynamic_axes import permuted
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.converters.openvino.weights.dequantization import reshaped, transposed
from ortconv.errors import ConversionError, ShapeError, UnsupportedAttributeError
from ortconv.graph.builder import Builder, Ints
from ortconv.graph.match import made_by, maker

_SWAPPED_HEADS = (0, 2, 1, 3)


@REGISTRY.lowering("Reshape")
def reshape(b: Builder, data: ir.Value, shape: ir.Value, /, *, special_zero: bool = False) -> ir.Value:
    """Reshape; without special_zero a zero is a size (allowzero)."""
    declared = b.node.outputs[0].shape or ()
    whole = [size for size in declared if isinstance(size, int)]
    if 0 in whole and len(whole) == len(declared):  # beside a zero, Reshape finds no size that is open
        return in_bytes(b, lambda x: b.op("Reshape", x, b.constant(whole), allowzero=1), data)
    moved = _weights(b, data, known_ints(b, shape), special_zero)
    if moved is not None:
        return moved
    sizes = b.sizes(shape) or ()
    if sizes.count(None) == 1 and all(size is None or size > 0 for size in sizes):
        # Reshape finds the one size that is open itself.
        wanted = b.constant([-1 if size is None else size for size in sizes])
        return in_bytes(b, lambda x: b.op("Reshape", x, wanted), data)
    target = known_ints(b, shape)
    if special_zero and target is not None and 0 in target and -1 in target and len(declared) == len(target):
        # ONNX Runtime does not find the open size beside a copied one that turns out to be zero.
        size = declared[target.index(-1)]
        if isinstance(size, int) and size > 0:
            wanted = b.constant([size if entry == -1 else entry for entry in target])
            return in_bytes(b, lambda x: b.op("Reshape", x, wanted), data)
    literal_zeros = not special_zero and (target is None or 0 in target)
    allowzero = 1 if literal_zeros else None
    return in_bytes(b, lambda x: b.op("Reshape", x, int64_vector(b, shape), allowzero=allowzero), data)


def _weights(b: Builder, data: ir.Value, target: Ints | None, special_zero: bool) -> ir.Value | None:
    """Returns compressed weights in another shape, or None."""
    if target is None or data.shape is None or target.count(-1) > 1:
        return None
    if special_zero and any(size == 0 and axis >= len(data.shape) for axis, size in enumerate(target)):
        return None
    sizes = [data.shape[axis] if size == 0 and special_zero else size for axis, size in enumerate(target)]
    if -1 in sizes and data.shape.is_static():
        rest = math.prod(size for size in sizes if isinstance(size, int) and size != -1)
        sizes[sizes.index(-1)] = math.prod(data.shape.numpy()) // rest if rest else 0
    return reshaped(b, data, sizes)


@REGISTRY.lowering("Squeeze", how="exact")
def squeeze(b: Builder, data: ir.Value, axes: ir.Value | None = None, /) -> ir.Value:
    """Squeeze of those axes whose size is or may be 1."""
    return _squeeze(b, data, axes, skips=False)


@REGISTRY.lowering("Squeeze", since=15, how="exact")
def squeeze_15(
    b: Builder, data: ir.Value, axes: ir.Value | None = None, /, *, allow_axis_skip: bool = False
) -> ir.Value:
    """Squeeze of those axes whose size is or may be 1; with allow_axis_skip their sizes must be known."""
    return _squeeze(b, data, axes, skips=allow_axis_skip)


def _squeeze(b: Builder, data: ir.Value, axes: ir.Value | None, *, skips: bool) -> ir.Value:
    known = () if axes is None else known_ints(b, axes)
    if known is None:
        assert axes is not None
        return with_axes(b, b.op("Squeeze", data, int64_vector(b, axes)), data, axes, -1)
    if not known:
        if not is_static(data):
            b.warn("the page is followed: without axes, OpenVINO's CPU plugin fails or gives nothing in dynamic sizes")
        return b.op("Squeeze", data)
    sizes = data.shape
    rank = rank_of(data, "data")
    assert sizes is not None
    if not rank and set(known) <= {-1, 0}:  # to OpenVINO a scalar has an axis
        return b.op("Identity", data)
    chosen = sorted(set(normalized(known, rank, "axes")))
    if skips and not all(isinstance(sizes[axis], int) for axis in chosen):
        raise ShapeError("data", sizes, f"allow_axis_skip: the sizes of axes {chosen} must be known.")
    # An axis whose size is known not to be 1 stays, as the page has it since 2024.3.
    ones = [axis for axis in chosen if not isinstance(sizes[axis], int) or sizes[axis] == 1]
    declared = b.node.outputs[0].shape
    if declared is not None and len(declared) != rank - len(ones):  # so does one whose interval excludes 1
        ones = [axis for axis in ones if sizes[axis] == 1]
        if len(declared) != rank - len(ones):
            raise ShapeError("data", sizes, f"which of the axes {chosen} have one entry must be known.")
    moved = reshaped(b, data, [size for axis, size in enumerate(sizes) if axis not in ones])
    if moved is not None:
        return moved
    return b.op("Squeeze", data, b.constant(ones)) if ones else b.op("Identity", data)


@REGISTRY.lowering("Unsqueeze")
def unsqueeze(b: Builder, data: ir.Value, axes: ir.Value, /) -> ir.Value:
    """Unsqueeze; an axis that is named twice is inserted once."""
    known = known_ints(b, axes)
    if known is None or data.shape is None:
        return with_axes(b, b.op("Unsqueeze", data, int64_vector(b, axes)), data, axes, 1)
    distinct = tuple(dict.fromkeys(known))
    rank = len(data.shape) + len(distinct)
    if len(set(normalized(distinct, rank, "axes"))) < len(distinct):
        raise ConversionError(f"input axes = {list(known)} has two names of one axis; allowed: one name each.")
    inserted = normalized(distinct, rank, "axes")
    kept = iter(data.shape)
    moved = reshaped(b, data, [1 if axis in inserted else next(kept) for axis in range(rank)])
    return b.typed(b.op("Unsqueeze", data, b.constant(distinct)), data.dtype, [None] * rank) if moved is None else moved


@REGISTRY.lowering("Transpose")
def transpose(b: Builder, data: ir.Value, order: ir.Value, /) -> ir.Value:
    """Transpose; an empty order reverses the axes. Gather from the flat data where the order is known at run time."""
    if b.array(order) is None:
        warn_of_no_axes(b, order)
        return b.op("Transpose", data) if order.shape == ir.Shape([0]) else permuted(b, data, order)
    perm = constant_ints(b, order, "input_order")
    rank = len(perm) if data.shape is None else len(data.shape)
    if not perm:
        perm = tuple(reversed(range(rank)))
    if sorted(perm) != list(range(rank)):
        raise UnsupportedAttributeError("input_order", list(perm), f"each number from 0 to {rank - 1} once")
    if tuple(perm) == _SWAPPED_HEADS and _is_square_attention(data):
        b.warn(
            "the page is followed: OpenVINO's CPU plugin may mix up the axes of attention of static sizes with as many "
            "heads as queries, where a Transpose exchanges these"
        )
    weights = transposed(b, data, perm) if perm else None
    return b.op("Transpose", data, perm=perm or None) if weights is None else weights


def _is_square_attention(data: ir.Value) -> bool:
    """Tells whether a product by the results of a SoftMax has static sizes, and as many heads as queries."""
    weights = made_by(data, "MatMul") or made_by(data, "Einsum")
    if maker(weights, "Softmax") is None or not is_static(data):
        return False
    assert data.shape is not None
    return data.shape[1] == data.shape[2]


@REGISTRY.lowering("ShapeOf")
def shape_of(b: Builder, data: ir.Value, /) -> ir.Value:
    """Shape."""
    return b.op("Shape", data)


@REGISTRY.lowering("ShapeOf", since=3)
def shape_of_3(b: Builder, data: ir.Value, /, *, output_type: Literal["i64", "i32"] = "i64") -> ir.Value:
    """Shape, cast to output_type."""
    shape = b.op("Shape", data)
    return shape if output_type == "i64" else b.op("Cast", shape, to=int(ir.DataType.INT32))
