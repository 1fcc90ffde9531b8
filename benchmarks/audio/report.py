"""Tables and a picture of what was found."""

from __future__ import annotations

import pathlib
import statistics
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.audio.comparing import Found
from benchmarks.audio.engines import ENGINES, ORT, SCIPY
from benchmarks.engines import OURS
from benchmarks.report import geometric_mean
from benchmarks.turn import Fastest

__all__ = ["draw", "means", "show"]

_LABELS = {ORT: "ONNX Runtime", SCIPY: "SciPy", OURS: "ortconv"}
_COLORS = {ORT: "#1a7f5a", SCIPY: "#f0b27a"}


def means(found: Sequence[Found]) -> dict[str, dict[str, float]]:
    """Returns the geometric means of the ratios, by group and engine."""
    result: dict[str, dict[str, float]] = {}
    for group in dict.fromkeys(each.problem.group for each in found):
        for engine in (ORT, SCIPY):
            ratios = [each.ratio(engine) for each in found if each.problem.group == group]
            known = [ratio for ratio in ratios if ratio is not None]
            if known:
                result.setdefault(group, {})[engine] = float(f"{geometric_mean(known):.4g}")
    return result


def show(console: Console, found: Sequence[Found]) -> None:
    """Prints a table of each group, and what is wrong."""
    for group, mean in means(found).items():
        console.print(_table(group, [each for each in found if each.problem.group == group]))
        text = ", ".join(f"{ratio:.2f}x {_LABELS[engine]}" for engine, ratio in mean.items())
        console.print(f"ortconv in the geometric mean: {text}\n")
    fastest = Fastest()
    fastest.add(each.pace for each in found)
    slowed = [each.problem.name for each in found if fastest.slowed(each.pace)]
    if slowed:
        console.print(f"timed while somebody else used the core: {'; '.join(slowed)}")
    for each in found:
        for engine, problem in each.wrong.items():
            console.print(f"WRONG {each.problem.name}: {engine}: {problem}", style="red")


def _table(group: str, found: Sequence[Found]) -> Table:
    engines = [engine for engine in ENGINES if any(engine in each.errors for each in found)]
    peers = [engine for engine in engines if engine != OURS]
    title = f"{group}: milliseconds, ratios, and RMS of the errors relative to that of the answer"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("", no_wrap=True)
    headings = (
        *(f"{_LABELS[engine]} ms" for engine in engines),
        *(f"{_LABELS[engine]} / ours" for engine in peers),
        *(f"{_LABELS[engine]} error" for engine in engines),
    )
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for each in found:
        times = [f"{1e3 * statistics.median(each.seconds[e]):.3g}" if e in each.seconds else "-" for e in engines]
        errors = [f"{each.errors[engine]:.1e}" if engine in each.errors else "-" for engine in engines]
        name = each.problem.name.removeprefix(f"{group}, ")
        table.add_row(name, *times, *(_ratio(each.ratio(engine)) for engine in peers), *errors)
    return table


def _ratio(value: float | None) -> Text:
    return Text("-") if value is None else Text(f"{value:.2f}x", style="green" if value >= 1 else "red")


def draw(found: Sequence[Found], path: pathlib.Path, threads: int) -> None:
    """Draws how many times as fast as the others ortconv is. Needs matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 1.2 + 0.26 * len(found)))
    for engine, color in _COLORS.items():
        ratios = [(place, each.ratio(engine)) for place, each in enumerate(found)]
        points = [(ratio, place) for place, ratio in ratios if ratio is not None]
        if points:
            xs, ys = zip(*points, strict=True)
            axes.scatter(xs, ys, s=32, color=color, label=f"than {_LABELS[engine]}", zorder=2)
    axes.axvline(1, color="#444444", linewidth=1, zorder=1)
    axes.set_yticks(range(len(found)), [each.problem.name for each in found], fontsize=8)
    axes.margins(y=0.02)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.grid(axis="x", which="both", alpha=0.25)
    axes.grid(axis="y", alpha=0.15)
    axes.set_xlabel(f"times as fast, float32, threads: {threads} (above 1 ortconv is faster)")
    axes.legend(loc="lower right", fontsize=8)
    figure.savefig(path, dpi=80, bbox_inches="tight")
    pyplot.close(figure)
