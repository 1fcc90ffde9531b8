"""Models of one MatMulCodebook or GatherMatMulCodebook, and what they must give."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ortconv.opset.ops.gather_matmul_codebook import GATHER_MATMUL_CODEBOOK
from ortconv.opset.ops.matmul_codebook import MATMUL_CODEBOOK
from ortconv.opset.schemas import register_schemas
from tests.operators.products import assert_close_to, one_node

__all__ = ["NUMBERS", "assert_product", "model"]

NUMBERS = np.array([-7, 0.25, -0.0, 3, 1e-3, -1, 2.5, 6, -0.5, 11, 0.7, -4, 1, 0.1, -3.3, 5], np.float32)
"""A codebook without an order."""


def model(
    *,
    data: tuple[int, ...] = (6, 8),
    x: list[Any] | None = None,
    scale: tuple[int, ...] | None = None,
    index: list[Any] | None = None,
    block: Any = 4,
    codebook: np.ndarray | None = NUMBERS,
    x_type: int = TensorProto.FLOAT,
    scale_type: int | None = None,
    code_type: int = TensorProto.UINT4,
    index_type: int = TensorProto.INT64,
    constant: bool = True,
    opset: int = 21,
    bodies: bool = True,
    more: list[str] | None = None,
    **attributes: Any,
) -> onnx.ModelProto:
    """Returns a model of one node with random codes, of many matrices where `data` has three axes.

    Scales are of X's type unless `scale_type` is another; `more` are names of inputs too many.
    """
    register_schemas()
    rng = np.random.default_rng(list(data))
    gathers = len(data) == 3 or index is not None
    op = GATHER_MATMUL_CODEBOOK if gathers else MATMUL_CODEBOOK
    blocks = (*data[:-1], data[-1] // block if isinstance(block, int) and block > 0 else 1)
    scales = blocks if scale is None else scale
    tensors = {
        "D": (code_type, data, rng.integers(0, 15, data, endpoint=True)),
        "S": (scale_type or x_type, scales, rng.uniform(-0.1, 0.1, scales).astype(np.float32)),
    }
    names = ["X", "D", "S", "I"] if gathers else ["X", "D", "S"]
    if codebook is not None:
        tensors["C"] = (helper.np_dtype_to_tensor_dtype(codebook.dtype), codebook.shape, codebook)
        names.append("C")
    default = ["T", "A", data[-1]] if gathers else ["N", data[-1]]
    inputs = [helper.make_tensor_value_info("X", x_type, default if x is None else x)]
    if gathers:
        inputs.append(helper.make_tensor_value_info("I", index_type, ["T", "J"] if index is None else index))
    if block is not None:
        attributes["block_size"] = block
    names += more or []
    axes = 3 if gathers else 2 if x is None else len(x)
    return one_node(op, names, inputs, tensors, axes, constant=constant, opset=opset, bodies=bodies, **attributes)


def assert_product(
    made: onnx.ModelProto,
    x: np.ndarray,
    y: np.ndarray,
    block: int,
    index: np.ndarray | None = None,
    factors: float = 0.0,
) -> None:
    """Asserts that a result is the product, rounded to its type from sums in float32.

    Args:
        made: The model, with constant weights.
        x: What it was given.
        y: The result.
        block: Its block_size.
        index: The indices that it was given, if matrices are gathered.
        factors: How far the terms of a sum may be off, relative to them.
    """
    arrays = {each.name: numpy_helper.to_array(each) for each in made.graph.initializer}
    numbers = arrays["C"].astype(np.float64)[arrays["D"].astype(np.int64)]
    weights, wide = numbers * arrays["S"].astype(np.float64).repeat(block, -1), x.astype(np.float64)
    if index is None:
        return assert_close_to(wide @ weights.T, np.abs(wide) @ np.abs(weights).T, x, y, factors)
    exact, magnitude = (np.zeros((*index.shape, weights.shape[1])) for _ in range(2))
    for t, j in np.ndindex(*index.shape):
        if 0 <= index[t, j] < len(weights):
            row = wide[t, j if x.shape[1] > 1 else 0]
            exact[t, j] = weights[index[t, j]] @ row
            magnitude[t, j] = np.abs(weights[index[t, j]]) @ np.abs(row)
    assert_close_to(exact, magnitude, x, y, factors)
    return None
