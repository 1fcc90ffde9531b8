"""Ops that move whole elements: concatenation, splitting, broadcasting, tiling, and blocks between depth and space."""

from __future__ import annotations

from typing import Literal

import onnx_ir as ir

from ortconv.converters.openvino.lib.broadcasting import rank_of
from ortconv.converters.openvino.lib.compute_types import KERNELS, compute
from ortconv.converters.openvino.lib.constants import constant_ints, int64_vector, known_ints, length_of, normalized
from ortconv.converters.openvino.lib.defaults import warn_of_default
from ortconv.converters.openvino.lib.dynamic_axes import View, view_along
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import ConversionError, ShapeError, UnsupportedAttributeError
from ortconv.graph.builder import Builder

_MOST_PARTS = 1 << 16
"""Bounds what a damaged file can ask for."""

BlockMode = Literal["blocks_first", "depth_first"]


@REGISTRY.lowering("Concat")
def concat(b: Builder, *inputs: ir.Value, axis: int) -> ir.Value:
    """Concat."""
    return b.op("Concat", *inputs, axis=axis)


@REGISTRY.lowering("Split", how="exact")
def split(b: Builder, data: ir.Value, axis: ir.Value, /, *, num_splits: int) -> tuple[ir.Value, ...]:
    """Split into equal parts."""
    if not 1 <= num_splits <= _MOST_PARTS:
        raise UnsupportedAttributeError("num_splits", num_splits, f"an integer from 1 to {_MOST_PARTS}")
    if b.array(axis) is None:
        view = view_along(b, data, axis)
        each = b.op("Div", view.size, b.constant([num_splits]))
        return tuple(view.restored(b, part, each) for part in _parts(b, view, each, num_splits))
    along = _axis(b, axis)
    size = None if data.shape is None else data.shape[normalized((along,), len(data.shape), "axis")[0]]
    if isinstance(size, int) and size % num_splits:
        raise UnsupportedAttributeError("num_splits", num_splits, f"a divisor of the axis' size, {size}")
    if size == 0:  # ONNX Runtime does not divide nothing by itself
        return b.op("Split", data, b.constant([0] * num_splits), outputs=num_splits, axis=along)
    return b.op("Split", data, outputs=num_splits, axis=along, num_outputs=num_splits)


@REGISTRY.lowering("VariadicSplit")
def variadic_split(b: Builder, data: ir.Value, axis: ir.Value, split_lengths: ir.Value, /) -> tuple[ir.Value, ...]:
    """Split; the length -1 becomes what the others leave."""
    count = length_of(split_lengths, "split_lengths", most=_MOST_PARTS)
    if count < len(b.node.outputs):
        raise ShapeError("split_lengths", split_lengths.shape, f"it must have {len(b.node.outputs)} entries.")
    known = known_ints(b, split_lengths)
    lengths = int64_vector(b, split_lengths)
    view = view_along(b, data, axis) if b.array(axis) is None else None
    along = _axis(b, axis) if view is None else 1
    if known is None or -1 in known:
        whole = view.size if view is not None else b.op("Gather", b.op("Shape", data), b.constant([along]))
        taken = b.op("ReduceSum", b.op("Max", lengths, b.constant([0])), keepdims=1)
        rest = b.op("Equal", lengths, b.constant([-1]))
        lengths = b.op("Where", rest, b.op("Sub", whole, taken), lengths)
    if view is None:
        return b.op("Split", data, lengths, outputs=count, axis=along)
    sizes = [b.op("Slice", lengths, b.constant([place]), b.constant([place + 1])) for place in range(count)]
    parts = b.op("Split", view.value, lengths, outputs=count, axis=along)
    return tuple(view.restored(b, part, size) for part, size in zip(parts, sizes, strict=True))


def _parts(b: Builder, view: View, each: ir.Value, count: int) -> tuple[ir.Value, ...]:
    """Splits a view along the axis in its middle."""
    return b.op("Split", view.value, b.op("Expand", each, b.constant([count])), outputs=count, axis=1)


def _axis(b: Builder, axis: ir.Value) -> int:
    ints = constant_ints(b, axis, "axis")
    if len(ints) != 1:
        raise ShapeError("axis", axis.shape, "it must be one number.")
    return ints[0]


@REGISTRY.lowering("Broadcast", since=1, until=3)
def broadcast(
    b: Builder,
    data: ir.Value,
    target_shape: ir.Value,
    axes_mapping: ir.Value | None = None,
    /,
    *,
    mode: Literal["numpy", "explicit", "none", "bidirectional"] = "numpy",
) -> ir.Value:
    """Expand; for explicit, also spelled none, after an Unsqueeze that puts the axes in their places."""
    if b.node.version == 1 and axes_mapping is not None:
        warn_of_default(b, "mode", "numpy", "takes explicit")
    if mode in ("explicit", "none"):
        if axes_mapping is None:
            raise ConversionError(f"input axes_mapping is missing; mode {mode} requires it.")
        rank = length_of(target_shape, "target_shape")
        known = known_ints(b, axes_mapping)
        if known is None:  # taken to ascend, as the page demands
            ones = b.constant([1] * rank)
            sizes = b.op("ScatterElements", ones, int64_vector(b, axes_mapping), b.op("Shape", data), axis=0)
            placed = b.typed(b.op("Reshape", data, sizes), data.dtype, [None] * rank)
            return _expanded(b, placed, target_shape)
        axes = normalized(constant_ints(b, axes_mapping, "axes_mapping"), rank, "axes_mapping")
        if list(axes) != sorted(set(axes)):
            raise ConversionError(f"input axes_mapping = {list(axes)} is not supported; allowed: ascending axes.")
        others = [axis for axis in range(rank) if axis not in axes]
        data = b.typed(b.op("Unsqueeze", data, b.constant(others)), data.dtype, None) if others else data
    return _expanded(b, data, target_shape)


