"""Reads oneDNN Graph JSON or an `ortconv.onednn.Graph` into a SourceGraph."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

import onnx_ir as ir

from ortconv.converters.onednn_graph.reader.document import Document, read_document
from ortconv.converters.onednn_graph.reader.neighbours import LinkedNode, Links
from ortconv.converters.onednn_graph.reader.tensors import ELEMENTS, name_of, pick
from ortconv.errors import ModelFormatError, NodeRef
from ortconv.frontend.source_format import Tensors
from ortconv.frontend.source_graph import SourceGraph, SourceNode, SourceOutput, SourceValue
from ortconv.onednn import Graph, Op, Tensor, graph_inputs, graph_outputs

__all__ = ["detect", "document_of", "read"]


def detect(source: object) -> bool:
    """Returns whether a source is an `ortconv.onednn.Graph`, or a path that ends in ``.json``."""
    return isinstance(source, Graph) or (
        isinstance(source, str | os.PathLike) and os.fspath(source).casefold().endswith(".json")
    )


def read(source: object, tensors: Tensors) -> SourceGraph:
    """Reads a source.

    Inputs of the graph are the tensors without a producer. Outputs are the tensors without a consumer, those that an
    End marks, and those among the output ports of the file: a partition may return a tensor that it consumes itself.
    The ports also give the order, if they name exactly these tensors.

    Args:
        source: A path, or an `ortconv.onednn.Graph`.
        tensors: Data for inputs, which become constants; by tensor id or name.

    Raises:
        ModelFormatError: An id occurs twice, operations form a cycle, or `tensors` does not match.
    """
    document = document_of(source)
    ops = _sorted(document)
    inputs = _ordered(graph_inputs(document.ops), document.input_ports)
    outputs = _ordered(_outputs(document), document.output_ports)
    if not outputs:
        raise ModelFormatError(document.path, "/graph", "has no operation whose result is an output.")
    constants = pick(document.path, inputs, tensors)
    values = _values(document, constants)
    for tensor in inputs:
        if values[tensor.id].shape is None:
            problem = f"input {values[tensor.id].name} has an unknown number of dimensions; unknown sizes are allowed."
            raise ModelFormatError(document.path, "/graph", problem)
    links = Links()
    nodes = tuple(_node(document.path, op, values, links) for op in ops)
    links.add(nodes)
    return SourceGraph(
        path=document.path,
        format="onednn",
        name=document.name,
        inputs=tuple(values[tensor.id] for tensor in inputs if values[tensor.id].constant is None),
        outputs=tuple(SourceOutput(values[tensor.id].name, values[tensor.id]) for tensor in outputs),
        nodes=nodes,
        metadata={f"ortconv.source.{field}": value for field, value in document.header.items()},
        notes=_notes(document.header),
        size=document.size + sum(tensor.nbytes for tensor in constants.values()),
    )


def document_of(source: object) -> Document:
    """Returns a source as a document.

    Args:
        source: A path, or an `ortconv.onednn.Graph`.

    Raises:
        ModelFormatError: The file cannot be read, or is not a oneDNN graph.
    """
    if isinstance(source, Graph):
        return Document(f"<onednn.Graph {source.name!r}>", source.name, source.ops)
    return read_document(cast("str | os.PathLike[str]", source))


def _node(path: str, op: Op, values: dict[int, SourceValue], links: Links) -> SourceNode:
    return LinkedNode(
        ref=NodeRef(path, op.kind, op.name, str(op.id)),
        inputs=tuple(values[tensor.id] for tensor in op.inputs),
        outputs=tuple(values[tensor.id] for tensor in op.outputs),
        attributes=op.attributes,
        notes=op.notes,
        warnings=op.warnings,
        links=links,
    )


def _notes(header: Mapping[str, str]) -> tuple[str, ...]:
    """Returns what the settings of a file mean for the model."""
    notes = []
    mode = header.get("fpmath_mode", "strict")
    if mode != "strict":
        notes.append(f"fpmath_mode is {mode}: it permits rounding of f32 operands; the model computes as in strict")
    if header.get("fpmath_mode_apply_to_int") == "true":
        notes.append("fpmath_mode_apply_to_int is true: it permits that mode for dequantized integers")
    if header.get("engine_kind") == "gpu":
        notes.append("engine_kind is gpu: the file was written for a GPU; the operations mean the same anywhere")
    return tuple(notes)


def _values(document: Document, constants: dict[int, ir.TensorProtocol]) -> dict[int, SourceValue]:
    values: dict[int, SourceValue] = {}
    names: set[str] = set()
    for op in document.ops:
        for tensor in (*op.inputs, *op.outputs):
            if tensor.id not in values:
                value = _value(tensor, constants.get(tensor.id))
                if value.name in names:
                    raise ModelFormatError(document.path, "/graph", f"two tensors have the name {value.name!r}.")
                names.add(value.name)
                values[tensor.id] = value
    return values


def _value(tensor: Tensor, constant: ir.TensorProtocol | None) -> SourceValue:
    metadata = {"ortconv.source.tensor_id": str(tensor.id)}
    if tensor.property_type != "undef":
        metadata["ortconv.source.property_type"] = tensor.property_type
    if tensor.stride is not None:
        metadata["ortconv.source.stride"] = ",".join(map(str, tensor.stride))
    shape = tensor.shape if constant is None else tuple(constant.shape.numpy())
    return SourceValue(name_of(tensor), ELEMENTS[tensor.dtype], shape, constant, metadata)


def _outputs(document: Document) -> Sequence[Tensor]:
    """Returns the outputs; those that operations of the graph consume come last."""
    outputs = {tensor.id: tensor for tensor in graph_outputs(document.ops)}
    computed = {tensor.id: tensor for op in document.ops for tensor in op.outputs}
    return tuple((outputs | {port: computed[port] for port in document.output_ports if port in computed}).values())


def _ordered(tensors: Sequence[Tensor], ports: Iterable[int]) -> Sequence[Tensor]:
    """Orders tensors like the ports if both have the same ids; dumps repeat a port for each use."""
    by_id = {tensor.id: tensor for tensor in tensors}
    order = dict.fromkeys(ports)
    return [by_id[port] for port in order] if order.keys() == by_id.keys() else tensors


def _sorted(document: Document) -> list[Op]:
    """Returns the operations in topological order, in the order of the file where that allows a choice.

    Raises:
        ModelFormatError: Two operations have the same id or output, or operations form a cycle.
    """
    producer: dict[int, int] = {}
    ids: dict[int, int] = {}
    for index, op in enumerate(document.ops):
        if ids.setdefault(op.id, index) != index:
            _fail(document, index, f"has the id {op.id} of the op at /graph/{ids[op.id]}.")
        for tensor in op.outputs:
            if tensor.id in producer:
                _fail(document, index, f"computes tensor {tensor.id}, as the op at /graph/{producer[tensor.id]} does.")
            producer[tensor.id] = index
    order = _depth_first(document, producer)
    return [document.ops[index] for index in order]


def _depth_first(document: Document, producer: dict[int, int]) -> Sequence[int]:
    """Visits every operation after its dependencies, without recursion."""
    done: dict[int, bool] = {}  # False while the op's inputs are being visited.
    for root in range(len(document.ops)):
        stack = [root]
        while stack:
            index = stack[-1]
            if done.get(index):
                stack.pop()
                continue
            needs = [producer[tensor.id] for tensor in document.ops[index].inputs if tensor.id in producer]
            pending = [need for need in needs if not done.get(need)]
            if index in done and pending:
                _fail(document, index, "depends on its own result.")
            if pending:
                done[index] = False
                stack.extend(reversed(pending))
            else:
                done.pop(index, None)
                done[index] = True
                stack.pop()
    return list(done)


def _fail(document: Document, index: int, problem: str) -> None:
    raise ModelFormatError(document.path, f"/graph/{index}", f"the op {problem}")
