"""GatherTree."""

from __future__ import annotations

import onnx_ir as ir

from ortconv.converters.openvino.lib.loops import iteration
from ortconv.converters.openvino.lib.sizes import numbers_below
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.graph.builder import Builder

_I64 = ir.DataType.INT64


@REGISTRY.lowering("GatherTree", since=1)
def gather_tree(
    b: Builder, step_ids: ir.Value, parent_idx: ir.Value, max_seq_len: ir.Value, end_token: ir.Value, /
) -> ir.Value:
    """Loop from the last step to the first along the parent indices."""
    ids, parents = step_ids, b.cast(parent_idx, _I64)
    end = b.op("Reshape", end_token, b.constant([]))
    steps = b.op("Squeeze", b.op("Shape", ids, start=0, end=1), b.constant([0]))
    lengths = b.op("Unsqueeze", b.cast(max_seq_len, _I64), b.constant([1]))
    beams = numbers_below(b, b.op("Shape", ids, start=2, end=3))
    first = b.op("Expand", beams, b.op("Shape", ids, start=1))
    with b.body() as body:
        number = iteration(body, "iteration")
        beam = body.input("beam", _I64, [None, None])
        step = b.op("Sub", b.op("Sub", steps, number), b.constant(1))
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
    # A Loop without iterations forgets the sizes of what it stacks.
    return b.op("Reshape", b.op("Where", over, end, tokens), b.op("Shape", step_ids), allowzero=1)
