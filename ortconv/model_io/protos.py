"""Traversal of an ``onnx.ModelProto`` with its subgraphs and functions, and edits of its dimensions."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator

import onnx
import onnx.numpy_helper

from ortconv.frontend.source_graph import MAX_RANK

__all__ = [
    "EQUATION",
    "all_nodes",
    "clear_negative_dims",
    "node_with_negative_shape",
    "nodes",
    "subgraphs",
    "without_negative_dims",
]


_TERM = r"[A-Za-z]*(\.\.\.)?[A-Za-z]*"
EQUATION = re.compile(f"{_TERM}(,{_TERM})*(->{_TERM})?")
"""The valid equations of Einsum, without blanks. ONNX's shape inference never ends on some others."""


def nodes(outer: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Yields the nodes of a graph or function, each followed by those of its subgraphs."""
    for node in outer:
        yield node
        for graph in subgraphs(node):
            yield from nodes(graph.node)


def all_nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Yields the nodes of the main graph and of each function, those of subgraphs included."""
    for outer in (model.graph, *model.functions):
        yield from nodes(outer.node)


def clear_negative_dims(model: onnx.ModelProto) -> None:
    """Makes dimensions dynamic that a model declares as negative numbers, as ONNX Runtime does.

    ONNX's shape inference ends the process if a Slice reads a negative dimension.
    """
    for dim in _negative_dims(model):
        dim.ClearField("dim_value")


def without_negative_dims(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns a model, or a copy, in which no declared dimension is negative; see `clear_negative_dims`."""
    if not any(True for _ in _negative_dims(model)):
        return model
    cleared = copy.deepcopy(model)
    clear_negative_dims(cleared)
    return cleared


def node_with_negative_shape(model: onnx.ModelProto) -> onnx.NodeProto | None:
    """Returns a node whose result has a negative constant as a dimension, or None; see `clear_negative_dims`."""
    found = list(all_nodes(model))
    graphs = [model.graph, *(body for node in found for body in subgraphs(node))]
    negative = {tensor.name for graph in graphs for tensor in graph.initializer if _has_negative(tensor)}
    for node in found:
        if node.op_type == "Constant" and any(_has_negative(attribute.t) for attribute in node.attribute):
            negative.update(node.output)
    for node in found:
        place = _SHAPE_INPUTS.get(node.op_type)
        if place is not None and len(node.input) > place and node.input[place] in negative:
            return node
    return None


_SHAPE_INPUTS = {"ConstantOfShape": 0, "Expand": 1, "Tile": 1}
"""Op type -> position of the input with the dimensions of the result."""


def _has_negative(tensor: onnx.TensorProto) -> bool:
    """Returns whether a tensor may be a shape with a negative dimension."""
    if tensor.data_type != onnx.TensorProto.INT64 or len(tensor.dims) != 1 or not 0 < tensor.dims[0] <= MAX_RANK:
        return False
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return False
    return bool((onnx.numpy_helper.to_array(tensor) < 0).any())


def _negative_dims(model: onnx.ModelProto) -> Iterator[onnx.TensorShapeProto.Dimension]:
    for graph in (model.graph, *(body for node in all_nodes(model) for body in subgraphs(node))):
        for value in (*graph.input, *graph.output, *graph.value_info):
            if value.type.HasField("tensor_type"):
                yield from (dim for dim in value.type.tensor_type.shape.dim if dim.dim_value < 0)


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Yields the subgraphs of a node, without those inside them."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs
