"""``ortconv ops``."""

from __future__ import annotations

import inspect
import json
from typing import Any

import click

from ortconv.cli import output
from ortconv.converters import FRONTENDS
from ortconv.frontend.attributes import describe_type
from ortconv.frontend.registry import Lowering
from ortconv.frontend.source_format import Frontend

__all__ = ["command", "markdown_table"]

_HOW = {"exact": "one ONNX node", "composed": "several ONNX nodes", "plugin": "a node of `org.ortconv`"}


@click.command("ops", epilog="Example: ortconv ops openvino")
@click.argument("source", required=False, type=click.Choice([frontend.name for frontend in FRONTENDS]))
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with inputs and attributes.")
@click.option("--markdown", is_flag=True, help="Print a short table in Markdown, as in docs/reference/operators.md.")
def command(source: str | None, as_json: bool, markdown: bool) -> None:
    """List the operations that are converted: their versions, how they are converted, and what they become.

    The column "how" is "exact" for one equivalent ONNX node, "composed" for several, "plugin" for a node of the domain
    org.ortconv, and "refused", with the reason, for what is not supported.
    """
    if as_json and markdown:
        raise click.UsageError("--json and --markdown exclude each other.")
    frontends = [frontend for frontend in FRONTENDS if source in (None, frontend.name)]
    if as_json:
        entries = [_entry(frontend, lowering) for frontend in frontends for lowering in frontend.registry]
        entries += [
            {"source": frontend.name, "op": refusal.op_type, "how": "refused", "reason": refusal.reason}
            for frontend in frontends
            for refusal in frontend.registry.refusals
        ]
        output.stdout().file.write(json.dumps(entries, indent=2) + "\n")
        return
    if markdown:
        output.stdout().file.write("\n".join(markdown_table(frontend) for frontend in frontends))
        return
    for index, frontend in enumerate(frontends):
        if index:
            output.line()
        output.line((frontend.title, "bold"))
        rows: list[tuple[str, str, str, str]]
        rows = [(each.op_type, each.versions, each.how, _becomes(each)) for each in frontend.registry]
        rows += [(each.op_type, "", "refused", each.reason) for each in frontend.registry.refusals]
        output.table(("op", "versions", "how", "becomes"), sorted(rows))


def markdown_table(frontend: Frontend) -> str:
    """Returns the ops of a format in Markdown: a row for each way to convert, and a row for each reason to refuse.

    Versions stand in brackets where they are not just 1.
    """
    rows: dict[str, dict[str, list[str]]] = {how: {} for how in _HOW}
    for lowering in frontend.registry:
        rows[lowering.how].setdefault(lowering.op_type, []).append(lowering.versions)
    reasons: dict[str, list[str]] = {}
    for refusal in frontend.registry.refusals:
        reasons.setdefault(refusal.reason, []).append(refusal.op_type)
    lines = ["| becomes | operations |", "|---|---|"]
    for how, ops in rows.items():
        if ops:
            names = [op if found == ["1"] else f"{op} ({', '.join(found)})" for op, found in ops.items()]
            lines.append(f"| {_HOW[how]} | {', '.join(names)} |")
    lines += [f"| refused: {reason} | {', '.join(ops)} |" for reason, ops in sorted(reasons.items())]
    return "\n".join(lines) + "\n"


def _becomes(lowering: Lowering) -> str:
    return lowering.summary.removeprefix("Lowers to ")


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
