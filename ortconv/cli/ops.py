"""``ortconv ops``."""

from __future__ import annotations

import inspect
import json
from typing import Any

import click

from ortconv.cli import output
from ortconv.converters import FRONTENDS
from ortconv.frontend import Frontend
from ortconv.lowering import Lowering, Refusal, describe_type

__all__ = ["command"]


@click.command("ops", epilog="Example: ortconv ops openvino")
@click.argument("source", required=False, type=click.Choice([frontend.name for frontend in FRONTENDS]))
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with inputs and attributes.")
def command(source: str | None, as_json: bool) -> None:
    """List the operators that are converted: which versions of each, how, and what they become.

    How is "exact" for one ONNX node that means the same, "composed" for several, "plugin" for a node of the domain
    org.ortconv, and "refused" with the reason.
    """
    frontends = [frontend for frontend in FRONTENDS if source in (None, frontend.name)]
    if as_json:
        entries = [_entry(frontend, lowering) for frontend in frontends for lowering in frontend.registry]
        entries += [_refused(frontend, refusal) for frontend in frontends for refusal in frontend.registry.refusals]
        output.stdout().file.write(json.dumps(entries, indent=2) + "\n")
        return
    for index, frontend in enumerate(frontends):
        if index:
            output.line()
        output.line((frontend.title, "bold"))
        rows = [(each.op_type, each.versions, each.how, _becomes(each)) for each in frontend.registry]
        rows += [(each.op_type, "", "refused", each.reason) for each in frontend.registry.refusals]
        output.table(("op", "versions", "how", "becomes"), sorted(rows, key=lambda row: str(row[0])))


def _becomes(lowering: Lowering) -> str:
    return lowering.summary.removeprefix("Lowers to ")


def _refused(frontend: Frontend, refusal: Refusal) -> dict[str, Any]:
    return {"source": frontend.name, "op": refusal.op_type, "how": "refused", "reason": refusal.reason}


def _entry(frontend: Frontend, lowering: Lowering) -> dict[str, Any]:
    return {
        "source": frontend.name,
        "op": lowering.op_type,
        "since": lowering.since,
        "until": lowering.until,
        "how": lowering.how,
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
