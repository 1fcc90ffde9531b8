"""Looking for nodes around a ConvTranspose that can be fused, and reading what they do to each axis."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import onnx_ir as ir

from ortconv.graph.constant_values import constant
from ortconv.opset.domain import DOMAIN
from ortconv.optimizer.site import Ints, Kept, Left, Site, named

__all__ = ["crop", "ints", "reader", "require_alone", "require_no_pad_with_axes", "require_no_residual"]

_NO_TRANSPOSE_PASSES = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
"""Ops behind which the Transpose that ends a function body does not get."""

_AXES = 3
"""The input of Pad that names its axes."""

_WRONGLY = "ONNX Runtime moves Transposes past it wrongly"


def reader(site: Site, *op_types: str) -> ir.Node | None:
    """Returns a node of a standard type, of the first possible one, that consumes the output; None if none does."""
    nodes = [node for node in site.output.consumers() if not node.domain and site.output in node.inputs]
    return next((node for op_type in op_types for node in nodes if node.op_type == op_type), None)


def require_alone(value: ir.Value, node: ir.Node, site: Site) -> None:
    """Checks that a value between two nodes has no other use.

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


def require_no_pad_with_axes(data: ir.Value, result: ir.Value) -> None:
    """Checks that no Pad of some axes stands between a Transpose of our function body and another one.

    The body begins and ends with one, even where it moves nothing. Where two undo each other, ONNX Runtime moves the
    first past what lies between, past such a Pad wrongly: without the plugin the model would fail when it runs.

    Args:
        data: What the node reads.
        result: What it computes.

    Raises:
        Left: One does.
    """
    for pad in filter(_names_axes, _passed(result, ir.Value.consumers)):
        if any(_turns(node) or node.op_type == "ConvTranspose" for node in _passed(pad.outputs[0], ir.Value.consumers)):
            raise Left(f"{named(pad)}, which follows, names its axes: {_WRONGLY}")
    for pad in filter(_names_axes, _passed(data, _producers)):
        if any(map(_turns, _passed(pad.inputs[0], _producers))):
            raise Left(f"{named(pad)}, which stands in front, names its axes: {_WRONGLY}")


def _passed(value: ir.Value | None, step: Callable[[ir.Value], Iterable[ir.Node]]) -> Iterator[ir.Node]:
    """Yields the nodes on one side of a value as far as ONNX Runtime moves a Transpose, and those that stop it."""
    values, seen = [value], set[ir.Node]()
    while values:
        last = values.pop()
        for node in () if last is None else step(last):
            if node not in seen:
                seen.add(node)
                yield node
                if not node.domain and node.op_type not in _NO_TRANSPOSE_PASSES:
                    values += node.outputs if step is ir.Value.consumers else node.inputs


def _producers(value: ir.Value) -> Iterable[ir.Node]:
    node = value.producer()
    return () if node is None else (node,)


def _names_axes(node: ir.Node) -> bool:
    return not node.domain and node.op_type == "Pad" and len(node.inputs) > _AXES and node.inputs[_AXES] is not None


def _turns(node: ir.Node) -> bool:
    """Tells whether a node is a Transpose, or has one in its function body."""
    return node.op_type == "Transpose" or node.domain == DOMAIN


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
