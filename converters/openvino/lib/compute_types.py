"""Computes ops in another element type where ONNX Runtime's CPU provider has no kernel for the operands' type.

Operands are cast to a type that represents all their values, and the result is cast back to their type. If no type
that represents them has a kernel, the op is not supported. The exception is float64: it is then computed in float32,
as in OpenVINO's CPU plugin, and a warning or note says so.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.plugin_bugs.elementwise import INTEGERS_IN_FLOAT32, OVERFLOW_IN_FLOAT32
from ortconv.errors import ConversionError, UnsupportedTypeError
from ortconv.graph.builder import Builder

__all__ = [
    "FLOATS",
    "INTEGERS",
    "KERNELS",
    "SIGNED",
    "UNSIGNED",
    "apply",
    "chained",
    "compute",
    "dtype_of",
    "exponential",
    "in_8_bits",
    "in_32_bits",
    "in_one_type",
    "in_single",
    "is_static",
    "name",
    "narrowed",
    "polynomial",
    "require",
    "rounded",
    "rounded_op",
    "saturated",
    "saturates",
    "scalar",
    "single",
    "to_nearest",
    "truncated",
    "type_for",
    "warn_of_float32_integers",
]

_F16, _BF16, _F32, _F64 = ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.FLOAT, ir.DataType.DOUBLE
_I8, _I16, _I32, _I64 = ir.DataType.INT8, ir.DataType.INT16, ir.DataType.INT32, ir.DataType.INT64
_U8, _U16, _U32, _U64 = ir.DataType.UINT8, ir.DataType.UINT16, ir.DataType.UINT32, ir.DataType.UINT64
_BOOL = ir.DataType.BOOL

FLOATS = (_F16, _BF16, _F32, _F64)
SIGNED = (_I8, _I16, _I32, _I64)
UNSIGNED = (_U8, _U16, _U32, _U64)
INTEGERS = SIGNED + UNSIGNED

_IEEE = frozenset({_F16, _F32, _F64})
_F16_AND_F32 = frozenset({_F16, _F32})
_NUMERIC = _IEEE | set(INTEGERS)
_NO_16_BIT_INTEGERS = _IEEE | {_I8, _U8, _I32, _U32, _I64, _U64}

KERNELS: Mapping[str, frozenset[ir.DataType]] = (
    dict.fromkeys(("Abs", "Add", "Div", "Mod", "Mul", "Sub"), _NUMERIC)
    | dict.fromkeys(("Greater", "GreaterOrEqual", "Less", "LessOrEqual"), _NUMERIC)
    | dict.fromkeys(("Equal", "Expand", "Tile"), _NUMERIC | {_BOOL})
    | dict.fromkeys(("BatchNormalization", "Ceil", "Exp", "Floor", "Log", "LogSoftmax", "Round"), _IEEE)
    | dict.fromkeys(("Cos", "Sigmoid", "Sin", "Softmax", "Sqrt", "Tanh"), _IEEE)
    | dict.fromkeys(("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cosh", "Sinh", "Tan"), _F16_AND_F32)
    | dict.fromkeys(("DeformConv", "GridSample", "LRN"), _F16_AND_F32)
    | dict.fromkeys(("IsInf", "IsNaN"), frozenset({_F32, _F64}))
    | dict.fromkeys(("AveragePool", "Elu", "Erf", "Gelu", "HardSigmoid", "HardSwish", "Mish"), _F16_AND_F32)
    | dict.fromkeys(("LeakyRelu", "PRelu", "Selu", "Softplus", "Softsign"), _F16_AND_F32)
    | dict.fromkeys(("Clip", "Max", "Min"), _NO_16_BIT_INTEGERS)
    | dict.fromkeys(("Pow", "ReduceL1", "ReduceMean", "ReduceProd", "ReduceSum"), _IEEE | {_I32, _I64})
    | dict.fromkeys(("ReduceMax", "ReduceMin"), _IEEE | {_I8, _U8, _I32, _I64})
    | {
        "DepthToSpace": _IEEE | {_U8},
        "MatMul": _IEEE | {_I32, _U32, _I64, _U64},
        "MaxPool": _IEEE | {_I8, _U8},
        "Neg": _IEEE | set(SIGNED),
        "Pad": _NO_16_BIT_INTEGERS | {_BOOL},
        "Range": frozenset({_F32, _F64, _I64}),
        "ReduceL2": _IEEE,
        "Relu": _IEEE | {_I8, _I32},
        "Resize": frozenset({_F16, _F32, _I8, _U8, _I32}),
        "Sign": _NUMERIC - {_F16},  # its float16 kernel returns 0 for NaN
        "SpaceToDepth": _IEEE,
        "Col2Im": _F16_AND_F32,
        "CumSum": _IEEE | {_I32, _I64},
        "DFT": frozenset({_F32, _F64}),
        "Einsum": _IEEE | {_I32, _I64},
        "TopK": _IEEE | {_I32, _I64},
        "Unique": frozenset({_F32, _F64, _I64}),
        "Where": _IEEE | {_U8, _I32, _I64},
    }
)
"""Op type -> element types with a kernel in ONNX Runtime's CPU provider, from 1.24 on, in every opset ortconv emits.

