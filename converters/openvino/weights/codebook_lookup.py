"""Codebook lookups: a Gather from a constant codebook with constant indices."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ortconv.graph.match import operand_of, producer

__all__ = ["codebook_lookup", "evaluated"]

_FLOATS = (ir.DataType.FLOAT, ir.DataType.FLOAT16)
_INDICES = (ir.DataType.UINT8, ir.DataType.INT32, ir.DataType.INT64)
_ENTRIES = {ir.DataType.UINT4: 16, ir.DataType.UINT8: 256}
"""Size of the codebook by the type of the indices."""


def evaluated(value: ir.Value | None) -> np.ndarray | None:
    """Returns float constants, also converted ones and codebook lookups by uint8 indices; None for other values."""
    if value is None:
        return None
    if value.const_value is not None:
        return value.const_value.numpy() if value.dtype in _FLOATS else None
    if (before := operand_of(value, "Cast")) is not None and value.dtype in _FLOATS:
        array = evaluated(before)
        with np.errstate(all="ignore"):
            return None if array is None else array.astype(value.dtype.numpy())
    found = _gathered(value, ir.DataType.UINT8)
    if found is None:
        return None
    indices, codebook = found
    assert indices.const_value is not None
    entries: np.ndarray = codebook[indices.const_value.numpy()]
    return entries


def codebook_lookup(value: ir.Value) -> tuple[ir.Value, np.ndarray] | None:
    """Returns the constant 4-bit indices and the float32 codebook [16] of a lookup; None for other values."""
    if (before := operand_of(value, "Cast")) is not None and value.dtype in _FLOATS:
        inner = codebook_lookup(before)
        return None if inner is None else (inner[0], inner[1].astype(value.dtype.numpy()).astype(np.float32))
    found = _gathered(value, ir.DataType.UINT4)
    return None if found is None else (found[0], found[1].astype(np.float32))


def _gathered(value: ir.Value, dtype: ir.DataType) -> tuple[ir.Value, np.ndarray] | None:
    """Returns the constant indices, of a type, and the constant float codebook of a Gather; None for other values."""
    node = producer(value, "Gather")
    if node is None or node.attributes.get_int("axis", 0) != 0:
        return None
    table, indices = node.inputs
    while indices is not None and indices.const_value is None and indices.dtype in _INDICES:
        indices = operand_of(indices, "Cast")
    entries = _floats(table)
    if indices is None or indices.const_value is None or indices.dtype != dtype or entries is None:
        return None
    return (indices, entries) if entries.shape == (_ENTRIES[dtype],) else None


def _floats(table: ir.Value | None) -> np.ndarray | None:
    """Returns constant floats, also converted ones; None for other values."""
    types: list[ir.DataType] = []
    while table is not None and table.const_value is None and table.dtype in _FLOATS:
        types.append(table.dtype)
        table = operand_of(table, "Cast")
    if table is None or table.const_value is None or table.dtype is None or not table.dtype.is_floating_point():
        return None
    numbers = table.const_value.numpy()
    for dtype in reversed(types):
        numbers = numbers.astype(dtype.numpy())
    return numbers
