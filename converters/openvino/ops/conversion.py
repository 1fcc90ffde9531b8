"""Changes of element type, and Identity."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ortconv.builder import Builder
from ortconv.converters.openvino.ops.compression import retyped
from ortconv.converters.openvino.ops.types import FLOATS, INTEGERS, name, require
from ortconv.converters.openvino.precision import DTYPES
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import ConversionError, UnsupportedAttributeError

_INT4 = (ir.DataType.INT4, ir.DataType.UINT4)
_INT4_OPSET = 21
_FLOAT8 = (ir.DataType.FLOAT8E4M3FN, ir.DataType.FLOAT8E5M2)  # every number of theirs is one of float16
_CONVERTIBLE = (*FLOATS, *INTEGERS, ir.DataType.BOOL)


@REGISTRY.lowering("Convert")
def convert(b: Builder, data: ir.Value, /, *, destination_type: str) -> ir.Value:
    """Cast: floats are truncated, integers keep their low bits, everything but zero is true."""
    to = DTYPES.get(destination_type.lower())
    if to not in _CONVERTIBLE:
        raise UnsupportedAttributeError(
            "destination_type", destination_type, ", ".join(name(dtype) for dtype in _CONVERTIBLE)
        )
    return _cast(b, data, to)


@REGISTRY.lowering("ConvertLike", how="exact")
def convert_like(b: Builder, data: ir.Value, like: ir.Value, /) -> ir.Value:
    """Cast to the type of the second input."""
    require(like, "like", _CONVERTIBLE)
    assert like.dtype is not None
    return _cast(b, data, like.dtype)


@REGISTRY.lowering("ConvertPromoteTypes", since=14)
def convert_promote_types(
    b: Builder,
    left: ir.Value,
    right: ir.Value,
    /,
    *,
    promote_unsafe: bool = False,
    pytorch_scalar_promotion: bool = False,
    u64_integer_promotion_target: str = "f32",
) -> tuple[ir.Value, ...]:
    """Cast of both inputs to the type that the source declares, which follows from these attributes."""
    del promote_unsafe, pytorch_scalar_promotion, u64_integer_promotion_target
    dtype = b.node.outputs[0].dtype
    return tuple(_cast(b, value, dtype) for value in (left, right))


@REGISTRY.lowering("Identity", since=16)
def identity(b: Builder, data: ir.Value, /) -> ir.Value:
    """Identity."""
    return b.op("Identity", data)


def _cast(b: Builder, data: ir.Value, to: ir.DataType) -> ir.Value:
    require(data, "data", (*_CONVERTIBLE, *_INT4, *_FLOAT8))
    if data.dtype in _INT4 and b.options.opset < _INT4_OPSET:
        array = b.array(data)
        if array is None:
            raise ConversionError(f"{name(data.dtype)} needs opset {_INT4_OPSET}; this is {b.options.opset}.")
        data = b.constant(array.astype(np.int8))
    weights = retyped(b, data, to)
    return b.op("Cast", data, to=int(to)) if weights is None else weights
