"""How the commands show and store comparisons of tensors."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

from rich.text import Text

from ortconv.cli import output
from ortconv.verification.compare import Comparison

__all__ = ["NUMBERS", "cells", "fields", "finite"]

NUMBERS = ("max abs error", "rel error", "tolerance")
"""Headings of the numbers that `cells` returns; the verdict behind them has none."""


def cells(comparison: Comparison, *, explained: bool = False) -> Sequence[output.Cell]:
    """Returns the numbers of a comparison and its verdict; `explained` says that a difference is explained below."""
    verdict = Text("OK", "green") if comparison.agrees else Text("DIFFERS", "bold red")
    if explained and not comparison.agrees:
        verdict = Text("see below", "yellow")
    numbers = ["-" if comparison.problem else f"{value:.2g}" for value in (comparison.max_abs, comparison.max_rel)]
    return (*numbers, f"{comparison.tolerance:.2g}", verdict)


def fields(comparison: Comparison) -> dict[str, object]:
    """Returns the fields of a comparison, for JSON."""
    return {**dataclasses.asdict(comparison), "agrees": comparison.agrees}


def finite(value: object) -> object:
    """Replaces what JSON lacks: NaN and infinities become strings."""
    if isinstance(value, Mapping):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [finite(entry) for entry in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
