"""Removes nodes and initializers that no output depends on."""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from ortconv.passes.context import Context

__all__ = ["run"]

_IR_VERSION = 10
"""The pass takes a model, which has to have one."""


def run(graph: ir.Graph, context: Context) -> int:
    """Runs onnx_ir's pass; returns 1 if it removed anything, else 0."""
    return int(RemoveUnusedNodesPass()(ir.Model(graph, ir_version=_IR_VERSION)).modified)
