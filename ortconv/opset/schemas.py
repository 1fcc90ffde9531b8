"""Registers the schemas of the operators of ``org.ortconv`` with ``onnx.defs``."""

from __future__ import annotations

import onnx.defs
import onnx.reference.op_run  # Cannot be imported once two domains have an op of one name, as ours and ONNX's do.

from ortconv.opset.domain import DOMAIN, VERSION
from ortconv.opset.ops import OPERATORS

__all__ = ["register_schemas"]


def register_schemas() -> None:
    """Registers the schemas for ``onnx.checker`` and ONNX's shape inference; harmless when repeated."""
    for operator in OPERATORS:
        if not onnx.defs.has(operator.name, VERSION, DOMAIN):
            onnx.defs.register_schema(operator.schema())
