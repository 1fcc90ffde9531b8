"""Skips the reordering of a KV cache at run time when the beam order is unchanged.

A decoder gathers its keys and values by beam index before it appends to them. With one beam, or an unchanged order,
that copies the whole cache for nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence

import onnx_ir as ir

from ortconv.graph.edit import new_node, replace_node
from ortconv.passes.constants import Constants
from ortconv.passes.context import Context

__all__ = ["run"]

_INDICES = frozenset({ir.DataType.INT32, ir.DataType.INT64})


def run(graph: ir.Graph, context: Context) -> int:
    """Replaces the Gather along the batches of a state, and the Concat that appends to it, by an If.

    One branch gathers and appends; the other, for indices that count up from 0, appends alone.

    Args:
        graph: The graph; bodies of its nodes are not changed.
        context: Holds the states; makes constants and names, and notes each Gather.

    Returns:
        How many Gathers were moved into a branch.
    """
    unique = context.unique
    conditions = _Conditions(context.constants, unique)
    count = 0
    for gather in list(graph):
        append = _append(gather, context.states)
        if append is None:
            continue
        sizes = _replace_shapes(gather, unique)
        kept, moved = _branch(append, gather, False, unique), _branch(append, gather, True, unique)
        before = conditions.nodes(gather)
        same, branches = before[-1].outputs[0], {"then_branch": kept, "else_branch": moved}
        choice = new_node(append, f"{gather.name}/If", "If", [same], unique, branches)
        graph.insert_before(gather, before)
        graph.insert_before(append, choice)
        context.note(gather, f"is in a branch of If {choice.name!r}: an unchanged beam order skips it")
        replace_node(append, choice)
        graph.remove(gather, safe=True)
        context.record(append, [*sizes, *before, choice])
        count += 1
    return count


def _append(gather: ir.Node, states: Collection[ir.Value]) -> ir.Node | None:
    """Returns the Concat after a Gather along the batches of a state, if no other node needs the gathered data."""
    if (gather.domain, gather.op_type) != ("", "Gather") or gather.attributes.get_int("axis", 0) != 0:
        return None
    data, indices = gather.inputs
    if data not in states or data is None or indices is None or indices.const_value is not None:
        return None
    if data.shape is None or indices.shape is None or len(indices.shape) != 1 or indices.dtype not in _INDICES:
        return None
    gathered = gather.outputs[0]
    users = [user for user, _ in gathered.uses() if not _is_shape(user) and not _is_of_sizes(user)]
    if len(users) != 1 or gathered.is_graph_output() or users[0].graph is not gather.graph:
        return None
    (append,) = users
    if (append.domain, append.op_type) != ("", "Concat") or append.attributes["axis"].as_int() % len(data.shape) == 0:
        return None
    return append


def _is_shape(node: ir.Node) -> bool:
    """Tells whether a node is a Shape with all dimensions."""
    whole = not node.attributes.get_int("start", 0) and "end" not in node.attributes
    return (node.domain, node.op_type) == ("", "Shape") and whole


def _is_of_sizes(node: ir.Node) -> bool:
    """Tells whether a node is a Shape of which only dimensions after the first are used."""
    if (node.domain, node.op_type) != ("", "Shape"):
        return False
    sizes = node.outputs[0]
    chosen = [_chosen(user) for user, _ in sizes.uses()]
    return node.attributes.get_int("start", 0) > 0 or (
        not sizes.is_graph_output() and all(min(each) > 0 for each in chosen)
    )


def _chosen(node: ir.Node) -> list[int]:
    """Returns the entries of a shape that a Gather selects, [0] where that is not certain."""
    constant = None if (node.domain, node.op_type) != ("", "Gather") else node.inputs[1]
    known = None if constant is None or constant.const_value is None else constant.const_value.numpy()
    return [int(entry) for entry in known.ravel()] if known is not None and known.size else [0]


def _replace_shapes(gather: ir.Node, unique: Callable[[str], str]) -> list[ir.Node]:
    """Takes dimensions of the gathered data from the state and the indices instead; returns the new nodes."""
    state, indices = gather.inputs
    made = []
    for user, index in list(gather.outputs[0].uses()):
        if _is_of_sizes(user):
            user.replace_input_with(index, state)
        elif _is_shape(user):
            parts = [_node(user, "Shape", [indices], unique), _node(user, "Shape", [state], unique, start=1)]
            sizes = _node(user, "Concat", [part.outputs[0] for part in parts], unique, axis=0)
            assert user.graph is not None
            user.graph.insert_before(user, [*parts, sizes])
            replace_node(user, sizes)
            made += [*parts, sizes]
    return made


def _branch(append: ir.Node, gather: ir.Node, moves: bool, unique: Callable[[str], str]) -> ir.Graph:
    """Returns a branch that appends to the state, or to the gathered state."""
    state, gathered = gather.inputs[0], gather.outputs[0]
    nodes = []
    if moves:
        nodes.append(_copy(gather, gather.inputs, unique))
        state = nodes[0].outputs[0]
    nodes.append(_copy(append, [state if value is gathered else value for value in append.inputs], unique))
    return ir.Graph([], nodes[-1].outputs, nodes=nodes, name=unique(f"{gather.name}/{'moved' if moves else 'kept'}"))


def _copy(node: ir.Node, inputs: Collection[ir.Value | None], unique: Callable[[str], str]) -> ir.Node:
    copy = new_node(node, str(node.name), node.op_type, list(inputs), unique, node.attributes)
    result, (before,) = copy.outputs[0], node.outputs
    result.type, result.shape = before.type, before.shape
    return copy


@dataclasses.dataclass(frozen=True)
class _Order:
    """The number of indices, and whether they count up from 0."""

    count: ir.Value
    in_order: ir.Value


class _Conditions:
    """Makes the conditions under which a Gather changes nothing: its indices are all batches in order."""

    def __init__(self, constants: Constants, unique: Callable[[str], str]) -> None:
        self._constants, self._unique = constants, unique
        self._orders: dict[ir.Value, _Order] = {}
        self._nodes: list[ir.Node] = []

    def nodes(self, gather: ir.Node) -> list[ir.Node]:
        """Returns new nodes, the last of which computes the condition of a Gather."""
        data, indices = gather.inputs
        assert indices is not None
        self._nodes = []
        if indices not in self._orders:
            self._orders[indices] = self._order(gather, indices)
        order = self._orders[indices]
        batches = self._op(gather, "Shape", data, start=0, end=1)
        self._op(gather, "And", order.in_order, self._op(gather, "Equal", batches, order.count))
        return self._nodes

    def _order(self, gather: ir.Node, indices: ir.Value) -> _Order:
        int64 = int(ir.DataType.INT64)
        numbers = [self._constants.number(each, ir.DataType.INT64) for each in (0, 1)]
        count = self._op(gather, "Size", indices)
        places = self._op(gather, "Range", numbers[0], count, numbers[1])
        equal = self._op(gather, "Equal", self._op(gather, "Cast", indices, to=int64), places)
        right = self._op(gather, "ReduceSum", self._op(gather, "Cast", equal, to=int64), keepdims=0)
        return _Order(count, self._op(gather, "Equal", right, count))

    def _op(self, gather: ir.Node, op_type: str, *inputs: ir.Value | None, **attributes: int) -> ir.Value:
        self._nodes.append(_node(gather, op_type, inputs, self._unique, **attributes))
        return self._nodes[-1].outputs[0]


def _node(
    beside: ir.Node, op_type: str, inputs: Sequence[ir.Value | None], unique: Callable[[str], str], **attributes: int
) -> ir.Node:
    """Returns a new node, named after another one."""
    return new_node(beside, f"{beside.name}/{op_type}", op_type, inputs, unique, attributes)
