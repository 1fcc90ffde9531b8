"""Finds the lowest opset in which a graph means the same, so that older runtimes load the model."""

from __future__ import annotations

import functools

import onnx
import onnx_ir as ir

from ortconv.graph.constant_folding import NUMBERS
from ortconv.opset.domain import DOMAIN
from ortconv.opset.ops import BY_NAME

__all__ = ["lowest_opset"]

_MORE_TYPES = {
    19: frozenset(
        {"Cast", "CastLike", "Constant", "Equal", "Identity", "If", "Loop", "Pad", "Reshape", "Scan", "Shape", "Size"}
    ),
    20: frozenset({"ConstantOfShape", "IsNaN", "ReduceMax", "ReduceMin"}),
    21: frozenset(
        {"Cast", "CastLike", "Constant", "ConstantOfShape", "Flatten", "Identity", "If", "Loop", "Pad", "Reshape"}
        | {"Scan", "Shape", "Size", "Squeeze", "Transpose", "Unsqueeze"}
    ),
}
"""Ops to which an opset added element types; it also added attributes, and the values of `_NEW_VALUES`."""

_NEW_VALUES = {("Pad", "mode", 19): "wrap", ("AveragePool", "ceil_mode", 19): 1}
"""Attribute values that an opset added or redefined."""


def lowest_opset(graph: ir.Graph, first: int, last: int) -> int:
    """Returns the lowest opset in which every node of a graph is what it is in the one it was made for.

    Args:
        graph: The graph, bodies included.
        first: Not below this one.
        last: The one it was made for.
    """
    needed = first
    for node in ir.traversal.RecursiveGraphIterator(graph):
        if node.domain == DOMAIN and node.op_type in BY_NAME:
            needed = max(needed, BY_NAME[node.op_type].oldest_opset)
        elif node.domain == "" and needed < last:
            needed = max(needed, _introduced(node, first, last))
    return needed


def _introduced(node: ir.Node, first: int, last: int) -> int:
    since = _since(node.op_type, last)
    while since > first and _is_older(node, since):
        since = _since(node.op_type, since - 1)
    return since


def _is_older(node: ir.Node, since: int) -> bool:
    """Tells whether a node means the same before the opset that changed its op."""
    more_types = node.op_type in _MORE_TYPES.get(since, ()) and _has_old_types(node)
    if not more_types and (node.op_type, since) != ("AveragePool", 19):
        return False
    older = onnx.defs.get_schema(node.op_type, since - 1).attributes
    return all(
        name in older and _NEW_VALUES.get((node.op_type, name, since)) != attribute.value
        for name, attribute in node.attributes.items()
    )


@functools.cache
def _since(op_type: str, opset: int) -> int:
    return int(onnx.defs.get_schema(op_type, opset).since_version)


def _has_old_types(node: ir.Node) -> bool:
    """Tells whether the types of a node are those that the ops of `_MORE_TYPES` had before; two of them had no bool."""
    allowed = NUMBERS if node.op_type in ("ReduceMax", "ReduceMin") else NUMBERS | {ir.DataType.BOOL}
    values = [value for value in (*node.inputs, *node.outputs) if value is not None]
    types = {value.dtype for value in values} - {None}
    if node.op_type == "Cast":
        types.add(ir.DataType(node.attributes["to"].as_int()))
    return types <= allowed
