"""Checks the values of oneDNN attributes against the types of the format."""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Iterable
from typing import SupportsIndex

from ortconv.onednn.op_schema import ATTRIBUTE_TYPES, KINDS, AttributeType

__all__ = ["Attribute", "attribute", "typed"]

Attribute = int | float | bool | str | tuple[int, ...] | tuple[float, ...]
"""Value of an attribute."""

_INT64 = range(-(1 << 63), 1 << 63)
_F32_MAX = float.fromhex("0x1.fffffep+127")


def attribute(kind: str, name: str, value: object) -> Attribute:
    """Checks an attribute against oneDNN's schema.

    Args:
        kind: Op kind.
        name: Attribute name.
        value: The value; any iterable for a list.

    Returns:
        The value; a tuple for a list.

    Raises:
        ValueError: The kind has no such attribute, or the value has the wrong type.
    """
    if name not in KINDS[kind].attributes:
        raise ValueError(f"{kind} has no attribute {name}; allowed: {', '.join(KINDS[kind].attributes) or 'none'}")
    return typed(name, ATTRIBUTE_TYPES[name], value)


def typed(name: str, kind: AttributeType, value: object) -> Attribute:
    """Checks a value against a type of the format.

    Args:
        name: Attribute name, for messages.
        kind: The type.
        value: The value; any iterable for a list.

    Returns:
        The value; a tuple for a list.

    Raises:
        ValueError: The value has the wrong type, exceeds 64 bits, or is not finite in float32.
    """
    if isinstance(value, Iterable) and not isinstance(value, str):
        if kind == "s64[]":
            return tuple(_integer(name, entry) for entry in value)
        if kind == "f32[]":
            return tuple(_number(name, entry) for entry in value)
    if kind == "s64":
        return _integer(name, value)
    if kind == "f32":
        return _number(name, value)
    if kind == "bool" and isinstance(value, bool):
        return value
    if kind == "string" and isinstance(value, str):
        return value
    raise ValueError(f"attribute {name}={value!r} is not of type {kind}")


def _integer(name: str, value: object) -> int:
    if not isinstance(value, SupportsIndex) or isinstance(value, bool) or operator.index(value) not in _INT64:
        raise ValueError(f"attribute {name}: {value!r} is not a 64-bit integer")
    return operator.index(value)


def _number(name: str, value: object) -> float:
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        number = math.inf if isinstance(value, int) and abs(value) > _F32_MAX else float(value)
        if abs(number) <= _F32_MAX:
            return number
    raise ValueError(f"attribute {name}: {value!r} is not a finite 32-bit number")
