"""Refuses int4 values that are computed at run time where ONNX Runtime has no kernel."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from ortconv.errors import UnsupportedTypeError

__all__ = ["FOUR_BITS", "require_kernels"]

FOUR_BITS = (ir.DataType.INT4, ir.DataType.UINT4)
_ON_4_BITS = frozenset({"Cast", "DequantizeLinear", "Shape", "Transpose"})
_NO_KERNEL = "ONNX Runtime only casts, dequantizes and transposes 4 bits that are computed at run time."


def require_kernels(op_type: str, inputs: Sequence[ir.Value | None]) -> None:
    """Refuses a node with int4 or uint4 inputs for which ONNX Runtime has no kernel.

    Raises:
        UnsupportedTypeError: There is no kernel.
    """
    for value in inputs:
        if value is not None and value.dtype in FOUR_BITS and value.const_value is None and op_type not in _ON_4_BITS:
            found = "i4" if value.dtype == ir.DataType.INT4 else "u4"
            raise UnsupportedTypeError("the input", found, ["types of 8 bits and more"], hint=_NO_KERNEL)
