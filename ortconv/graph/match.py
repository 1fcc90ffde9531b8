"""Which node of the ai.onnx domain makes a value."""

from __future__ import annotations

import onnx_ir as ir

__all__ = ["made_by", "maker"]


def maker(value: ir.Value | None, op_type: str) -> ir.Node | None:
    """Returns the node that makes a value if it is of a type of the ai.onnx domain, None of anything else."""
    node = None if value is None else value.producer()
    return node if node is not None and (node.domain, node.op_type) == ("", op_type) else None


def made_by(value: ir.Value | None, op_type: str, index: int = 0) -> ir.Value | None:
    """Returns an input of that node; None of anything else."""
    node = maker(value, op_type)
    return None if node is None else node.inputs[index]
