"""``ortconv report``."""

from __future__ import annotations

import pathlib

import click

from ortconv import verification
from ortconv.cli import feeds, files, options, output, stopping
from ortconv.options import Semantics, Target
from ortconv.reporting import document, page

__all__ = ["command"]


@click.command("report", epilog="Example: ortconv report network.xml --shape image=1x3x64x64 -o network.html")
@click.argument("source", type=options.SOURCE)
@options.file_to_write(
    "-o", "--output", "target_file", required=True, metavar="OUT.html", help="The page to write, for any browser."
)
@options.semantics(
    None, "As for convert. Default: runtime for OpenVINO (its runtime knows nothing else) and spec for oneDNN."
)
@options.target("As for convert: auto (default), onnx or plugin.")
@options.tensors
@feeds.feed_options
@options.tolerance
@click.option("--threads", type=click.IntRange(1), help="Threads of each session. Default: ONNX Runtime's own choice.")
@click.option("--runs", type=click.IntRange(1), default=5, show_default=True, help="How often each side is measured.")
def command(
    source: pathlib.Path,
    target_file: pathlib.Path,
    semantics: Semantics | None,
    target: Target,
    tensors_file: pathlib.Path | None,
    input_texts: tuple[str, ...],
    shape_texts: tuple[str, ...],
    seed: int,
    tolerance: float | None,
    threads: int | None,
    runs: int,
) -> None:
    """Write a page that shows what a conversion does: the network before and after, errors, times and sizes.

    SOURCE is converted, compared with its own runtime layer by layer as `ortconv verify` does, and run under ONNX
    Runtime's profiler with and without the plugin. The page is one file that needs no network. It is written also if
    SOURCE is refused, differs, or cannot be run; the exit code is 1 then.
    """
    options.writable("--output", target_file)
    tensors = files.read_npz(tensors_file) if tensors_file else None
    declared = verification.declared_inputs(source, tensors)
    options.keep_apart(
        [target_file], [source, options.weights_of(source), tensors_file, *feeds.files_given(input_texts, declared)]
    )
    given = feeds.parse_inputs(input_texts, declared)
    shapes = feeds.parse_shapes(shape_texts, declared)
    with output.bar(f"Reporting on {source}") as bar, stopping.tidy(), feeds.integers_in_mind(declared, given):
        found = document.gather(
            source,
            semantics=semantics,
            target=target,
            tensors=tensors,
            data=given,
            shapes=shapes,
            seed=seed,
            tolerance=tolerance,
            threads=threads or 0,
            runs=runs,
            progress=bar,
        )
        files.write_text(target_file, page.render(found.document))
    verdict = _verdict(found)
    output.line(output.plain(source), " -> ", (output.plain(target_file), "bold"), ": ", verdict)
    for error in filter(None, (found.refused, found.failed)):
        output.failure(error)
    if found.verification is None or not found.verification.agrees or found.failed:
        raise click.exceptions.Exit(1)


def _verdict(found: document.Report) -> tuple[str, str]:
    if found.refused:
        return f"{output.count(len(found.refused.exceptions), 'node')} refused", "red"
    if found.verification is None:
        return "not verified", "red"
    return ("agrees", "green") if found.verification.agrees else ("differs", "bold red")
