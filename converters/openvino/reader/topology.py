"""Dead-code elimination and topological order of layers."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from ortconv.converters.openvino.reader.layers import Layer, Net
from ortconv.errors import ModelFormatError, shown

__all__ = ["live_layers"]

_SHOWN_IN_CYCLE = 8


def live_layers(net: Net, roots: Iterable[Layer]) -> list[Layer]:
    """Returns the layers that the roots depend on, roots included, in topological order.

    Among several orders it is the one closest to that of the file.

    Raises:
        ModelFormatError: The layers have a cycle.
    """
    rank = {layer: index for index, layer in enumerate(net.layers)}
    pending: dict[int, int] = {}
    users: dict[int, list[int]] = {}
    stack = [root.id for root in roots]
    while stack:
        user = stack.pop()
        if user in pending:
            continue
        needed = {wire[0] for wire in net.wires[user] if wire is not None}
        pending[user] = len(needed)
        for producer in needed:
            users.setdefault(producer, []).append(user)
        stack.extend(needed)
    ready = [rank[waiting] for waiting, count in pending.items() if count == 0]
    heapq.heapify(ready)
    layers = list(net.layers.values())
    order: list[Layer] = []
    while ready:
        layer = layers[heapq.heappop(ready)]
        order.append(layer)
        for user in users.get(layer.id, ()):
            pending[user] -= 1
            if pending[user] == 0:
                heapq.heappush(ready, rank[user])
    if len(order) < len(pending):
        raise _cycle_error(
            net, min((layer for layer, count in pending.items() if count), key=rank.__getitem__), pending
        )
    return order


def _cycle_error(net: Net, start: int, pending: dict[int, int]) -> ModelFormatError:
    """Returns an error that names one cycle: a waiting layer always has a waiting producer."""
    path: dict[int, None] = {}
    layer = start
    while layer not in path:
        path[layer] = None
        layer = next(wire[0] for wire in net.wires[layer] if wire is not None and pending[wire[0]])
    trail = list(path)
    cycle = [net.layers[index] for index in reversed(trail[trail.index(layer) :])]
    listed = ", ".join(f"{member.id} {shown(member.name)}" for member in cycle[:_SHOWN_IN_CYCLE])
    more = f" and {len(cycle) - _SHOWN_IN_CYCLE} more" if len(cycle) > _SHOWN_IN_CYCLE else ""
    return cycle[0].error(f"these layers need each other in a circle: {listed}{more}.")
