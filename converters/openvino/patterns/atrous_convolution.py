"""Atrous convolution: SpaceToBatch, a convolution and BatchToSpace become one dilated convolution.

TensorFlow writes dilated convolutions so: DeepLab along two axes, WaveNet along one, with a Reshape to an image
of one row and back. The dilation is the block; what is padded before and cropped afterwards becomes the padding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

from ortconv.converters.openvino.plugin_bugs.convolution import ATROUS_CONVOLUTION
from ortconv.graph.annotations import SPACE_TO_BATCH, SpaceToBatch
from ortconv.graph.builder import Builder
from ortconv.graph.match import producer
from ortconv.graph.symbolic_shapes import Entry, Linear, of_axis
from ortconv.opset.domain import DOMAIN
from ortconv.opset.ops.convolution import CONVOLUTION

__all__ = ["dilated_conv", "remember_blocks"]

_RESHAPES = frozenset({"Reshape", "Squeeze", "Unsqueeze"})


def remember_blocks(b: Builder, spread: ir.Value, data: ir.Value, inputs: Sequence[ir.Value]) -> None:
    """Annotates the output of a SpaceToBatch with its inputs, for `dilated_conv`.

    Args:
        b: The builder.
        spread: The output.
        data: The data.
        inputs: The block shape, begin and end paddings.
    """
    vectors = _vectors(b, inputs)
    if vectors is not None:
        SPACE_TO_BATCH.set(spread, SpaceToBatch(data, *vectors))


def dilated_conv(b: Builder, data: ir.Value, inputs: Sequence[ir.Value]) -> ir.Value | None:
    """Emits the dilated Conv that computes the output of a BatchToSpace.

    Args:
        b: The builder.
        data: The data of BatchToSpace.
        inputs: The block shape, begin and end crops.

    Returns:
        None if there is no such Conv, or sizes are known only at run time.
    """
    vectors = _vectors(b, inputs)
    result = _behind(data, _is_of_conv)
    conv = None if result is None else result.producer()
    if result is None or conv is None or conv.inputs[0] is None or vectors is None:
        return None
    x: ir.Value | None = conv.inputs[0]
    pad = producer(x, "Pad")
    pads_itself = pad is not None and pad.metadata_props == conv.metadata_props  # auto_pad with dynamic shapes
    if pads_itself and pad is not None:
        x = pad.inputs[0]
    if x is None:
        return None
    spread = _behind(x, lambda value: SPACE_TO_BATCH.get(value) is not None)
    if spread is None or (spread is x) != (result is data):
        return None
    added = None if spread is x else _axis_between(spread, x)
    if spread is not x and (added is None or _axis_between(data, result) != added):
        return None
    block, crops_begin, crops_end = vectors
    blocks = SPACE_TO_BATCH.get(spread)
    assert blocks is not None
    if added is None:
        _warn_of_dropped_parts(b, conv, blocks, block, [*crops_begin[:2], *crops_end[:2]])
    if conv.domain or pads_itself or list(blocks.block) != block or block[:2] != [1, 1]:
        return None
    window = _window(conv, blocks, block, crops_begin, crops_end, added)
    if window is None:
        return None
    whole = blocks.data
    if added is not None:
        dims = None
        if whole.shape is not None:
            dims = [dim if isinstance(dim, int) else None for dim in whole.shape]
            dims.insert(added, 1)
        whole = b.typed(b.op("Unsqueeze", whole, b.constant([added])), whole.dtype, dims)
    attributes = {name: attribute.value for name, attribute in conv.attributes.items()} | window
    y = b.typed(b.op("Conv", whole, *conv.inputs[1:], **attributes), data.dtype, _shape(whole, conv.inputs[1]))
    b.note("SpaceToBatch, Conv and BatchToSpace become one dilated Conv")
    return y if added is None else b.typed(b.op("Squeeze", y, b.constant([added])), data.dtype, None)


def _vectors(b: Builder, inputs: Sequence[ir.Value]) -> list[list[Entry]] | None:
    """Returns the known entries of vectors; None if a length is unknown."""
    known = [each.entries.ravel().tolist() for each in map(b.entries, inputs) if each is not None]
    return known if len(known) == len(inputs) else None


def _warn_of_dropped_parts(
    b: Builder, conv: ir.Node, blocks: SpaceToBatch, block: Sequence[Entry], crops: Sequence[Entry]
) -> None:
    """Warns if OpenVINO's CPU plugin emits another dilated convolution."""
    dropped = [
        f"{name} of the convolution"
        for name, plain in (("strides", 1), ("dilations", 1), ("pads", 0))
        if set(conv.attributes.get_ints(name, [])) - {plain}
    ]
    if list(blocks.block) != block:
        dropped.append("block_shape of BatchToSpace")
    if set(crops) - {0}:
        dropped.append("crops of batch and channels")
    if dropped:
        ATROUS_CONVOLUTION.warn(b, f"dropped: {', '.join(dropped)}")


