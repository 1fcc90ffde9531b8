"""DepthToSpace and SpaceToDepth."""

from __future__ import annotations

from typing import Literal

import onnx_ir as ir

from ortconv.converters.openvino.lib.broadcasting import rank_of
from ortconv.converters.openvino.lib.compute_types import KERNELS
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import ShapeError, UnsupportedAttributeError
from ortconv.graph.builder import Builder

BlockMode = Literal["blocks_first", "depth_first"]


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
