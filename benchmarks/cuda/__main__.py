"""The command line of the benchmarks on the GPU."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import math
import pathlib
import sys
from collections.abc import Iterator, Sequence
from time import monotonic

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
    "--minutes", type=click.FloatRange(0), help="Begin no other shape after so many minutes. Default: no limit."
)
@click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, writable=True, path_type=pathlib.Path),
    help="Write everything that was found, after every shape.",
)
@click.option("--resume", is_flag=True, help="Keep what is in the file of --json, and measure what is not.")
def main(
    texts: tuple[str, ...],
    dtypes: tuple[str, ...],
    layouts: tuple[str, ...],
    rounds: int,
    seconds: float,
    no_graph: bool,
    minutes: float | None,
    json_file: pathlib.Path | None,
    resume: bool,
) -> None:
    """Compare the speed of transposed convolutions on the GPU: ONNX Runtime's own (cuDNN), torch's and ortconv's.

    Each engine runs in a process of its own, one at a time, in many short turns; times are medians over the turns, a
    ratio is the median of the ratios within a round. Every answer is compared with a float64 reference before it is
    timed: the exit code is 1 if one is wrong.
    """
    shapes = [shape for shape in ALL if not texts or any(text.lower() in shape.name.lower() for text in texts)]
    if not shapes:
        raise click.UsageError("--shape: no shape has that in its name.")
    if resume and json_file is None:
        raise click.UsageError("--resume: --json names no file.")
    end = math.inf if minutes is None else monotonic() + 60 * minutes
    console = Console(width=None if sys.stdout.isatty() else 180, highlight=False)
    ceiling = gpu.measure(dtypes)
    peaks = ", ".join(f"{dtype} {rate / 1e3:.0f}" for dtype, rate in ceiling.peak.items())
    machine = gpu.describe()
    console.print(f"{machine['gpu']}: peak TFLOP/s {peaks} (matrix product), copy {ceiling.copy:.0f} GB/s\n")
    settings = {"rounds": rounds, "seconds": seconds, "graph": not no_graph, "versions": _versions()}
    kept = json.loads(json_file.read_text(encoding="utf-8")) if resume and json_file and json_file.exists() else None
    if kept and kept["settings"] != settings:
        raise click.UsageError(f"--resume: what the file has was measured with other settings: {kept['settings']}.")
    entries: list[report.Entry] = list(kept["cases"]) if kept else []
    done = {report.key(each) for each in entries}
    wanted = {
        layout: [(dtype, shape) for dtype in dtypes for shape in shapes if (layout, dtype, shape.name) not in done]
        for layout in layouts
    }
    missing = sum(map(len, wanted.values()))
    measured = (
        report.entry(layout, case, ceiling)
        for layout, chosen in wanted.items()
        for case in _measure(chosen, layout, rounds, seconds, not no_graph, end)
    )
    for found in measured:
        entries.append(found)
        missing -= 1
        if json_file:
            text = json.dumps(report.document(entries, ceiling, machine, settings, missing), indent=1)
            json_file.write_text(text + "\n", encoding="utf-8")
    report.show(console, entries)
    if missing:
        console.print(f"{missing} cases are left; --resume goes on.")
    if any(each["wrong"] for each in entries):
        raise click.exceptions.Exit(1)


def _measure(
    wanted: Sequence[tuple[str, Shape]], layout: str, rounds: int, seconds: float, graph: bool, end: float
) -> Iterator[Case]:
    """Yields a case after the other until the time `end`."""
    with Progress(console=Console(stderr=True), transient=True) as progress, contextlib.ExitStack() as stack:
        workers: dict[str, Worker] = {}
        for dtype, shape in progress.track(wanted, description=f"measuring {layout}"):
            if monotonic() > end:
                return
            workers = workers or {name: stack.enter_context(Worker(name, layout, graph)) for name in ENGINES}
            right = expect(shape, dtype)
            yield from measure(shape, dtype, {0: workers}, rounds=rounds, seconds=seconds, expected=right)


def _versions() -> dict[str, str]:
    """Returns the versions of the packages that matter, those that are installed."""
    found = {}
    for name in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.cuda")
