"""Recognizes a KV cache: keys or values appended to a state."""

from __future__ import annotations

import onnx_ir as ir

from ortconv.graph.annotations import IS_STATE

__all__ = ["is_cache"]

_HEAD_REPEATING_OPS = ("Unsqueeze", "Expand", "Mul", "Tile", "Reshape", "Transpose")
"""Ops between a KV cache and attention that repeat its heads, if several query heads share each."""


def is_cache(value: ir.Value) -> bool:
    """Tells whether a value is a KV cache: keys or values appended to a state whose beams a Gather reorders."""
    node = value.producer()
    while node is not None and node.op_type in _HEAD_REPEATING_OPS and node.inputs[0] is not None:
        node = node.inputs[0].producer()
    if node is None or node.op_type != "Concat":
        return False
    for part in node.inputs:
        gathered = None if part is None else part.producer()
        if gathered is not None and gathered.op_type == "Gather":
            source = gathered.inputs[0]
            if source is not None and IS_STATE.get(source):
                return True
    return False
