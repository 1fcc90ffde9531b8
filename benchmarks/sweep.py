"""Looking for cliffs: shapes that are far slower than others which differ little from them."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Mapping, Sequence

from rich.console import Console
from rich.table import Table

from benchmarks.engines import OURS
from benchmarks.machine import Ceiling
from benchmarks.measure import Case, Engine, measure
from benchmarks.report import geometric_mean, rounded
from benchmarks.series import Series
from benchmarks.shapes import Shape
from benchmarks.turn import Fastest

__all__ = ["Point", "Sweep", "cliffs", "document", "show", "sweep"]

_CLIFF = 0.5
"""Less than this share of a neighbour's efficiency is a cliff."""

_CALLS = 4.0
"""How many times as long as an empty call a run must take, for its rate to be the kernel's."""

_EMPTY = Shape("empty call", 1, 1, 1, (1,), 1, 1)
_MOST_ROWS = 30
_AGAIN = 3
"""How many times as many turns a second measurement has, of what looks like a cliff."""


@dataclasses.dataclass(frozen=True)
class Point:
    """A shape of a series.

    Attributes:
        value: Of what differs in the series.
        case: What was measured.
        efficiency: By engine, the rate without the time of an empty call, as a share of the roofline; engines whose
            runs are too short to have one are left out.
    """

    value: int
    case: Case
    efficiency: Mapping[str, float]


@dataclasses.dataclass(frozen=True)
class Sweep:
    """A series with what was measured.

    Attributes:
        series: The series.
        points: In the order of their values.
    """

    series: Series
    points: Sequence[Point]


def neighbours(points: Sequence[Point], at: int, engine: str) -> float | None:
    """Returns the higher efficiency of the points next to one; None where they have none."""
    beside = (points[index] for index in (at - 1, at + 1) if 0 <= index < len(points))
    return max((point.efficiency[engine] for point in beside if engine in point.efficiency), default=None)


def cliffs(points: Sequence[Point], engine: str) -> list[int]:
    """Returns where an engine has less than half of the efficiency of a neighbour."""
    found = []
    for at, point in enumerate(points):
        best = neighbours(points, at, engine)
        if best is not None and engine in point.efficiency and point.efficiency[engine] < _CLIFF * best:
            found.append(at)
    return found


def sweep(
    every: Sequence[Series],
    dtype: str,
    ceiling: Ceiling,
    workers: Mapping[str, Engine],
    *,
    rounds: int,
    seconds: float,
    advance: Callable[[], None],
) -> list[Sweep]:
    """Measures series, and what looks like a cliff of ours again, with its neighbours.

    Args:
        every: The series.
        dtype: The type.
        ceiling: What the machine can do.
        workers: The engines by name.
        rounds: How often each has its turn with each shape.
        seconds: How long a turn lasts, about.
        advance: Called after every shape.
    """
    fastest = Fastest()

    def measured(shape: Shape, turns: int) -> Case:
        (case,) = measure(shape, dtype, {ceiling.threads: workers}, rounds=turns, seconds=seconds, fastest=fastest)
        return case

    empty = {name: timing.median for name, timing in measured(_EMPTY, _AGAIN * rounds).timings.items()}

    def point(value: int, case: Case) -> Point:
        roof = ceiling.roofline(case.shape, dtype) * 1e9
        efficiency = {
            name: case.shape.flops / (timing.median - empty[name]) / roof
            for name, timing in case.timings.items()
            if name in empty and timing.median > _CALLS * empty[name]
        }
        return Point(value, case, efficiency)

    found = []
    for series in every:
        points = []
        for value, shape in series.shapes.items():
            points.append(point(value, measured(shape, rounds)))
            advance()
        doubtful = {near for at in cliffs(points, OURS) for near in (at - 1, at, at + 1) if 0 <= near < len(points)}
        for at in sorted(doubtful):
            points[at] = point(points[at].value, measured(points[at].case.shape, _AGAIN * rounds))
        found.append(Sweep(series, points))
    return found


def show(console: Console, found: Sequence[Sweep]) -> None:
    """Prints the cliffs, where another engine is faster, and what is wrong."""
    table = _table("Cliffs: under half of a neighbour's efficiency", "of the roofline", "neighbour's")
    count = 0
    for result in found:
        for at in cliffs(result.points, OURS):
            point, near = result.points[at], neighbours(result.points, at, OURS)
            table.add_row(*_names(result, point), *_rates(point), f"{point.efficiency[OURS]:.1%}", f"{near:.1%}")
            count += 1
    shapes = sum(len(result.points) for result in found)
    judged = sum(OURS in point.efficiency for result in found for point in result.points)
    if count:
        console.print(table)
    console.print(
        f"{count} cliffs among {judged} shapes; {shapes - judged} more take less than {_CALLS:.0f} times as long as "
        "an empty call, and have no rate of their own\n"
    )
    compared = [(result, point) for result in found for point in result.points if point.case.ratios]
    slower = sorted((pair for pair in compared if _ratio(pair[1]) < 1), key=lambda pair: _ratio(pair[1]))
    if slower:
        table = _table(f"Slowest beside the best other engine, whole calls (at most {_MOST_ROWS})", "ours/best")
        for result, point in slower[:_MOST_ROWS]:
            table.add_row(*_names(result, point), *_rates(point), f"{_ratio(point):.2f}x")
        console.print(table)
    if compared:
        mean = geometric_mean([_ratio(point) for _, point in compared])
        console.print(
            f"ours / best other: geometric mean {mean:.2f}x over {len(compared)} shapes; slower on {len(slower)}"
        )
    for result in found:
        for point in result.points:
            for name, problem in point.case.wrong.items():
                console.print(f"WRONG {point.case.shape.name}: {name}: {problem}", style="red")


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("series", no_wrap=True)
    for heading in ("differs in", "value", "ours", "best other", *headings):
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _names(result: Sweep, point: Point) -> tuple[str, str, str]:
    return result.series.name, result.series.parameter, str(point.value)


def _rates(point: Point) -> tuple[str, str]:
    """Returns GFLOP/s of ours and of the fastest other engine."""
    best = point.case.best_peer
    rates = (f"{point.case.gflops(name):.3g}" if name in point.case.timings else "-" for name in (OURS, best or ""))
    ours, other = rates
    return ours, other


def _ratio(point: Point) -> float:
    return statistics.median(point.case.ratios)


def document(found: Sequence[Sweep], dtype: str, ceiling: Ceiling, **about: object) -> dict[str, object]:
    """Returns everything that was found."""
    return {
        **about,
        "dtype": dtype,
        "ceiling": dataclasses.asdict(ceiling),
        "series": [
            {
                "name": result.series.name,
                "parameter": result.series.parameter,
                "points": [_entry(point) for point in result.points],
                "cliffs": [result.points[at].value for at in cliffs(result.points, OURS)],
            }
            for result in found
        ],
        "ok": not any(point.case.wrong for result in found for point in result.points),
    }


def _entry(point: Point) -> dict[str, object]:
    case = point.case
    return {
        "value": point.value,
        "shape": dataclasses.asdict(case.shape),
        "flops": case.shape.flops,
        "engines": {
            name: {
                "seconds": rounded(timing.median),
                "gflops": rounded(case.gflops(name)),
                "efficiency": rounded(point.efficiency[name]) if name in point.efficiency else None,
                "error": rounded(timing.errors.excess),
            }
            for name, timing in case.timings.items()
        },
        "ratio": rounded(_ratio(point)) if case.ratios else None,
        "wrong": dict(case.wrong),
    }