int32 is missing for Range: ONNX Runtime's shape inference assumes int64 for an operand computed from a Shape.
"""

_WIDER_TYPES: Mapping[ir.DataType, tuple[ir.DataType, ...]] = {
    _BF16: (_F32, _F64),
    _F16: (_F32, _F64),
    _F32: (_F64,),
    _I8: (_I32, _I64, _F32, _F64),
    _U8: (_I32, _I64, _F32, _F64),
    _I16: (_I32, _I64, _F32, _F64),
    _U16: (_I32, _I64, _F32, _F64),
    _I32: (_I64, _F64),
    _U32: (_I64, _F64),
    _BOOL: (_U8, _I32, _I64),
}
"""Type -> the types that represent all its values, in order of preference."""

_EIGHT_BIT_TYPES: Mapping[ir.DataType, ir.DataType] = {ir.DataType.INT4: _I8, ir.DataType.UINT4: _U8}
_SAME_BITS: Mapping[ir.DataType, ir.DataType] = {_U64: _I64, _I64: _U64}


def apply(
    b: Builder,
    op_type: str,
    *operands: ir.Value | None,
    modular: bool = False,
    result: ir.DataType | None = None,
    **attributes: Any,
) -> ir.Value:
    """Emits one ONNX op whose operands share an element type; the op is computed in a type for which it has a kernel.

    Args:
        b: The builder.
        op_type: A key of `KERNELS`.
        *operands: The op's inputs of that type.
        modular: Whether uint64 may be computed as int64 and int64 as uint64, because the op is exact modulo 2^64 or
            only moves values.
        result: Type of the result; by default that of the operands.
        **attributes: Attributes of the op.

    Raises:
        UnsupportedTypeError: No type that represents all values of the operands has a kernel, or their types differ.
    """
    return compute(
        b,
        lambda *values: b.op(op_type, *values, **attributes),
        *operands,
        op_types=(op_type,),
        modular=modular,
        result=result,
    )


def compute(
    b: Builder,
    formula: Callable[..., ir.Value],
    *operands: ir.Value | None,
    op_types: Sequence[str],
    modular: bool = False,
    result: ir.DataType | None = None,
) -> ir.Value:
    """Calls `formula` on operands of one element type, cast to a type for which all ops that it emits have kernels.

    A formula of several ops on 16-bit floats is computed in float32 and rounded once.

    Args:
        b: The builder.
        formula: Emits ops on the cast operands and returns the result; the operands' ``dtype`` is the new type.
        *operands: Values of one element type, or None.
        op_types: The types of the ops that `formula` emits; keys of `KERNELS`.
        modular: See `apply`.
        result: See `apply`.

    Raises:
        UnsupportedTypeError: See `apply`.
    """
    own = _element_type(operands)
    inner = type_for(own, op_types, modular)
    if own == _F64 and inner == _F32:
        b.follow("f64: ONNX Runtime has no kernel; computed in f32, as in OpenVINO's CPU plugin")
    value = formula(*_all_cast(b, operands, inner))
    b.typed(value, result or inner, None)
    return b.cast(value, result or own)


def _all_cast(b: Builder, operands: Sequence[ir.Value | None], dtype: ir.DataType) -> list[ir.Value | None]:
    return [None if operand is None else b.cast(operand, dtype) for operand in operands]


def rounded_op(b: Builder, op_type: str, *operands: ir.Value, **attributes: Any) -> ir.Value:
    """Emits one ONNX op as `rounded` emits formulas."""
    return rounded(b, lambda *values: b.op(op_type, *values, **attributes), *operands, op_types=(op_type,))


def rounded(
    b: Builder, formula: Callable[..., ir.Value], *operands: ir.Value | None, op_types: Sequence[str]
) -> ir.Value:
    """Calls `formula`, whose results may be fractional; integers are computed in float32 and rounded half to even.

    The specifications allow integers but do not define the rounding; OpenVINO's CPU plugin rounds in this way. 8-bit
    results saturate. Results of other types saturate to int32; outside it, the plugin's depend on the processor.
    """
    dtype = _element_type(operands)
    if dtype not in INTEGERS:
        return compute(b, formula, *operands, op_types=op_types)
    b.note(
        "integers: computed in f32 and rounded to nearest, as in OpenVINO's CPU plugin; "
        "the specification does not define it"
    )
    return to_nearest(b, formula(*_all_cast(b, operands, _F32)), dtype)


def to_nearest(b: Builder, value: ir.Value, dtype: ir.DataType) -> ir.Value:
    """Casts float32 to an integer as `rounded` does."""
    whole = b.op("Round", value)
    holder = dtype if dtype.bitwidth == 8 else _I32
    info = np.iinfo(holder.numpy())
    top = np.float32(info.max)
    highest = top if int(top) <= info.max else np.nextafter(top, np.float32(0))
    clipped = b.op("Clip", whole, b.constant(info.min, np.float32), b.constant(highest, np.float32))
    return b.cast(b.typed(b.op("Cast", clipped, to=int(holder)), holder, None), dtype)


def in_single(b: Builder, formula: Callable[..., ir.Value], *operands: ir.Value | None) -> ir.Value:
    """Calls `formula` on floats cast to float32, as OpenVINO's CPU plugin computes it, and casts the result back."""
    own = _element_type(operands)
    if own == _F64:
        b.follow("f64: computed in f32, as in OpenVINO's CPU plugin")
    return b.cast(b.typed(formula(*_all_cast(b, operands, _F32)), _F32, None), own)


