"""Fixes dynamic dimensions of a source's inputs, and renames inputs, before the conversion."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ortconv.errors import InputError, shown
from ortconv.frontend.source_graph import Dim, SourceGraph, SourceValue

__all__ = ["RENAMED_KEY", "with_inputs"]

RENAMED_KEY = "ortconv.source.name"
"""Metadata of an input that was renamed: the name that the source gives it."""


def with_inputs(
    graph: SourceGraph, shapes: Mapping[str, Sequence[int | None]], names: Mapping[str, str]
) -> SourceGraph:
    """Returns a source with fixed dynamic dimensions of inputs, and renamed inputs.

    Args:
        graph: The source.
        shapes: Shapes of inputs by their names in the source; None for a dimension that is not changed.
        names: New names of inputs by their names in the source.

    Raises:
        InputError: There is no such input, a shape does not fit, or a name is used already or belongs to a state.
    """
    inputs = {value.name: value for value in graph.inputs}
    for name in (*shapes, *names):
        if name not in inputs:
            raise InputError(name, f"the source has no such input; it has {', '.join(inputs) or 'none'}.")
    _check_names(graph, names)
    made = {
        value: dataclasses.replace(
            value,
            shape=_fixed(value, shapes[name]) if name in shapes else value.shape,
            name=names.get(name, name),
            metadata={**value.metadata, RENAMED_KEY: name} if name in names else value.metadata,
        )
        for name, value in inputs.items()
        if name in shapes or name in names
    }
    return graph.with_values(made)


def _check_names(graph: SourceGraph, names: Mapping[str, str]) -> None:
    states = {state.input.name for state in graph.states}
    results = (value for node in graph.nodes for value in node.outputs)
    taken = {value.name for value in (*graph.inputs, *results) if value.name not in names}
    taken |= {output.name for output in graph.outputs}
    for name, wanted in names.items():
        if name in states:
            raise InputError(
                name, "is a state: its name pairs it with an output and cannot change; allowed: other inputs."
            )
        if not isinstance(wanted, str) or not wanted or wanted in taken:
            raise InputError(name, f"cannot be renamed to {shown(wanted)}; allowed: names that are not used.")
        taken.add(wanted)


def _fixed(value: SourceValue, given: Iterable[int | None]) -> tuple[Dim, ...]:
    sizes = None if isinstance(given, str) or not isinstance(given, Iterable) else tuple(given)
    if sizes is None or not all(size is None or _is_integer(size) for size in sizes):
        raise InputError(value.name, f"shape {shown(given)} is not a shape; allowed: a sequence of integers and None.")
    declared: tuple[Dim, ...] = (None,) * len(sizes) if value.shape is None else value.shape
    fits = len(declared) == len(sizes) and all(
        size is None or size == dim or (not isinstance(dim, int) and size >= 0)
        for dim, size in zip(declared, sizes, strict=True)
    )
    if not fits:
        stated = ", ".join("?" if dim is None else str(dim) for dim in declared)
        raise InputError(
            value.name,
            f"shape {shown(['?' if size is None else size for size in sizes])} does not fit; the source declares "
            f"[{stated}], whose dynamic dimensions can be fixed.",
        )
    return tuple(dim if size is None else int(size) for dim, size in zip(declared, sizes, strict=True))


def _is_integer(size: object) -> bool:
    return isinstance(size, (int, np.integer)) and not isinstance(size, bool)
