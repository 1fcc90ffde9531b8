"""The element types in which convolutions are computed.

The specifications allow any numeric type; OpenVINO's CPU plugin computes in float, and ``--semantics`` chooses.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.compute_types import FLOATS, INTEGERS, dtype_of, name, require
from ortconv.errors import UnsupportedTypeError
from ortconv.graph.builder import Builder

__all__ = ["in_source_types"]

_SATURATING = {ir.DataType.INT8: (-128, 127), ir.DataType.UINT8: (0, 255)}
_INT32_IN_FLOAT = (-(2**31), 2**31 - 128)
"""The range of int32 in floats: the upper bound is the largest float below 2**31."""


def in_source_types(
    b: Builder, data: ir.Value, filter: ir.Value, emit: Callable[[ir.Value, ir.Value], ir.Value]
) -> ir.Value:
    """Computes in the tensors' own type, or under runtime semantics as the CPU plugin does.

    Args:
        b: The builder.
        data: The data.
        filter: The weights.
        emit: Emits the convolution of both, whatever their type.

    Raises:
        UnsupportedTypeError: The types are not numeric, or not one.
    """
    for label, value in (("data", data), ("filter", filter)):
        require(value, label, (*FLOATS, *INTEGERS))
    dtype = dtype_of(data)
    require(filter, "filter", [dtype], hint="Both types must agree.")
    declared = b.node.outputs[0]
    if declared.dtype != dtype:
        raise UnsupportedTypeError(declared.name, name(declared.dtype), [name(dtype)], hint="The data has that type.")
    if dtype in FLOATS and dtype != ir.DataType.DOUBLE:
        return emit(data, filter)
    how = "saturates" if dtype in _SATURATING else "loses low bits, and saturates in 32 bits"
    page = "double" if dtype == ir.DataType.DOUBLE else "integers, which wrap"
    library = "float" if dtype == ir.DataType.DOUBLE else f"float, which {how}"
    b.follow_semantics(
        f"type {name(dtype)} is computed in {page} by the specification (any numeric type) and in {library} in "
        f"OpenVINO's CPU plugin; both pad alike unless another warning says otherwise; "
        f"--semantics {b.options.semantics} is in force."
    )
    return _in_float(b, data, filter, emit) if b.options.semantics == "runtime" else emit(data, filter)


def _in_float(b: Builder, data: ir.Value, filter: ir.Value, emit: Callable[[ir.Value, ir.Value], ir.Value]) -> ir.Value:
    """Computes in float as the CPU plugin does.

    int8 and uint8 saturate. The other integers go through int32 on both sides: their low 32 bits enter, the result
    saturates to int32 (to the largest float below 2**31) before its low bits leave. Doubles are clamped to float.
    """
    dtype = dtype_of(data)
    if dtype == ir.DataType.DOUBLE:
        limit = float(np.finfo(np.float32).max)
        low, high = (b.constant(np.array(bound, np.float64)) for bound in (-limit, limit))
        operands = [b.typed(b.op("Clip", value, low, high), dtype, value.shape) for value in (data, filter)]
    elif dtype in _SATURATING:
        operands = [data, filter]
    else:
        operands = [b.cast(value, ir.DataType.INT32) for value in (data, filter)]
    y = emit(*(b.cast(value, ir.DataType.FLOAT) for value in operands))
    if dtype == ir.DataType.DOUBLE:
        return b.cast(y, dtype)
    bounds = _SATURATING.get(dtype, _INT32_IN_FLOAT)
    low, high = (b.constant(np.array(bound, np.float32)) for bound in bounds)
    clipped = b.typed(b.op("Clip", y, low, high), ir.DataType.FLOAT, y.shape)
    if dtype in _SATURATING:
        return b.cast(clipped, dtype)
    return b.cast(b.cast(clipped, ir.DataType.INT32), dtype)
