"""CTCLoss."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.compute_types import FLOATS, chained, compute, dtype_of, require
from ortconv.converters.openvino.lib.defaults import warn_of_default
from ortconv.converters.openvino.lib.loops import iteration
from ortconv.converters.openvino.lib.row_packing import blank_of, packed, without_repeats
from ortconv.converters.openvino.lib.sizes import numbers_below
from ortconv.converters.openvino.plugin_bugs.selection import EMPTY_LABELS_COLLAPSED
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.graph.builder import Builder

_BOOL, _I64 = ir.DataType.BOOL, ir.DataType.INT64


@REGISTRY.lowering("CTCLoss", since=4)
def ctc_loss(
    b: Builder,
    logits: ir.Value,
    logit_length: ir.Value,
    labels: ir.Value,
    label_length: ir.Value,
    blank_index: ir.Value | None = None,
    /,
    *,
    preprocess_collapse_repeated: bool = False,
    ctc_merge_repeated: bool = True,
    unique: bool = False,
) -> ir.Value:
    """Loop over the steps that sums, as logarithms, the probabilities of all alignments of the labels."""
    require(logits, "logits", FLOATS)
    warn_of_default(b, "ctc_merge_repeated", True, "takes false")
    blank = blank_of(b, logits, blank_index)
    if preprocess_collapse_repeated and not unique:
        EMPTY_LABELS_COLLAPSED.warn(b)
    symbols, count = _symbols(b, labels, label_length, unique, preprocess_collapse_repeated)
    states = _states(b, symbols, blank)

    def emit(x: ir.Value) -> ir.Value:
        return _loss(b, x, b.cast(logit_length, _I64), states, count, blank, ctc_merge_repeated)

    return compute(b, emit, logits, op_types=("Exp", "Log", "LogSoftmax"))


def _symbols(
    b: Builder, labels: ir.Value, label_length: ir.Value, unique: bool, collapse: bool
) -> tuple[ir.Value, ir.Value]:
    """Returns the labels after preprocessing, packed to the front, [batch, place], and their count, [batch, 1]."""
    given = b.cast(labels, _I64)
    lengths = b.op("Unsqueeze", b.cast(label_length, _I64), b.constant([1]))
    places = numbers_below(b, b.op("Shape", given, start=1, end=2))
    kept = b.op("Less", places, lengths)
    if unique:
        same = b.op("Equal", b.op("Unsqueeze", given, b.constant([2])), b.op("Unsqueeze", given, b.constant([1])))
        earlier = b.op("Less", places, b.op("Unsqueeze", places, b.constant([1])))
        repeats = b.op("ReduceMax", b.op("Cast", b.op("And", same, earlier), to=int(_I64)), b.constant([2]), keepdims=0)
        kept = b.op("And", kept, b.op("Equal", repeats, b.constant(0)))
    elif collapse:
        kept = without_repeats(b, given, kept)
    count = b.op("ReduceSum", b.op("Cast", kept, to=int(_I64)), b.constant([1]), keepdims=1)
    return packed(b, given, b.typed(kept, _BOOL, None)), count


def _states(b: Builder, symbols: ir.Value, blank: ir.Value) -> ir.Value:
    """Returns the symbols with a blank before each and one at the end, [batch, state]."""
    symbol = b.op("Max", symbols, b.constant([0]))
    around = b.op("Expand", blank, b.op("Shape", symbols))
    pairs = b.op("Concat", *(b.op("Unsqueeze", value, b.constant([2])) for value in (around, symbol)), axis=2)
    batch = b.op("Shape", symbols, start=0, end=1)
    flat = b.op("Reshape", pairs, b.op("Concat", batch, b.constant([-1]), axis=0))
    last = b.op("Expand", blank, b.op("Concat", batch, b.constant([1]), axis=0))
    return b.op("Concat", flat, last, axis=1)


def _loss(
    b: Builder,
    x: ir.Value,
    lengths: ir.Value,
    states: ir.Value,
    count: ir.Value,
    blank: ir.Value,
    merges: bool,
) -> ir.Value:
    dtype = dtype_of(x)
    never, zero = b.constant(-np.inf, dtype.numpy()), b.constant(0, dtype.numpy())
    steps = b.op("Squeeze", b.op("Shape", x, start=1, end=2), b.constant([0]))
    shape = b.op("Concat", b.op("Shape", x, end=2), b.op("Shape", states, start=1), axis=0)
    index = b.op("Expand", b.op("Unsqueeze", states, b.constant([1])), shape)
    chances = b.op("GatherElements", b.op("LogSoftmax", x, axis=2), index, axis=2)
    is_blank = b.op("Equal", states, blank)
    two_before = b.op("Pad", states, b.constant([0, 2, 0, -2]), b.constant(-1))
    number = numbers_below(b, b.op("Shape", states, start=1))
    skips = b.op("And", b.op("Not", is_blank), b.op("Greater", number, b.constant(1)))
    if merges:
        skips = b.op("And", skips, b.op("Not", b.op("Equal", states, two_before)))
    ends = b.op("Unsqueeze", lengths, b.constant([1]))

    def total(*terms: ir.Value) -> ir.Value:
        """Returns the logarithm of the sum of probabilities, given as logarithms."""
        most = b.op("Max", *terms)
        base = b.op("Where", b.op("Equal", most, never), zero, most)
        powers = [b.op("Exp", b.op("Sub", term, base)) for term in terms]
        return b.op("Add", base, b.op("Log", chained(b, "Add", powers)))

    # Before the first step only the first two states are reachable.
    begin = b.op("Where", b.op("Equal", number, b.constant(0)), zero, never)
    begin = b.op("Expand", begin, b.op("Shape", states))
    with b.body() as body:
        step = iteration(body)
        now = body.input("ways", dtype, [None, None])
        first = b.op("Equal", step, b.constant(0))
        from_before, from_two = (b.op("Pad", now, b.constant([0, back, 0, -back]), never) for back in (1, 2))
        stay = now if merges else b.op("Where", b.op("Or", is_blank, first), now, never)
        skip = b.op("Where", b.op("And", skips, b.op("Not", first)), from_two, never)
        after = b.op("Add", total(stay, from_before, skip), b.op("Gather", chances, step, axis=1))
        graph = body.graph([b.constant(True), b.op("Where", b.op("Less", step, ends), after, now)])
    (ways,) = b.op("Loop", steps, b.constant(True), begin, outputs=1, body=graph)
    last = b.op("Mul", count, b.constant([2]))
    final = b.op("GatherElements", ways, last, axis=1)
    before = b.op("GatherElements", ways, b.op("Max", b.op("Sub", last, b.constant([1])), b.constant([0])), axis=1)
    before = b.op("Where", b.op("Greater", count, b.constant([0])), before, never)
    return b.op("Squeeze", b.op("Neg", total(final, before)), b.constant([1]))
