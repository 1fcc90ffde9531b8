"""The command line of the benchmarks."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import json
import pathlib
import sys

import click
from rich.console import Console
from rich.progress import Progress

from benchmarks import engines, machine, report, sweep
from benchmarks.measure import Case, measure
from benchmarks.series import SERIES, Series
from benchmarks.shapes import DTYPES, SHAPES, Shape
from benchmarks.turn import Fastest
from benchmarks.worker import Worker

__all__ = ["main"]

_QUICK = 2
"""Shapes, rounds and so on of a run that only shows that everything works."""

_ROUNDS, _SWEEP_ROUNDS = 25, 5


@click.command(
    epilog="Example: python -m benchmarks --dtype f32 --dtype bf16 --threads 1 --json found.json --plot found.png"
)
@click.option(
    "--shape",
    "texts",
    multiple=True,
    metavar="TEXT",
    help="Only shapes, or series of shapes, with this in their name; repeatable.",
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
    "--rounds",
    type=click.IntRange(1),
    help=f"How often each engine has its turn. Default: {_ROUNDS}; with --sweep {_SWEEP_ROUNDS}.",
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
@click.option(
    "--sweep",
    "sweeping",
    is_flag=True,
    help="Look for cliffs instead: series of shapes that differ in one size (channels, spatial sizes, batch, kernel, "
    "stride, groups, ..., primes among them), and those that are under half as efficient as a neighbour. Engines: "
    "ours and ort, unless named. A run of some minutes.",
)
@click.option("--list", "listing", is_flag=True, help="List the shapes and stop.")
def main(
    texts: tuple[str, ...],
    dtypes: tuple[str, ...],
    threads: tuple[int, ...],
    names: tuple[str, ...],
    rounds: int | None,
    seconds: float,
    json_file: pathlib.Path | None,
    plot_file: pathlib.Path | None,
    quick: bool,
    sweeping: bool,
    listing: bool,
) -> None:
    """Compare the speed of transposed convolutions: ONNX Runtime, OpenVINO, torch (where installed) and ortconv.

    Each engine runs in a process of its own, which is stopped, with all its threads, while another has its turn. Turns
    are many and short; times are medians over them, a ratio is the median of the ratios within a round, also between
    numbers of threads. A turn in which other programs took the cores is repeated, four times at most, and so is a round
    in which the core computed slowly, as that of a virtual machine does while somebody else uses its other half. Every
    answer is compared with a float64 reference before it is timed: the exit code is 1 if one is wrong.
    """
    if sweeping:
        _sweep(texts, dtypes, threads, names, rounds or _SWEEP_ROUNDS, seconds, json_file, plot_file, quick, listing)
        return
    rounds = rounds or _ROUNDS
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
    console = _console()
    ceilings = {count: _ceiling(console, count, quick) for count in dict.fromkeys(threads)}
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


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else 180, highlight=False)


def _ceiling(console: Console, threads: int, quick: bool) -> machine.Ceiling:
    """Measures what the machine can do, and says it."""
    ceiling = machine.measure(threads, 0.05 if quick else 1.0)
    peaks = ", ".join(f"{dtype} {rate:.0f}" for dtype, rate in ceiling.peak.items())
    copies = ", ".join(f"{size >> 10} KiB {rate:.0f}" for size, rate in ceiling.copy.items())
    console.print(f"threads {threads}: peak GFLOP/s {peaks} ({ceiling.method}), copy GB/s {copies}")
    return ceiling


def _measure(
    shapes: list[Shape],
    dtypes: tuple[str, ...],
    threads: tuple[int, ...],
    names: tuple[str, ...],
    rounds: int,
    seconds: float,
) -> list[Case]:
    cases: list[list[Case]] = []
    fastest = Fastest()
    with contextlib.ExitStack() as stack:
        progress = stack.enter_context(Progress(console=Console(stderr=True), transient=True))
        task = progress.add_task("measuring", total=len(shapes) * len(dtypes))
        workers = {count: {name: stack.enter_context(Worker(name, count)) for name in names} for count in threads}
        for dtype in dtypes:
            for shape in shapes:
                cases.append(measure(shape, dtype, workers, rounds=rounds, seconds=seconds, fastest=fastest))
                progress.advance(task)
        # Others may have stopped using the core since.
        for at, found in enumerate(cases):
            if any(fastest.slowed(case.pace) for case in found):
                shape, dtype = found[0].shape, found[0].dtype
                cases[at] = measure(shape, dtype, workers, rounds=rounds, seconds=seconds, fastest=fastest)
    return list(itertools.chain(*cases))


def _sweep(
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
    if len(dtypes) > 1 or len(threads) > 1 or plot_file:
        raise click.UsageError("--sweep takes one --dtype and one --threads, and draws no --plot.")
    chosen = [series for series in SERIES if not texts or any(text.lower() in series.name.lower() for text in texts)]
    if not chosen:
        raise click.UsageError("--shape: no series has that in its name; --sweep --list shows them.")
    if listing:
        for series in chosen:
            click.echo(f"{series.name}: {series.parameter} {', '.join(map(str, series.shapes))}")
        return
    if quick:
        chosen = [Series(chosen[0].name, chosen[0].parameter, dict(list(chosen[0].shapes.items())[: _QUICK + 1]))]
        rounds, seconds = _QUICK, 0.001
    console = _console()
    ceiling = _ceiling(console, threads[0], quick)
    engine_names = names or ("ort", engines.OURS)
    with contextlib.ExitStack() as stack:
        progress = stack.enter_context(Progress(console=Console(stderr=True), transient=True))
        task = progress.add_task("sweeping", total=sum(len(series.shapes) for series in chosen))
        workers = {name: stack.enter_context(Worker(name, threads[0])) for name in engine_names}
        found = sweep.sweep(
            chosen,
            dtypes[0],
            ceiling,
            workers,
            rounds=rounds,
            seconds=seconds,
            advance=lambda: progress.advance(task),
        )
    sweep.show(console, found)
    if json_file:
        versions = {name: engines.version(name) for name in engine_names}
        settings = {"rounds": rounds, "seconds": seconds, "quick": quick, "versions": versions}
        document = sweep.document(found, dtypes[0], ceiling, machine=machine.describe(), settings=settings)
        json_file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    if any(point.case.wrong for result in found for point in result.points):
        raise click.exceptions.Exit(1)


if __name__ == "__main__":
    main(prog_name="python -m benchmarks")
