"""Reshape, Squeeze, Unsqueeze."""

from __future__ import annotations

import math

import onnx_ir as ir

from ortconv.converters.openvino.lib.broadcasting import rank_of
from ortconv.converters.openvino.lib.compute_types import in_8_bits, is_static
from ortconv.converters.openvino.lib.constants import (
    int64_vector,
    known_ints,
    normalized,
    with_axes,
)
from ortconv.converters.openvino.plugin_bugs.empty_inputs import EMPTY_AXES_OF_SQUEEZE
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.converters.openvino.weights.dequantization import reshaped
from ortconv.errors import ConversionError, ShapeError
from ortconv.graph.builder import Builder, Ints


@REGISTRY.lowering("Reshape")
def reshape(b: Builder, data: ir.Value, shape: ir.Value, /, *, special_zero: bool = False) -> ir.Value:
    """Reshape; without special_zero a zero is a size (allowzero)."""
    declared = b.node.outputs[0].shape or ()
    whole = [size for size in declared if isinstance(size, int)]
    if 0 in whole and len(whole) == len(declared):  # with a zero, Reshape cannot infer -1
        return in_8_bits(b, lambda x: b.op("Reshape", x, b.constant(whole), allowzero=1), data)
    moved = _weights(b, data, known_ints(b, shape), special_zero)
    if moved is not None:
        return moved
    sizes = b.sizes(shape) or ()
    if sizes.count(None) == 1 and all(size is None or size > 0 for size in sizes):
        # Reshape infers the only dynamic dimension.
        wanted = b.constant([-1 if size is None else size for size in sizes])
        return in_8_bits(b, lambda x: b.op("Reshape", x, wanted), data)
    target = known_ints(b, shape)
    if special_zero and target is not None and 0 in target and -1 in target and len(declared) == len(target):
        # ONNX Runtime cannot infer -1 next to a copied dimension of size zero.
        size = declared[target.index(-1)]
        if isinstance(size, int) and size > 0:
            wanted = b.constant([size if entry == -1 else entry for entry in target])
            return in_8_bits(b, lambda x: b.op("Reshape", x, wanted), data)
    literal_zeros = not special_zero and (target is None or 0 in target)
    allowzero = 1 if literal_zeros else None
    return in_8_bits(b, lambda x: b.op("Reshape", x, int64_vector(b, shape), allowzero=allowzero), data)


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


@REGISTRY.lowering("Squeeze", how="exact", without=["allow_axis_skip"])
@REGISTRY.lowering("Squeeze", since=15, how="exact")
def squeeze(b: Builder, data: ir.Value, axes: ir.Value | None = None, /, *, allow_axis_skip: bool = False) -> ir.Value:
    """Squeeze of those axes whose size is or may be 1; with allow_axis_skip their sizes must be known."""
    known = () if axes is None else known_ints(b, axes)
    if known is None:
        assert axes is not None
        return with_axes(b, b.op("Squeeze", data, int64_vector(b, axes)), data, axes, -1)
    if not known:
        if not is_static(data):
            EMPTY_AXES_OF_SQUEEZE.warn(b)
        return b.op("Squeeze", data)
    sizes = data.shape
    rank = rank_of(data, "data")
    assert sizes is not None
    if not rank and set(known) <= {-1, 0}:  # OpenVINO treats a scalar as a vector of one element
        return b.op("Identity", data)
    chosen = sorted(set(normalized(known, rank, "axes")))
    if allow_axis_skip and not all(isinstance(sizes[axis], int) for axis in chosen):
        raise ShapeError("data", sizes, f"with allow_axis_skip the sizes of axes {chosen} must be static.")
    # An axis whose size is known not to be 1 is kept, as the specification says since 2024.3.
    ones = [axis for axis in chosen if not isinstance(sizes[axis], int) or sizes[axis] == 1]
    declared = b.node.outputs[0].shape
    if declared is not None and len(declared) != rank - len(ones):  # as is one whose interval excludes 1
        ones = [axis for axis in ones if sizes[axis] == 1]
        if len(declared) != rank - len(ones):
            raise ShapeError("data", sizes, f"it must be static which of the axes {chosen} have size 1.")
    moved = reshaped(b, data, [size for axis, size in enumerate(sizes) if axis not in ones])
    if moved is not None:
        return moved
    return b.op("Squeeze", data, b.constant(ones)) if ones else b.op("Identity", data)


@REGISTRY.lowering("Unsqueeze")
def unsqueeze(b: Builder, data: ir.Value, axes: ir.Value, /) -> ir.Value:
    """Unsqueeze; duplicate axes are inserted once."""
    known = known_ints(b, axes)
    if known is None or data.shape is None:
        return with_axes(b, b.op("Unsqueeze", data, int64_vector(b, axes)), data, axes, 1)
    distinct = tuple(dict.fromkeys(known))
    rank = len(data.shape) + len(distinct)
    if len(set(normalized(distinct, rank, "axes"))) < len(distinct):
        raise ConversionError(f"input axes = {list(known)} names an axis twice; allowed: different axes.")
    inserted = normalized(distinct, rank, "axes")
    kept = iter(data.shape)
    moved = reshaped(b, data, [1 if axis in inserted else next(kept) for axis in range(rank)])
    return b.typed(b.op("Unsqueeze", data, b.constant(distinct)), data.dtype, [None] * rank) if moved is None else moved
