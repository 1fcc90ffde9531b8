"""Collects the entries of the table, and warns of the nodes that they match."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import pkgutil
from collections.abc import Sequence

from ortconv.converters.openvino import plugin_bugs
from ortconv.converters.openvino.plugin_bugs.bug import Bug
from ortconv.converters.openvino.plugin_bugs.network import Network
from ortconv.frontend.source_graph import SourceNode, SourceOutput

__all__ = ["bugs", "with_warnings"]


@functools.cache
def bugs() -> dict[str, Bug]:
    """Returns all entries by the names ``module.NAME``, in the order of modules and definitions."""
    found = {}
    for info in pkgutil.iter_modules(plugin_bugs.__path__, f"{plugin_bugs.__name__}."):
        module = importlib.import_module(info.name)
        subject = info.name.rpartition(".")[2]
        found.update({f"{subject}.{name}": bug for name, bug in vars(module).items() if isinstance(bug, Bug)})
    return found


def with_warnings(nodes: Sequence[SourceNode], outputs: Sequence[SourceOutput]) -> tuple[SourceNode, ...]:
    """Returns the nodes of a model, with warnings on those that bugs affect.

    Args:
        nodes: The nodes in topological order.
        outputs: The outputs of the model.
    """
    network = Network(nodes, outputs)
    warnings: dict[SourceNode, tuple[str, ...]] = {}
    for bug in bugs().values():
        for node in () if bug.matches is None else bug.matches(network):
            warnings[node] = (*warnings.get(node, ()), bug.warning(node.ref.op_type))
    return tuple(
        dataclasses.replace(node, warnings=(*node.warnings, *warnings[node])) if node in warnings else node
        for node in nodes
    )
