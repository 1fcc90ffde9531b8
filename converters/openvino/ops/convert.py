"""Changes of element type, and Identity."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.compute_types import (
    FLOATS,
    INTEGERS,
    compute,
    dtype_of,
    is_static,
    name,
    require,
    scalar,
)
from ortconv.converters.openvino.lib.element_types import CODES, DTYPES
from ortconv.converters.openvino.plugin_bugs.elementwise import BFLOAT16_TRUNCATED, CONVERT_TO_SAME_TYPE
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.converters.openvino.weights.dequantization import to_float32
from ortconv.errors import ConversionError, UnsupportedAttributeError
from ortconv.graph.annotations import CODEBOOK, SOURCE_HAS_4_BITS
from ortconv.graph.builder import Builder

_BOOL, _I8, _I32, _U8 = ir.DataType.BOOL, ir.DataType.INT8, ir.DataType.INT32, ir.DataType.UINT8
_F16, _F32, _F64 = ir.DataType.FLOAT16, ir.DataType.FLOAT, ir.DataType.DOUBLE
_INT4 = (ir.DataType.INT4, ir.DataType.UINT4)
_INT4_OPSET = 21
_FLOAT8 = {ir.DataType.FLOAT8E4M3FN: ("Greater", 464.125), ir.DataType.FLOAT8E5M2: ("GreaterOrEqual", 61424)}
"""8-bit floats, all of whose values float16 represents, and the result of overflow when cast from float16."""
_MOVES = frozenset({"Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"})
_CONVERTIBLE = (*FLOATS, *INTEGERS, _BOOL, *_INT4, *_FLOAT8)
_KEPT = (_F32, ir.DataType.BFLOAT16, _I32, _I8, _U8)
"""Types that OpenVINO's CPU plugin accepts as inputs and outputs without conversion."""


@REGISTRY.lowering("Convert")
def convert(b: Builder, data: ir.Value, /, *, destination_type: str) -> ir.Value:
    """Cast: floats are truncated, integers keep their low bits, everything but zero is true.

    In dynamic sizes, what lies outside of 8 bits becomes the nearest bound.
    """
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
    return _cast(b, data, dtype_of(like))


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
    """Cast of both inputs to the declared type, which results from these attributes."""
    del promote_unsafe, pytorch_scalar_promotion, u64_integer_promotion_target
    dtype = b.node.outputs[0].dtype
    return tuple(_cast(b, value, dtype) for value in (left, right))


@REGISTRY.lowering("Identity", since=16)
def identity(b: Builder, data: ir.Value, /) -> ir.Value:
    """Identity."""
    return b.op("Identity", data)


def _cast(b: Builder, data: ir.Value, to: ir.DataType) -> ir.Value:
    require(data, "data", _CONVERTIBLE)
    code = None if data.const_value is None else CODEBOOK.get(data.const_value)
    if code is not None:
        numbers = _looked_up(b, data, CODES[code].numbers)
        return numbers if to == _F32 else _from(b, numbers, to)
    own = dtype_of(data)
    for dtype in (own, to):
        if dtype in _INT4 and b.options.opset < _INT4_OPSET and not (dtype == own and b.array(data) is not None):
            raise ConversionError(f"{name(dtype)} needs opset {_INT4_OPSET}; this is {b.options.opset}.")
    if own == to:
        given = data.producer() is None and data.const_value is None
        if given and own in _KEPT and not is_static(data) and b.node.outputs[0] in b.returned:
            CONVERT_TO_SAME_TYPE.warn(b)
        return b.op("Cast", data, to=int(to))
    if own in _INT4 and b.options.opset < _INT4_OPSET:
        array = b.array(data)
        assert array is not None
        tensor = ir.Tensor(array.astype(np.int8))
        SOURCE_HAS_4_BITS.set(tensor, True)
        data, own = b.constant(tensor), _I8
    if own == _F16 and to in (_F32, _F64) and _is_narrowed(data):
        b.warn(
            "follows the specification of Convert-1; OpenVINO's CPU plugin does not round to f16 what becomes f32 again"
        )
    if to == ir.DataType.BFLOAT16 and own not in (_BOOL, _I8, _U8, *_INT4, *_FLOAT8):
        _warn_of_cut_digits(b, data)
    if own == _F64:
        return _from_double(b, data, to)
    return _from(b, data, to)


def _warn_of_cut_digits(b: Builder, data: ir.Value) -> None:
    """Warns of casts to bf16 in OpenVINO's generic code."""
    array = b.array(data)
    if array is not None:
        narrow = array.astype(np.float32).astype(ir.DataType.BFLOAT16.numpy())
        is_cut = not np.array_equal(narrow.astype(np.float64), array.astype(np.float64), equal_nan=True)
    else:
        is_cut = data.dtype not in (_F32, _F16) or not is_static(data)
    if is_cut:
        BFLOAT16_TRUNCATED.warn(b)


