"""The command line of the benchmark of audio."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import pathlib
import sys

import click
from rich.console import Console
from rich.progress import Progress

from benchmarks import engines, machine
from benchmarks.audio import report
from benchmarks.audio.comparing import Found, compare
from benchmarks.audio.engines import ENGINES, worker
from benchmarks.audio.networks import networks
from benchmarks.audio.problems import Problem
from benchmarks.audio.transforms import transforms
from benchmarks.turn import Fastest

__all__ = ["main"]


@click.command(epilog="Example: python -m benchmarks.audio --only 'node DFT' --json audio.json --plot audio.png")
@click.option(
    "--only", "texts", multiple=True, metavar="TEXT", help="Only what has this in its name; repeatable. See --list."
)
@click.option("--batch", type=click.IntRange(1), default=1, show_default=True, help="Batch of HTDemucs's transform.")
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True, help="Threads of each engine.")
@click.option("--rounds", type=click.IntRange(1), default=9, show_default=True, help="Turns of each engine.")
@click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    default=0.05,
    show_default=True,
    help="How long a turn lasts, about.",
)
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=pathlib.Path), help="Write everything.")
@click.option(
    "--plot",
    "plot_file",
    type=click.Path(dir_okay=False, path_type=pathlib.Path),
    help="Draw a PNG; needs matplotlib.",
)
@click.option("--list", "listing", is_flag=True, help="List what is measured and stop.")
def main(
    texts: tuple[str, ...],
    batch: int,
    threads: int,
    rounds: int,
    seconds: float,
    json_file: pathlib.Path | None,
    plot_file: pathlib.Path | None,
    listing: bool,
) -> None:
    """Compare the speed of Fourier transforms and of networks that have them.

    Each plain model runs in ONNX Runtime, and after `ortconv optimize` with the plugin; transforms also in SciPy. Each
    engine has a process of its own, which is stopped while another has its turn. Times are medians over the turns, a
    ratio is the median of the ratios within a round. Every answer is compared with float64 first: the exit code is 1 if
    one is wrong.
    """
    problems = [
        problem
        for problem in (*transforms(batch), *networks())
        if not texts or any(text.lower() in problem.name.lower() for text in texts)
    ]
    if not problems:
        raise click.UsageError("--only: nothing has that in its name; --list shows the names.")
    if listing:
        for problem in problems:
            click.echo(problem.name)
        return
    if plot_file and importlib.util.find_spec("matplotlib") is None:
        raise click.UsageError("--plot needs matplotlib, which is not installed.")
    found = _measured(problems, threads, rounds, seconds)
    report.show(Console(width=None if sys.stdout.isatty() else 200, highlight=False), found)
    if json_file:
        about = {"threads": threads, "rounds": rounds, "seconds": seconds, "machine": machine.describe()}
        versions = {name: engines.version(name) for name in ENGINES}
        document = {
            **about,
            "versions": versions,
            "means": report.means(found),
            "problems": [each.document() for each in found],
        }
        json_file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    if plot_file:
        report.draw(found, plot_file, threads)
    if any(each.wrong for each in found):
        raise click.exceptions.Exit(1)


def _measured(problems: list[Problem], threads: int, rounds: int, seconds: float) -> list[Found]:
    found: list[Found] = []
    fastest = Fastest()
    with contextlib.ExitStack() as stack:
        progress = stack.enter_context(Progress(console=Console(stderr=True), transient=True))
        task = progress.add_task("measuring", total=len(problems))
        workers = {name: stack.enter_context(worker(name, threads)) for name in ENGINES}
        for problem in problems:
            found.append(compare(problem, workers, threads=threads, rounds=rounds, seconds=seconds, fastest=fastest))
            progress.advance(task)
    return found


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.audio")
