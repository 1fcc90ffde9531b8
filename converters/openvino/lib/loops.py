"""Bodies of ONNX Loops."""

from __future__ import annotations

import onnx_ir as ir

from ortconv.graph.builder import Body

__all__ = ["iteration"]


def iteration(body: Body, name: str = "step") -> ir.Value:
    """Adds the first two inputs of a Loop's body: the condition, and the number of the iteration, which is returned."""
    number = body.input(name, ir.DataType.INT64, ())
    body.input("condition", ir.DataType.BOOL, ())
    return number
