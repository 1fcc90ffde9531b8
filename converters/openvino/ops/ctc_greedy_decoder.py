"""CTCGreedyDecoder and CTCGreedyDecoderSeqLen."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.compute_types import dtype_of
from ortconv.converters.openvino.lib.index_type import INDEX_TYPES, IndexType
from ortconv.converters.openvino.lib.row_packing import blank_of, packed, without_repeats
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.graph.builder import Builder

_BOOL, _F32, _I64 = ir.DataType.BOOL, ir.DataType.FLOAT, ir.DataType.INT64


@REGISTRY.lowering("CTCGreedyDecoder", since=1)
def ctc_greedy_decoder(
    b: Builder, data: ir.Value, sequence_mask: ir.Value, /, *, ctc_merge_repeated: bool = True
) -> ir.Value:
    """ArgMax, and ScatterND of the classes that are kept."""
    best = b.typed(b.op("Transpose", _best(b, data), perm=[1, 0]), _I64, None)
    blank = blank_of(b, data, None)
    # A sequence ends at the first zero of its mask.
    ended = b.op("Cast", b.op("Equal", b.cast(sequence_mask, _F32), b.constant(0, np.float32)), to=int(_I64))
    running = b.op("Equal", b.op("CumSum", ended, b.constant(0)), b.constant(0))
    kept = _kept(b, best, blank, b.op("Transpose", running, perm=[1, 0]), ctc_merge_repeated)
    decoded = b.cast(packed(b, best, kept), dtype_of(data))
    return b.op("Unsqueeze", decoded, b.constant([2, 3]))


@REGISTRY.lowering("CTCGreedyDecoderSeqLen", since=6)
def ctc_greedy_decoder_seq_len(
    b: Builder,
    data: ir.Value,
    sequence_length: ir.Value,
    blank_index: ir.Value | None = None,
    /,
    *,
    merge_repeated: bool = True,
    classes_index_type: IndexType = "i32",
    sequence_length_type: IndexType = "i32",
) -> tuple[ir.Value, ...]:
    """ArgMax, and ScatterND of the classes that are kept."""
    best = _best(b, data)
    blank = blank_of(b, data, blank_index)
    steps = b.op("Squeeze", b.op("Shape", data, start=1, end=2), b.constant([0]))
    lengths = b.op("Unsqueeze", b.cast(sequence_length, _I64), b.constant([1]))
    running = b.op("Less", b.op("Range", b.constant(0), steps, b.constant(1)), lengths)
    kept = _kept(b, best, blank, running, merge_repeated)
    decoded = packed(b, best, kept)
    count = b.typed(b.op("ReduceSum", b.op("Cast", kept, to=int(_I64)), b.constant([1]), keepdims=0), _I64, None)
    return b.cast(decoded, INDEX_TYPES[classes_index_type]), b.cast(count, INDEX_TYPES[sequence_length_type])


def _best(b: Builder, data: ir.Value) -> ir.Value:
    """Returns the class of the highest score of each step."""
    scores = b.cast(data, _F32) if dtype_of(data).bitwidth == 16 else data
    return b.typed(b.op("ArgMax", scores, axis=2, keepdims=0), _I64, None)


def _kept(b: Builder, best: ir.Value, blank: ir.Value, running: ir.Value, merge: bool) -> ir.Value:
    """Tells which classes, [batch, step], are neither blank nor, where repeats are merged, that of the step before."""
    kept = b.op("And", running, b.op("Not", b.op("Equal", best, blank)))
    return b.typed(without_repeats(b, best, kept) if merge else kept, _BOOL, None)
