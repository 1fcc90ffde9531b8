"""A convolution between SpaceToBatch and BatchToSpace, which is how TensorFlow writes a dilated one.

Every block of the image holds one element of each of the smaller images that SpaceToBatch makes. A convolution of those
meets the elements that one dilated by the block meets in the image itself; what is padded before and cropped afterwards
becomes its padding.
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
    """Keeps what SpaceToBatch did to get a value, for `dilated_conv`.

    Args:
        b: The builder.
        spread: What it gives.
        data: What it takes.
        inputs: Sizes of blocks, and paddings in front and behind.
    """
    vectors = _vectors(b, inputs)
    if vectors is not None:
        SPACE_TO_BATCH.set(spread, SpaceToBatch(data, *vectors))


def dilated_conv(b: Builder, data: ir.Value, inputs: Sequence[ir.Value]) -> ir.Value | None:
    """Emits the Conv that gives what BatchToSpace does.

    Args:
        b: The builder.
        data: What BatchToSpace takes.
        inputs: Sizes of blocks, and how much it crops in front and behind.

    Returns:
        None where there is no such Conv, or sizes are not known well enough.
    """
    vectors = _vectors(b, inputs)
    result = _behind(data, _is_of_conv)
    conv = None if result is None else result.producer()
    if result is None or conv is None or conv.inputs[0] is None or vectors is None:
        return None
    x: ir.Value | None = conv.inputs[0]
    pad = producer(x, "Pad")
    pads_itself = pad is not None and pad.metadata_props == conv.metadata_props  # auto_pad of sizes of the run
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
        _warn_of_what_is_left_out(b, conv, blocks, block, [*crops_begin[:2], *crops_end[:2]])
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
    b.note("SpaceToBatch, Conv and BatchToSpace are one dilated Conv")
    return y if added is None else b.typed(b.op("Squeeze", y, b.constant([added])), data.dtype, None)


def _vectors(b: Builder, inputs: Sequence[ir.Value]) -> list[list[Entry]] | None:
    """Returns what is known of entries, None where that is not even how many there are."""
    known = [each.entries.ravel().tolist() for each in map(b.entries, inputs) if each is not None]
    return known if len(known) == len(inputs) else None


def _warn_of_what_is_left_out(
    b: Builder, conv: ir.Node, blocks: SpaceToBatch, block: Sequence[Entry], crops: Sequence[Entry]
) -> None:
    """Warns where OpenVINO's CPU plugin makes another dilated convolution of the three."""
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
    """Returns what is certain of the result's shape."""
    if data.shape is None or filter is None or filter.shape is None:
        return None
    batch, channels = (dim if isinstance(dim, int) else None for dim in (data.shape[0], filter.shape[0]))
    return [batch, channels, *[None] * (len(data.shape) - 2)]


def _is_of_conv(value: ir.Value) -> bool:
    node = value.producer()
    return node is not None and (node.domain, node.op_type) in (("", "Conv"), (DOMAIN, CONVOLUTION.name))


def _behind(value: ir.Value, wanted: Callable[[ir.Value], bool]) -> ir.Value | None:
    """Returns the value that is wanted, or from which one is made by adding and taking away axes."""
    found: ir.Value | None = value
    while found is not None and not wanted(found):
        node = found.producer()
        found = None if node is None or node.domain or node.op_type not in _RESHAPES else node.inputs[0]
    return found


def _axis_between(narrow: ir.Value, wide: ir.Value) -> int | None:
    """Returns a spatial axis, of size 1, that a value has more than another of the same elements."""
    dims, more = (
        [] if value.shape is None else [of_axis(value, axis) for axis in range(len(value.shape))]
        for value in (narrow, wide)
    )
    places = (axis for axis in range(2, len(more)) if more[axis] == 1 and _alike(dims, more[:axis] + more[axis + 1 :]))
    return next(places, None)


def _alike(dims: Sequence[int | Linear], others: Sequence[int | Linear]) -> bool:
    """Tells whether two shapes of as many elements are the same: all sizes but one are enough."""
    return len(dims) == len(others) and sum(a != b for a, b in zip(dims, others, strict=True)) <= 1


def _window(
    conv: ir.Node,
    blocks: SpaceToBatch,
    block: Sequence[Entry],
    crops_begin: Sequence[Entry],
    crops_end: Sequence[Entry],
    added: int | None,
) -> dict[str, list[int]] | None:
    """Returns the dilations and pads of a Conv of the whole image."""
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
    """Returns what remains of a padding; both may be known at run time only."""
    if isinstance(pad, int) and isinstance(crop, int):
        return pad - crop
    if isinstance(pad, Linear) and isinstance(crop, Linear) and pad.follows(crop) and pad.scale == crop.scale:
        return pad.offset - crop.offset
    return None
