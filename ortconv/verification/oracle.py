"""Oracles: a runtime or a reference that evaluates a source and gives the expected results."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Protocol

import onnx_ir as ir

from ortconv.frontend.source_graph import SourceValue
from ortconv.model_io.input_data import Array

__all__ = ["Oracle", "Results"]


@dataclasses.dataclass(frozen=True)
class Results:
    """What an oracle computes, in the types that the source declares.

    Attributes:
        outputs: In the source's order.
        values: Intermediate results by the source value's name, those that the oracle can show.
    """

    outputs: tuple[Array, ...]
    values: Mapping[str, Array]


class Oracle(Protocol):
    """Evaluates a source.

    Attributes:
        title: As people read it.
        precision: The finest type in which it computes.
    """

    title: str
    precision: ir.DataType

    def run(self, feeds: Mapping[str, Array], *, everything: bool) -> Results:
        """Evaluates the source on data by input name; raises `ExecutionError`."""
        ...

    def alternatives(
        self, value: SourceValue, known: Mapping[str, Array], unit: float, actual: Array
    ) -> Iterator[Array]:
        """Evaluates the operations behind a value several times, with all numbers perturbed within rounding error.

        Args:
            value: A value of the source.
            known: Data of the inputs and of other values, by name.
            unit: Relative rounding error of a number.
            actual: What the model computes, which settles the order of what is equal.

        Yields:
            The results, the first of them without errors; nothing where the oracle cannot tell.
        """
        ...
