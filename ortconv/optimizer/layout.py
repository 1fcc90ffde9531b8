"""Transposes of the data, of the weights and of the result -> the permutations of our node."""

from __future__ import annotations

import onnx_ir as ir

from ortconv.optimizer.neighbours import reader, require_alone, require_no_residual
from ortconv.optimizer.site import Ints, Kept, Site, named
from ortconv.optimizer.values import perm_of

__all__ = ["fold_data", "fold_result", "fold_weights"]


def fold_data(site: Site) -> str | None:
    """Fuses the Transpose that produces the data."""
    node = _transpose(site, site.x)
    if node is None or node.inputs[0] is None:
        return None
    site.x, site.x_perm = node.inputs[0], _then(_perm(node, site), site.x_perm)
    site.before.append(node)
    return f"{named(node)} into x_perm"


def fold_weights(site: Site) -> str | None:
    """Fuses the Transpose that produces the weights."""
    node = _transpose(site, site.w)
    if node is None or node.inputs[0] is None:
        return None
    site.w, site.w_perm = node.inputs[0], _then(_perm(node, site), site.w_perm)
    site.before.append(node)
    return f"{named(node)} into w_perm"


def fold_result(site: Site) -> str | None:
    """Fuses the Transpose that consumes the result."""
    node = reader(site, "Transpose")
    if node is None:
        return None
    require_alone(site.output, node, site)
    require_no_residual(node, site)
    site.y_perm = _then(site.y_perm, _perm(node, site))
    site.take(node)
    return f"{named(node)} into y_perm"


def _transpose(site: Site, value: ir.Value) -> ir.Node | None:
    """Returns the Transpose that produces a value of which the node is the single consumer.

    Raises:
        Kept: There is one, and others read its result.
    """
    node = value.producer()
    if node is None or node.domain or node.op_type != "Transpose":
        return None
    require_alone(value, node, site)
    return node


def _perm(node: ir.Node, site: Site) -> Ints:
    perm = perm_of(node, site.rank + 2)
    if perm is None:
        raise Kept(f"{named(node)}: its perm is no permutation of {site.rank + 2} axes")
    return perm


def _then(first: Ints, second: Ints) -> Ints:
    """Returns the permutation that does two, one after the other."""
    return tuple(first[axis] for axis in second)
