"""Multinomial."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.compute_types import FLOATS, require
from ortconv.converters.openvino.lib.constants import int64_vector
from ortconv.converters.openvino.lib.index_type import INDEX_TYPES, IndexType
from ortconv.converters.openvino.lib.loops import iteration
from ortconv.converters.openvino.lib.seeds import warn_of_unseeded
from ortconv.converters.openvino.lib.sizes import joined, reshaped, size_of
from ortconv.converters.openvino.parity.random_generators import (
    drawn_seed,
    mersenne_twister,
    philox,
    seed_sequence,
)
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.graph.builder import Builder

_BOOL, _F32, _F64 = ir.DataType.BOOL, ir.DataType.FLOAT, ir.DataType.DOUBLE
_I64 = ir.DataType.INT64


@REGISTRY.lowering("Multinomial", since=13)
def multinomial(
    b: Builder,
    probs: ir.Value,
    num_samples: ir.Value,
    /,
    *,
    convert_type: IndexType,
    with_replacement: bool = False,
    log_probs: bool = False,
    global_seed: int = 0,
    op_seed: int = 0,
) -> ir.Value:
    """The random generator in integer ops in a Loop; samples are compared with cumulative probabilities."""
    require(probs, "probs", FLOATS)
    if probs.dtype == _F64:
        b.follow("f64: computed in f32, as in OpenVINO's CPU plugin")
    each = int64_vector(b, num_samples)
    batches = size_of(b, probs, 0)
    count = b.op("Mul", joined(b, [batches]), each)
    if global_seed or op_seed:
        bits = mersenne_twister(b, seed_sequence([global_seed, op_seed]), count)
    else:
        warn_of_unseeded(b)
        bits = philox(b, drawn_seed(b), 0, count)
    numbers = b.op("Mul", b.op("Cast", bits, to=int(_F32)), b.constant(2.0**-32, np.float32))
    samples = reshaped(b, b.typed(numbers, _F32, [None]), [batches, each])
    single = b.cast(probs, _F32)
    if log_probs:
        # Computed in float64 and rounded, which equals the plugin's result.
        single = b.op("Cast", b.op("Exp", b.op("Cast", single, to=int(_F64))), to=int(_F32))
    sums = b.op("CumSum", single, b.constant(1))
    total = b.op("Slice", sums, b.constant([-1]), b.constant([np.iinfo(np.int64).max]), b.constant([1]))
    least = b.constant(np.finfo(np.float32).tiny)
    spread = b.typed(b.op("Div", sums, b.op("Max", total, least)), _F32, [None, None])
    chosen = (_with_replacement if with_replacement else _without_replacement)(b, samples, spread, each)
    return b.cast(b.typed(chosen, _I64, [None, None]), INDEX_TYPES[convert_type])


def _with_replacement(b: Builder, samples: ir.Value, spread: ir.Value, each: ir.Value) -> ir.Value:
    """Emits the number of cumulative probabilities below each sample."""
    below = b.op("Less", b.op("Unsqueeze", spread, b.constant([1])), b.op("Unsqueeze", samples, b.constant([2])))
    return b.op("ReduceSum", b.op("Cast", below, to=int(_I64)), b.constant([2]), keepdims=0)


def _without_replacement(b: Builder, samples: ir.Value, spread: ir.Value, each: ir.Value) -> ir.Value:
    """Emits a Loop that draws one class per batch and subtracts its probability from the cumulative ones."""
    one, second = b.constant(1, np.float32), b.constant([1])
    classes = b.op("Range", b.constant(0), b.op("Squeeze", b.op("Shape", spread, start=1)), b.constant(1))
    with b.body() as body:
        step = iteration(body, "sample")
        sums = body.input("sums", _F32, [None, None])
        own = b.op("Gather", samples, b.op("Unsqueeze", step, b.constant([0])), axis=1)
        reached = b.op("Cast", b.op("LessOrEqual", own, sums), to=int(_F32))
        class_ = b.op("ArgMax", reached, axis=1, keepdims=1)
        found = b.op("Cast", b.op("ReduceMax", reached, second, keepdims=1), to=int(_BOOL))
        before = b.op("GatherElements", sums, b.op("Max", b.op("Sub", class_, second), b.constant(0)), axis=1)
        lowest = b.op("Where", b.op("Equal", class_, b.constant(0)), b.constant(0, np.float32), before)
        part = b.op("Sub", b.op("GatherElements", sums, class_, axis=1), lowest)
        later = b.op("GreaterOrEqual", classes, class_)
        lowered = b.op("Div", b.op("Where", later, b.op("Sub", sums, part), sums), b.op("Sub", one, part))
        graph = body.graph([b.constant(True), b.op("Where", found, lowered, sums), b.op("Squeeze", class_, second)])
    _, chosen = b.op("Loop", b.op("Squeeze", each), b.constant(True), spread, outputs=2, body=graph)
    return b.op("Transpose", b.typed(chosen, _I64, [None, None]), perm=[1, 0])
