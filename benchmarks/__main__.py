"""The command line of the benchmarks."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import pathlib
import sys

import click
from rich.console import Console
from rich.progress import Progress

from benchmarks import engines, machine, report
from benchmarks.measure import Case, measure
from benchmarks.shapes import DTYPES, SHAPES, Shape
from benchmarks.worker import Worker

__all__ = ["main"]

_QUICK = 2
"""Shapes, rounds and so on of a run that only shows that everything works."""


@click.command(
    epilog="Example: python -m benchmarks --dtype f32 --dtype bf16 --threads 1 --json found.json --plot found.png"
)
@click.option(
    "--shape", "texts", multiple=True, metavar="TEXT", help="Only shapes with this in their name; repeatable."
)
@click.option(
    "--dtype",
    "dtypes",
    multiple=True,
    type=click.Choice(list(DTYPES)),
    default=("f32",),
    help="Element type; repeatable. Default: f32.",
)
@click.option(
    "--threads",
    "threads",
    multiple=True,
    type=click.IntRange(1),
    default=(1,),
    help="Threads of each engine; repeatable. Default: 1.",
)
@click.option(
    "--engine", "names", multiple=True, type=click.Choice(list(engines.ENGINES)), help="Only these engines; repeatable."
)
@click.option(
    "--rounds", type=click.IntRange(1), default=25, show_default=True, help="How often each engine has its turn."
)
@click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    default=0.02,
    show_default=True,
    help="How long a turn lasts, about.",
)
@click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, writable=True, path_type=pathlib.Path),
    help="Write everything that was found.",
)
@click.option(
    "--plot",
    "plot_file",
    type=click.Path(dir_okay=False, writable=True, path_type=pathlib.Path),
    help="Draw a PNG; needs matplotlib.",
)
@click.option(
    "--quick", is_flag=True, help="Two small shapes, two short rounds: shows that everything works, and no more."
)
@click.option("--list", "listing", is_flag=True, help="List the shapes and stop.")
def main(
    texts: tuple[str, ...],
    dtypes: tuple[str, ...],
    threads: tuple[int, ...],
    names: tuple[str, ...],
    rounds: int,
    seconds: float,
    json_file: pathlib.Path | None,
    plot_file: pathlib.Path | None,
    quick: bool,
    listing: bool,
) -> None:
    """Compare the speed of transposed convolutions: ONNX Runtime, OpenVINO, torch (where installed) and ortconv.

    Each engine runs in a process of its own, one at a time, in many short turns; times are medians over the turns, a
    ratio is the median of the ratios within a round. A turn in which other programs took the core is repeated, four
    times at most. Every answer is compared with a float64 reference before it is timed: the exit code is 1 if one is
    wrong.
    """
    shapes = [shape for shape in SHAPES if not texts or any(text.lower() in shape.name.lower() for text in texts)]
    if not shapes:
        raise click.UsageError("--shape: no shape has that in its name; --list shows them.")
    if listing:
        for shape in shapes:
            click.echo(f"{shape.name}: {list(shape.x_shape)} -> {list(shape.y_shape)}, {shape.flops / 1e6:.1f} MFLOP")
        return
    if plot_file and importlib.util.find_spec("matplotlib") is None:
        raise click.UsageError("--plot needs matplotlib, which is not installed.")
    if quick:
        shapes = sorted(shapes, key=lambda shape: shape.flops)[:_QUICK]
        rounds, seconds = _QUICK, 0.001
    console = Console(width=None if sys.stdout.isatty() else 180, highlight=False)
    ceilings = {count: machine.measure(count, 0.05 if quick else 1.0) for count in dict.fromkeys(threads)}
    for ceiling in ceilings.values():
        peaks = ", ".join(f"{dtype} {rate:.0f}" for dtype, rate in ceiling.peak.items())
        console.print(
            f"threads {ceiling.threads}: peak GFLOP/s {peaks} ({ceiling.method}), copy {ceiling.copy:.1f} GB/s"
        )
    chosen = tuple(name for name in engines.ENGINES if not names or name in names)
    cases = _measure(shapes, tuple(dict.fromkeys(dtypes)), tuple(ceilings), chosen, rounds, seconds)
    report.show(console, cases, ceilings)
    versions = {name: engines.version(name) for name in chosen}
    settings = {"rounds": rounds, "seconds": seconds, "quick": quick, "versions": versions}
    if json_file:
        found = report.document(cases, ceilings, machine.describe(), settings)
        json_file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if plot_file:
        from benchmarks import plot

        plot.draw(cases, ceilings, plot_file)
    if any(case.wrong for case in cases):
        raise click.exceptions.Exit(1)


def _measure(
    shapes: list[Shape],
    dtypes: tuple[str, ...],
    threads: tuple[int, ...],
    names: tuple[str, ...],
    rounds: int,
    seconds: float,
) -> list[Case]:
    cases = []
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("measuring", total=len(shapes) * len(dtypes) * len(threads))
        for count in threads:
            with contextlib.ExitStack() as stack:
                workers = {name: stack.enter_context(Worker(name, count)) for name in names}
                for dtype in dtypes:
                    for shape in shapes:
                        cases.append(measure(shape, dtype, count, workers, rounds=rounds, seconds=seconds))
                        progress.advance(task)
    return cases


if __name__ == "__main__":
    main(prog_name="python -m benchmarks")
