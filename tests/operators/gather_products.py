"""Models of one GatherMatMulCompressed, and what they must give."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ortconv.opset.ops.gather_matmul_compressed import GATHER_MATMUL_COMPRESSED
from ortconv.opset.schemas import register_schemas
from tests.operators.products import LIMITS, assert_close_to, one_node

__all__ = ["assert_products", "indices", "model"]


def model(
    code: int = TensorProto.UINT8,
    *,
    x: list[Any] | None = None,
    data: tuple[int, ...] = (3, 6, 8),
    scale: tuple[int, ...] | None = None,
    point: tuple[int, ...] | None = None,
    index: list[Any] | None = None,
    block: Any = 4,
    x_type: int = TensorProto.FLOAT,
    scale_type: int | None = None,
    point_type: int | None = None,
    index_type: int = TensorProto.INT64,
    drop: int = 0,
    constant: bool = True,
    opset: int = 21,
    bodies: bool = True,
    **attributes: Any,
) -> onnx.ModelProto:
    """Returns a model of one node with random integers; `point` is the shape of zero points, if it has some.

    Scales are of X's type unless `scale_type` is another.
    """
    register_schemas()
    rng = np.random.default_rng([code, *data])
    low, high = LIMITS.get(code, (0, 1))
    blocks = (*data[:-1], data[-1] // block if isinstance(block, int) and block > 0 else 1)
    scales = blocks if scale is None else scale
    tensors = {
        "D": (code, data, rng.integers(low, high, data, endpoint=True)),
        "S": (scale_type or x_type, scales, rng.uniform(-0.1, 0.1, scales).astype(np.float32)),
    }
    if point is not None:
        tensors["Z"] = (point_type or code, point, rng.integers(low, high // 2, point, endpoint=True))
    inputs = [
        helper.make_tensor_value_info("X", x_type, ["T", "A", data[-1]] if x is None else x),
        helper.make_tensor_value_info("I", index_type, ["T", "J"] if index is None else index),
    ]
    names = [name for name in ("X", "D", "S", "I", "Z") if name in ("X", "I") or name in tensors]
    names = names[: len(names) - drop]
    if block is not None:
        attributes["block_size"] = block
    return one_node(
        GATHER_MATMUL_COMPRESSED, names, inputs, tensors, 3, constant=constant, opset=opset, bodies=bodies, **attributes
    )


def indices(rows: int, slots: int, matrices: int, seed: int = 0) -> np.ndarray:
    """Returns random indices, some of which name no matrix."""
    return np.random.default_rng(seed).integers(-1, matrices + 1, (rows, slots))


def assert_products(made: onnx.ModelProto, x: np.ndarray, index: np.ndarray, y: np.ndarray, block: int) -> None:
    """Asserts that a result is the products, rounded to its type from sums in float32.

    Args:
        made: The model, with constant weights.
        x: What it was given.
        index: The indices that it was given.
        y: The result.
        block: Its block_size.
    """
    arrays = {each.name: numpy_helper.to_array(each).astype(np.float64) for each in made.graph.initializer}
    shifts = arrays["Z"].repeat(block, 2) if "Z" in arrays else 0
    weights = (arrays["D"] - shifts) * arrays["S"].repeat(block, 2)
    exact, magnitude = (np.zeros((*index.shape, weights.shape[1])) for _ in range(2))
    for t, j in np.ndindex(*index.shape):
        if 0 <= index[t, j] < len(weights):
            row = x[t, j if x.shape[1] > 1 else 0].astype(np.float64)
            exact[t, j] = weights[index[t, j]] @ row
            magnitude[t, j] = np.abs(weights[index[t, j]]) @ np.abs(row)
    assert_close_to(exact, magnitude, x, y)
