"""Dead-code elimination on emitted nodes, and the constants that the remaining nodes use."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import onnx_ir as ir

from ortconv.graph.annotations import COMPUTED_FROM
from ortconv.graph.match import bodies

__all__ = ["collect_constants", "reachable"]

_COMPARED = 1 << 12
"""Equal constants up to this many bytes are shared; larger ones only if they are the same memory."""


def reachable(nodes: Sequence[ir.Node], outputs: Sequence[ir.Value]) -> dict[ir.Node, None]:
    """Returns the nodes that the outputs need, those in bodies included, in the order in which they were emitted.

    The others no longer use anything; in bodies they are removed.
    """
    needed = set(outputs)
    kept: list[ir.Node] = []
    for node in reversed(nodes):
        if needed.isdisjoint(node.outputs):
            for index in range(len(node.inputs)):
                node.replace_input_with(index, None)
            continue
        inner: list[ir.Node] = []
        for graph in bodies(node):
            alive = reachable(list(graph), graph.outputs)
            graph.remove([each for each in graph if each not in alive])  # their inputs are detached already
            inner += alive
        needed.update(value for each in (node, *inner) for value in each.inputs if value is not None)
        kept += [*reversed(inner), node]
    return dict.fromkeys(reversed(kept))


def collect_constants(nodes: Collection[ir.Node], name: Callable[[ir.Value], str]) -> list[ir.Value]:
    """Returns the constants that nodes use, each once; the nodes are made to use these.

    Args:
        nodes: The nodes, those in bodies included.
        name: Gives a constant a name of its own.
    """
    shared: dict[object, ir.Value] = {}
    chosen: dict[ir.Value, ir.Value] = {}
    for node in nodes:
        for index, value in enumerate(node.inputs):
            if value is None or value.const_value is None:
                continue
            if value not in chosen:
                chosen[value] = shared.setdefault(_key(value.const_value), value)
                if chosen[value] is value:
                    value.name = name(value)
            if chosen[value] is not value:
                node.replace_input_with(index, chosen[value])
    return list(shared.values())


def _key(tensor: ir.TensorProtocol) -> object:
    """Returns a key that is equal for equal tensors."""
    facts = (tensor.dtype, *tensor.shape)
    computed = COMPUTED_FROM.get(tensor)
    if computed is not None:
        return *facts, computed.op_type, _key(computed.data), computed.rest
    if tensor.nbytes <= _COMPARED and tensor.dtype != ir.DataType.STRING:
        return *facts, tensor.tobytes()
    if isinstance(tensor, ir.PackedTensor):
        return *facts, tensor.numpy_packed().ctypes.data
    if isinstance(tensor, ir.Tensor):
        array = tensor.numpy()
        return *facts, array.ctypes.data, array.strides
    return *facts, id(tensor)
