"""ScaledDotProductAttention."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from ortconv.builder import Builder
from ortconv.converters.openvino.ops.broadcasting import rank_of
from ortconv.converters.openvino.ops.state import is_cache
from ortconv.converters.openvino.ops.types import FLOATS, compute, dtype_of, require, scalar, type_for
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import ShapeError

_KERNELS = ("Add", "Mul", "MatMul", "Softmax")
_LARGEST = float(np.finfo(np.float32).max)


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
    if is_cache(key):
        b.warn(
            "the page is followed: OpenVINO's CPU plugin keeps a cache of keys and values in 8 bits, unless its "
            "property KV_CACHE_PRECISION is f32"
        )
    rank = rank_of(query, "query")
    mask = None if causal else attention_mask

    def formula(
        q: ir.Value, k: ir.Value, v: ir.Value, added: ir.Value | None, factor: ir.Value | None, extra: ir.Value | None
    ) -> ir.Value:
        width = rank_of(key, "key")
        swapped = b.op("Transpose", k, perm=[*range(width - 2), width - 1, width - 2])
        scores = b.op("MatMul", b.op("Mul", q, _factor(b, query, q, factor)), swapped)
        if causal:
            scores = b.op("Add", scores, _causal(b, q, k))
        elif added is not None:
            scores = b.op("Add", scores, added)
        if extra is None:
            return b.op("MatMul", b.op("Softmax", scores, axis=-1), v)
        column = b.op("Slice", b.op("Shape", scores), b.constant([0]), b.constant([rank - 1]))
        one_each = b.op("Concat", column, b.constant([1]), axis=0)
        weights = b.op("Softmax", b.op("Concat", scores, b.op("Expand", extra, one_each), axis=-1), axis=-1)
        kept = b.op("Slice", weights, b.constant([0]), b.constant([-1]), b.constant([-1]))
        return b.op("MatMul", kept, v)

    return compute(b, formula, query, key, value, _added(b, mask, query), _scalar(b, scale), sink, kernels=_KERNELS)


def _scalar(b: Builder, scale: ir.Value | None) -> ir.Value | None:
    """Returns a scale of any shape with one element as a scalar."""
    if scale is None or scale.shape == ():
        return scale
    return b.typed(b.op("Reshape", scale, b.constant([])), scale.dtype, ())


def _factor(b: Builder, query: ir.Value, q: ir.Value, scale: ir.Value | None) -> ir.Value:
    """Returns the scale: the input, or one over the root of the query's last size."""
    if scale is not None:
        return scale
    assert query.shape is not None
    size = query.shape[-1]
    if isinstance(size, int):
        return scalar(b, 1 / math.sqrt(size), q)
    width = b.op("Cast", b.op("Shape", q, start=-1), to=int(dtype_of(q)))
    return b.op("Reciprocal", b.op("Sqrt", width))


def _added(b: Builder, mask: ir.Value | None, query: ir.Value) -> ir.Value | None:
    """Returns what is added to the scores: the mask, or 0 where a boolean mask is true and -infinity elsewhere.

    As in OpenVINO's CPU plugin, which has float64 in float32, that keeps to the finite numbers of float32 there, so
    that a query without any key gets the mean of the values.
    """
    if mask is None:
        return None
    dtype = dtype_of(query)
    doubles = dtype == ir.DataType.DOUBLE
    if doubles:
        b.warn("OpenVINO's CPU plugin is followed: a mask of f64 has the numbers of f32, and no infinities")
    if mask.dtype != ir.DataType.BOOL:
        if not doubles:
            return mask
        ends = [b.constant(np.array(end, np.float64)) for end in (-_LARGEST, _LARGEST)]
        return b.typed(b.op("Clip", mask, *ends), dtype, mask.shape)
    inner = type_for(dtype, ["Where"])
    bounds = [b.constant(np.array(bound, inner.numpy())) for bound in (0, -_LARGEST if doubles else -math.inf)]
    return b.cast(b.typed(b.op("Where", mask, *bounds), inner, None), dtype)


def _causal(b: Builder, q: ir.Value, k: ir.Value) -> ir.Value:
    """Emits -infinity for each key behind its query."""
    steps = [b.op("Shape", operand, start=-2, end=-1) for operand in (q, k)]
    size = b.op("Concat", *steps, axis=0)
    minus = b.op("Expand", scalar(b, -math.inf, q), size)
    return b.op("Trilu", minus, b.constant(1), upper=1)
