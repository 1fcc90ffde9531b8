"""A source and its conversion as the nodes and edges that the page draws."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import onnx
import onnx_ir as ir

from ortconv.frontend.source_graph import SourceGraph, SourceValue
from ortconv.graph.builder import Step
from ortconv.opset.domain import DOMAIN

__all__ = ["Network", "Node", "converted", "source"]

_SHOWN = 300
"""Characters of an attribute's value that the page shows."""


@dataclasses.dataclass
class Node:
    """A node of the page.

    Attributes:
        name: Its name, or that of an input or output of the network.
        op: Its operation; "Input" or "Output".
        domain: The operation's domain, "" for that of ONNX or of the source.
        id: Its id in the source.
        inputs: Each input in words: its name, type and shape.
        outputs: Likewise.
        values: Names of the outputs.
        attributes: Name -> value in words.
        why: Notes of the conversion.
        warnings: Its warnings.
        refused: Why it is not converted, or "".
        twins: Numbers of the nodes of the other network that belong to it.
        ours: Whether it is, or became, an operator of org.ortconv.
    """

    name: str
    op: str
    domain: str = ""
    id: str = ""
    inputs: list[str] = dataclasses.field(default_factory=list)
    outputs: list[str] = dataclasses.field(default_factory=list)
    values: list[str] = dataclasses.field(default_factory=list)
    attributes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    why: Sequence[str] = ()
    warnings: Sequence[str] = ()
    refused: str = ""
    twins: list[int] = dataclasses.field(default_factory=list)
    ours: bool = False


@dataclasses.dataclass
class Network:
    """Nodes in order of computation, and pairs of their numbers: what computes a value, what takes it."""

    nodes: list[Node]
    edges: list[tuple[int, int]]


def source(graph: SourceGraph, steps: Iterable[Step]) -> Network:
    """Returns a source's network; `steps` say what became of its nodes."""
    told = {step.ref: step for step in steps}
    nodes = [Node(value.name, "Input", outputs=[_typed(value)], values=[value.name]) for value in graph.inputs]
    takes: list[list[str]] = [[] for _ in nodes]
    for each in graph.nodes:
        step = told.get(each.ref)
        node = Node(
            each.ref.name,
            each.ref.op_type,
            id=each.ref.id,
            inputs=[_typed(value) for value in each.inputs if value],
            outputs=[_typed(value) for value in each.outputs],
            values=[value.name for value in each.outputs],
            attributes={name: _cut(_words(value)) for name, value in each.attributes.items()},
            why=step.notes if step else each.notes,
            warnings=step.warnings if step else each.warnings,
            refused=str(step.error) if step and step.error else "",
        )
        nodes.append(node)
        takes.append([value.name for value in each.inputs if value and not value.constant])
    for output in graph.outputs:
        nodes.append(Node(output.name, "Output", inputs=[_typed(output.value)]))
        takes.append([output.value.name])
    return _joined(nodes, takes)


def converted(model: onnx.ModelProto, before: Network) -> Network:
    """Returns a converted model's network, and tells both networks which nodes belong together."""
    graph = model.graph
    types = {value.name: _described(value) for value in (*graph.input, *graph.value_info, *graph.output)}
    constants = {each.name: _constant(each) for each in graph.initializer}
    types |= constants
    nodes = [Node(each.name, "Input", outputs=[types[each.name]], values=[each.name]) for each in graph.input]
    takes: list[list[str]] = [[] for _ in nodes]
    origins: dict[tuple[str, ...], list[int]] = collections.defaultdict(list)
    for each in graph.node:
        origins[_origin(each)].append(len(nodes))
        nodes.append(
            Node(
                each.name,
                each.op_type,
                each.domain,
                inputs=[types.get(name, name) for name in each.input if name],
                outputs=[types.get(name, name) for name in each.output if name],
                values=[name for name in each.output if name],
                attributes={attribute.name: _value(attribute) for attribute in each.attribute},
                ours=each.domain == DOMAIN,
            )
        )
        takes.append([*(name for name in each.input if name not in constants), *_captured(each)])
    for value in graph.output:
        nodes.append(Node(value.name, "Output", inputs=[types[value.name]]))
        takes.append([value.name])
    after = _joined(nodes, takes)
    _pair(before, after, origins)
    return after


def _pair(before: Network, after: Network, origins: Mapping[tuple[str, ...], Sequence[int]]) -> None:
    """Pairs nodes of a source with the ONNX nodes that name them, and inputs and outputs by order."""
    for number, node in enumerate(before.nodes):
        for twin in origins.get((node.op, node.name, node.id), ()):
            made = after.nodes[twin]
            node.twins.append(twin)
            made.twins.append(number)
            made.why, made.warnings = node.why, node.warnings
            node.ours = node.ours or made.ours
    for kind in ("Input", "Output"):
        sides = [
            [i for i, node in enumerate(side.nodes) if node.op == kind and not node.id] for side in (before, after)
        ]
        for number, twin in zip(*sides, strict=False):
            before.nodes[number].twins.append(twin)
            after.nodes[twin].twins.append(number)


def _joined(nodes: list[Node], takes: Sequence[Sequence[str]]) -> Network:
    makers = {name: number for number, node in enumerate(nodes) for name in node.values}
    edges = {(makers[name], number): None for number, names in enumerate(takes) for name in names if name in makers}
    return Network(nodes, list(edges))


def _origin(node: onnx.NodeProto) -> tuple[str, ...]:
    facts = {entry.key: entry.value for entry in node.metadata_props}
    return tuple(facts.get(f"ortconv.source.{name}", "") for name in ("op_type", "name", "id"))


def _captured(node: onnx.NodeProto) -> list[str]:
    """Returns the values that the graphs inside a node take from around it, and others that no node around has."""
    graphs = [attribute.g for attribute in node.attribute if attribute.type == onnx.AttributeProto.GRAPH]
    return [name for graph in graphs for inner in graph.node for name in (*inner.input, *_captured(inner)) if name]


def _typed(value: SourceValue) -> str:
    shape = "?" if value.shape is None else _shape(value.shape)
    constant = " (constant)" if value.constant is not None else ""
    return f"{value.name}: {value.dtype.name.lower()}{shape}{constant}"


def _described(value: onnx.ValueInfoProto) -> str:
    tensor = value.type.tensor_type
    dims = [dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None for dim in tensor.shape.dim]
    shape = _shape(dims) if tensor.HasField("shape") else "?"
    return f"{value.name}: {ir.DataType(tensor.elem_type).name.lower()}{shape}"


def _constant(tensor: onnx.TensorProto) -> str:
    return f"{tensor.name}: {ir.DataType(tensor.data_type).name.lower()}{_shape(tensor.dims)} (constant)"


def _shape(dims: Iterable[Any]) -> str:
    return f"[{', '.join('?' if dim is None else str(dim) for dim in dims)}]"


def _value(attribute: onnx.AttributeProto) -> str:
    if attribute.type == onnx.AttributeProto.GRAPH:
        return f"a graph of {len(attribute.g.node)} nodes"
    if attribute.type == onnx.AttributeProto.TENSOR:
        return _constant(attribute.t).lstrip(": ")
    value = onnx.helper.get_attribute_value(attribute)
    return _cut(value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value))


def _words(value: object) -> str:
    return str(list(value) if isinstance(value, tuple) else value)


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text)} characters)"