def _is_narrowed(data: ir.Value) -> bool:
    """Tells whether data is cast from f32 or f64, looking through ops that only move elements."""
    node = data.producer()
    while node is not None and node.inputs[0] is not None:
        if node.op_type == "Cast":
            return node.inputs[0].dtype in (_F32, _F64)
        node = node.inputs[0].producer() if node.op_type in _MOVES else None
    return False


def _looked_up(b: Builder, codes: ir.Value, numbers: Sequence[float]) -> ir.Value:
    """Emits a Gather from a table of values, so that quantized constants stay small in the file."""
    if codes.dtype in _INT4 and b.options.opset < _INT4_OPSET:
        raise ConversionError(f"constants of 4 bits need opset {_INT4_OPSET}; this is {b.options.opset}.")
    table = np.array(numbers, np.float32)
    places = b.cast(codes, _I32)
    return b.typed(b.op("Gather", b.constant(table), places, axis=0), _F32, codes.shape)


def _from(b: Builder, data: ir.Value, to: ir.DataType) -> ir.Value:
    weights = to_float32(b, data, to)
    if weights is not None:
        return weights
    own = dtype_of(data)
    if to in _FLOAT8:
        return _to_float8(b, data, to)
    if to == _F64 and own in FLOATS and b.node.outputs[0] in b.returned:
        b.follow("follows OpenVINO's CPU plugin: infinities in outputs become the largest f32")
        return _within_single(b, b.cast(data, _F64))
    if to == _BOOL and own in FLOATS:  # a NaN is false for OpenVINO
        return compute(
            b,
            lambda x: b.op("Greater", b.typed(b.op("Abs", x), x.dtype, None), scalar(b, 0, x)),
            data,
            op_types=("Abs", "Greater"),
            result=_BOOL,
        )
    if to in (_I8, _U8) and own in FLOATS and b.array(data) is None and not is_static(data):
        b.follow("follows OpenVINO's CPU plugin: floats saturate to 8 bits in dynamic shapes")
        info = np.iinfo(to.numpy())
        single = b.cast(data, _F32)
        data = b.op("Clip", single, b.constant(info.min, np.float32), b.constant(info.max, np.float32))
    if to in _INT4 and own not in INTEGERS and own != _BOOL:  # ONNX Runtime rounds and saturates
        data = b.cast(data, _I32)
    return b.op("Cast", data, to=int(to))


def _from_double(b: Builder, data: ir.Value, to: ir.DataType) -> ir.Value:
    """Casts f64, which OpenVINO's CPU plugin clamps in model inputs; elsewhere it computes in f32."""
    if data.producer() is not None or data.const_value is not None:
        return _from(b, data, to)
    if to in FLOATS or to == _BOOL or to in _FLOAT8:
        b.follow("follows OpenVINO's CPU plugin: infinities become the largest f32")
        return _from(b, b.cast(_within_single(b, data), _F32), to)
    if to.bitwidth > 32 or to == ir.DataType.UINT32:
        return _from(b, data, to)
    b.follow("follows OpenVINO's CPU plugin: f64 saturates to 8 bits, or to 32 for wider integers")
    holder = {4: _I8 if to == ir.DataType.INT4 else _U8, 8: to}.get(to.bitwidth, _I32)
    info = np.iinfo(holder.numpy())
    clipped = b.op("Clip", data, b.constant(info.min, np.float64), b.constant(info.max, np.float64))
    return _from(b, b.typed(b.op("Cast", clipped, to=int(holder)), holder, None), to)


def _within_single(b: Builder, data: ir.Value) -> ir.Value:
    """Clamps f64 to the range of f32."""
    limit = float(np.finfo(np.float32).max)
    return b.typed(b.op("Clip", data, b.constant(-limit), b.constant(limit)), _F64, data.shape)


def _to_float8(b: Builder, data: ir.Value, to: ir.DataType) -> ir.Value:
    """Casts through float16, as OpenVINO does; overflow gives infinity, or NaN if the type has no infinity.

    ONNX Runtime without saturation takes some of the numbers next to the largest for that, and others for NaN. It
    computes in f32 what is computed in f16, and then leaves out the rounding before.
    """
    single = b.cast(data, _F32)
    compare, limit = _FLOAT8[to]
    outside = b.op(compare, b.typed(b.op("Abs", single), _F32, None), scalar(b, limit, single))
    factor = b.op("Where", outside, scalar(b, np.inf, single), scalar(b, 1, single))
    half = b.op("Cast", b.op("Mul", single, factor), to=int(_F16))
    return b.op("Cast", half, to=int(to), saturate=0)
