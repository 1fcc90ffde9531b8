"""``ortconv ops``."""

from __future__ import annotations

import inspect
import json
from typing import Any

import click

from ortconv.cli import output
from ortconv.converters import FRONTENDS
from ortconv.frontend import Frontend
from ortconv.lowering import Lowering, describe_type

__all__ = ["command"]


@click.command("ops", epilog="Example: ortconv ops openvino")
@click.argument("source", required=False, type=click.Choice([frontend.name for frontend in FRONTENDS]))
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with inputs and attributes.")
def command(source: str | None, as_json: bool) -> None:
    """List the operators that are converted: which versions of each, and what they become."""
    frontends = [frontend for frontend in FRONTENDS if source in (None, frontend.name)]
    if as_json:
        entries = [_entry(frontend, lowering) for frontend in frontends for lowering in frontend.registry]
        output.stdout().file.write(json.dumps(entries, indent=2) + "\n")
        return
    for index, frontend in enumerate(frontends):
        if index:
            output.line()
        output.line((frontend.title, "bold"))
        rows = [(each.op_type, each.versions, _becomes(each)) for each in frontend.registry]
        output.table(("op", "versions", "becomes"), rows)


def _becomes(lowering: Lowering) -> str:
    return lowering.summary.removeprefix("Lowers to ")


def _entry(frontend: Frontend, lowering: Lowering) -> dict[str, Any]:
    return {
        "source": frontend.name,
        "op": lowering.op_type,
        "since": lowering.since,
        "until": lowering.until,
        "becomes": _becomes(lowering),
        "inputs": [
            {
                "name": name,
                "optional": optional,
                "repeats": lowering.variadic and index == len(lowering.inputs) - 1,
            }
            for index, (name, optional) in enumerate(lowering.inputs)
        ],
        "attributes": [
            {
                "name": name,
                "allowed": describe_type(annotation),
                "required": default is inspect.Parameter.empty,
                "default": None if default is inspect.Parameter.empty else default,
            }
            for name, (annotation, default) in lowering.attributes.items()
        ],
    }
