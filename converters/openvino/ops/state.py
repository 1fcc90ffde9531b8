"""State: ReadValue and Assign. The reader has made inputs and outputs of the model of what they read and write."""

from __future__ import annotations

import onnx_ir as ir

from ortconv.builder import Builder
from ortconv.converters.openvino.registry import REGISTRY


@REGISTRY.lowering("ReadValue", since=3, how="exact")
def read_value_3(b: Builder, state: ir.Value, /, *, variable_id: str) -> ir.Value:
    """An input of the model, named as the variable; what computes the first value is left out."""
    return _read(b, state, variable_id)


@REGISTRY.lowering("ReadValue", since=6, how="exact")
def read_value(
    b: Builder, state: ir.Value, /, *, variable_id: str, variable_type: str = "", variable_shape: str = ""
) -> ir.Value:
    """An input of the model, named as the variable; what computes the first value is left out."""
    return _read(b, state, variable_id)


@REGISTRY.lowering("Assign", since=3, how="exact")
@REGISTRY.lowering("Assign", since=6, how="exact")
def assign(b: Builder, value: ir.Value, /, *, variable_id: str) -> ir.Value:
    """An output of the model, named as the variable with .next appended."""
    b.note(f"the new value of variable {variable_id!r} is an output")
    return value


def _read(b: Builder, state: ir.Value, variable_id: str) -> ir.Value:
    b.note(f"variable {variable_id!r} is the input {state.name!r}")
    return state
