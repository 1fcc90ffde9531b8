"""Constant operands: numbers are scalars and rows vectors wherever broadcasting makes that the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import openvino
import pytest
from openvino import opset1, opset13

import ortconv
from ortconv.api import conversion
from tests.converters.openvino.live import check, numbers

F32 = openvino.Type.f32


def stored(source: openvino.Model) -> list[list[int]]:
    """Returns the shapes of the float constants of a converted model."""
    constants = conversion(source).to_proto().graph.initializer
    return sorted(list(each.dims) for each in constants if each.data_type == 1)


def by(shape: Sequence[int], data: Sequence[int], op: Callable[[Any, Any], Any]) -> openvino.Model:
    x = opset1.parameter(list(data), dtype=F32, name="x")
    return openvino.Model([opset1.result(op(x, opset1.constant(numbers(*shape, seed=3))))], [x])


@pytest.mark.parametrize("op", [opset1.add, opset1.subtract, opset1.multiply, opset1.divide])
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(
    ("shape", "data", "expected"),
    [
        ((1, 1, 1), (2, 3, 4), []),
        ((1, 1, 1), (-1, -1, -1), []),
        ((1, 1), (2, 3, 4), []),
        ((1, 1, 4), (2, 3, 4), [4]),
        ((1, 4), (-1, 3, 4), [4]),
        ((1, 1, 4), (2, 3, 1), [4]),
        # It has more axes than the data, or sizes on more than the last of its axes, or none too many.
        ((1, 1, 1), (3, 4), [1, 1, 1]),
        ((1, 3, 4), (2, 3, 4), [1, 3, 4]),
        ((1, 3, 1), (2, 3, 4), [1, 3, 1]),
        ((4,), (2, 3, 4), [4]),
        ((2, 1, 1), (1, 3, 4), [2, 1, 1]),
    ],
)
def test_shapes(op: Any, swapped: bool, shape: Sequence[int], data: Sequence[int], expected: list[int]) -> None:
    source = by(shape, data, (lambda x, y: op(y, x)) if swapped else op)
    assert stored(source) == [expected]
    given = numbers(*(size if size > 0 else 3 for size in data))
    check(source, [given])


def test_a_constant_that_several_take() -> None:
    """Each takes it in a shape of its own, and an output as it is."""
    x, y = (opset1.parameter(list(shape), dtype=F32, name=name) for name, shape in (("x", (2, 3, 4)), ("y", (3, 4))))
    number = opset1.constant(numbers(1, 1, 1))
    results = [opset1.result(each) for each in (opset1.add(x, number), opset1.add(y, number), number)]
    source = openvino.Model(results, [x, y])
    assert stored(source) == [[], [1, 1, 1]]
    check(source, [numbers(2, 3, 4), numbers(3, 4)])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 0.5])
@pytest.mark.parametrize("inverse", [False, True])
def test_a_norm_that_onnx_runtime_finds(dtype: Any, epsilon: float, inverse: bool) -> None:
    """The epsilon is the source's, of whatever type."""
    x = opset1.parameter([-1, -1, 16], dtype=openvino.Type(np.dtype(dtype)), name="x")
    number = lambda value: opset13.constant(np.full((1, 1, 1), value, dtype))  # noqa: E731
    mean = opset1.reduce_mean(opset1.power(x, number(2)), np.array([-1]), True)
    root = opset13.sqrt(opset1.add(mean, number(epsilon)))
    unit = opset1.multiply(x, opset1.divide(number(1), root)) if inverse else opset1.divide(x, root)
    scaled = opset1.multiply(opset13.constant(numbers(1, 1, 16, dtype=dtype, seed=5)), unit)
    source = openvino.Model([opset1.result(scaled)], [x])
    session = ortconv.InferenceSession(ortconv.convert(source), backend="none")
    data = numbers(2, 3, 16, dtype=dtype) * dtype(0.01)
    (result,) = session.run(None, {"x": data})
    wide = data.astype(np.float64)
    expected = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + np.float64(dtype(epsilon)))
    expected *= numbers(1, 1, 16, dtype=dtype, seed=5).astype(np.float64)
    tolerance = 8 * np.finfo(dtype).eps
    np.testing.assert_allclose(
        result.astype(np.float64), expected, rtol=tolerance, atol=tolerance * abs(expected).max()
    )


def test_a_product_with_a_bias_is_one_node_in_onnx_runtime(tmp_path: Any) -> None:
    x = opset1.parameter([2, 3, 8], dtype=F32, name="x")
    product = opset1.matmul(x, opset1.constant(numbers(8, 4, seed=1)), False, False)
    source = openvino.Model([opset1.result(opset1.add(product, opset1.constant(numbers(1, 1, 4, seed=2))))], [x])
    check(source, [numbers(2, 3, 8)])
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    ortconv.InferenceSession(ortconv.convert(source), options, backend="none")
    kinds = [node.op_type for node in onnx.load(options.optimized_model_filepath).graph.node]
    assert "Add" not in kinds
