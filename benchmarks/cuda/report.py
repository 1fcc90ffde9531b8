"""What a run on the GPU found, as tables for people and as JSON for programs."""

from __future__ import annotations

import dataclasses
import datetime
import statistics
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.cuda.engines import ENGINES
from benchmarks.cuda.gpu import Ceiling
from benchmarks.cuda.shapes import families
from benchmarks.engines import OURS
from benchmarks.measure import Case
from benchmarks.report import geometric_mean
from ortconv.benchmarking import quartiles

__all__ = ["Group", "document", "show"]


@dataclasses.dataclass(frozen=True)
class Group:
    """The cases of one layout; those of each type belong together."""

    layout: str
    cases: tuple[Case, ...]


def show(console: Console, groups: Sequence[Group], ceiling: Ceiling) -> None:
    """Prints a table per layout and type, the geometric means, and what is wrong."""
    for group in groups:
        for dtype in dict.fromkeys(case.dtype for case in group.cases):
            chosen = [case for case in group.cases if case.dtype == dtype]
            console.print(_table(group.layout, dtype, chosen, ceiling))
            for kind, (mean, low, high, count) in _summary(chosen).items():
                console.print(f"ours / best peer, {kind}: {mean:.2f} ({low:.2f} to {high:.2f}, {count} shapes)")
            for reason in sorted({f"{name}: {why}" for case in chosen for name, why in case.skipped.items()}):
                console.print(f"not run: {reason}", style="dim")
            console.print()
    for group in groups:
        for case in group.cases:
            for name, problem in case.wrong.items():
                console.print(f"WRONG {case.shape.name} {case.dtype} {group.layout}: {name}: {problem}", style="red")


def _summary(cases: Iterable[Case]) -> dict[str, tuple[float, float, float, int]]:
    """Returns geometric mean, least, greatest and number of the ratios, by family of shapes."""
    ratios: dict[str, list[float]] = {}
    for case in cases:
        if case.ratios:
            for kind in ("all", *families(case.shape)):
                ratios.setdefault(kind, []).append(statistics.median(case.ratios))
    return {kind: (geometric_mean(found), min(found), max(found), len(found)) for kind, found in ratios.items()}


def _table(layout: str, dtype: str, cases: Sequence[Case], ceiling: Ceiling) -> Table:
    names = [name for name in ENGINES if any(name in case.timings for case in cases)]
    title = f"{dtype}, {layout}, TFLOP/s of useful operations"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("shape", no_wrap=True)
    for heading in (*names, "us", "ours/best", "quartiles", "roofline", "of it"):
        table.add_column(heading, justify="right", no_wrap=True)
    for case in cases:
        rates = [f"{case.gflops(name) / 1e3:.2f}" if name in case.timings else "-" for name in names]
        cells = [Text(rate, "bold" if name == case.best_peer else "") for name, rate in zip(names, rates, strict=True)]
        ratio, between, taken, share = Text("-"), "-", "-", "-"
        roof = ceiling.roofline(case.shape, dtype)
        if case.ratios:
            value = statistics.median(case.ratios)
            ratio = Text(f"{value:.2f}", style="green" if value >= 1 else "red")
            between = "{:.2f}-{:.2f}".format(*quartiles(case.ratios))
        if OURS in case.timings:
            taken = f"{case.timings[OURS].median * 1e6:.1f}"
            share = f"{case.gflops(OURS) / roof:.0%}"
        table.add_row(case.shape.name, *cells, taken, ratio, between, f"{roof / 1e3:.1f}", share)
    return table


def document(
    groups: Sequence[Group], ceiling: Ceiling, machine: Mapping[str, object], settings: Mapping[str, object]
) -> dict[str, object]:
    """Returns everything that was found."""
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": dict(machine),
        "settings": dict(settings),
        "ceiling": dataclasses.asdict(ceiling),
        "ratios": {
            f"{group.layout} {dtype}": {
                kind: {"mean": _rounded(mean), "least": _rounded(low), "greatest": _rounded(high), "shapes": count}
                for kind, (mean, low, high, count) in _summary(
                    case for case in group.cases if case.dtype == dtype
                ).items()
            }
            for group in groups
            for dtype in dict.fromkeys(case.dtype for case in group.cases)
        },
        "cases": [_entry(group.layout, case, ceiling) for group in groups for case in group.cases],
        "ok": not any(case.wrong for group in groups for case in group.cases),
    }


def _entry(layout: str, case: Case, ceiling: Ceiling) -> dict[str, object]:
    roof = ceiling.roofline(case.shape, case.dtype)
    return {
        "shape": dataclasses.asdict(case.shape),
        "layout": layout,
        "dtype": case.dtype,
        "flops": case.shape.flops,
        "roofline_gflops": _rounded(roof),
        "engines": {
            name: {
                "seconds": _rounded(timing.median),
                "quartiles": [_rounded(value) for value in quartiles(timing.seconds)],
                "gflops": _rounded(case.gflops(name)),
                **{name: _rounded(value) for name, value in dataclasses.asdict(timing.errors).items()},
            }
            for name, timing in case.timings.items()
        },
        "skipped": dict(case.skipped),
        "wrong": dict(case.wrong),
        "best_peer": case.best_peer,
        "ratio": _rounded(statistics.median(case.ratios)) if case.ratios else None,
        "of_roofline": _rounded(case.gflops(OURS) / roof) if OURS in case.timings else None,
    }


def _rounded(value: float) -> float:
    """Returns four significant digits: the measurement has no more."""
    return float(f"{value:.4g}")
