"""Shapes as OpenVINO IR writes them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from ortconv.frontend.source_graph import MAX_RANK, Dim

__all__ = ["parse_dim", "parse_shape", "require_countable"]

_MAX_ELEMENTS = 2**59
"""The size in bits of larger tensors is no 64-bit integer."""

_DIM = re.compile(r"(?:[0-9]{1,19}|-1|\?)|[0-9]{0,19}\.\.[0-9]{0,19}", re.ASCII)


def parse_dim(text: str) -> Dim:
    """Returns a dimension; one that is not a single number (``-1``, ``?``, ``1..16``) is None.

    Raises:
        ValueError: The text is no dimension.
    """
    text = text.strip()
    if not _DIM.fullmatch(text) or (text.isdigit() and int(text) >= 2**63):
        raise ValueError("a size from 0 to 2^63 - 1, -1, ?, or an interval such as 1..16")
    return int(text) if text.isdigit() else None


def parse_shape(text: str) -> tuple[Dim, ...] | None:
    """Returns the shape that an attribute holds: ``"1,3,-1"``, ``"?,10..20"``, ``""``; None for a dynamic rank.

    Raises:
        ValueError: The text is no shape.
    """
    text = text.strip()
    if text == "...":
        return None
    if not text:
        return ()
    dims = tuple(parse_dim(part) for part in text.split(",", MAX_RANK))
    if len(dims) > MAX_RANK:
        raise ValueError(f"at most {MAX_RANK} dimensions")
    require_countable(dims)
    return dims


def require_countable(dims: Iterable[Dim]) -> None:
    """Rejects dimensions whose product, without zeros, is out of range: no library supports such tensors.

    Raises:
        ValueError: It is.
    """
    if math.prod(dim or 1 for dim in dims if isinstance(dim, int)) > _MAX_ELEMENTS:
        raise ValueError("sizes whose product is at most 2^59, zeros aside")
