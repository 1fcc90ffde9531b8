"""ScaledDotProductAttention."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.broadcasting import rank_of
from ortconv.converters.openvino.lib.compute_types import FLOATS, compute, dtype_of, require, scalar
from ortconv.converters.openvino.lib.constants import as_scalar
from ortconv.converters.openvino.lib.kv_cache import is_cache
from ortconv.converters.openvino.patterns.grouped_query_attention import SharedHeads
from ortconv.converters.openvino.plugin_bugs.states import CACHE_IN_8_BITS
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import ShapeError
from ortconv.graph.builder import Builder

_KERNELS = ("Add", "Mul", "MatMul", "Softmax")
_MOVES = ("Cast", "Expand", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze")
_LARGEST = float(np.finfo(np.float32).max)
_MOST = {ir.DataType.FLOAT16: 65504.0, ir.DataType.BFLOAT16: 2.0**128 - 2.0**120}
"""The largest finite value of each 16-bit type."""


@REGISTRY.lowering("ScaledDotProductAttention", since=13)
def scaled_dot_product_attention(
    b: Builder,
    query: ir.Value,
    key: ir.Value,
    value: ir.Value,
    attention_mask: ir.Value | None = None,
    scale: ir.Value | None = None,
    sink: ir.Value | None = None,
    /,
    *,
    causal: bool = False,
) -> ir.Value:
    """Softmax between two MatMuls; a causal mask replaces attention_mask, a sink is one more key without a value."""
    for label, operand in (("query", query), ("key", key), ("value", value)):
        require(operand, label, FLOATS)
        if rank_of(operand, label) < 3:
            raise ShapeError(label, operand.shape, "its rank must be at least 3.")
    cached = is_cache(key)
    if cached:
        CACHE_IN_8_BITS.warn(b)
    mask = None if causal else attention_mask
    shown = mask if mask is not None and mask.dtype == ir.DataType.BOOL else None
    shared = SharedHeads.of(b, query, key, value) if cached else None
    if shared is not None:
        key, value = shared.key, shared.value

    def formula(
        q: ir.Value, k: ir.Value, v: ir.Value, added: ir.Value | None, factor: ir.Value | None, extra: ir.Value | None
    ) -> ir.Value:
        width = rank_of(key, "key")
        swapped = b.op("Transpose", k, perm=[*range(width - 2), width - 1, width - 2])
        scaled, sizes = b.op("Mul", q, _factor(b, query, q, factor)), None
        if shared is None:
            scores = b.op("MatMul", scaled, swapped)
        else:
            scores, sizes = shared.scores(b, scaled, swapped, k)
        if causal:
            added = _causal(b, q, k)
        elif shown is not None:
            added = _hidden(b, shown, q, finite=cached)
        weights = _weights(b, scores if added is None else b.op("Add", scores, added), extra, rank_of(query, "query"))
        if shared is None or sizes is None:
            return b.op("MatMul", weights, v)
        return shared.attended(b, weights, sizes, v)

    op_types = _KERNELS if shown is None else (*_KERNELS, "Where")
    added = None if mask is None else _added(b, mask, query)
    factor = None if scale is None else as_scalar(b, scale)
    result = compute(b, formula, query, key, value, added, factor, sink, op_types=op_types)
    if not cached or mask is None or sink is not None or shown is not None:
        return result
    if _is_finite(mask, _MOST.get(dtype_of(mask), _LARGEST)):  # a Cast may overflow to infinity
        return result
    return _without_keys(b, mask, b.typed(result, query.dtype, None))


def _weights(b: Builder, scores: ir.Value, sink: ir.Value | None, rank: int) -> ir.Value:
    """Emits the Softmax of the scores; the sink takes part in the sum, and its own weight is dropped."""
    if sink is None:
        return b.op("Softmax", scores, axis=-1)
    column = b.op("Slice", b.op("Shape", scores), b.constant([0]), b.constant([rank - 1]))
    one_each = b.op("Concat", column, b.constant([1]), axis=0)
    weights = b.op("Softmax", b.op("Concat", scores, b.op("Expand", sink, one_each), axis=-1), axis=-1)
    return b.op("Slice", weights, b.constant([0]), b.constant([-1]), b.constant([-1]))


def _factor(b: Builder, query: ir.Value, q: ir.Value, scale: ir.Value | None) -> ir.Value:
    """Returns the scale: the input, or 1 / sqrt(head size)."""
    if scale is not None:
        return scale
    assert query.shape is not None
    size = query.shape[-1]
    if isinstance(size, int):
        return scalar(b, 1 / math.sqrt(size), q)
    width = b.op("Cast", b.op("Shape", q, start=-1), to=int(dtype_of(q)))
    return b.op("Reciprocal", b.op("Sqrt", width))


def _added(b: Builder, mask: ir.Value, query: ir.Value) -> ir.Value | None:
    """Returns the additive mask; None for a boolean mask (see `_hidden`)."""
    if dtype_of(query) != ir.DataType.DOUBLE:
        return None if mask.dtype == ir.DataType.BOOL else mask
    b.follow("follows OpenVINO's CPU plugin: an f64 mask is rounded to f32, and infinities become finite")
    if mask.dtype == ir.DataType.BOOL:
        return None
    ends = [b.constant(np.array(end, np.float64)) for end in (-_LARGEST, _LARGEST)]
    return b.typed(b.op("Clip", mask, *ends), mask.dtype, mask.shape)


def _hidden(b: Builder, shown: ir.Value, q: ir.Value, *, finite: bool) -> ir.Value:
    """Emits 0 where a boolean mask is true, and -infinity elsewhere.

    Where OpenVINO's CPU plugin has finite numbers, a query without any key gets the mean of the values: where keys come
    from a cache, and of float64, which it has in float32.

    Args:
        b: The builder.
        shown: The mask.
        q: What has keys, in the type in which scores are computed.
        finite: Whether the lowest finite number takes the place of -infinity.
    """
    lowest = -_LARGEST if finite or q.dtype == ir.DataType.DOUBLE else -math.inf
    return b.op("Where", shown, scalar(b, 0, q), scalar(b, lowest, q))


def _is_finite(mask: ir.Value, most: float) -> bool:
    """Tells whether a mask is known to be computed from constants whose magnitudes do not exceed a bound."""
    node = mask.producer()
    if mask.const_value is not None:
        return bool((abs(mask.const_value.numpy().astype(np.float64)) <= most).all())
    if node is None or node.domain:
        return False
    data = node.inputs[1:] if node.op_type == "Where" else node.inputs[:1] if node.op_type in _MOVES else ()
    return bool(data) and all(each is not None and _is_finite(each, most) for each in data)


def _without_keys(b: Builder, mask: ir.Value, result: ir.Value) -> ir.Value:
    """Emits zeros for queries whose keys are all masked, as OpenVINO's CPU plugin does with a KV cache."""

    def formula(rows: ir.Value, attended: ir.Value) -> ir.Value:
        best = b.op("ReduceMax", rows, b.constant([-1]), keepdims=1)
        none = b.op("Equal", best, scalar(b, -math.inf, rows))
        return b.op("Where", none, scalar(b, 0, attended), attended)

    return compute(b, formula, mask, result, op_types=("Equal", "ReduceMax", "Where"))


def _causal(b: Builder, q: ir.Value, k: ir.Value) -> ir.Value:
    """Emits the causal mask: -infinity for each key after its query."""
    steps = [b.op("Shape", operand, start=-2, end=-1) for operand in (q, k)]
    size = b.op("Concat", *steps, axis=0)
    minus = b.op("Expand", scalar(b, -math.inf, q), size)
    return b.op("Trilu", minus, b.constant(1), upper=1)