def _shape(data: ir.Value, filter: ir.Value | None) -> list[int | str | None] | None:
    """Returns the shape of the result, None for spatial dimensions and others that are dynamic."""
    if data.shape is None or filter is None or filter.shape is None:
        return None
    batch, channels = (dim if isinstance(dim, int) else None for dim in (data.shape[0], filter.shape[0]))
    return [batch, channels, *[None] * (len(data.shape) - 2)]


def _is_of_conv(value: ir.Value) -> bool:
    node = value.producer()
    return node is not None and (node.domain, node.op_type) in (("", "Conv"), (DOMAIN, CONVOLUTION.name))


def _behind(value: ir.Value, wanted: Callable[[ir.Value], bool]) -> ir.Value | None:
    """Returns the first value that `wanted` is true of, looking through Reshape, Squeeze and Unsqueeze; or None."""
    found: ir.Value | None = value
    while found is not None and not wanted(found):
        node = found.producer()
        found = None if node is None or node.domain or node.op_type not in _RESHAPES else node.inputs[0]
    return found


def _axis_between(narrow: ir.Value, wide: ir.Value) -> int | None:
    """Returns the spatial axis of size 1 that `wide` has and `narrow`, with the same elements, has not; or None."""
    dims, more = (
        [] if value.shape is None else [of_axis(value, axis) for axis in range(len(value.shape))]
        for value in (narrow, wide)
    )
    places = (axis for axis in range(2, len(more)) if more[axis] == 1 and _alike(dims, more[:axis] + more[axis + 1 :]))
    return next(places, None)


def _alike(dims: Sequence[int | Linear], others: Sequence[int | Linear]) -> bool:
    """Tells whether two shapes with the same number of elements are equal, for which all sizes but one suffice."""
    return len(dims) == len(others) and sum(a != b for a, b in zip(dims, others, strict=True)) <= 1


def _window(
    conv: ir.Node,
    blocks: SpaceToBatch,
    block: Sequence[Entry],
    crops_begin: Sequence[Entry],
    crops_end: Sequence[Entry],
    added: int | None,
) -> dict[str, list[int]] | None:
    """Returns dilations and pads of the dilated Conv, or None if there is none."""
    begin, end = (
        [_difference(pad, crop) for pad, crop in zip(pads, crops, strict=True)]
        for pads, crops in ((blocks.begin, crops_begin), (blocks.end, crops_end))
    )
    if {*begin[:2], *end[:2]} != {0}:
        return None
    rows = [(size, first, last) for size, first, last in zip(block, begin, end, strict=True)][2:]
    if added is not None:
        rows.insert(added - 2, (1, 0, 0))
    rank = len(rows)
    pads = conv.attributes.get_ints("pads", [0] * 2 * rank)
    strides = conv.attributes.get_ints("strides", [1] * rank)
    dilations = conv.attributes.get_ints("dilations", [1] * rank)
    if set(strides) != {1}:
        return None
    made: dict[str, list[int]] = {"dilations": [], "pads": [0] * 2 * rank}
    for axis, (size, first, last) in enumerate(rows):
        if not isinstance(size, int) or first is None or last is None:
            return None
        made["dilations"].append(dilations[axis] * size)
        made["pads"][axis] = pads[axis] * size + first
        made["pads"][rank + axis] = pads[rank + axis] * size + last
    return made if min(made["pads"]) >= 0 else None


def _difference(pad: Entry, crop: Entry) -> int | None:
    """Returns padding minus crop, where either may be symbolic; None if the difference is not known."""
    if isinstance(pad, int) and isinstance(crop, int):
        return pad - crop
    if isinstance(pad, Linear) and isinstance(crop, Linear) and pad.follows(crop) and pad.scale == crop.scale:
        return pad.offset - crop.offset
    return None
