"""SpaceToBatch and BatchToSpace."""

from __future__ import annotations

import onnx_ir as ir

from ortconv.converters.openvino.lib.broadcasting import rank_of
from ortconv.converters.openvino.lib.compute_types import compute
from ortconv.converters.openvino.lib.constants import (
    int64_vector,
    known_ints,
    length_of,
)
from ortconv.converters.openvino.lib.sizes import (
    Size,
    calculate,
    joined,
    reshaped,
    sizes_of,
)
from ortconv.converters.openvino.patterns.atrous_convolution import dilated_conv, remember_blocks
from ortconv.converters.openvino.plugin_bugs.empty_inputs import SMALLER_THAN_BLOCK
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import ShapeError
from ortconv.graph.builder import Builder


@REGISTRY.lowering("SpaceToBatch", since=2)
def space_to_batch(
    b: Builder, data: ir.Value, block_shape: ir.Value, pads_begin: ir.Value, pads_end: ir.Value, /
) -> ir.Value:
    """Pad, Reshape, Transpose, Reshape."""
    rank = rank_of(data, "data")
    blocks, begin, end = (_per_axis(b, value, rank) for value in (block_shape, pads_begin, pads_end))
    for size, first, block in zip(sizes_of(b, data, "data"), begin, blocks, strict=True):
        if block == 1 or (isinstance(first, int) and isinstance(block, int) and first >= block - 1):
            continue
        if not (isinstance(size, int) and isinstance(first, int) and isinstance(block, int)):
            SMALLER_THAN_BLOCK.warn(b, "sizes known only at run time")
            break
        if size + first < block:
            SMALLER_THAN_BLOCK.warn(b, f"size {size}, begin padding {first}, block {block}")
            break
    pads = b.op("Concat", joined(b, begin), joined(b, end), axis=0)
    padded = data
    if set(begin + end) != {0}:
        padded = compute(b, lambda x: b.op("Pad", x, pads), data, op_types=("Pad",), modular=True)
    sizes = [
        calculate(b, "Add", calculate(b, "Add", size, first), last)
        for size, first, last in zip(sizes_of(b, data, "data"), begin, end, strict=True)
    ]
    thin = [calculate(b, "Div", size, block) for size, block in zip(sizes, blocks, strict=True)]
    split = reshaped(b, padded, [sizes[0], *(part for axis in range(1, rank) for part in (thin[axis], blocks[axis]))])
    perm = [*range(2, 2 * rank, 2), 0, *range(1, 2 * rank - 1, 2)]
    batch = sizes[0]
    for block in blocks[1:]:
        batch = calculate(b, "Mul", batch, block)
    spread = reshaped(b, b.op("Transpose", split, perm=perm), [batch, *thin[1:]])
    remember_blocks(b, spread, data, (block_shape, pads_begin, pads_end))
    return spread


@REGISTRY.lowering("BatchToSpace", since=2)
def batch_to_space(
    b: Builder, data: ir.Value, block_shape: ir.Value, crops_begin: ir.Value, crops_end: ir.Value, /
) -> ir.Value:
    """Reshape, Transpose, Reshape, Slice; a dilated Conv for the atrous convolution pattern."""
    rank = rank_of(data, "data")
    blocks, begin, end = (_per_axis(b, value, rank) for value in (block_shape, crops_begin, crops_end))
    dilated = dilated_conv(b, data, (block_shape, crops_begin, crops_end))
    if dilated is not None:
        return dilated
    sizes = sizes_of(b, data, "data")
    batch = sizes[0]
    for block in blocks[1:]:
        batch = calculate(b, "Div", batch, block)
    split = reshaped(b, data, [*blocks[1:], batch, *sizes[1:]])
    perm = [rank - 1, *(axis for place in range(rank - 1) for axis in (rank + place, place))]
    wide = [calculate(b, "Mul", size, block) for size, block in zip(sizes[1:], blocks[1:], strict=True)]
    apart = b.typed(b.op("Transpose", split, perm=perm), data.dtype, None)
    whole = reshaped(b, apart, [batch, *wide])
    if set(begin + end) == {0}:
        return whole
    stops = [calculate(b, "Sub", size, last) for size, last in zip([batch, *wide], end, strict=True)]
    return b.op("Slice", whole, joined(b, begin), joined(b, stops))


def _per_axis(b: Builder, value: ir.Value, rank: int) -> list[Size]:
    """Returns the entries of a vector with one entry per axis."""
    if length_of(value, "block_shape, begin or end") != rank:
        raise ShapeError("block_shape, begin or end", value.shape, f"data has {rank} axes.")
    known = known_ints(b, value)
    if known is not None:
        return list(known)
    return list(b.op("Split", int64_vector(b, value), outputs=rank, axis=0, num_outputs=rank))
