"""Element types: how OpenVINO IR spells them, and the ONNX type and width of each."""

from __future__ import annotations

import onnx_ir as ir

__all__ = ["BITS", "DTYPES", "UNSUPPORTED"]

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
