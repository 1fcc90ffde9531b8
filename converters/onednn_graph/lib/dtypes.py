"""Element types of oneDNN graphs: what a page allows, and computing where ONNX Runtime has kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

from ortconv.converters.onednn_graph.reader.tensors import ELEMENTS
from ortconv.errors import UnsupportedTypeError
from ortconv.graph.builder import Builder

__all__ = ["FLOATS", "check_type", "computed", "dtype_name", "one_type"]

FLOATS = ("f32", "bf16", "f16")
"""What most pages list."""

_NAMES = {dtype: name for name, dtype in ELEMENTS.items()}
_NATIVE = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.INT32)
"""Types in which ONNX Runtime's CPU provider runs elementwise ops; it has almost nothing for bfloat16."""


def dtype_name(dtype: ir.DataType | None) -> str:
    """Returns an element type in oneDNN's words."""
    return "undef" if dtype is None else _NAMES.get(dtype, str(dtype))


def check_type(argument: str, dtype: ir.DataType | None, allowed: Sequence[str] = FLOATS) -> None:
    """Checks the type of an input or output.

    Raises:
        UnsupportedTypeError: It is not one of those allowed.
    """
    if dtype_name(dtype) not in allowed:
        raise UnsupportedTypeError(argument, dtype_name(dtype), allowed)


def one_type(b: Builder, allowed: Sequence[str] = FLOATS, /, **inputs: ir.Value | None) -> ir.DataType:
    """Checks that inputs and the first output have one type.

    Args:
        b: The builder.
        allowed: The types that the page lists.
        **inputs: By argument name; None where absent.

    Returns:
        That type.

    Raises:
        UnsupportedTypeError: A type is not allowed, or another than that of the first input.
    """
    present = {name: value.dtype for name, value in inputs.items() if value is not None}
    first, dtype = next(iter(present.items()))
    check_type(first, dtype, allowed)
    assert dtype is not None
    for name, other in (*present.items(), ("the output", b.node.outputs[0].dtype)):
        if other != dtype:
            raise UnsupportedTypeError(name, dtype_name(other), [dtype_name(dtype)], hint=f"{first} has that type.")
    return dtype


def computed(
    b: Builder, inputs: Sequence[ir.Value], function: Callable[..., ir.Value], *, exact: bool = True
) -> ir.Value:
    """Computes in a type that ONNX Runtime has kernels for, and rounds to the declared type once.

    That is the tensors' own type where all agree, else float32, which holds every bf16 and f16 value.

    Args:
        b: The builder.
        inputs: What `function` takes.
        function: Emits nodes on values of one type and returns the result.
        exact: Whether `function` emits a single node; several would round in between, so they go through float32.
    """
    result = b.node.outputs[0].dtype
    types = {value.dtype for value in inputs} | {result}
    if len(types) == 1 and result in _NATIVE[: 3 if exact else 1]:
        return function(*inputs)
    return b.cast(function(*(b.cast(value, ir.DataType.FLOAT) for value in inputs)), result)
