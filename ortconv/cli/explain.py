"""``ortconv explain``."""

from __future__ import annotations

import pathlib
import tempfile
from collections import Counter

import click
from rich.text import Text

from ortconv import api, optimizer
from ortconv.cli import files, optimize, options, output
from ortconv.errors import ConversionError, ConversionErrors, ExecutionError, NodeRef, OrtconvError, PluginError
from ortconv.graph.builder import Step
from ortconv.opset.domain import DOMAIN
from ortconv.options import Compute, Io, Semantics, Target, Weights
from ortconv.runtime import provider
from ortconv.runtime.runner import Model

__all__ = ["command"]

_Row = tuple[output.Cell, output.Cell, output.Cell]


@click.command("explain", epilog="Example: ortconv explain network.xml --semantics runtime")
@click.argument("source", type=options.SOURCE)
@options.semantics("spec", "As for convert: spec (default) or runtime.")
@options.target("As for convert: auto (default), onnx or plugin.")
@options.types
@options.tensors
def command(
    source: pathlib.Path,
    semantics: Semantics,
    target: Target,
    io: Io,
    compute: Compute,
    weights: Weights,
    tensors_file: pathlib.Path | None,
) -> None:
    """Show what becomes of each node of SOURCE, and why: the resolved padding, and warnings.

    Nothing is written. The table lists a source's nodes in the order in which they are computed. Of an ONNX model it
    lists those that `ortconv optimize` would look at, and a second one those at which our execution provider looks; the
    other options are for sources to convert.
    """
    if source.suffix.lower() == ".onnx":
        optimized = optimizer.optimization(source)
        optimize.show(optimized)
        output.line(f"`ortconv optimize` would rewrite {optimize.summary(optimized)}")
        _show_claims(source)
        return
    tensors = files.read_npz(tensors_file) if tensors_file else None
    try:
        done = api.conversion(
            source, semantics=semantics, target=target, io=io, compute=compute, weights=weights, tensors=tensors
        )
    except ConversionErrors as errors:
        steps = [step for step in errors.steps if isinstance(step, Step)]
        told = [step.error for step in steps]
        rows = [_row(step) for step in steps]
        rows += [_refused(error) for error in errors.exceptions if error not in told]
        output.table(("node", "becomes", "why"), rows)
        raise click.exceptions.Exit(output.failure(OrtconvError(f"{errors.message}."))) from errors
    output.table(("node", "becomes", "why"), [_row(step) for step in done.steps])
    for text in done.notes:
        output.line(output.plain(text))
    nodes = list(done.model.graph.all_nodes())
    ours = sum(node.domain == DOMAIN for node in nodes)
    output.line(
        f"\n{output.count(len(done.steps), 'source node')}, {output.count(len(nodes), 'ONNX node')}, "
        f"{ours} of them of {DOMAIN}; {output.count(len(done.warnings), 'warning')}"
    )


def _show_claims(model: pathlib.Path) -> None:
    """Prints what the execution provider does with the nodes of a model, in a session of ONNX Runtime."""
    with tempfile.TemporaryDirectory(prefix="ortconv-explain-") as folder:
        report = pathlib.Path(folder, "report")
        try:
            Model(model, str(model), backend="ep", ep_options={provider.REPORT_OPTION: str(report)})
        except (ExecutionError, PluginError) as error:
            output.warning(f"what the execution provider claims is not known: {error}")
            return
        claims = provider.read_report(report)
    if claims:
        output.line()
        rows = [
            (
                output.plain(f"{claim.op_type} {claim.node}"),
                Text("left", "yellow") if claim.reason else Text("claimed", "green"),
                output.plain("; ".join(claim.fused)),
                output.plain("; ".join([*([claim.reason] if claim.reason else []), *claim.kept])),
            )
            for claim in claims
        ]
        output.table(("node", provider.ep_name(), "fused with it", "why not"), rows)
        output.line()
    claimed = sum(not claim.reason for claim in claims)
    of = f"{claimed} of {output.count(len(claims), 'node')}" if claims else "nothing"
    output.line(f"`ortconv.register_ep` would claim {of}")


def _refused(error: Exception) -> _Row:
    problem = error.problem if isinstance(error, ConversionError) else str(error)
    ref = error.node if isinstance(error, ConversionError) else None
    return Text() if ref is None else _node(ref), Text("refused", "red"), output.plain(problem)


def _row(step: Step) -> _Row:
    if step.error is not None:
        return _refused(step.error)
    why = Text("; ".join(map(output.plain, step.notes)))
    for text in step.warnings:
        why.append("; " if why else "")
        why.append(f"warning: {output.plain(text)}", style="yellow")
    return _node(step.ref), _becomes(step), why


def _node(ref: NodeRef) -> Text:
    return Text.assemble((output.plain(ref.op_type), "bold"), f" {output.plain(ref.name)} (id {output.plain(ref.id)})")


def _becomes(step: Step) -> Text:
    counts = Counter((node.domain, node.op_type) for node in step.nodes)
    made = Text(", ").join(
        Text(
            (f"{count} " if count > 1 else "") + (f"{domain} {op_type}" if domain else op_type),
            style="cyan" if domain == DOMAIN else "",
        )
        for (domain, op_type), count in counts.items()
    )
    return made or Text("nothing", style="dim")
