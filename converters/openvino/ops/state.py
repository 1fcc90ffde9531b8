"""Variables: ReadValue and Assign. The reader has turned variables into inputs and outputs of the model."""

from __future__ import annotations

import onnx_ir as ir

from ortconv.converters.openvino.plugin_bugs.states import STATE_OF_64_BITS
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.graph.annotations import IS_STATE, SINK_INTO_BRANCHES
from ortconv.graph.builder import Builder

_WIDE = frozenset({ir.DataType.DOUBLE, ir.DataType.INT64, ir.DataType.UINT64})
"""64-bit types, which the CPU plugin computes in 32 bits but stores in 64 in its states."""


@REGISTRY.lowering("ReadValue", since=3, how="exact", without=["variable_type", "variable_shape"])
@REGISTRY.lowering("ReadValue", since=6, how="exact")
def read_value(
    b: Builder,
    state: ir.Value,
    first: ir.Value | None = None,
    /,
    *,
    variable_id: str,
    variable_type: str = "",
    variable_shape: str = "",
) -> ir.Value:
    """An input of the model, named as the variable; if that input is empty, the initial value."""
    if state.dtype in _WIDE:
        STATE_OF_64_BITS.warn(b)
    b.note(f"variable {variable_id!r} is the input {state.name!r}")
    IS_STATE.set(state, True)
    if first is None:
        return state
    b.note(f"an empty input {state.name!r} selects the initial value")
    with b.body() as begin:
        then_branch = begin.graph([first])
    with b.body() as go_on:
        else_branch = go_on.graph([state])
    count = b.op("ReduceProd", b.op("Shape", state), keepdims=0)  # ONNX Runtime has no Size of bfloat16
    is_empty = b.op("Equal", count, b.constant(0))
    value = b.op("If", is_empty, then_branch=then_branch, else_branch=else_branch)
    IS_STATE.set(value, True)
    node = value.producer()
    assert node is not None
    SINK_INTO_BRANCHES.set(node, True)
    return b.typed(value, state.dtype, state.shape)


@REGISTRY.lowering("Assign", since=3, how="exact")
@REGISTRY.lowering("Assign", since=6, how="exact")
def assign(b: Builder, value: ir.Value, /, *, variable_id: str) -> ir.Value:
    """An output of the model, named as the variable with .next appended."""
    b.note(f"the new value of variable {variable_id!r} is an output")
    return value