def in_one_type(b: Builder, *operands: ir.Value) -> tuple[ir.Value, ...]:
    """Casts floats of different types to one that represents all their values; does nothing if any is not a float."""
    types = {dtype_of(operand) for operand in operands}
    if len(types) == 1 or not types <= set(FLOATS):
        return operands
    wide = _F64 if _F64 in types else _F32
    return tuple(b.cast(operand, wide) for operand in operands)


def narrowed(b: Builder, value: ir.Value, data: ir.Value, own: ir.DataType) -> ir.Value:
    """Casts a result computed from `in_one_type` data to the original type of the data."""
    return value if dtype_of(data) == own else b.cast(b.typed(value, data.dtype, None), own)


def in_32_bits(b: Builder, formula: Callable[[ir.Value], ir.Value], data: ir.Value) -> ir.Value:
    """Calls `formula` on `data`; casts 64-bit integers to 32 bits for it, as OpenVINO's CPU plugin does."""
    return _in_type(b, formula, data, _I32 if data.dtype in (_I64, _U64) else dtype_of(data))


def _in_type(b: Builder, formula: Callable[[ir.Value], ir.Value], data: ir.Value, inner: ir.DataType) -> ir.Value:
    if data.dtype == inner:
        return formula(data)
    return b.cast(b.typed(formula(b.cast(data, inner)), inner, None), dtype_of(data))


def in_8_bits(b: Builder, formula: Callable[[ir.Value], ir.Value], data: ir.Value) -> ir.Value:
    """Calls `formula`, which moves data; non-constant 4-bit integers are cast to 8 bits for it."""
    own = dtype_of(data)
    return _in_type(b, formula, data, own if data.const_value is not None else _EIGHT_BIT_TYPES.get(own, own))


def saturated(b: Builder, value: ir.Value, dtype: ir.DataType) -> ir.Value:
    """Casts int32 to a narrower integer with saturation.

    Raises:
        UnsupportedTypeError: `dtype` is not an integer type.
    """
    if dtype not in INTEGERS:
        raise UnsupportedTypeError("the result", name(dtype), [name(each) for each in INTEGERS])
    info = np.iinfo(dtype.numpy())
    clipped = b.op("Clip", value, b.constant(info.min, np.int32), b.constant(info.max, np.int32))
    return b.op("Cast", clipped, to=int(dtype))


def saturates(b: Builder, dtype: ir.DataType | None) -> bool:
    """Tells whether sums and products of a type saturate in OpenVINO's CPU plugin; records a note if they do."""
    if dtype not in (_I8, _U8):
        return False
    b.note(f"follows OpenVINO's CPU plugin: {name(dtype)} overflow saturates; the specification does not define it")
    return True


def warn_of_float32_integers(b: Builder, data: ir.Value, *, may_overflow: bool = False) -> None:
    """Warns of integers that OpenVINO's CPU plugin stores in f32, unless they are tensor sizes or cast from booleans.

    Args:
        b: The builder.
        data: The data.
        may_overflow: Whether results may be larger than the data and overflow.
    """
    own, producer = dtype_of(data), data.producer()
    cast_input = producer.inputs[0] if producer is not None and producer.op_type == "Cast" else None
    if own not in INTEGERS or own.bitwidth < (16 if may_overflow else 32):
        return
    if b.sizes(data) is not None or (cast_input is not None and cast_input.dtype == _BOOL):
        return
    (OVERFLOW_IN_FLOAT32 if may_overflow else INTEGERS_IN_FLOAT32).warn(b)


