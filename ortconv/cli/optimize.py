"""``ortconv optimize``."""

from __future__ import annotations

import dataclasses
import pathlib
from importlib.metadata import version

import click
from rich.text import Text

from ortconv import optimizer
from ortconv.cli import files, options, output, stopping
from ortconv.opset.domain import DOMAIN
from ortconv.optimizer import Optimization, Outcome

__all__ = ["command", "show", "summary"]

_COLUMNS = ("node", "becomes", "recognised", "folded in", "left alone")
"""Headings of the table; a column without any text is left out."""


@click.command("optimize", epilog="Example: ortconv optimize network.onnx -o faster.onnx --report faster.json")
@click.argument("model", type=options.SOURCE, metavar="MODEL.onnx")
@options.file_to_write(
    "-o",
    "--output",
    "target",
    metavar="OUT.onnx",
    required=True,
    help="The file to write. External weights go to OUT.onnx.data.",
)
@options.file_to_write(
    "--report", "report_file", metavar="FILE.json", help="Write a JSON report of every node that was looked at."
)
def command(model: pathlib.Path, target: pathlib.Path, report_file: pathlib.Path | None) -> None:
    """Replace ConvTranspose nodes and Fourier transforms of an ONNX file by nodes of org.ortconv, which are faster.

    Transposes, paddings, crops, biases and activations around them are fused where that is exact. The file still runs
    without the plugin, by function bodies. Layers that are Fourier transforms are recognised by their filters: Conv,
    ConvTranspose, and the ops STFT and DFT. Each such node gives one line on stdout; if it is not replaced, with the
    reason.
    """
    options.writable("-o", target)
    options.writable("--report", report_file)
    options.refuse_source(model)
    with output.progress(f"Optimizing {model}"), stopping.tidy():
        done = optimizer.optimization(model)
        options.keep_apart([*done.targets(target), report_file], done.reads)
        done.save(target)
    show(done)
    output.line(
        output.plain(model),
        " -> ",
        (output.plain(target), "bold"),
        ": ",
        (f"{summary(done)} rewritten", "green") if done.outcomes else (summary(done), "yellow"),
    )
    if report_file:
        files.write_json(report_file, _document(done, target))


def show(done: Optimization) -> None:
    """Prints a table of what became of the nodes."""
    if done.outcomes:
        rows = [_row(outcome) for outcome in done.outcomes]
        used = [index for index in range(len(_COLUMNS)) if any(str(row[index]) for row in rows)]
        output.table([_COLUMNS[index] for index in used], [[row[index] for index in used] for row in rows])
        output.line()


def summary(done: Optimization) -> str:
    """Returns how many nodes are rewritten, and of what kind; or that the model has none to look at."""
    if not done.outcomes:
        return "nothing: the model has no ConvTranspose, STFT or DFT, and no Conv with filters of a Fourier transform"
    kinds = {outcome.op_type for outcome in done.outcomes}
    kind = f"{kinds.pop()} node" if len(kinds) == 1 else "node"
    return f"{done.rewritten} of {output.count(len(done.outcomes), kind)}"


def _row(outcome: Outcome) -> tuple[output.Cell, ...]:
    left = [outcome.reason] if outcome.reason else list(outcome.kept)
    return (
        output.plain(outcome.name),
        Text(f"{DOMAIN} {outcome.becomes}", "green") if outcome.becomes else Text("unchanged", "yellow"),
        output.plain(outcome.recognised),
        output.plain("; ".join(outcome.folded)),
        output.plain("; ".join(left)),
    )


def _document(done: Optimization, target: pathlib.Path) -> dict[str, object]:
    return {
        "ortconv": version("ortconv"),
        "model": done.source,
        "output": str(target),
        "rewritten": done.rewritten,
        "nodes": [dataclasses.asdict(outcome) for outcome in done.outcomes],
    }
