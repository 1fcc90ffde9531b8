"""Pad with zeros at the end -> output_padding; Pad that takes off -> pads."""

from __future__ import annotations

import numpy as np

from ortconv.graph.constant_values import constant
from ortconv.optimizer.neighbours import crop, ints, reader, require_alone, require_no_residual
from ortconv.optimizer.site import Kept, Site, named
from ortconv.optimizer.values import is_zero

__all__ = ["fold"]


def fold(site: Site) -> str | None:
    """Fuses the Pad that consumes the output.

    Positions may be appended where they are zero in ours, too: beyond the full result, so no more may have been cropped
    at that end than output_padding adds, and without a bias, which our node adds to them.
    """
    node = reader(site, "Pad")
    if node is None:
        return None
    require_alone(site.output, node, site)
    require_no_residual(node, site)
    if site.output_shape is not None:
        raise Kept(f"{named(node)}: the padding of a node with an output_shape follows from that size")
    if node.attributes.get_string("mode", "constant") != "constant":
        raise Kept(f"{named(node)}: its mode is {node.attributes['mode'].as_string()}")
    rank = site.rank + 2
    pads, axes = ints(node, 1), ints(node, 3)
    if pads is None:
        raise Kept(f"{named(node)}: it has no pads")
    axes = list(range(rank)) if axes is None else [axis % rank for axis in axes]
    taken, added = [[0] * site.rank, [0] * site.rank], [0] * site.rank
    for place, axis in enumerate(axes):
        at = site.spatial(axis)
        for side in (0, 1):
            count = pads[place + side * len(axes)]
            if at is None and count:
                raise Kept(f"{named(node)}: it pads batch or channels")
            if at is not None and count > 0 and side == 0:
                raise Kept(f"{named(node)}: it puts {count} positions in front on spatial axis {at}")
            if at is not None and count > 0:
                added[at] += count
            elif at is not None:
                taken[side][at] -= count
    if any(added):
        _check_zeros(site, added, node_name := named(node))
        value = node.inputs[2] if len(node.inputs) > 2 else None
        data = constant(value)
        if value is not None and (data is None or np.any(data.numpy())):
            raise Kept(f"{node_name}: its value is not a constant zero")
    # Taken off first, then added: no axis has both at its end.
    crop(site, node, tuple(taken[0]), tuple(taken[1]))
    site.extend(tuple(added))
    site.take(node)
    return f"{named(node)} into pads and output_padding"


def _check_zeros(site: Site, added: list[int], name: str) -> None:
    if not is_zero(site.bias):
        raise Kept(f"{name}: what it appends is zero, ours has the bias there, too")
    if not site.activation[1] <= 0 <= site.activation[2]:
        raise Kept(f"{name}: what it appends is zero, ours would clip that, too")
    for axis, count in enumerate(added):
        if count and site.end[axis] > site.output_padding[axis]:
            raise Kept(
                f"{name}: what it appends is zero; on spatial axis {axis} ours has the "
                f"{site.end[axis] - site.output_padding[axis]} positions there that pads took off"
            )
