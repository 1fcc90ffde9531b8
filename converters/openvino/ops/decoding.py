"""Ops that turn scores or beams into sequences: CTCGreedyDecoder, CTCGreedyDecoderSeqLen, GatherTree."""

from __future__ import annotations

from typing import Literal

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.compute_types import dtype_of
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.graph.builder import Builder

__all__ = ["packed"]

_BOOL, _F32, _I32, _I64 = ir.DataType.BOOL, ir.DataType.FLOAT, ir.DataType.INT32, ir.DataType.INT64

IndexType = Literal["i64", "i32"]


@REGISTRY.lowering("CTCGreedyDecoder", since=1)
def ctc_greedy_decoder(
    b: Builder, data: ir.Value, sequence_mask: ir.Value, /, *, ctc_merge_repeated: bool = True
) -> ir.Value:
    """ArgMax, and ScatterND of the classes that are kept."""
    best = b.typed(b.op("Transpose", _best(b, data), perm=[1, 0]), _I64, None)
    blank = b.op("Sub", b.op("Shape", data, start=2, end=3), b.constant([1]))
    # A sequence ends where its mask is zero for the first time.
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
    if blank_index is None:
        blank = b.op("Sub", b.op("Shape", data, start=2, end=3), b.constant([1]))
    else:
        blank = b.op("Reshape", b.cast(blank_index, _I64), b.constant([1]))
    steps = b.op("Squeeze", b.op("Shape", data, start=1, end=2), b.constant([0]))
    lengths = b.op("Unsqueeze", b.cast(sequence_length, _I64), b.constant([1]))
    running = b.op("Less", b.op("Range", b.constant(0), steps, b.constant(1)), lengths)
    kept = _kept(b, best, blank, running, merge_repeated)
    decoded = packed(b, best, kept)
    count = b.typed(b.op("ReduceSum", b.op("Cast", kept, to=int(_I64)), b.constant([1]), keepdims=0), _I64, None)
    types = {"i64": _I64, "i32": _I32}
    return b.cast(decoded, types[classes_index_type]), b.cast(count, types[sequence_length_type])


def _best(b: Builder, data: ir.Value) -> ir.Value:
    """Returns the class of the highest score of each step."""
    scores = b.cast(data, _F32) if dtype_of(data).bitwidth == 16 else data
    return b.typed(b.op("ArgMax", scores, axis=2, keepdims=0), _I64, None)


def _kept(b: Builder, best: ir.Value, blank: ir.Value, running: ir.Value, merge: bool) -> ir.Value:
    """Tells which classes, [batch, step], are neither blank nor, where repeats are merged, that of the step before."""
    kept = b.op("And", running, b.op("Not", b.op("Equal", best, blank)))
    if merge:
        before = b.op("Pad", best, b.constant([0, 1, 0, -1]), b.constant(-1))
        kept = b.op("And", kept, b.op("Not", b.op("Equal", best, before)))
    return b.typed(kept, _BOOL, None)


def packed(b: Builder, classes: ir.Value, kept: ir.Value) -> ir.Value:
    """Moves what is kept of int64 values, [row, column], to the front of each row; the rest becomes -1."""
    along = b.constant(1)
    place = b.op("CumSum", b.op("Cast", kept, to=int(_I64)), along)
    width = b.op("Shape", classes, start=1, end=2)
    # What is not kept goes to a column of its own, which is cut off.
    column = b.op("Where", kept, b.op("Sub", place, b.constant(1)), width)
    wide = b.op("Expand", b.constant(-1), b.op("Add", b.op("Shape", classes), b.constant([0, 1])))
    scattered = b.op("ScatterElements", wide, column, classes, axis=1)
    return b.typed(b.op("Slice", scattered, b.constant([0]), width, b.constant([1])), _I64, None)


@REGISTRY.lowering("GatherTree", since=1)
def gather_tree(
    b: Builder, step_ids: ir.Value, parent_idx: ir.Value, max_seq_len: ir.Value, end_token: ir.Value, /
) -> ir.Value:
    """Loop from the last step to the first, following the parents."""
    ids, parents = step_ids, b.cast(parent_idx, _I64)
    end = b.op("Reshape", end_token, b.constant([]))
    steps = b.op("Squeeze", b.op("Shape", ids, start=0, end=1), b.constant([0]))
    lengths = b.op("Unsqueeze", b.cast(max_seq_len, _I64), b.constant([1]))
    beams = b.op("Squeeze", b.op("Shape", ids, start=2, end=3), b.constant([0]))
    first = b.op("Expand", b.op("Range", b.constant(0), beams, b.constant(1)), b.op("Shape", ids, start=1))
    with b.body() as body:
        iteration = body.input("iteration", _I64, ())
        body.input("condition", _BOOL, ())
        beam = body.input("beam", _I64, [None, None])
        step = b.op("Sub", b.op("Sub", steps, iteration), b.constant(1))
        running = b.op("Less", step, lengths)
        chosen, parent = (
            b.op("GatherElements", b.op("Gather", values, step, axis=0), beam, axis=1) for values in (ids, parents)
        )
        graph = body.graph(
            [b.constant(True), b.op("Where", running, parent, beam), b.op("Where", running, chosen, end)]
        )
    _, backwards = b.op("Loop", steps, b.constant(True), first, outputs=2, body=graph)
    tokens = b.op("Slice", backwards, b.constant([-1]), b.constant([-(2**63)]), b.constant([0]), b.constant([-1]))
    ended = b.op("Cast", b.op("Equal", tokens, end), to=int(_I64))
    over = b.op("Greater", b.op("CumSum", ended, b.constant(0), exclusive=1), b.constant(0))
    return b.op("Where", over, end, tokens)
