"""Our operators for ``onnx.reference``: ``ReferenceEvaluator(model, new_ops=OP_RUNS)``.

The evaluator does not pass `OP_RUNS` on to model-local functions that hold nodes of ours: inline such functions first.
"""

from __future__ import annotations

from typing import Any

import onnx.helper
from onnx.reference.op_run import OpRun

from ortconv.opset.domain import DOMAIN
from ortconv.opset.ops import BY_NAME
from ortconv.opset.reference.operands import Array

__all__ = ["OP_RUNS"]


class _OpRun(OpRun):
    """Evaluates a node by the reference of its operator; the evaluator passes attributes by name."""

    op_domain = DOMAIN
    op_schema = None  # By default onnx looks a schema up by class name, and finds its own op of that name.

    def _run(self, *inputs: Array | None, accumulation_type: int | None = None, **attributes: Any) -> tuple[Array]:
        operator, data = BY_NAME[self.onnx_node.op_type], inputs[0]
        assert data is not None
        expected = operator.accumulation.get(onnx.helper.np_dtype_to_tensor_dtype(data.dtype))
        if accumulation_type not in (None, expected):
            raise ValueError(f"accumulation_type = {accumulation_type}; allowed for {data.dtype}: {expected}")
        return (operator.reference(*inputs, **attributes),)


OP_RUNS: list[type[OpRun]] = [type(name, (_OpRun,), {}) for name in BY_NAME]
"""A class for each operator."""
