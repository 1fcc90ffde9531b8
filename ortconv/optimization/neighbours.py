"""Looking for nodes around a ConvTranspose that can be taken in, and reading what they do to each axis."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from ortconv.optimization.site import Ints, Kept, Site, named
from ortconv.optimization.values import constant

__all__ = ["crop", "ints", "reader", "require_alone", "require_no_residual"]


def reader(site: Site, op_type: str) -> ir.Node | None:
    """Returns a node of a standard type that reads the output, or None."""
    for node in site.output.consumers():
        if not node.domain and node.op_type == op_type and node.inputs and site.output in node.inputs:
            return node
    return None


def require_alone(value: ir.Value, node: ir.Node, site: Site) -> None:
    """Checks that a value between two nodes is of no interest to anything else.

    Raises:
        Kept: It is.
    """
    if value.is_graph_output():
        raise Kept(f"{named(node)}: {value.name} is an output of its graph")
    if len(value.uses()) > 1:
        raise Kept(f"{named(node)}: {value.name} has {len(value.uses())} uses")
    if node.graph is not site.node.graph:
        raise Kept(f"{named(node)}: it stands in another graph")


def require_no_residual(node: ir.Node, site: Site) -> None:
    """Checks that nothing was added to the result that a node lays out in another way.

    Raises:
        Kept: A residual was, which ours reads as it lies.
    """
    if site.residual is not None:
        raise Kept(f"{named(node)}: it stands behind an Add of {site.residual.name}, which ours reads as it lies")


def ints(node: ir.Node, index: int) -> list[int] | None:
    """Returns the integers that an optional input holds, or None where it is absent.

    Raises:
        Kept: They are known at run time only.
    """
    value = node.inputs[index] if index < len(node.inputs) else None
    if value is None:
        return None
    data = constant(value)
    if data is None:
        raise Kept(f"{named(node)}: {value.name} is not a constant")
    return [int(entry) for entry in data.numpy().reshape(-1)]


def crop(site: Site, node: ir.Node, begin: Ints, end: Ints) -> None:
    """Takes positions off the result, if they are there whatever the size of the input.

    Raises:
        Kept: They may not be: the node then gives an empty result, and ours would fail.
    """
    left: Sequence[int] = [y - b - e for y, b, e in zip(site.least, begin, end, strict=True)]
    if min(left) < 0:
        raise Kept(f"{named(node)}: it takes off more than a small input gives, spatial sizes {list(site.least)}")
    site.crop(begin, end)