def _expanded(b: Builder, data: ir.Value, target_shape: ir.Value) -> ir.Value:
    shape = int64_vector(b, target_shape)
    return compute(b, lambda x: b.op("Expand", x, shape), data, kernels=("Expand",), modular=True)


@REGISTRY.lowering("Tile")
def tile(b: Builder, data: ir.Value, repeats: ir.Value, /) -> ir.Value:
    """Tile; the shorter of shape and repeats is filled up with ones in front."""
    known = known_ints(b, repeats)
    rank = rank_of(data, "data")
    count = length_of(repeats, "repeats") if known is None else len(known)
    times = int64_vector(b, repeats)
    if not count:
        b.warn("the page is followed: OpenVINO's CPU plugin returns other memory, or nothing, where repeats is empty")
    if count < rank:
        times = b.op("Concat", b.constant([1] * (rank - count)), times, axis=0)
    if count > rank:
        data = b.typed(b.op("Unsqueeze", data, b.constant(list(range(count - rank)))), data.dtype, None)
    return compute(b, lambda x: b.op("Tile", x, times), data, kernels=("Tile",), modular=True)


@REGISTRY.lowering("DepthToSpace", how="composed")
def depth_to_space(b: Builder, data: ir.Value, /, *, mode: BlockMode = "blocks_first", block_size: int = 1) -> ir.Value:
    """DepthToSpace; Reshape, Transpose, Reshape where the rank is not 4 or the type has no kernel."""
    spatial = _spatial_rank(data, block_size)
    if spatial == 2 and data.dtype in KERNELS["DepthToSpace"]:
        order = "DCR" if mode == "blocks_first" else "CRD"
        return b.op("DepthToSpace", data, blocksize=block_size, mode=order)
    blocks = [b.constant([block_size])] * spatial
    batch, depth, *sizes = _sizes(b, data, spatial)
    thin = b.op("Div", depth, b.constant([block_size**spatial]))
    if mode == "blocks_first":
        split = b.op("Concat", batch, *blocks, thin, *sizes, axis=0)
        block_axes, depth_axis = range(1, spatial + 1), spatial + 1
    else:
        split = b.op("Concat", batch, thin, *blocks, *sizes, axis=0)
        block_axes, depth_axis = range(2, spatial + 2), 1
    pairs = [axis for i, block in enumerate(block_axes) for axis in (spatial + 2 + i, block)]
    grown = [b.op("Mul", size, blocks[0]) for size in sizes]
    moved = b.op("Transpose", b.op("Reshape", data, split), perm=[0, depth_axis, *pairs])
    return b.op("Reshape", moved, b.op("Concat", batch, thin, *grown, axis=0))


@REGISTRY.lowering("SpaceToDepth")
def space_to_depth(b: Builder, data: ir.Value, /, *, mode: BlockMode = "blocks_first", block_size: int = 1) -> ir.Value:
    """SpaceToDepth for blocks_first at rank 4; otherwise Reshape, Transpose, Reshape."""
    spatial = _spatial_rank(data, block_size)
    if spatial == 2 and mode == "blocks_first" and data.dtype in KERNELS["SpaceToDepth"]:
        return b.op("SpaceToDepth", data, blocksize=block_size)
    block = b.constant([block_size])
    batch, depth, *sizes = _sizes(b, data, spatial)
    shrunk = [b.op("Div", size, block) for size in sizes]
    split = b.op("Concat", batch, depth, *[part for size in shrunk for part in (size, block)], axis=0)
    space_axes, block_axes = list(range(2, 2 * spatial + 2, 2)), list(range(3, 2 * spatial + 3, 2))
    front = [*block_axes, 1] if mode == "blocks_first" else [1, *block_axes]
    moved = b.op("Transpose", b.op("Reshape", data, split), perm=[0, *front, *space_axes])
    deep = b.op("Mul", depth, b.constant([block_size**spatial]))
    return b.op("Reshape", moved, b.op("Concat", batch, deep, *shrunk, axis=0))


def _spatial_rank(data: ir.Value, block_size: int) -> int:
    rank = rank_of(data, "data")
    if rank < 3:
        raise ShapeError("data", data.shape, "its rank must be at least 3.")
    if block_size < 1:
        raise UnsupportedAttributeError("block_size", block_size, "an integer of at least 1")
    return rank - 2


def _sizes(b: Builder, data: ir.Value, spatial: int) -> list[ir.Value]:
    """Returns the size of each axis, as a vector of one entry."""
    return list(b.op("Split", b.op("Shape", data), outputs=spatial + 2, axis=0, num_outputs=spatial + 2))
