"""Models of one MatMulCompressed, and what they must give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ortconv.opset.domain import DOMAIN
from ortconv.opset.operator import Operator
from ortconv.opset.ops.matmul_compressed import MATMUL_COMPRESSED
from ortconv.opset.schemas import register_schemas

__all__ = ["LIMITS", "SIZES", "assert_close_to", "assert_product", "model", "one_node"]

LIMITS = {
    TensorProto.UINT8: (0, 255),
    TensorProto.INT8: (-128, 127),
    TensorProto.UINT4: (0, 15),
    TensorProto.INT4: (-8, 7),
}
"""Least and greatest integer of a type."""

SIZES = [
    (1, 1, 1),
    (1, 8, 8),
    (5, 7, 7),
    (3, 9, 3),
    (4, 6, 1),
    (17, 96, 32),
    (70, 256, 128),
    (33, 300, 100),
    (40, 1030, 103),
]
"""Rows and columns of data, and block_size."""


def model(
    code: int = TensorProto.UINT8,
    *,
    x: list[Any] | None = None,
    data: tuple[int, ...] = (6, 8),
    scale: tuple[int, ...] | None = None,
    point: tuple[int, ...] | None = None,
    block: Any = 4,
    x_type: int = TensorProto.FLOAT,
    scale_type: int | None = None,
    point_type: int | None = None,
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
    blocks = (data[0], data[-1] // block if isinstance(block, int) and block > 0 else 1)
    tensors = {"D": (code, data, rng.integers(low, high, data, endpoint=True))}
    scales = blocks if scale is None else scale
    tensors["S"] = (scale_type or x_type, scales, rng.uniform(-0.1, 0.1, scales).astype(np.float32))
    if point is not None:
        tensors["Z"] = (point_type or code, point, rng.integers(low, high // 2, point, endpoint=True))
    inputs = [helper.make_tensor_value_info("X", x_type, ["N", data[-1]] if x is None else x)]
    names = ["X", *tensors][: 1 + len(tensors) - drop]
    axes = 2 if x is None else len(x)
    if block is not None:
        attributes["block_size"] = block
    return one_node(
        MATMUL_COMPRESSED, names, inputs, tensors, axes, constant=constant, opset=opset, bodies=bodies, **attributes
    )


def one_node(
    op: Operator,
    names: Sequence[str],
    inputs: Sequence[onnx.ValueInfoProto],
    tensors: Mapping[str, tuple[int, tuple[int, ...], np.ndarray]],
    axes: int,
    *,
    constant: bool,
    opset: int,
    bodies: bool,
    **attributes: Any,
) -> onnx.ModelProto:
    """Returns a model of one product.

    Args:
        op: The operator.
        names: What the node reads.
        inputs: Inputs of the graph, X first, whose type the result has.
        tensors: Element type, shape and numbers of what else it reads.
        axes: How many the result has.
        constant: Whether the tensors are initializers, not inputs too.
        opset: Of ai.onnx.
        bodies: Whether the model has the function body.
        **attributes: Of the node.
    """
    described = [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape, _) in tensors.items()]
    stored = [
        helper.make_tensor(name, kind, shape, values.ravel().tolist())
        for name, (kind, shape, values) in tensors.items()
    ]
    node = helper.make_node(op.name, names, ["Y"], name="p", domain=DOMAIN, **attributes)
    result = helper.make_tensor_value_info("Y", inputs[0].type.tensor_type.elem_type, [None] * axes)
    graph = helper.make_graph(
        [node], "g", [*inputs, *([] if constant else described)], [result], stored if constant else []
    )
    imports = [helper.make_opsetid("", opset), helper.make_opsetid(DOMAIN, 1)]
    functions = [op.body(opset, frozenset({"int8"} if tensors["D"][0] == TensorProto.INT8 else ()))] if bodies else []
    return helper.make_model(graph, opset_imports=imports, ir_version=10, functions=functions)


def _expected(made: onnx.ModelProto, x: np.ndarray, block: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the product in float64, and the sums of its terms' magnitudes."""
    arrays = {each.name: numpy_helper.to_array(each).astype(np.float64) for each in made.graph.initializer}
    shifts = arrays["Z"].repeat(block, 1) if "Z" in arrays else 0
    weights = (arrays["D"] - shifts) * arrays["S"].repeat(block, 1)
    wide = x.astype(np.float64)
    return wide @ weights.T, np.abs(wide) @ np.abs(weights).T


def assert_product(made: onnx.ModelProto, x: np.ndarray, y: np.ndarray, block: int, factors: float = 0.0) -> None:
    """Asserts that a result is the product, rounded to its type from a sum in float32.

    Args:
        made: The model, with constant weights.
        x: What it was given.
        y: The result.
        block: Its block_size.
        factors: How far the terms of the sum may be off, relative to them.
    """
    assert_close_to(*_expected(made, x, block), x, y, factors)


def assert_close_to(
    exact: np.ndarray, magnitude: np.ndarray, x: np.ndarray, y: np.ndarray, factors: float = 0.0
) -> None:
    """Asserts that a result is what it should be, rounded to the type of x from sums in float32.

    Args:
        exact: What it should be.
        magnitude: The sums of the terms' magnitudes.
        x: What was multiplied.
        y: The result.
        factors: How far the terms of a sum may be off, relative to them.
    """
    tolerance = (x.shape[-1] + 2) * np.finfo(np.float32).eps + factors
    bound = tolerance * magnitude
    if x.dtype != np.float32:
        kind = ml_dtypes.finfo(x.dtype)
        bound = bound + float(kind.eps) / 2 * (np.abs(exact) + bound) + float(kind.smallest_subnormal)
    assert y.dtype == x.dtype
    assert y.shape == exact.shape
    assert (np.abs(y.astype(np.float64) - exact) <= bound).all()
