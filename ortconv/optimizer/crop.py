"""Slice of spatial axes with step 1 -> pads."""

from __future__ import annotations

import onnx_ir as ir

from ortconv.optimizer.neighbours import crop, ints, reader, require_alone, require_no_residual
from ortconv.optimizer.site import Kept, Site, named

__all__ = ["fold"]

_ENDLESS = (1 << 31) - 1
"""No size reaches this: exporters write it, or more, for "up to the end"."""


def fold(site: Site) -> str | None:
    """Fuses the Slice that consumes the output; an end counted from the front needs a known size."""
    node = reader(site, "Slice")
    if node is None:
        return None
    require_alone(site.output, node, site)
    require_no_residual(node, site)
    rank = site.rank + 2
    starts, ends, axes, steps = (ints(node, index) for index in (1, 2, 3, 4))
    if starts is None or ends is None:
        raise Kept(f"{named(node)}: it has no bounds")
    if steps is not None and any(step != 1 for step in steps):
        raise Kept(f"{named(node)}: its steps are {steps}")
    axes = list(range(len(starts))) if axes is None else [axis % rank for axis in axes]
    taken = ([0] * site.rank, [0] * site.rank)
    for axis, start, end in zip(axes, starts, ends, strict=True):
        at = site.spatial(axis)
        if at is not None:
            if site.output_shape is not None:
                raise Kept(f"{named(node)}: the padding of a node with an output_shape follows from that size")
            taken[0][at], taken[1][at] = _taken(site, node, at, start, end)
        elif start or end < _ENDLESS:
            raise Kept(f"{named(node)}: it slices batch or channels")
    crop(site, node, tuple(taken[0]), tuple(taken[1]))
    site.take(node)
    return f"{named(node)} into pads"


def _taken(site: Site, node: ir.Node, at: int, start: int, end: int) -> tuple[int, int]:
    """Returns how many positions of a spatial axis go at the begin and at the end."""
    size = site.least[at] if site.exact[at] else None
    if start < 0:
        if size is None:
            raise Kept(f"{named(node)}: its start {start} counts from an end that is not known")
        start = max(size + start, 0)
    if end < 0:
        return start, -end
    if end >= _ENDLESS:
        return start, 0
    if size is None:
        raise Kept(f"{named(node)}: it ends at {end} of a size that is not known")
    return start, max(size - end, 0)
