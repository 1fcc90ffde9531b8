"""Outputs whose data are rounded behind nodes that move them: a copy is the output.

ONNX Runtime rounds before it moves, where nothing but those nodes takes the data, and forgets that the data are an
output.
"""

from __future__ import annotations

import onnx_ir as ir

from ortconv.graph.edit import Inserter

__all__ = ["copy_rounded_outputs"]

_MOVING = frozenset({"MaxPool", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"})


def copy_rounded_outputs(graph: ir.Graph, inserter: Inserter) -> None:
    """Makes a copy the output where the original is moved and rounded, and used by nothing else.

    Args:
        graph: The graph; bodies of its nodes are left as they are.
        inserter: Makes the copies.
    """
    if all(node.op_type != "QuantizeLinear" for node in graph):
        return
    for index, output in enumerate(graph.outputs):
        node = output.producer()
        if node is None or node.graph is not graph or not _is_moved_and_rounded(output):
            continue
        copied = inserter.after(node, "Identity", [output], output)
        copied.metadata_props.update(output.metadata_props)
        graph.outputs[index] = copied
        name, spare = output.name, copied.name
        copied.name, output.name = None, spare
        copied.name = name


def _is_moved_and_rounded(value: ir.Value) -> bool:
    users = [user for user, _ in value.uses()]
    if not users or any(user.domain or user.op_type not in _MOVING for user in users):
        return False
    values = [user.outputs[0] for user in users]
    while values:
        for user, index in values.pop().uses():
            if user.op_type == "QuantizeLinear" and not user.domain:
                return True
            if index == 0 and not user.domain and user.op_type in _MOVING:
                values.append(user.outputs[0])
    return False
