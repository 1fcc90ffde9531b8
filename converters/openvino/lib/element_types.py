"""Element types: how OpenVINO IR spells them, and the ONNX type and width of each."""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

__all__ = ["BITS", "CODES", "DTYPES", "NARROW", "UNSUPPORTED", "Code", "bytes_of"]

DTYPES: dict[str, ir.DataType] = {
    "f64": ir.DataType.DOUBLE,
    "f32": ir.DataType.FLOAT,
    "f16": ir.DataType.FLOAT16,
    "bf16": ir.DataType.BFLOAT16,
    "f8e4m3": ir.DataType.FLOAT8E4M3FN,
    "f8e5m2": ir.DataType.FLOAT8E5M2,
    "i64": ir.DataType.INT64,
    "i32": ir.DataType.INT32,
    "i16": ir.DataType.INT16,
    "i8": ir.DataType.INT8,
    "i4": ir.DataType.INT4,
    "u64": ir.DataType.UINT64,
    "u32": ir.DataType.UINT32,
    "u16": ir.DataType.UINT16,
    "u8": ir.DataType.UINT8,
    "u4": ir.DataType.UINT4,
    "u1": ir.DataType.BOOL,
    "boolean": ir.DataType.BOOL,
    "fp64": ir.DataType.DOUBLE,
    "fp32": ir.DataType.FLOAT,
    "fp16": ir.DataType.FLOAT16,
    "bool": ir.DataType.BOOL,
    "bin": ir.DataType.BOOL,
}
"""ONNX types by lower-case name: attributes say ``f32``, ports say ``FP32``. One-bit integers become booleans, the ONNX
type with the same two values."""

UNSUPPORTED = frozenset({"u2", "u3", "u6", "nf4", "f4e2m1", "f8e8m0", "string", "dynamic", "undefined", "unspecified"})
"""Types that OpenVINO knows and that the ONNX versions we emit cannot carry, or that say nothing."""

BITS: dict[str, int] = {
    name: 1 if name in ("u1", "bin") else 8 if dtype == ir.DataType.BOOL else dtype.bitwidth
    for name, dtype in DTYPES.items()
}
"""How many bits of the weights file an element takes."""


@dataclasses.dataclass(frozen=True)
class Code:
    """How constants of a type that ONNX lacks are stored.

    Attributes:
        storage: A key of `DTYPES`, whose bits are the same.
        numbers: The value of each integer.
    """

    storage: str
    numbers: tuple[float, ...]


_HALVES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
_NORMAL = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
)  # fmt: skip

CODES: dict[str, Code] = {
    "nf4": Code("u4", _NORMAL),
    "f4e2m1": Code("u4", (*_HALVES, *(-number for number in _HALVES))),
    "f8e8m0": Code("u8", (*(2.0 ** (exponent - 127) for exponent in range(255)), float("nan"))),
}
"""Types whose constants may be converted, and nothing else."""

NARROW = {"u2": 2, "u3": 3}
"""Integers of fewer bits than ONNX has, by their bits: constants of them may be converted, and become u4."""


def bytes_of(precision: str, count: int) -> int:
    """Returns the size of elements in the weights file in bytes; eight 3-bit elements share three bytes."""
    bits = NARROW.get(precision) or BITS[precision]
    return (count + 7) // 8 * bits if bits == NARROW["u3"] else (count * bits + 7) // 8
