"""``ortconv convert``."""

from __future__ import annotations

import pathlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import click
from rich.text import Text

from ortconv import api
from ortconv.cli import conversion_report, feeds, files, options, output, stopping
from ortconv.cli.sources import Job, plan
from ortconv.errors import NodeRef, OrtconvError
from ortconv.frontend.source_format import Tensors
from ortconv.graph.builder import Step
from ortconv.model_io.input_data import Input
from ortconv.opset.domain import DOMAIN
from ortconv.options import Compute, Io, Semantics, Target, Weights
from ortconv.runtime.saturation import saturate

__all__ = ["command"]


@click.command(
    "convert", epilog="Example: ortconv convert network.xml graph.json --output-dir onnx --report onnx/report.json"
)
@click.argument("sources", nargs=-1, required=True, type=options.SOURCE, metavar="SOURCE...")
@click.option(
    "-o",
    "--output",
    "target_file",
    type=click.Path(path_type=pathlib.Path),
    metavar="OUT.onnx",
    help="The file to write, or the folder if SOURCE is a folder. Default: STEM.onnx in the current directory.",
)
@click.option(
    "--output-dir",
    "target_dir",
    type=click.Path(file_okay=False, path_type=pathlib.Path),
    metavar="DIR",
    help="Write DIR/STEM.onnx for each source; DIR is created if it does not exist.",
)
@options.semantics(
    "spec",
    "For convolutions, where the two differ. spec: follow the source's specification (default). runtime: reproduce its "
    "own library. All other OpenVINO operations follow the library.",
)
@options.target(
    "auto: standard ONNX where it is exact; otherwise, and for int8 and int4 weights, operators of "
    "org.ortconv with function bodies (default). onnx: standard operators only. plugin: ours wherever they apply.",
)
@click.option(
    "--opset",
    type=click.IntRange(api.OPSETS.start, api.OPSETS.stop - 1),
    help="Version of the ai.onnx opset. Default: the oldest that has all of the model's nodes, "
    f"{api.OPSETS.start} to {api.DEFAULT_OPSET}, or 18 where AveragePool is one of them.",
)
@options.types
@click.option(
    "--shape",
    "shape_texts",
    multiple=True,
    metavar="NAME=1x3x?x?",
    help="Set dynamic dimensions of an input; those with a question mark stay dynamic.",
)
@click.option("--input", "input_texts", multiple=True, metavar="NAME=NEWNAME", help="Rename an input.")
@options.tensors
@options.random_constants
@options.file_to_write(
    "--report", "report_file", metavar="FILE.json", help="Write a JSON report of every node, with warnings and errors."
)
def command(
    sources: tuple[pathlib.Path, ...],
    target_file: pathlib.Path | None,
    target_dir: pathlib.Path | None,
    semantics: Semantics,
    target: Target,
    opset: int | None,
    io: Io,
    compute: Compute,
    weights: Weights,
    shape_texts: tuple[str, ...],
    input_texts: tuple[str, ...],
    tensors_file: pathlib.Path | None,
    constants_seed: int | None,
    report_file: pathlib.Path | None,
) -> None:
    """Convert OpenVINO IR (.xml, its .bin beside it) and oneDNN Graph JSON files to ONNX.

    SOURCE may be a folder: all sources in it and its subfolders are converted, into the same folder structure, and a
    table lists the results. Otherwise each source gives one line on stdout. A source that cannot be converted gives one
    error line per node, and nothing is written for it; the others are still converted, and the exit code is 1. A
    warning that several nodes share is printed once; the report has all of them.
    """
    jobs = plan(sources, target_file, target_dir)
    read = [path for job in jobs for path in (job.source, options.weights_of(job.source))]
    options.keep_apart([*(job.target for job in jobs), report_file], [*read, tensors_file])
    tensors = files.read_npz(tensors_file) if tensors_file else None
    how: dict[str, Any] = {
        **{"semantics": semantics, "target": target, "opset": opset},
        **{"io": io, "compute": compute, "weights": weights},
    }
    asked = dict(how)
    if shape_texts or input_texts:
        if len(jobs) > 1:
            raise click.UsageError(f"--shape and --input are for one source, and there are {len(jobs)}.")
        how |= _inputs(jobs[0].source, tensors, shape_texts, input_texts)
    taking = {job for job in jobs if _takes_tensors(job)} or set(jobs)
    if target_dir:
        target_dir.mkdir(parents=True, exist_ok=True)
    options.writable("--report", report_file)
    entries = []
    rows: list[tuple[str, Text]] = []
    in_folder = any(source.is_dir() for source in sources)
    for number, job in enumerate(jobs, 1):
        count = f" ({number} of {len(jobs)})" if len(jobs) > 1 else ""
        given = {"tensors": tensors, "random_constants": constants_seed} if job in taking else {}
        with stopping.tidy():
            entry, result = _convert(job, f"Converting {job.source}{count}", {**how, **given})
        entries.append(entry)
        if in_folder:
            rows.append((output.plain(job.source), result))
        elif entry["status"] == "converted":
            output.line(output.plain(job.source), " -> ", (output.plain(job.target), "bold"), ": ", result)
    if in_folder:
        converted = sum(entry["status"] == "converted" for entry in entries)
        output.table(("source", "result"), rows)
        folder = output.plain(target_file or target_dir or ".")
        output.line(f"\n{converted} of {output.count(len(jobs), 'source')} converted to ", (folder, "bold"))
    if report_file:
        files.write_json(report_file, conversion_report.document(asked, entries))
    if any(entry["status"] != "converted" for entry in entries):
        raise click.exceptions.Exit(1)


