"""DepthToSpace and SpaceToDepth."""

from __future__ import annotations

from typing import Literal

import onnx_ir as ir

from ortconv.converters.openvino.lib.broadcasting import rank_of
from ortconv.converters.openvino.lib.compute_types import KERNELS
from ortconv.converters.openvino.lib.sizes import calculate, reshaped, sizes_of
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import ShapeError, UnsupportedAttributeError
from ortconv.graph.builder import Builder

BlockMode = Literal["blocks_first", "depth_first"]


@REGISTRY.lowering("DepthToSpace", how="composed")
def depth_to_space(b: Builder, data: ir.Value, /, *, mode: BlockMode = "blocks_first", block_size: int = 1) -> ir.Value:
    """DepthToSpace; Reshape, Transpose, Reshape where the rank is not 4 or the type has no kernel."""
    spatial = _spatial_rank(data, block_size)
    _require_multiple(data, 1, block_size**spatial)
    if spatial == 2 and data.dtype in KERNELS["DepthToSpace"]:
        order = "DCR" if mode == "blocks_first" else "CRD"
        return b.op("DepthToSpace", data, blocksize=block_size, mode=order)
    blocks = [block_size] * spatial
    batch, depth, *sizes = sizes_of(b, data, "data")
    thin = calculate(b, "Div", depth, block_size**spatial)
    if mode == "blocks_first":
        split = [batch, *blocks, thin, *sizes]
        block_axes, depth_axis = range(1, spatial + 1), spatial + 1
    else:
        split = [batch, thin, *blocks, *sizes]
        block_axes, depth_axis = range(2, spatial + 2), 1
    pairs = [axis for i, block in enumerate(block_axes) for axis in (spatial + 2 + i, block)]
    grown = [calculate(b, "Mul", size, block_size) for size in sizes]
    moved = b.op("Transpose", reshaped(b, data, split), perm=[0, depth_axis, *pairs])
    return reshaped(b, moved, [batch, thin, *grown])


@REGISTRY.lowering("SpaceToDepth")
def space_to_depth(b: Builder, data: ir.Value, /, *, mode: BlockMode = "blocks_first", block_size: int = 1) -> ir.Value:
    """SpaceToDepth for blocks_first at rank 4; otherwise Reshape, Transpose, Reshape."""
    spatial = _spatial_rank(data, block_size)
    for axis in range(2, spatial + 2):
        _require_multiple(data, axis, block_size)
    if spatial == 2 and mode == "blocks_first" and data.dtype in KERNELS["SpaceToDepth"]:
        return b.op("SpaceToDepth", data, blocksize=block_size)
    batch, depth, *sizes = sizes_of(b, data, "data")
    shrunk = [calculate(b, "Div", size, block_size) for size in sizes]
    split = [batch, depth, *[part for size in shrunk for part in (size, block_size)]]
    space_axes, block_axes = list(range(2, 2 * spatial + 2, 2)), list(range(3, 2 * spatial + 3, 2))
    front = [*block_axes, 1] if mode == "blocks_first" else [1, *block_axes]
    moved = b.op("Transpose", reshaped(b, data, split), perm=[0, *front, *space_axes])
    return reshaped(b, moved, [batch, calculate(b, "Mul", depth, block_size**spatial), *shrunk])


def _require_multiple(data: ir.Value, axis: int, factor: int) -> None:
    size = None if data.shape is None else data.shape[axis]
    if isinstance(size, int) and size % factor:
        raise ShapeError("data", data.shape, f"axis {axis} must have a multiple of {factor} entries.")


def _spatial_rank(data: ir.Value, block_size: int) -> int:
    rank = rank_of(data, "data")
    if rank < 3:
        raise ShapeError("data", data.shape, "its rank must be at least 3.")
    if block_size < 1:
        raise UnsupportedAttributeError("block_size", block_size, "an integer of at least 1")
    return rank - 2
