"""Giving the ops of ours in a model their function bodies."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence

import numpy as np
import onnx
import onnx_ir as ir

from ortconv.errors import ConversionError
from ortconv.opset.bodies.convolutions import body
from ortconv.opset.operators import ACCUMULATION, ACTIVATION, DOMAIN, NO_ACTIVATION, OPS, VERSION, Op
from ortconv.opset.ops.compressed_products import PRODUCTS
from ortconv.opset.ops.conv_integer_to_float import CONV_INTEGER_TO_FLOAT

__all__ = ["attach"]

_BY_NAME = {op.name: op for op in OPS}
_ONE_BODY = {*PRODUCTS, CONV_INTEGER_TO_FLOAT.name}


def attach(model: ir.Model) -> None:
    """Gives every op of ours that the model uses its function body, and imports the domain.

    Where only some nodes of an op have a bias, the others are given a bias of zeros, since they share the body. Where
    none has one, the body takes none, and an empty name in its place goes.

    Raises:
        ConversionError: A bias of zeros is needed and the number of output channels is not known.
    """
    nodes: dict[str, list[ir.Node]] = collections.defaultdict(list)
    for node in _nodes(model.graph):
        if node.domain == DOMAIN and (node.op_type in _BY_NAME or node.op_type in _ONE_BODY):
            nodes[node.op_type].append(node)
    for name, users in sorted(nodes.items()):
        if name in _ONE_BODY:
            only = ir.serde.deserialize_function(_only_body(name, users, model.graph.opset_imports[""]))
            model.functions[only.identifier()] = only
            continue
        op = _BY_NAME[name]
        biased = any(_has_bias(op, node) for node in users)
        for node in users:
            if biased:
                _give_bias(op, node, model.graph)
            else:
                node.resize_inputs(len(op.inputs) - 1)
        exact = any(ACCUMULATION[_element(node)] != ir.DataType.FLOAT for node in users)
        activated = any(ACTIVATION in node.attributes for node in users)
        if activated and exact:
            raise ConversionError(f"{name} has nodes with an activation beside nodes that do not accumulate in float.")
        for node in users if activated else ():
            node.attributes.setdefault(ACTIVATION, ir.AttrFloat32s(ACTIVATION, NO_ACTIVATION))
        function = body(op, opset=model.graph.opset_imports[""], bias=biased, exact=exact, activation=activated)
        model.functions[function.identifier()] = function
    if nodes:
        model.graph.opset_imports[DOMAIN] = VERSION


def _only_body(name: str, users: Sequence[ir.Node], opset: int) -> onnx.FunctionProto:
    """Returns the body of an op that has one for all ranks and attributes."""
    if name == CONV_INTEGER_TO_FLOAT.name:
        return CONV_INTEGER_TO_FLOAT.body(opset)
    data = [node.inputs[1] for node in users]
    return PRODUCTS[name].body(opset, int8=any(each is not None and each.dtype == ir.DataType.INT8 for each in data))


def _nodes(graph: ir.Graph) -> Iterator[ir.Node]:
    return iter(ir.traversal.RecursiveGraphIterator(graph))


def _has_bias(op: Op, node: ir.Node) -> bool:
    return len(node.inputs) == len(op.inputs) and node.inputs[-1] is not None


def _element(node: ir.Node) -> ir.DataType:
    value = node.inputs[0]
    assert value is not None
    assert value.dtype is not None, f"{node.name}: the type of {value.name} is not known"
    return value.dtype


def _give_bias(op: Op, node: ir.Node, graph: ir.Graph) -> None:
    if _has_bias(op, node):
        return
    shape, perm = node.outputs[0].shape, node.attributes["y_perm"].as_ints()
    channels = None if shape is None else shape[list(perm).index(1)]
    if not isinstance(channels, int):
        raise ConversionError(
            f"node {node.name} needs a bias of zeros beside nodes that have one; its channel count is not known."
        )
    zeros = ir.tensor(np.zeros(channels, _element(node).numpy()), dtype=_element(node), name=f"{node.name}/zero_bias")
    value = ir.Value(name=zeros.name, type=ir.TensorType(zeros.dtype), shape=ir.Shape([channels]), const_value=zeros)
    graph.initializers[f"{node.name}/zero_bias"] = value
    node.resize_inputs(len(op.inputs))
    node.replace_input_with(len(op.inputs) - 1, value)