def _inputs(
    source: pathlib.Path, tensors: Tensors | None, shape_texts: Iterable[str], input_texts: Iterable[str]
) -> dict[str, Any]:
    """Returns what `api.conversion` is told of a source's inputs."""
    inputs = [
        Input(each.name, each.dtype, each.shape) for each in api.detect(source).read(source, tensors or {}).inputs
    ]
    return {
        "shapes": feeds.parse_open_shapes(shape_texts, inputs),
        "names": feeds.pairs(input_texts, inputs, "--input"),
    }


def _takes_tensors(job: Job) -> bool:
    """Whether the source's format lacks data; a source of no known format is refused when it is converted."""
    try:
        return api.detect(job.source).takes_tensors
    except OrtconvError:
        return False


def _convert(job: Job, progress: str, how: Mapping[str, Any]) -> tuple[conversion_report.Entry, Text]:
    """Converts one source, and returns its entry in the report and what became of it; `how` as for `api.conversion`."""
    try:
        with output.bar(progress) as bar:
            done = api.conversion(job.source, progress=bar, **how)
            job.target.parent.mkdir(parents=True, exist_ok=True)
            done.save(job.target, progress=bar)
    except Exception as error:
        output.failure(error)
        return conversion_report.refused(job.source, error), Text("refused", "red")
    for text in _grouped(done.steps):
        output.warning(text)
    if done.saturating and saturate():
        output.warning(
            f"{job.source}: {output.count(done.saturating, 'product')} of 8-bit integers: on this CPU, as on all of "
            "x86-64 without VNNI, sums of ONNX Runtime saturate, unless session.x64quantprecision is 1 among the "
            "session's config entries; with our library registered, it is"
        )
    return conversion_report.converted(job.source, job.target, done), Text(_summary(done), "green")


def _grouped(steps: Iterable[Step]) -> Iterator[str]:
    """Yields a line for each warning; what is said of several nodes of one kind is said once, of the first of them."""
    concerned: dict[tuple[str, str], list[NodeRef]] = defaultdict(list)
    for step in steps:
        for text in step.warnings:
            concerned[step.ref.op_type, text].append(step.ref)
    for (_, text), (first, *others) in concerned.items():
        more = f" and {output.count(len(others), 'more node')}" if others else ""
        yield f"{first}{more}: {text}"


def _summary(done: api.Conversion) -> str:
    nodes = list(done.model.graph.all_nodes())
    ours = [node for node in nodes if node.domain == DOMAIN]
    parts = [f"{len(nodes) - len(ours)} standard", f"{len(ours)} {DOMAIN}"] if ours else ["all standard"]
    text = f"{output.count(len(nodes), 'node')} ({', '.join(parts)})"
    return text + (f", {output.count(len(done.warnings), 'warning')}" if done.warnings else "")
