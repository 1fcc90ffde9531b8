"""Element types of oneDNN ops: checks, and computing in a type for which ONNX Runtime has kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

from ortconv.converters.onednn_graph.reader.tensors import ELEMENTS
from ortconv.errors import UnsupportedTypeError
from ortconv.graph.builder import Builder

__all__ = ["FLOATS", "check_type", "computed", "dtype_name", "one_type"]

FLOATS = ("f32", "bf16", "f16")
"""Types that the specification of most ops lists."""

_NAMES = {dtype: name for name, dtype in ELEMENTS.items()}
_NATIVE = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.INT32)
"""Types in which ONNX Runtime's CPU provider runs elementwise ops; it has almost nothing for bfloat16."""


def dtype_name(dtype: ir.DataType | None) -> str:
    """Returns an element type by oneDNN's name."""
    return "undef" if dtype is None else _NAMES.get(dtype, str(dtype))


def check_type(argument: str, dtype: ir.DataType | None, allowed: Sequence[str] = FLOATS) -> None:
    """Checks the type of an input or output.

    Raises:
        UnsupportedTypeError: The type is not in `allowed`.
    """
    if dtype_name(dtype) not in allowed:
        raise UnsupportedTypeError(argument, dtype_name(dtype), allowed)


def one_type(b: Builder, allowed: Sequence[str] = FLOATS, /, **inputs: ir.Value | None) -> ir.DataType:
    """Checks that the inputs and the first output have the same type.

    Args:
        b: The builder.
        allowed: The types that the specification of the op lists.
        **inputs: By argument name; None where absent.

    Returns:
        The type.

    Raises:
        UnsupportedTypeError: A type is not allowed, or differs from that of the first input.
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
    """Computes in a type for which ONNX Runtime has kernels, and rounds to the declared type once.

    This is the type of the tensors if all are equal, else float32, which represents every bf16 and f16 value.

    Args:
        b: The builder.
        inputs: Arguments of `function`.
        function: Emits nodes on values of one type; returns the result.
        exact: Whether `function` emits a single node; several round in between and are computed in float32.
    """
    result = b.node.outputs[0].dtype
    types = {value.dtype for value in inputs} | {result}
    if len(types) == 1 and result in _NATIVE[: 3 if exact else 1]:
        return function(*inputs)
    return b.cast(function(*(b.cast(value, ir.DataType.FLOAT) for value in inputs)), result)
