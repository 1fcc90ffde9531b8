"""Walking an ``onnx.ModelProto``, the bodies of If, Loop and Scan included."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx

__all__ = ["nodes", "open_negative_sizes", "subgraphs", "with_open_sizes"]


def nodes(outer: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Yields the nodes of a graph or function, each followed by those of its own bodies."""
    for node in outer:
        yield node
        for graph in subgraphs(node):
            yield from nodes(graph.node)


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


def _negative_sizes(model: onnx.ModelProto) -> Iterator[onnx.TensorShapeProto.Dimension]:
    outer = [model.graph.node, *(function.node for function in model.functions)]
    bodies = (body for each in outer for node in nodes(each) for body in subgraphs(node))
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
