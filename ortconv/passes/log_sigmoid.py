"""Sigmoids of which a logarithm is taken: a formula that keeps the digits of small results.

ONNX Runtime's Sigmoid errs by 1e-7 whatever its result, and gives 0 below -18. Beside 1 that is nothing; a logarithm,
with a small number added or a lower bound before it, magnifies it to whole numbers.
"""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from ortconv.passes.bias_fusion import Reshaped

__all__ = ["sharpen_sigmoids"]

_BY_CONSTANTS = frozenset({"Add", "Clip", "Max", "Min", "Mul", "Sub"})
"""Ops between a Log and a Sigmoid, all of whose operands but one are constants."""
_BETWEEN = frozenset({"Div", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})
_TYPES = frozenset({ir.DataType.FLOAT, ir.DataType.DOUBLE})


def sharpen_sigmoids(
    graph: ir.Graph, constants: Reshaped, unique: Callable[[str], str]
) -> dict[ir.Node, list[ir.Node]]:
    """Makes 1 / (1 + exp(-x)) of each Sigmoid of which a Log is taken, behind sums, bounds and quotients too.

    Args:
        graph: The graph; bodies of its nodes are included.
        constants: Its constants.
        unique: Returns a name that nothing has.

    Returns:
        For each Sigmoid, which has become the last node of the formula, those before it.
    """
    found: dict[ir.Node, list[ir.Node]] = {}
    for node in list(ir.traversal.RecursiveGraphIterator(graph)):
        if (node.domain, node.op_type) == ("", "Log"):
            for sigmoid in _sigmoids(node.inputs[0]):
                found[sigmoid] = _sharpened(sigmoid, constants, unique)
    return found


def _sigmoids(value: ir.Value | None) -> list[ir.Node]:
    """Returns the Sigmoids whose results reach a value through sums, bounds, quotients and moves."""
    found: list[ir.Node] = []
    seen: set[ir.Node] = set()
    values = [value]
    while values:
        value = values.pop()
        maker = None if value is None else value.producer()
        if maker is None or maker.domain or maker in seen:
            continue
        seen.add(maker)
        if maker.op_type == "Sigmoid":
            found += [maker] if maker.outputs[0].dtype in _TYPES else []
        elif maker.op_type in _BETWEEN:
            values.extend(maker.inputs)
        elif maker.op_type in _BY_CONSTANTS:
            computed = [each for each in maker.inputs if each is not None and each.const_value is None]
            values.extend(computed if len(computed) == 1 else [])
    return found


def _sharpened(sigmoid: ir.Node, constants: Reshaped, unique: Callable[[str], str]) -> list[ir.Node]:
    """Puts the nodes of the formula in front of a Sigmoid, which becomes the last of them, and returns them."""
    (x,), result, made = sigmoid.inputs, sigmoid.outputs[0], []
    assert result.dtype is not None
    assert sigmoid.graph is not None
    for op_type in ("Neg", "Exp", "Add"):
        operands = [x, constants.number(1, result.dtype)] if op_type == "Add" else [x]
        name = unique(f"{sigmoid.name}/{op_type}")
        node = ir.node(op_type, operands, name=name, metadata_props=dict(sigmoid.metadata_props))
        x = node.outputs[0]
        x.name, x.type, x.shape = unique(f"{name}_out"), result.type, result.shape
        sigmoid.graph.insert_before(sigmoid, node)
        made.append(node)
    sigmoid.op_type = "Reciprocal"
    sigmoid.replace_input_with(0, x)
    return made