def truncated(b: Builder, value: ir.Value, dtype: ir.DataType) -> ir.Value:
    """Casts float32 to int32 and then to an integer type, as OpenVINO's CPU plugin does; only 8-bit types saturate.

    The cast to int32 turns NaN and values out of range into -2^31.
    """
    whole = b.typed(b.op("Cast", value, to=int(_I32)), _I32, None)
    return saturated(b, whole, dtype) if dtype.bitwidth == 8 else b.cast(whole, dtype)


def exponential(b: Builder, x: ir.Value) -> ir.Value:
    """Emits Exp of float32, computed in float64 and rounded: it equals expf of the C library, which OpenVINO calls."""
    wide = b.op("Exp", b.op("Cast", x, to=int(_F64)))
    return b.typed(b.op("Cast", wide, to=int(_F32)), _F32, x.shape)


def chained(b: Builder, op_type: str, values: Iterable[ir.Value]) -> ir.Value:
    """Emits an op of two operands over any number of values, one after the other, as they come."""
    return functools.reduce(lambda one, other: b.op(op_type, one, other), values)


def polynomial(b: Builder, x: ir.Value, coefficients: Sequence[float]) -> ir.Value:
    """Emits a polynomial of float32, highest power first."""
    total = single(b, coefficients[0])
    for coefficient in coefficients[1:]:
        total = b.op("Add", b.op("Mul", total, x), single(b, coefficient))
    return total


def require(value: ir.Value, input: str, allowed: Sequence[ir.DataType], *, hint: str = "") -> None:
    """Rejects a value whose element type is not allowed.

    Raises:
        UnsupportedTypeError: The type is not in `allowed`.
    """
    if value.dtype not in allowed:
        raise UnsupportedTypeError(input, name(value.dtype), [name(dtype) for dtype in allowed], hint=hint)


def is_static(value: ir.Value) -> bool:
    """Tells whether a shape is static: OpenVINO's CPU plugin computes some ops differently if the shape is dynamic."""
    return value.shape is not None and value.shape.is_static()


def dtype_of(value: ir.Value) -> ir.DataType:
    """Returns the element type of a value, which must be known: the source declares it, or a lowering casts to it."""
    assert value.dtype is not None, f"the type of {value.name} is not known"
    return value.dtype


def scalar(b: Builder, number: float, like: ir.Value) -> ir.Value:
    """Makes a scalar constant of another value's element type."""
    return b.constant(np.asarray(number).astype(dtype_of(like).numpy()))


def single(b: Builder, number: float) -> ir.Value:
    """Makes a float32 scalar constant."""
    return b.constant(number, np.float32)


def name(dtype: ir.DataType | None) -> str:
    """Returns a type as OpenVINO spells it."""
    if dtype is None:
        return "unknown"
    return "boolean" if dtype == _BOOL else dtype.short_name()


def _element_type(operands: Sequence[ir.Value | None]) -> ir.DataType:
    types = {operand.dtype for operand in operands if operand is not None}
    if not types:
        raise ConversionError("has no inputs; allowed: at least one.")
    first = next(iter(types))
    if len(types) > 1 or first is None:
        found = ", ".join(name(operand.dtype) for operand in operands if operand is not None)
        raise UnsupportedTypeError("the inputs", found, ["one type for all of them"])
    return first


def type_for(own: ir.DataType, op_types: Sequence[str], modular: bool = False) -> ir.DataType:
    """Returns the type to compute in; see `compute`."""
    candidates = (own, *_WIDER_TYPES.get(own, ()))
    if len(op_types) > 1 and own == _F16:
        candidates = _WIDER_TYPES[own]
    if own == _F64:
        candidates = (_F64, _F32)
    if modular and own in _SAME_BITS:
        candidates = (*candidates, _SAME_BITS[own])
    for candidate in candidates:
        if all(candidate in KERNELS[op] for op in op_types):
            return candidate
    allowed = [
        dtype
        for dtype in (*FLOATS, *INTEGERS)
        if any(all(candidate in KERNELS[op] for op in op_types) for candidate in (dtype, *_WIDER_TYPES.get(dtype, ())))
    ]
    raise UnsupportedTypeError(
        "the input",
        name(own),
        [name(dtype) for dtype in allowed],
        hint=f"ONNX Runtime has no kernel of {'/'.join(sorted(set(op_types)))} that is exact for this type.",
    )
