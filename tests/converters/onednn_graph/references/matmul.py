"""MatMul."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.converters.onednn_graph.references.call import Call


def _matmul(call: Call) -> np.ndarray:
    # Products of large operands in float32 cost a tenth of those in float64, and are exact to 1e-6 of the largest sum.
    wide = np.float32 if max(call.inputs[0].size, call.inputs[1].size) > 1 << 22 else np.float64
    left, right = (value.astype(wide) for value in call.inputs[:2])
    if call.get("transpose_a", False) and left.ndim > 1:
        left = np.swapaxes(left, -1, -2)
    if call.get("transpose_b", False) and right.ndim > 1:
        right = np.swapaxes(right, -1, -2)
    product = np.matmul(left, right)
    return product + call.inputs[2].astype(wide) if call.has(2) else product


OPS: dict[str, Callable[[Call], np.ndarray]] = {"MatMul": _matmul}
