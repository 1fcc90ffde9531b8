"""What is right: a runtime or a reference that evaluates a source."""

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
        """Evaluates what computes a value several times, each number off by what rounding may do to it.

        Args:
            value: A value of the source.
            known: Data of the inputs and of other values, by name.
            unit: What rounding may do to a number, relative to it.
            actual: What the model computes, which settles the order of what is equal.

        Yields:
            The results, the first of them without errors; nothing where the oracle cannot tell.
        """
        ...
