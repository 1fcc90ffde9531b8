"""What a run found, as a table for people and as JSON for programs."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.engines import ENGINES, OURS
from benchmarks.machine import Ceiling
from benchmarks.measure import Case, speed_ups
from benchmarks.turn import Fastest
from ortconv.benchmarking import quartiles

__all__ = ["document", "geometric_mean", "rounded", "show"]

_WORTH_SHARING = 10**9
"""Operations of a shape, from which on a table says how it scales."""


def geometric_mean(values: Sequence[float]) -> float:
    """Returns the geometric mean of positive numbers."""
    return math.exp(statistics.fmean(map(math.log, values)))


def show(console: Console, cases: Sequence[Case], ceilings: Mapping[int, Ceiling]) -> None:
    """Prints a table per type and number of threads, what threads gain, and what is wrong.

    The column `error` is our largest error over ONNX Runtime's.
    """
    for dtype, threads in dict.fromkeys((case.dtype, case.threads) for case in cases):
        chosen = [case for case in cases if (case.dtype, case.threads) == (dtype, threads)]
        console.print(_table(dtype, threads, chosen, ceilings[threads]))
        ratios = [statistics.median(case.ratios) for case in chosen if case.ratios]
        if ratios:
            slower = sum(ratio < 1 for ratio in ratios)
            console.print(
                f"ours / best peer: geometric mean {geometric_mean(ratios):.2f}x over {len(ratios)} shapes, "
                f"{min(ratios):.2f}x to {max(ratios):.2f}x; slower on {slower}"
            )
        errors = [ratio for case in chosen if (ratio := case.error_ratio()) is not None]
        if errors and min(errors) > 0:
            console.print(
                f"largest error, ours / ort: geometric mean {geometric_mean(errors):.2f}, "
                f"{min(errors):.2f} to {max(errors):.2f}"
            )
        slowed = _slowed(chosen)
        if slowed:
            console.print(f"timed while somebody else used the core: {', '.join(case.shape.name for case in slowed)}")
        reasons = {f"{name}: {why}" for case in chosen for name, why in case.skipped.items()}
        for reason in sorted(reasons):
            console.print(f"not run: {reason}", style="dim")
        console.print()
    _show_speed_ups(console, cases)
    for case in cases:
        for name, problem in case.wrong.items():
            console.print(
                f"WRONG {case.shape.name} {case.dtype}, {case.threads} threads: {name}: {problem}", style="red"
            )


def _slowed(cases: Sequence[Case]) -> list[Case]:
    fastest = Fastest()
    fastest.add(case.pace for case in cases)
    return [case for case in cases if fastest.slowed(case.pace)]


def _show_speed_ups(console: Console, cases: Sequence[Case]) -> None:
    """Prints how much faster each engine is with more threads than with the fewest, for what is worth sharing."""
    fewest = min((case.threads for case in cases), default=1)
    ones = {(case.shape, case.dtype): case for case in cases if case.threads == fewest}
    names = [name for name in ENGINES if any(name in case.timings for case in cases)]
    for dtype, threads in dict.fromkeys((case.dtype, case.threads) for case in cases if case.threads != fewest):
        title = f"{dtype}, threads: {threads}, times as fast as with {fewest}, shapes of at least 1 GFLOP"
        table = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
        table.add_column("shape", no_wrap=True)
        for name in names:
            table.add_column(name, justify="right", no_wrap=True)
        found: dict[str, list[float]] = {name: [] for name in names}
        for case in cases:
            if (case.dtype, case.threads) != (dtype, threads) or case.shape.flops < _WORTH_SHARING:
                continue
            ratios = speed_ups(ones[case.shape, dtype], case)
            table.add_row(case.shape.name, *(f"{ratios[name]:.2f}x" if name in ratios else "-" for name in names))
            for name, ratio in ratios.items():
                found[name].append(ratio)
        if table.row_count:
            means = (f"{geometric_mean(found[name]):.2f}x" if found[name] else "-" for name in names)
            table.add_row("geometric mean", *means, style="bold")
            console.print(table)


def _table(dtype: str, threads: int, cases: Sequence[Case], ceiling: Ceiling) -> Table:
    names = [name for name in ENGINES if any(name in case.timings for case in cases)]
    title = f"{dtype}, threads: {threads}, GFLOP/s of useful operations"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("shape", no_wrap=True)
    for heading in (*names, "spread", "ours/best", "quartiles", "error", "roofline", "of it"):
        table.add_column(heading, justify="right", no_wrap=True)
    for case in cases:
        rates = [f"{case.gflops(name):.1f}" if name in case.timings else "-" for name in names]
        best = case.best_peer
        cells = [Text(rate, style="bold" if name == best else "") for name, rate in zip(names, rates, strict=True)]
        spread = max((timing.spread for timing in case.timings.values()), default=0.0)
        ratio, between = Text("-"), "-"
        if case.ratios:
            value = statistics.median(case.ratios)
            ratio = Text(f"{value:.2f}x", style="green" if value >= 1 else "red")
            between = "{:.2f}-{:.2f}".format(*quartiles(case.ratios))
        error_ratio = case.error_ratio()
        error = "-" if error_ratio is None else f"{error_ratio:.2f}"
        roof = ceiling.roofline(case.shape, dtype)
        share = f"{case.gflops(OURS) / roof:.0%}" if OURS in case.timings else "-"
        table.add_row(case.shape.name, *cells, f"{spread:.0%}", ratio, between, error, f"{roof:.0f}", share)
    return table


def document(
    cases: Sequence[Case],
    ceilings: Mapping[int, Ceiling],
    machine: Mapping[str, object],
    settings: Mapping[str, object],
) -> dict[str, object]:
    """Returns everything that was found."""
    return {
        "machine": dict(machine),
        "settings": dict(settings),
        "ceilings": [dataclasses.asdict(ceiling) for ceiling in ceilings.values()],
        "cases": [_entry(case, ceilings[case.threads]) for case in cases],
        "ok": not any(case.wrong for case in cases),
    }


def _entry(case: Case, ceiling: Ceiling) -> dict[str, object]:
    engines = {
        name: {
            "seconds": rounded(timing.median),
            "quartiles": [rounded(value) for value in quartiles(timing.seconds)],
            "gflops": rounded(case.gflops(name)),
            "error": rounded(timing.errors.excess),
            "largest_error": rounded(timing.errors.largest),
            "rms_error": rounded(timing.errors.rms),
        }
        for name, timing in case.timings.items()
    }
    roof = ceiling.roofline(case.shape, case.dtype)
    return {
        "shape": dataclasses.asdict(case.shape),
        "dtype": case.dtype,
        "threads": case.threads,
        "flops": case.shape.flops,
        "bytes": case.shape.bytes_moved(case.dtype),
        "roofline": rounded(roof),
        "engines": engines,
        "skipped": dict(case.skipped),
        "wrong": dict(case.wrong),
        "best_peer": case.best_peer,
        "ratio": rounded(statistics.median(case.ratios)) if case.ratios else None,
        "ratio_quartiles": [rounded(value) for value in quartiles(case.ratios)] if case.ratios else None,
        "pace": rounded(case.pace),
        "of_roofline": rounded(case.gflops(OURS) / roof) if OURS in case.timings else None,
    }


def rounded(value: float) -> float:
    """Returns four significant digits: the measurement has no more."""
    return float(f"{value:.4g}")
