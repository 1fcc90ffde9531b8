"""The command line of the benchmarks on the GPU."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import pathlib
import sys

import click
from rich.console import Console
from rich.progress import Progress

from benchmarks.cuda import gpu, report
from benchmarks.cuda.answers import expect
from benchmarks.cuda.engines import ENGINES, LAYOUTS
from benchmarks.cuda.shapes import ALL
from benchmarks.cuda.worker import Worker
from benchmarks.measure import Case, measure
from benchmarks.shapes import Shape

__all__ = ["main"]

_PACKAGES = ("ortconv", "onnxruntime-gpu", "torch", "nvidia-cuda-nvrtc", "nvidia-cudnn-cu13", "nvidia-cudnn-cu12")


@click.command(epilog="Example: python -m benchmarks.cuda --dtype f16 --json found.json")
@click.option(
    "--shape", "texts", multiple=True, metavar="TEXT", help="Only shapes with this in their name; repeatable."
)
@click.option(
    "--dtype",
    "dtypes",
    multiple=True,
    type=click.Choice(list(gpu.DTYPES)),
    default=tuple(gpu.DTYPES),
    help="Element type; repeatable. tf32 is float32 that may be multiplied in TF32. Default: all.",
)
@click.option(
    "--layout",
    "layouts",
    multiple=True,
    type=click.Choice(LAYOUTS),
    default=LAYOUTS,
    help="Channels first or last; repeatable. Default: both.",
)
@click.option(
    "--rounds", type=click.IntRange(1), default=9, show_default=True, help="How often each engine has its turn."
)
@click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    default=0.02,
    show_default=True,
    help="How long a turn lasts, about.",
)
@click.option("--no-graph", is_flag=True, help="Launch every run from the CPU rather than in CUDA graphs.")
@click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, writable=True, path_type=pathlib.Path),
    help="Write everything that was found.",
)
def main(
    texts: tuple[str, ...],
    dtypes: tuple[str, ...],
    layouts: tuple[str, ...],
    rounds: int,
    seconds: float,
    no_graph: bool,
    json_file: pathlib.Path | None,
) -> None:
    """Compare the speed of transposed convolutions on the GPU: ONNX Runtime's own (cuDNN), torch's and ortconv's.

    Each engine runs in a process of its own, one at a time, in many short turns; times are medians over the turns, a
    ratio is the median of the ratios within a round. Every answer is compared with a float64 reference before it is
    timed: the exit code is 1 if one is wrong.
    """
    shapes = [shape for shape in ALL if not texts or any(text.lower() in shape.name.lower() for text in texts)]
    if not shapes:
        raise click.UsageError("--shape: no shape has that in its name.")
    console = Console(width=None if sys.stdout.isatty() else 180, highlight=False)
    ceiling = gpu.measure(dtypes)
    peaks = ", ".join(f"{dtype} {rate / 1e3:.0f}" for dtype, rate in ceiling.peak.items())
    machine = gpu.describe()
    console.print(f"{machine['gpu']}: peak TFLOP/s {peaks} (matrix product), copy {ceiling.copy:.0f} GB/s\n")
    groups = [
        report.Group(layout, _measure(shapes, dtypes, layout, rounds, seconds, not no_graph)) for layout in layouts
    ]
    report.show(console, groups, ceiling)
    if json_file:
        settings = {"rounds": rounds, "seconds": seconds, "graph": not no_graph, "versions": _versions()}
        found = report.document(groups, ceiling, machine, settings)
        json_file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if any(case.wrong for group in groups for case in group.cases):
        raise click.exceptions.Exit(1)


def _measure(
    shapes: list[Shape], dtypes: tuple[str, ...], layout: str, rounds: int, seconds: float, graph: bool
) -> tuple[Case, ...]:
    cases = []
    with Progress(console=Console(stderr=True), transient=True) as progress, contextlib.ExitStack() as stack:
        task = progress.add_task(f"measuring {layout}", total=len(shapes) * len(dtypes))
        workers = {name: stack.enter_context(Worker(name, layout, graph)) for name in ENGINES}
        for dtype in dtypes:
            for shape in shapes:
                right = expect(shape, dtype)
                cases += measure(shape, dtype, {0: workers}, rounds=rounds, seconds=seconds, expected=right)
                progress.advance(task)
    return tuple(cases)


def _versions() -> dict[str, str]:
    """Returns the versions of the packages that matter, those that are installed."""
    found = {}
    for name in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.cuda")
