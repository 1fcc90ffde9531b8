"""Constants whose elements choose numbers from a table that is a constant, too."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ortconv.graph.match import made_by, maker

__all__ = ["HALVES", "evaluated", "looked_up"]

HALVES = "ortconv.halves"
"""Key among the notes of a product that is of f16 in the source, and of numbers that are not rounded to f16."""

_FLOATS = (ir.DataType.FLOAT, ir.DataType.FLOAT16)
_INDICES = (ir.DataType.UINT8, ir.DataType.INT32, ir.DataType.INT64)
_NUMBERS = {ir.DataType.UINT4: 16, ir.DataType.UINT8: 256}
"""How many numbers codes can choose from."""


def evaluated(value: ir.Value | None) -> np.ndarray | None:
    """Returns constants as floats where they are floats, are converted, or chosen from a table; None of others."""
    if value is None:
        return None
    if value.const_value is not None:
        return value.const_value.numpy() if value.dtype in _FLOATS else None
    if (before := made_by(value, "Cast")) is not None and value.dtype in _FLOATS:
        array = evaluated(before)
        with np.errstate(all="ignore"):
            return None if array is None else array.astype(value.dtype.numpy())
    found = _chosen(value, ir.DataType.UINT8)
    if found is None:
        return None
    codes, table = found
    assert codes.const_value is not None
    numbers: np.ndarray = table[codes.const_value.numpy()]
    return numbers


def looked_up(value: ir.Value) -> tuple[ir.Value, np.ndarray] | None:
    """Returns constant codes of 4 bits and, as f32, the numbers of a table that they choose; None of anything else."""
    if (before := made_by(value, "Cast")) is not None and value.dtype in _FLOATS:
        inner = looked_up(before)
        return None if inner is None else (inner[0], inner[1].astype(value.dtype.numpy()).astype(np.float32))
    found = _chosen(value, ir.DataType.UINT4)
    return None if found is None else (found[0], found[1].astype(np.float32))


def _chosen(value: ir.Value, dtype: ir.DataType) -> tuple[ir.Value, np.ndarray] | None:
    """Returns the constant codes of a type, and the constant floats that a Gather chooses with them, or None."""
    node = maker(value, "Gather")
    if node is None or node.attributes.get_int("axis", 0) != 0:
        return None
    table, codes = node.inputs
    while codes is not None and codes.const_value is None and codes.dtype in _INDICES:
        codes = made_by(codes, "Cast")
    numbers = _numbers(table)
    if codes is None or codes.const_value is None or codes.dtype != dtype or numbers is None:
        return None
    return (codes, numbers) if numbers.shape == (_NUMBERS[dtype],) else None


def _numbers(table: ir.Value | None) -> np.ndarray | None:
    """Returns constant floats, perhaps converted from others."""
    types: list[ir.DataType] = []
    while table is not None and table.const_value is None and table.dtype in _FLOATS:
        types.append(table.dtype)
        table = made_by(table, "Cast")
    if table is None or table.const_value is None or table.dtype is None or not table.dtype.is_floating_point():
        return None
    numbers = table.const_value.numpy()
    for dtype in reversed(types):
        numbers = numbers.astype(dtype.numpy())
    return numbers
