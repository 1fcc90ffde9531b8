"""Replaces a Sigmoid whose logarithm is taken by the formula 1 / (1 + exp(-x)), which is exact for small results.

ONNX Runtime's Sigmoid has an absolute error of 1e-7, and is 0 below -18. The Log of such a result, with or without an
Add of a small number or a Clip between, has errors of 1 and more.
"""

from __future__ import annotations

import onnx_ir as ir

from ortconv.graph.edit import become, new_node
from ortconv.passes.context import Context

__all__ = ["run"]

_BY_CONSTANTS = frozenset({"Add", "Clip", "Max", "Min", "Mul", "Sub"})
"""Ops between a Log and a Sigmoid, all of whose operands but one are constants."""
_BETWEEN = frozenset({"Div", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})
_TYPES = frozenset({ir.DataType.FLOAT, ir.DataType.DOUBLE})


def run(graph: ir.Graph, context: Context) -> int:
    """Replaces each Sigmoid whose output reaches a Log through sums, bounds, quotients and moves.

    Args:
        graph: The graph; bodies of its nodes are included.
        context: Makes the nodes of the formula, and notes each Sigmoid.

    Returns:
        How many Sigmoids were replaced.
    """
    count = 0
    for node in list(ir.traversal.RecursiveGraphIterator(graph)):
        if (node.domain, node.op_type) == ("", "Log"):
            for sigmoid in _sigmoids(node.inputs[0]):
                _replace(sigmoid, context)
                context.note(sigmoid, "is a formula: a logarithm magnifies the error of ONNX Runtime's Sigmoid")
                count += 1
    return count


def _sigmoids(value: ir.Value | None) -> list[ir.Node]:
    """Returns the Sigmoids whose results reach a value through sums, bounds, quotients and moves."""
    found: list[ir.Node] = []
    seen: set[ir.Node] = set()
    values = [value]
    while values:
        value = values.pop()
        producer = None if value is None else value.producer()
        if producer is None or producer.domain or producer in seen:
            continue
        seen.add(producer)
        if producer.op_type == "Sigmoid":
            found += [producer] if producer.outputs[0].dtype in _TYPES else []
        elif producer.op_type in _BETWEEN:
            values.extend(producer.inputs)
        elif producer.op_type in _BY_CONSTANTS:
            computed = [each for each in producer.inputs if each is not None and each.const_value is None]
            values.extend(computed if len(computed) == 1 else [])
    return found


def _replace(sigmoid: ir.Node, context: Context) -> None:
    """Inserts the nodes of the formula before a Sigmoid, which becomes the last of them."""
    (x,), result, made = sigmoid.inputs, sigmoid.outputs[0], []
    assert result.dtype is not None
    assert sigmoid.graph is not None
    for op_type in ("Neg", "Exp", "Add"):
        operands = [x, context.constants.number(1, result.dtype)] if op_type == "Add" else [x]
        node = new_node(sigmoid, f"{sigmoid.name}/{op_type}", op_type, operands, context.unique)
        x = node.outputs[0]
        x.type, x.shape = result.type, result.shape
        sigmoid.graph.insert_before(sigmoid, node)
        made.append(node)
    become(sigmoid, "Reciprocal", [x])
    context.record(sigmoid, made, before=True)
