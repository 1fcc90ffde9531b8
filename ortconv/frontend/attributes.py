"""Converts attributes of source nodes to the types in the signatures of lowerings."""

from __future__ import annotations

import math
import re
import types
import typing
from typing import Any, Literal

__all__ = ["coerce_text", "coerce_typed", "describe_type"]

_INTEGER = re.compile(r"\s*(-?[0-9]+)", re.ASCII)
_FLOAT = re.compile(r"\s*([+-]?(?>[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+|(?!e)))", re.ASCII | re.IGNORECASE)


def coerce_typed(raw: object, annotation: object) -> object:
    """Coerces an attribute of a typed format: checks the type, converts nothing but int to float.

    Args:
        raw: bool, int, float, str, or a list of them.
        annotation: One of int, float, bool, str, a Literal of strings, a tuple of ints or floats, or one of these
            with None.

    Raises:
        ValueError: With what is allowed.
    """
    annotation = _without_none(annotation)
    allowed = ValueError(describe_type(annotation))
    if typing.get_origin(annotation) is Literal:
        choices = {str(choice).casefold(): choice for choice in typing.get_args(annotation)}
        if not isinstance(raw, str) or raw.casefold() not in choices:
            raise allowed
        return choices[raw.casefold()]
    if typing.get_origin(annotation) is tuple:
        if not isinstance(raw, list | tuple):
            raise allowed
        item = typing.get_args(annotation)[0]
        try:
            return tuple(coerce_typed(entry, item) for entry in raw)
        except ValueError:
            raise allowed from None
    if annotation is bool and isinstance(raw, bool | int) and raw in (0, 1):
        return bool(raw)
    if annotation is float and isinstance(raw, int | float) and not isinstance(raw, bool):
        if math.isnan(raw):
            raise allowed
        return float(raw)
    if annotation is int and isinstance(raw, int) and not isinstance(raw, bool) and -(2**63) <= raw < 2**63:
        return raw
    if annotation is str and isinstance(raw, str):
        return raw
    raise allowed


def coerce_text(raw: object, annotation: object) -> object:
    """Coerces an attribute of a textual format, where every value is a string.

    Lists are separated by commas, and may end with one; bools are true, false, 1 or 0; a number ends where what follows
    is none, as C++ streams read it, so that the integer ``2.0`` is 2; Literals match whatever their case.

    Raises:
        ValueError: With what is allowed.
    """
    assert isinstance(raw, str)
    annotation = _without_none(annotation)
    allowed = ValueError(describe_type(annotation))
    text = raw.strip()
    if typing.get_origin(annotation) is tuple:
        item = typing.get_args(annotation)[0]
        entries = raw.split(",")
        try:
            return tuple(coerce_text(entry, item) for entry in (entries if entries[-1] else entries[:-1]))
        except ValueError:
            raise allowed from None
    if annotation is bool:
        choices = {"true": True, "1": True, "false": False, "0": False}
        if text.casefold() not in choices:
            raise allowed
        return choices[text.casefold()]
    if annotation in (int, float):
        return _number(text, annotation, allowed)
    return coerce_typed(text, annotation)


def _number(text: str, annotation: object, allowed: ValueError) -> object:
    if annotation is float and text in ("inf", "-inf"):
        return float(text)
    head = (_INTEGER if annotation is int else _FLOAT).match(text)
    if head is None:
        raise allowed
    try:
        number = int(head[1]) if annotation is int else float(head[1])
    except ValueError:  # of more digits than Python reads
        raise allowed from None
    if number in (math.inf, -math.inf):
        raise allowed
    return coerce_typed(number, annotation)


def describe_type(annotation: object) -> str:
    """Returns the allowed values of an annotated type, for messages."""
    annotation = _without_none(annotation)
    if typing.get_origin(annotation) is Literal:
        return ", ".join(str(choice) for choice in typing.get_args(annotation))
    if typing.get_origin(annotation) is tuple:
        return f"a list of {describe_type(typing.get_args(annotation)[0])}s"
    names: dict[Any, str] = {int: "integer", float: "number", bool: "true or false", str: "text"}
    return names[annotation]


def _without_none(annotation: object) -> object:
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        (annotation,) = (arg for arg in typing.get_args(annotation) if arg is not types.NoneType)
    return annotation
