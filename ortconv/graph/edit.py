"""Inserting, replacing and removing nodes of a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx_ir as ir

__all__ = ["Inserter", "become", "new_node", "remove_unused", "replace_node"]


class Inserter:
    """Inserts nodes before and after others; they are named after these and get their metadata.

    Attributes:
        unique: Returns a name that is not used.
    """

    def __init__(self, unique: Callable[[str], str], tell: Callable[[ir.Node, ir.Node], None]) -> None:
        """Makes an inserter.

        Args:
            unique: Returns a name that is not used.
            tell: Called with the node beside which a node is inserted, and with the new node.
        """
        self.unique = unique
        self._tell = tell
        self._last: dict[ir.Node, ir.Node] = {}

    def before(
        self,
        place: ir.Node,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        like: ir.Value,
        *,
        dtype: ir.DataType | None = None,
        domain: str = "",
        **attributes: Any,
    ) -> ir.Value:
        """Inserts a node before another.

        Args:
            place: That node.
            op_type: ONNX op type.
            inputs: Its inputs.
            like: A value of the type and shape of its output.
            dtype: The output's element type, if it differs from that of `like`.
            domain: Operator domain.
            **attributes: ONNX attributes; one that is None is left out.

        Returns:
            The output.
        """
        node = self._node(place, op_type, inputs, like, dtype, domain, attributes)
        assert place.graph is not None
        place.graph.insert_before(place, node)
        return node.outputs[0]

    def after(
        self,
        place: ir.Node,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        like: ir.Value,
        *,
        dtype: ir.DataType | None = None,
        **attributes: Any,
    ) -> ir.Value:
        """Inserts a node after another, and after those that were inserted there earlier; see `before`."""
        node = self._node(place, op_type, inputs, like, dtype, "", attributes)
        last = self._last.get(place, place)
        assert last.graph is not None
        last.graph.insert_after(last, node)
        self._last[place] = node
        return node.outputs[0]

    def _node(
        self,
        beside: ir.Node,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        like: ir.Value,
        dtype: ir.DataType | None,
        domain: str,
        attributes: Mapping[str, Any],
    ) -> ir.Node:
        present = {name: value for name, value in attributes.items() if value is not None}
        node = new_node(beside, f"{beside.name}/{op_type}", op_type, inputs, self.unique, present, domain)
        element = like.dtype if dtype is None else dtype
        assert element is not None
        node.outputs[0].type, node.outputs[0].shape = ir.TensorType(element), like.shape
        self._tell(beside, node)
        return node


def new_node(
    beside: ir.Node,
    name: str,
    op_type: str,
    inputs: Sequence[ir.Value | None],
    unique: Callable[[str], str],
    attributes: Mapping[str, Any] | None = None,
    domain: str = "",
) -> ir.Node:
    """Returns a node with the metadata of another one; its name, made unique, is also that of its output."""
    metadata = dict(beside.metadata_props)
    node = ir.node(op_type, inputs, attributes, domain=domain, name=unique(name), metadata_props=metadata)
    node.outputs[0].name = unique(f"{node.name}_out")
    return node


def become(node: ir.Node, op_type: str, inputs: Sequence[ir.Value | None], **attributes: Any) -> None:
    """Makes a node one of another op, with other inputs and attributes."""
    node.op_type = op_type
    node.resize_inputs(len(inputs))
    for index, value in enumerate(inputs):
        node.replace_input_with(index, value)
    node.attributes.clear()
    for attribute in ir.convenience.convert_attributes(attributes):
        node.attributes.add(attribute)


def replace_node(node: ir.Node, by: ir.Node) -> None:
    """Replaces the output of a node, and its name, by the output of another; removes the node."""
    old, new = node.outputs[0], by.outputs[0]
    graph = node.graph
    assert graph is not None
    new.type, new.shape = old.type or new.type, old.shape or new.shape
    new.metadata_props.update(old.metadata_props)
    ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)
    name, old.name = old.name, None
    graph.remove(node, safe=True)
    new.name = name


def remove_unused(value: ir.Value | None) -> None:
    """Removes the producer of a value if nothing uses its outputs, and then the producers that only it used."""
    values = [value]
    while values:
        value = values.pop()
        node = None if value is None else value.producer()
        if node is None or node.graph is None or any(each.uses() or each.is_graph_output() for each in node.outputs):
            continue
        values += node.inputs
        node.graph.remove(node, safe=True)
