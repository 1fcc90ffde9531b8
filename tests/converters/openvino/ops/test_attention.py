"""ScaledDotProductAttention against OpenVINO's CPU plugin."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset1
from openvino.utils.node_factory import NodeFactory

from ortconv.api import conversion
from tests.converters.openvino.live import Row, check_row, model_of, numbers, run_onnx

F32 = np.float32
BOUND = 32


def attention(*inputs: openvino.Node, causal: bool = False) -> openvino.Node:
    """Makes the op by name, since the Python function does not know the sink."""
    return NodeFactory("opset13").create("ScaledDotProductAttention", list(inputs), {"causal": causal})


def causal(*inputs: openvino.Node) -> openvino.Node:
    return attention(*inputs, causal=True)


def tensors(queries: int, keys: int, dtype: Any = F32) -> list[np.ndarray]:
    """Returns query, key and value of two batches with three heads."""
    sizes = ((queries, 8), (keys, 8), (keys, 6))
    return [numbers(2, 3, *size, seed=seed).astype(dtype) for seed, size in enumerate(sizes)]


def mask(*shape: int) -> np.ndarray:
    return numbers(*shape, seed=4)


def choice(*shape: int) -> np.ndarray:
    """Returns a boolean mask that leaves every query the first key."""
    allowed = numbers(*shape, dtype=bool, seed=5)
    allowed[..., 0] = True
    return allowed


def nothing(queries: int, keys: int, *, dtype: Any, low: float = 0) -> np.ndarray:
    """Returns a mask that leaves the second query no key and the others all but the first."""
    allowed = np.ones((queries, keys), bool)
    allowed[:, 0] = allowed[1] = False
    return allowed if dtype is bool else np.where(allowed, 0, low).astype(dtype)


SCALE = np.array(0.3, F32)
SIZES = ((4, 5), (3, 7))
ROWS = [
    Row("plain", attention, [tensors(*size) for size in SIZES], BOUND),
    Row("causal", causal, [tensors(*size) for size in (*SIZES, (5, 3))], BOUND),
    Row("a mask", attention, [[*tensors(*size), mask(2, 3, *size)] for size in SIZES], BOUND),
    Row("a mask of two axes", attention, [[*tensors(*size), mask(*size)] for size in SIZES], BOUND),
    Row("a mask that broadcasts", attention, [[*tensors(q, k), mask(2, 1, 1, k)] for q, k in SIZES], BOUND),
    Row("a boolean mask", attention, [[*tensors(*size), choice(2, 3, *size)] for size in SIZES], BOUND),
    Row("no mask and a scale", attention, [[*tensors(*SIZES[0]), np.array(0, F32), SCALE]], BOUND),
    Row("a scale of one axis", attention, [[*tensors(4, 5), mask(4, 5), SCALE.reshape(1)]], BOUND),
    Row("causal leaves the mask out", causal, [[*tensors(4, 5), mask(4, 5), SCALE]], BOUND),
    Row("a sink", attention, [[*tensors(*z), mask(*z), SCALE, numbers(1, 3, 1, 1)] for z in SIZES], BOUND),
    Row("causal with a sink", causal, [[*tensors(4, 5), mask(4, 5), SCALE, numbers(1, 3, 1, 1)]], BOUND),
    Row("rank 3", attention, [[x[0] for x in tensors(*size)] for size in SIZES], BOUND),
    Row("one head of keys", attention, [[tensors(4, 5)[0], *[x[:, :1] for x in tensors(4, 5)[1:]]]], BOUND),
    Row("keys of a lower rank", attention, [[tensors(4, 5)[0], *[x[0] for x in tensors(4, 5)[1:]]]], BOUND),
    Row("f16", attention, [[*tensors(4, 5, np.float16), mask(4, 5).astype(np.float16)]], 2),
    Row(
        "bf16 with a mask of booleans",
        lambda q, k, v, m: attention(
            *(opset1.convert(x, "bf16") for x in (q, k, v)), opset1.greater(m, np.array(-0.5, np.float32))
        ),
        [[*tensors(4, 5), mask(4, 5)]],
        2,
    ),
    *(
        Row(
            f"f64 whose mask of {np.dtype(dtype).name} leaves some queries no key",
            attention,
            [[*tensors(*size, np.float64), nothing(*size, dtype=dtype, low=low)] for size in SIZES],
            BOUND,
        )
        for dtype, low in ((bool, 0), (np.float64, -np.inf), (np.float64, -1e300))
    ),
    Row("f32 whose mask leaves some queries no key", attention, [[*tensors(4, 5), nothing(4, 5, dtype=bool)]], BOUND),
    Row(
        "f64 whose constant mask leaves some queries no key",
        lambda q, k, v: attention(q, k, v, opset1.constant(nothing(4, 5, dtype=np.float64, low=-np.inf))),
        [tensors(4, 5, np.float64)],
        BOUND,
    ),
    Row("f64", attention, [[*tensors(4, 5, np.float64), mask(4, 5).astype(np.float64)]], BOUND),
]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_matches_openvino(row: Row) -> None:
    check_row(row)


def test_a_head_of_unknown_size() -> None:
    feeds = [tensors(4, 5), [x[..., :4] for x in tensors(3, 7)]]
    check_row(Row("plain", attention, feeds, BOUND))
    assert model_of(attention, feeds).inputs[0].partial_shape[3].is_dynamic


@pytest.mark.parametrize("queries", [3, 4])
def test_as_many_heads_as_queries_exchanged(queries: int) -> None:
    """OpenVINO's CPU plugin mixes up axes where both sizes are the same: the numbers are those of the definition."""

    def build(*inputs: openvino.Node) -> openvino.Node:
        query, key, value = (opset1.relu(each) for each in inputs)
        weights = opset1.softmax(opset1.matmul(query, key, False, True), 3)
        return opset1.transpose(opset1.matmul(weights, value, False, False), np.array([0, 2, 1, 3]))

    feed = tensors(queries, 5)
    model = model_of(build, [feed])
    query, key, value = (np.maximum(each, 0).astype(np.float64) for each in feed)
    weights = np.exp(query @ key.swapaxes(2, 3))
    expected = (weights / weights.sum(-1, keepdims=True) @ value).transpose(0, 2, 1, 3)
    converted = conversion(model)
    ((found,),) = run_onnx(converted, [feed])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert ["mix up these axes" in warning for warning in converted.warnings] == [True] * (queries == 3)
