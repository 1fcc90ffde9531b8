"""``ortconv optimize``."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from importlib.metadata import version

import click
from rich.text import Text

from ortconv import optimization
from ortconv.cli import files, options, output
from ortconv.opset import DOMAIN
from ortconv.optimization import Optimization, Outcome

__all__ = ["command"]


@click.command("optimize", epilog="Example: ortconv optimize network.onnx -o faster.onnx --report faster.json")
@click.argument("model", type=options.SOURCE, metavar="MODEL.onnx")
@click.option(
    "-o",
    "--output",
    "target",
    type=click.Path(dir_okay=False, path_type=pathlib.Path),
    metavar="OUT.onnx",
    required=True,
    help="The file to write. Weights that lie in a file of their own go to OUT.onnx.data.",
)
@click.option(
    "--report",
    "report_file",
    type=click.Path(dir_okay=False, path_type=pathlib.Path),
    metavar="FILE.json",
    help="Write what became of every ConvTranspose node as JSON.",
)
def command(model: pathlib.Path, target: pathlib.Path, report_file: pathlib.Path | None) -> None:
    """Rewrite the ConvTranspose nodes of an ONNX file into ours, whose kernels are faster and which compute the same.

    Transposes, paddings, crops and biases around them are taken in where that is exact. The file still runs without
    the plugin, by function bodies. Each ConvTranspose gives one line on stdout, also where it is left alone, with the
    reason.
    """
    options.writable("-o", target)
    options.writable("--report", report_file)
    with output.progress(f"Optimizing {model}"):
        done = optimization.optimize(model)
        _keep_apart(done, target, report_file)
        done.save(target)
    if done.outcomes:
        output.table(("node", "becomes", "folded in", "left alone"), [_row(outcome) for outcome in done.outcomes])
        output.line()
    output.line(
        output.plain(model),
        " -> ",
        (output.plain(target), "bold"),
        ": ",
        (f"{done.rewritten} of {output.count(len(done.outcomes), 'ConvTranspose node')} rewritten", "green"),
    )
    if report_file:
        files.write_json(report_file, _document(done, target))


def _keep_apart(done: Optimization, target: pathlib.Path, report_file: pathlib.Path | None) -> None:
    """Refuses to overwrite what is read, and to write two things to one file.

    Raises:
        click.UsageError: That would happen.
    """
    taken = set(done.reads)
    for path in [*done.targets(target), *([str(report_file)] if report_file else [])]:
        real = os.path.realpath(path)
        if real in taken:
            raise click.UsageError(f"{path} would overwrite a file that this call reads or writes; choose another.")
        taken.add(real)


def _row(outcome: Outcome) -> tuple[output.Cell, ...]:
    left = [outcome.reason] if outcome.reason else list(outcome.kept)
    return (
        output.plain(outcome.name),
        Text(f"{DOMAIN} {outcome.becomes}", "green") if outcome.becomes else Text("unchanged", "yellow"),
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
