"""Walking an ``onnx.ModelProto``, the bodies of If, Loop and Scan included."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import onnx
import onnx.numpy_helper

__all__ = [
    "EQUATION",
    "node_lists",
    "nodes",
    "open_negative_sizes",
    "subgraphs",
    "with_negative_target",
    "with_open_sizes",
]


_TERM = r"[A-Za-z]*(\.\.\.)?[A-Za-z]*"
EQUATION = re.compile(f"{_TERM}(,{_TERM})*(->{_TERM})?")
"""The equations of Einsum, without blanks. ONNX's shape inference never ends on some others."""


def nodes(outer: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Yields the nodes of a graph or function, each followed by those of its own bodies."""
    for node in outer:
        yield node
        for graph in subgraphs(node):
            yield from nodes(graph.node)


def node_lists(model: onnx.ModelProto) -> list[Iterable[onnx.NodeProto]]:
    """Returns the nodes of the main graph, and those of each function."""
    return [model.graph.node, *(function.node for function in model.functions)]


def open_negative_sizes(model: onnx.ModelProto) -> None:
    """Opens sizes that a model declares as negative numbers, as ONNX Runtime does.

    ONNX's shape inference ends the process where a Slice meets one.
    """
    for dim in _negative_sizes(model):
        dim.ClearField("dim_value")


def with_open_sizes(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns a model, or a copy, in which no size is negative; see `open_negative_sizes`."""
    if not any(True for _ in _negative_sizes(model)):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    open_negative_sizes(copy)
    return copy


def with_negative_target(model: onnx.ModelProto) -> onnx.NodeProto | None:
    """Returns a node that gives its result a size which is a negative constant; see `open_negative_sizes`."""
    found = [node for each in node_lists(model) for node in nodes(each)]
    graphs = [model.graph, *(body for node in found for body in subgraphs(node))]
    negative = {tensor.name for graph in graphs for tensor in graph.initializer if _has_negative(tensor)}
    for node in found:
        if node.op_type == "Constant" and any(_has_negative(attribute.t) for attribute in node.attribute):
            negative.update(node.output)
    for node in found:
        place = _TARGETS.get(node.op_type)
        if place is not None and len(node.input) > place and node.input[place] in negative:
            return node
    return None


_TARGETS = {"ConstantOfShape": 0, "Expand": 1, "Tile": 1}
"""Where the input stands that has the sizes of a result."""

_MAX_RANK = 32


def _has_negative(tensor: onnx.TensorProto) -> bool:
    """Tells whether a tensor may be sizes of which one is negative."""
    if tensor.data_type != onnx.TensorProto.INT64 or len(tensor.dims) != 1 or not 0 < tensor.dims[0] <= _MAX_RANK:
        return False
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return False
    return bool((onnx.numpy_helper.to_array(tensor) < 0).any())


def _negative_sizes(model: onnx.ModelProto) -> Iterator[onnx.TensorShapeProto.Dimension]:
    bodies = (body for each in node_lists(model) for node in nodes(each) for body in subgraphs(node))
    for graph in (model.graph, *bodies):
        for value in (*graph.input, *graph.output, *graph.value_info):
            if value.type.HasField("tensor_type"):
                yield from (dim for dim in value.type.tensor_type.shape.dim if dim.dim_value < 0)


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Yields the bodies of a node, without those inside them."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs
