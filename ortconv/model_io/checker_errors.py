"""Turns findings of ``onnx.checker`` into errors of the source, if its declared results contradict its attributes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import onnx_ir as ir

from ortconv.errors import ConversionError, ConversionErrors, DeclaredShapeError, UnsupportedTypeError, shown
from ortconv.graph.builder import Step

__all__ = ["contradictions"]

_DIFFERENCE = re.compile(
    r"node name: (?P<node>.*)\): \[\w+\] Inferred (?:"
    r"shape and existing shape differ in (?P<what>rank|dimension (?P<dim>\d+)): \((?P<size>\d+)\) vs \((?P<other>\d+)\)"
    r"|elem type differs from existing elem type: \((?P<type>\d+)\) vs \((?P<declared>\d+)\))"
)


def contradictions(problem: str, path: str, steps: Sequence[Step]) -> ConversionErrors | None:
    """Returns the errors of the source to which a message of the checker refers.

    Args:
        problem: The checker's message.
        path: The source's name in messages.
        steps: The conversion of each source node; those of contradictory nodes get their error.

    Returns:
        One error for each node that declares another result than its inputs and attributes imply; None if the
        message is not about such nodes alone.
    """
    results = {
        str(node.name): (step, [value for value in node.outputs if value in step.results])
        for step in steps
        for node in step.nodes
    }
    matches = list(_DIFFERENCE.finditer(problem))
    if problem.count("node name: ") != len(matches):
        return None
    found: dict[int, tuple[Step, ConversionError]] = {}
    for match in matches:
        step, values = results.get(match["node"], (None, []))
        value = next((value for value in values if _is_declared(value, match)), None)
        if step is None or value is None:
            return None
        found.setdefault(id(step), (step, _error(value, match, step)))
    if not found:
        return None
    for step, error in found.values():
        step.error, error.node = error, step.ref
    errors = ConversionErrors(
        f"{path}: {len(found)} of {len(steps)} nodes refused", [error for _, error in found.values()]
    )
    errors.steps = tuple(steps)
    return errors


def _is_declared(value: ir.Value, match: re.Match[str]) -> bool:
    """Returns whether a value is declared as the checker's message says."""
    if match["what"] is None:
        return value.dtype is not None and int(value.dtype) == int(match["declared"])
    if value.shape is None:
        return False
    return int(match["other"]) == (len(value.shape) if match["dim"] is None else value.shape[int(match["dim"])])


def _error(value: ir.Value, match: re.Match[str], step: Step) -> ConversionError:
    hint = _defaults(step.defaults)
    if match["what"] is None:
        declared, given = (ir.DataType(int(match[group])).short_name() for group in ("declared", "type"))
        allowed = f"{given}, which its attributes give"
        return UnsupportedTypeError(f"output {value.name}", declared, [allowed], hint=hint)
    assert value.shape is not None
    dims = [dim if isinstance(dim, int) else dim.value for dim in value.shape]
    what = "rank" if match["dim"] is None else f"size along axis {match['dim']}"
    problem = f"the source declares this; its inputs and attributes give {match['size']} as its {what}."
    return DeclaredShapeError(f"output {value.name}", dims, problem, hint=hint)


def _defaults(defaults: Mapping[str, object]) -> str:
    """Returns a hint at attributes that are not stated, since the cause may be a missing one."""
    unstated = [f"{name} = {shown(value)}" for name, value in defaults.items()]
    return f"Attributes that are not stated take their defaults: {', '.join(unstated)}." if unstated else ""
