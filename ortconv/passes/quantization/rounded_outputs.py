"""Makes a graph output a copy of its value where the value is also moved and then quantized.

ONNX Runtime moves the QuantizeLinear before such nodes if they are the only consumers, and overlooks that the value is
a graph output.
"""

from __future__ import annotations

import onnx_ir as ir

from ortconv.passes.context import Context

__all__ = ["run"]

_MOVING = frozenset({"MaxPool", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"})


def run(graph: ir.Graph, context: Context) -> int:
    """Inserts an Identity before each output that is moved and quantized, and has no other consumers.

    Args:
        graph: The graph; bodies of its nodes are not changed.
        context: Makes the copies.

    Returns:
        How many outputs were copied.
    """
    count = 0
    if all(node.op_type != "QuantizeLinear" for node in graph):
        return 0
    for index, output in enumerate(graph.outputs):
        node = output.producer()
        if node is None or node.graph is not graph or not _is_moved_and_rounded(output):
            continue
        copied = context.inserter.after(node, "Identity", [output], output)
        copied.metadata_props.update(output.metadata_props)
        graph.outputs[index] = copied
        name, spare = output.name, copied.name
        copied.name, output.name = None, spare
        copied.name = name
        count += 1
    return count


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
