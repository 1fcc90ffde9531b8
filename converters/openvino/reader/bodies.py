"""Layers with bodies: the port maps, back edges and bodies of TensorIterator, Loop and If."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from ortconv.converters.openvino.reader.layers import Layer
from ortconv.converters.openvino.reader.xml import Element
from ortconv.errors import shown
from ortconv.frontend.source_graph import SourceGraph, SourceNode

__all__ = ["Branch", "BranchNode", "IterationNode", "Port", "Slice", "read_branch", "read_iteration"]


@dataclasses.dataclass(frozen=True)
class Slice:
    """Slices of a tensor, one per iteration.

    Attributes:
        axis: The axis that is sliced.
        start: Where the first slice begins; from the end if negative, -1 being the end itself.
        end: Where the last slice ends, likewise.
        stride: The distance between slices; negative from the end to the front.
        part_size: The size of a slice.
    """

    axis: int
    start: int
    end: int
    stride: int
    part_size: int


@dataclasses.dataclass(frozen=True)
class Port:
    """A connection between a node and its body.

    Attributes:
        outer: Index among the node's inputs or outputs.
        inner: Index among the body's inputs or outputs.
        slice: How the outer tensor is sliced, or None if it is passed whole.
    """

    outer: int
    inner: int
    slice: Slice | None


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class IterationNode(SourceNode):
    """A TensorIterator or a Loop.

    Attributes:
        body: Its inputs are the Parameters and its outputs the Results, in file order.
        into: Where the body's inputs come from.
        out_of: Where the node's outputs come from.
        back_edges: Pairs of an output of the body and the input that it becomes in the next iteration.
        iteration: The input that gets the number of the iteration, or None.
        condition: The output that tells whether to go on, or None.
    """

    body: SourceGraph
    into: tuple[Port, ...]
    out_of: tuple[Port, ...]
    back_edges: tuple[tuple[int, int], ...]
    iteration: int | None = None
    condition: int | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Branch:
    """One side of an If: its body, and the ports that lead into it and out of it."""

    body: SourceGraph
    into: tuple[Port, ...]
    out_of: tuple[Port, ...]


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class BranchNode(SourceNode):
    """An If."""

    then: Branch
    otherwise: Branch


ReadBody = Callable[[Element, str], tuple[SourceGraph, dict[int, int], dict[int, int]]]
"""Reads a body under a name; returns it with the indices of its inputs and outputs by layer id."""


@dataclasses.dataclass(frozen=True)
class _Body:
    graph: SourceGraph
    parameters: dict[int, int]
    results: dict[int, int]


def read_iteration(layer: Layer, node: SourceNode, read: ReadBody) -> IterationNode:
    """Reads the bodies and ports of a TensorIterator or Loop.

    Raises:
        ModelFormatError: It contradicts itself.
    """
    body = _body(layer, "body", read)
    table = layer.element.child("port_map")
    iteration = condition = None
    into: list[Port] = []
    out_of: list[Port] = []
    for element in () if table is None else table.children:
        inwards = element.tag == "input"
        inner = _inner(element, body.parameters if inwards else body.results)
        if element.required("external_port_id").strip() != "-1":
            (into if inwards else out_of).append(Port(_outer(layer, element, inwards), inner, _slice(element)))
        elif element.attributes.get("purpose") == "current_iteration" and inwards:
            iteration = inner
        elif element.attributes.get("purpose") == "execution_condition" and not inwards:
            condition = inner
        else:
            purpose = shown(element.attributes.get("purpose"))
            raise element.error(
                f"attribute purpose = {purpose} is unknown; allowed: current_iteration, execution_condition."
            )
    edges = []
    back_edges = layer.element.child("back_edges")
    for element in () if back_edges is None else back_edges.all("edge"):
        source = _index(element, "from-layer", body.results, "a Result")
        edges.append((source, _index(element, "to-layer", body.parameters, "a Parameter")))
    fed = [port.inner for port in into] + ([] if iteration is None else [iteration])
    _require_all(layer, node, into, fed, body)
    for _, target in edges:
        if not any(port.inner == target and port.slice is None for port in into):
            raise layer.error(f"back edge to {body.graph.inputs[target].name}: it has no initial value.")
    return IterationNode(
        **_fields(node),
        body=body.graph,
        into=tuple(into),
        out_of=tuple(out_of),
        back_edges=tuple(edges),
        iteration=iteration,
        condition=condition,
    )


def read_branch(layer: Layer, node: SourceNode, read: ReadBody) -> BranchNode:
    """Reads the branches of an If.

    Raises:
        ModelFormatError: It contradicts itself.
    """
    return BranchNode(
        **_fields(node), then=_read_side(layer, node, "then", read), otherwise=_read_side(layer, node, "else", read)
    )


def _read_side(layer: Layer, node: SourceNode, side: str, read: ReadBody) -> Branch:
    body = _body(layer, f"{side}_body", read)
    table = layer.element.child(f"{side}_port_map")
    into: list[Port] = []
    out_of: list[Port] = []
    for element in () if table is None else table.children:
        inwards = element.tag == "input"
        inner = _inner(element, body.parameters if inwards else body.results)
        (into if inwards else out_of).append(Port(_outer(layer, element, inwards), inner, None))
    _require_all(layer, node, into, [port.inner for port in into], body)
    return Branch(body.graph, tuple(into), tuple(out_of))


def _fields(node: SourceNode) -> dict[str, Any]:
    return {field.name: getattr(node, field.name) for field in dataclasses.fields(SourceNode)}


def _body(layer: Layer, tag: str, read: ReadBody) -> _Body:
    element = layer.element.child(tag)
    if element is None:
        raise layer.error(f"element <{tag}> is missing.")
    return _Body(*read(element, tag))


def _inner(element: Element, known: dict[int, int]) -> int:
    if element.tag not in ("input", "output"):
        raise element.error("only <input> and <output> are known here.")
    return _index(element, "internal_layer_id", known, "a Parameter" if element.tag == "input" else "a Result")


def _index(element: Element, attribute: str, known: dict[int, int], what: str) -> int:
    found = element.integer(attribute)
    if found not in known:
        raise element.error(f"attribute {attribute} = {found} is no id of {what} of the body.")
    return known[found]


def _outer(layer: Layer, element: Element, inwards: bool) -> int:
    ports = layer.inputs if inwards else layer.outputs
    number = element.integer("external_port_id")
    for index, port in enumerate(ports):
        if port.id == number:
            return index
    raise element.error(f"layer {layer.id} has no {element.tag} port {number}.")


def _slice(element: Element) -> Slice | None:
    if "axis" not in element.attributes:
        return None
    return Slice(
        axis=_integer(element, "axis", 0),
        start=_integer(element, "start", 0),
        end=_integer(element, "end", -1),
        stride=_integer(element, "stride", 1),
        part_size=_integer(element, "part_size", 1),
    )


def _integer(element: Element, name: str, default: int) -> int:
    text = element.attributes.get(name)
    if text is None:
        return default
    try:
        value = int(text)
    except ValueError:
        value = 1 << 63
    if abs(value) >= 1 << 63:
        raise element.error(f"attribute {name} = {shown(text)} is not an integer of 64 bits.")
    return value


def _require_all(layer: Layer, node: SourceNode, into: Sequence[Port], fed: Sequence[int], body: _Body) -> None:
    """Rejects body inputs with no source or more than one."""
    for port in into:
        if port.outer >= len(node.inputs) or node.inputs[port.outer] is None:
            raise layer.error(f"input port {layer.inputs[port.outer].id} leads into the body and is not connected.")
    for index, value in enumerate(body.graph.inputs):
        if fed.count(index) != 1:
            raise layer.error(f"Parameter {value.name} of the body has {fed.count(index)} sources; allowed: one.")
