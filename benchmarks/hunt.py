"""Random shapes that nobody tuned for: is any of them slower, or less exact, than in ONNX Runtime?

Run ``python -m benchmarks.hunt --seed 1 --count 300``. Each seed names one list of shapes of a distribution, see
``benchmarks/distributions.py``. ONNX Runtime and ortconv run them in float32 in turns, in processes of their own; both
answers are first compared with float64.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import statistics
from collections.abc import Iterator, Sequence

import click
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks import engines, machine
from benchmarks.distributions import DISTRIBUTIONS, has_gaps, shapes
from benchmarks.engines import OURS
from benchmarks.measure import Case, measure
from benchmarks.report import geometric_mean, rounded
from benchmarks.shapes import Shape
from benchmarks.turn import Fastest
from benchmarks.worker import Worker

__all__ = ["main"]

_PEER = "ort"

_SLOW, _INEXACT = 0.9, 1.25
"""Ratios of speed below which, and of the largest errors above which, a shape is listed."""


def _measured(found: Sequence[Shape], dtype: str, threads: int, rounds: int, seconds: float) -> Iterator[Case]:
    fastest = Fastest()
    with contextlib.ExitStack() as stack:
        workers = {name: stack.enter_context(Worker(name, threads)) for name in (_PEER, OURS)}
        for shape in found:
            yield from measure(shape, dtype, {threads: workers}, rounds=rounds, seconds=seconds, fastest=fastest)


def _ratio(case: Case) -> float:
    return statistics.median(case.ratios)


def _show(console: Console, cases: Sequence[Case]) -> None:
    compared = [case for case in cases if case.ratios]
    for title, chosen in (
        ("stride at most the kernel's extent", [case for case in compared if not has_gaps(case.shape)]),
        ("gaps between windows", [case for case in compared if has_gaps(case.shape)]),
    ):
        if chosen:
            ratios = [_ratio(case) for case in chosen]
            below = ", ".join(f"{sum(ratio < each for ratio in ratios)} under {each}x" for each in (1, _SLOW, 0.8, 0.5))
            console.print(f"{title}: {geometric_mean(ratios):.2f}x ONNX Runtime over {len(chosen)} shapes; {below}")
    slow = sorted((case for case in compared if _ratio(case) < _SLOW), key=_ratio)
    inexact = [case for case in compared if (case.error_ratio(_PEER) or 0) > _INEXACT]
    for title, chosen in ((f"Under {_SLOW}x", slow), (f"Largest error above {_INEXACT} of its", inexact)):
        if not chosen:
            continue
        table = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
        table.add_column("shape", no_wrap=True)
        for heading in ("MFLOP", "ONNX Runtime ms", "ortconv ms", "ratio", "errors"):
            table.add_column(heading, justify="right", no_wrap=True)
        for case in chosen:
            ours, peer = case.timings[OURS], case.timings[_PEER]
            error = case.error_ratio(_PEER)
            table.add_row(
                case.shape.name,
                f"{case.shape.flops / 1e6:.3g}",
                f"{peer.median * 1e3:.3g}",
                f"{ours.median * 1e3:.3g}",
                f"{_ratio(case):.2f}x",
                "-" if error is None else f"{error:.2f}",
            )
        console.print(table)
    for case in cases:
        for name, problem in case.wrong.items():
            console.print(f"WRONG {case.shape.name}: {name}: {problem}", style="red")


def _entry(case: Case) -> dict[str, object]:
    return {
        "shape": dataclasses.asdict(case.shape),
        "flops": case.shape.flops,
        "gaps": has_gaps(case.shape),
        "seconds": {name: rounded(timing.median) for name, timing in case.timings.items()},
        "errors": {name: rounded(timing.errors.largest) for name, timing in case.timings.items()},
        "ratio": rounded(_ratio(case)) if case.ratios else None,
        "wrong": dict(case.wrong),
    }


def _plot(cases: Sequence[Case], path: pathlib.Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 5))
    for gaps, color, label in (
        (False, "#1a7f5a", "stride at most the kernel's extent"),
        (True, "#f0b27a", "gaps between windows"),
    ):
        points = [(case.shape.flops, _ratio(case)) for case in cases if case.ratios and has_gaps(case.shape) == gaps]
        if points:
            xs, ys = zip(*points, strict=True)
            axes.scatter(xs, ys, s=14, color=color, label=label)
    axes.axhline(1, color="#444444", linewidth=1)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.grid(which="both", alpha=0.2)
    axes.set_xlabel("useful operations of the shape (FLOP)")
    axes.set_ylabel("times as fast as ONNX Runtime (above 1 is faster)")
    axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2)
    figure.savefig(path, dpi=80, bbox_inches="tight")
    pyplot.close(figure)


@click.command(epilog="Example: python -m benchmarks.hunt --seed 7 --count 300 --json hunt.json --plot hunt.png")
@click.option("--seed", type=int, default=1, show_default=True, help="Names the list of shapes.")
@click.option(
    "--distribution",
    type=click.Choice(list(DISTRIBUTIONS)),
    default="any",
    show_default=True,
    help="All that a transposed convolution can be, or the sizes that networks have.",
)
@click.option("--count", type=click.IntRange(1), default=300, show_default=True, help="How many shapes of it.")
@click.option("--dtype", type=click.Choice(["f32", "f16"]), default="f32", show_default=True, help="Element type.")
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True, help="Threads of each engine.")
@click.option("--rounds", type=click.IntRange(1), default=7, show_default=True, help="Turns of each engine.")
@click.option("--seconds", type=float, default=0.02, show_default=True, help="How long a turn lasts, about.")
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=pathlib.Path), help="Write everything.")
@click.option("--plot", "plot_file", type=click.Path(dir_okay=False, path_type=pathlib.Path), help="Draw a PNG.")
def main(
    seed: int,
    distribution: str,
    count: int,
    dtype: str,
    threads: int,
    rounds: int,
    seconds: float,
    json_file: pathlib.Path | None,
    plot_file: pathlib.Path | None,
) -> None:
    """Compare ortconv with ONNX Runtime on random transposed convolutions; list those that are slower or less exact.

    The exit code is 1 if an answer is wrong.
    """
    console = Console(width=180, highlight=False)
    cases: list[Case] = []
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("measuring", total=count)
        for case in _measured(shapes(seed, count, distribution), dtype, threads, rounds, seconds):
            cases.append(case)
            progress.advance(task)
    _show(console, cases)
    if json_file:
        drawn = {"distribution": distribution, "seed": seed}
        about = {**drawn, "dtype": dtype, "threads": threads, "rounds": rounds, "machine": machine.describe()}
        versions = {name: engines.version(name) for name in (_PEER, OURS)}
        found = {**about, "versions": versions, "shapes": [_entry(case) for case in cases]}
        json_file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if plot_file:
        _plot(cases, plot_file)
    if any(case.wrong for case in cases):
        raise click.exceptions.Exit(1)


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.hunt")
