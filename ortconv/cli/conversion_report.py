"""The JSON report of ``ortconv convert``: what was written, what became of each node, and what was refused."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from ortconv.api import Conversion
from ortconv.errors import ConversionErrors, NodeRef
from ortconv.graph.builder import Step

__all__ = ["converted", "document", "error_fields", "refused"]

Entry = dict[str, Any]


def document(options: Mapping[str, object], sources: Sequence[Entry]) -> Entry:
    """Returns the whole report."""
    return {"ortconv": version("ortconv"), "options": options, "sources": sources}


def converted(source: pathlib.Path, target: pathlib.Path, done: Conversion) -> Entry:
    """Returns the entry of a source that was written."""
    return {
        "source": str(source),
        "status": "converted",
        "format": done.format,
        "output": str(target),
        "opset": done.options.opset,
        "saturating": done.saturating,
        "nodes": [_step(step) for step in done.steps],
        "errors": [],
    }


def refused(source: pathlib.Path, error: Exception) -> Entry:
    """Returns the entry of a source that was not."""
    errors = error.exceptions if isinstance(error, ConversionErrors) else [error]
    return {
        "source": str(source),
        "status": "refused",
        "format": None,
        "output": None,
        "opset": None,
        "nodes": [],
        "errors": [error_fields(each) for each in errors],
    }


def error_fields(error: BaseException) -> Entry:
    """Returns an error's class, message and fields."""
    fields = {
        name: dataclasses.asdict(value) if isinstance(value, NodeRef) else value
        for name, value in vars(error).items()
        if not name.startswith("_")
    }
    return {"type": type(error).__name__, "message": str(error), **fields}


def _step(step: Step) -> Entry:
    return {
        "node": dataclasses.asdict(step.ref),
        "becomes": [{"op_type": node.op_type, "domain": node.domain, "name": node.name} for node in step.nodes],
        "notes": step.notes,
        "warnings": step.warnings,
    }
