"""What a run on the GPU found, as tables for people and as JSON for programs.

An entry is what was found of a shape in one type and layout, as it stands in the JSON.
"""

from __future__ import annotations

import dataclasses
import datetime
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.cuda.engines import ENGINES
from benchmarks.cuda.gpu import Ceiling
from benchmarks.cuda.shapes import families
from benchmarks.engines import OURS
from benchmarks.measure import Case
from benchmarks.report import geometric_mean
from benchmarks.shapes import Shape
from ortconv.benchmarking import quartiles

__all__ = ["Entry", "document", "entry", "key", "show"]

Entry = Mapping[str, Any]


def entry(layout: str, case: Case, ceiling: Ceiling) -> Entry:
    """Returns what was found of a case."""
    roof = ceiling.roofline(case.shape, case.dtype)
    return {
        "shape": {**dataclasses.asdict(case.shape), "size": list(case.shape.size)},
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
        "ratio_quartiles": [_rounded(value) for value in quartiles(case.ratios)] if case.ratios else None,
        "of_roofline": _rounded(case.gflops(OURS) / roof) if OURS in case.timings else None,
    }


def key(found: Entry) -> tuple[str, str, str]:
    """Returns the layout, type and name of the shape of an entry."""
    return found["layout"], found["dtype"], found["shape"]["name"]


def show(console: Console, entries: Sequence[Entry]) -> None:
    """Prints a table per layout and type, the geometric means, and what is wrong."""
    for (layout, dtype), chosen in _groups(entries).items():
        console.print(_table(layout, dtype, chosen))
        for kind, (mean, low, high, count) in _summary(chosen).items():
            console.print(f"ours / best peer, {kind}: {mean:.2f} ({low:.2f} to {high:.2f}, {count} shapes)")
        for reason in sorted({f"{name}: {why}" for each in chosen for name, why in each["skipped"].items()}):
            console.print(f"not run: {reason}", style="dim")
        console.print()
    for each in entries:
        layout, dtype, shape = key(each)
        for name, problem in each["wrong"].items():
            console.print(f"WRONG {shape} {dtype} {layout}: {name}: {problem}", style="red")


def document(
    entries: Sequence[Entry],
    ceiling: Ceiling,
    machine: Mapping[str, object],
    settings: Mapping[str, object],
    missing: int,
) -> dict[str, object]:
    """Returns everything that was found; `missing` entries were not measured."""
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": dict(machine),
        "settings": dict(settings),
        "ceiling": dataclasses.asdict(ceiling),
        "ratios": {
            f"{layout} {dtype}": {
                kind: {"mean": _rounded(mean), "least": _rounded(low), "greatest": _rounded(high), "shapes": count}
                for kind, (mean, low, high, count) in _summary(chosen).items()
            }
            for (layout, dtype), chosen in _groups(entries).items()
        },
        "cases": list(entries),
        "missing": missing,
        "ok": not any(each["wrong"] for each in entries),
    }


def _groups(entries: Iterable[Entry]) -> dict[tuple[str, str], list[Entry]]:
    """Returns the entries by layout and type."""
    groups: dict[tuple[str, str], list[Entry]] = {}
    for each in entries:
        groups.setdefault((each["layout"], each["dtype"]), []).append(each)
    return groups


def _summary(entries: Iterable[Entry]) -> dict[str, tuple[float, float, float, int]]:
    """Returns geometric mean, least, greatest and number of the ratios, by family of shapes."""
    ratios: dict[str, list[float]] = {}
    for each in entries:
        if each["ratio"] is not None:
            shape = Shape(**{**each["shape"], "size": tuple(each["shape"]["size"])})
            for kind in ("all", *families(shape)):
                ratios.setdefault(kind, []).append(each["ratio"])
    return {kind: (geometric_mean(found), min(found), max(found), len(found)) for kind, found in ratios.items()}


def _table(layout: str, dtype: str, entries: Sequence[Entry]) -> Table:
    names = [name for name in ENGINES if any(name in each["engines"] for each in entries)]
    title = f"{dtype}, {layout}, TFLOP/s of useful operations"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("shape", no_wrap=True)
    for heading in (*names, "us", "ours/best", "quartiles", "roofline", "of it"):
        table.add_column(heading, justify="right", no_wrap=True)
    for each in entries:
        engines = each["engines"]
        rates = [f"{engines[name]['gflops'] / 1e3:.2f}" if name in engines else "-" for name in names]
        cells = [
            Text(rate, "bold" if name == each["best_peer"] else "") for name, rate in zip(names, rates, strict=True)
        ]
        ratio, between, taken, share = Text("-"), "-", "-", "-"
        if each["ratio"] is not None:
            ratio = Text(f"{each['ratio']:.2f}", style="green" if each["ratio"] >= 1 else "red")
            between = "{:.2f}-{:.2f}".format(*each["ratio_quartiles"])
        if OURS in engines:
            taken = f"{engines[OURS]['seconds'] * 1e6:.1f}"
            share = f"{each['of_roofline']:.0%}"
        roof = f"{each['roofline_gflops'] / 1e3:.1f}"
        table.add_row(each["shape"]["name"], *cells, taken, ratio, between, roof, share)
    return table


def _rounded(value: float) -> float:
    """Returns four significant digits: the measurement has no more."""
    return float(f"{value:.4g}")
