"""Fits the costs by which the native library chooses how to compute a convolution.

Run ``python -m benchmarks.costs --seed 1 --count 400``. Random shapes are computed by every implementation that can, in
turns, on one thread. The times are explained by the work that the library states for each: a time is the sum of counts
times costs, none of them negative, with the least error of its logarithm. These costs are then moved so that the
choices by them give away the least speed. What is printed is a table for
``ortconv/native/ops/implementations/costs.cc``, and how much of the speed its choices give away.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click
import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import Progress

from benchmarks import answers, distributions, engines
from benchmarks.report import geometric_mean
from benchmarks.shapes import SHAPES, Shape
from ortconv.runtime.choices import CHOICES_ENTRY, IMPLEMENTATION_ENTRY

__all__ = ["TERMS", "Measured", "fit", "main", "measure", "predicted", "refine"]

TERMS = ("run", "items", "steps", "calls", "products", "copied", "added", "stored", "far")
"""The run itself, and what its work is counted in; see ``ops/implementations/work.h``."""

_ROWS = (
    "winograd",
    "depth_to_space",
    "disjoint_windows",
    "sliding_rows",
    "tapwise",
    "channel_lanes",
    "depthwise",
    "phases",
    "gemm_col2im",
    "columns",
    "im2col",
    "col2im",
)
"""The rows of the table."""

_LEAST_RUN = 100.0
"""Fewest nanoseconds of a run."""

_SAME_COSTS = {"winograd_separate": "winograd", "sliding_src": "sliding_rows", "sliding_weights": "sliding_rows"}
_LEAST_SHARE = 0.02
"""Of a time. A term that never has it costs nothing."""

_SPREAD, _LARGE_ERROR, _OF_ERRORS, _OF_MOVES = 0.2, 0.3, 3.0, 0.3
"""How far apart two estimates are for a clear choice, and the logarithm of an estimate's error from which on its weight
no longer grows with its square; the weights of errors and of moves. The costs of two thirds of 600 shapes lose least on
the others with these."""


@dataclasses.dataclass(frozen=True)
class Measured:
    """A shape and all implementations of it.

    Attributes:
        shape: Its name.
        work: Implementation -> counts, in the order of TERMS.
        nanoseconds: Implementation -> time of a run.
        peer: Time of a run in ONNX Runtime.
    """

    shape: str
    work: Mapping[str, tuple[float, ...]]
    nanoseconds: Mapping[str, float]
    peer: float


def measure(shape: Shape, dtype: str, *, rounds: int, seconds: float) -> Measured:
    """Computes a shape by every implementation that can, and by ONNX Runtime, in turns.

    Args:
        shape: The shape.
        dtype: Name of the element type.
        rounds: How often each has its turn.
        seconds: How long a turn lasts, about.
    """
    x, w = answers.data(shape, dtype)
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "choices")
        run, _ = engines.prepare_ours(shape, dtype, 1, x, w, {CHOICES_ENTRY: str(file)})
        run()
        estimates = json.loads(file.read_text(encoding="utf-8").splitlines()[0])["estimates"]
    runs: dict[str, Callable[[], object]] = {
        each["name"]: engines.prepare_ours(shape, dtype, 1, x, w, {IMPLEMENTATION_ENTRY: each["name"]})[0]
        for each in estimates
    }
    runs["ort"] = engines.prepare("ort", shape, dtype, 1, x, w)[0]
    times = _times(runs, rounds, seconds)
    work = {each["name"]: (1.0, *(float(each[term]) for term in TERMS[1:])) for each in estimates}
    peer = times.pop("ort")
    return Measured(shape.name, work, times, peer)


def _times(runs: Mapping[str, Callable[[], object]], rounds: int, seconds: float) -> dict[str, float]:
    """Returns nanoseconds of a run: the second quickest of the turns, as others may use the core in some.

    The first run of a turn does not count: the caches hold what the turn before has used.
    """
    counts, found = {}, defaultdict(list)
    for name, run in runs.items():
        run()
        begin = time.perf_counter()
        run()
        counts[name] = max(1, int(seconds / (time.perf_counter() - begin)))
    for _ in range(rounds):
        for name, run in runs.items():
            run()
            begin = time.perf_counter()
            for _ in range(counts[name]):
                run()
            found[name].append((time.perf_counter() - begin) / counts[name] * 1e9)
    return {name: sorted(values)[min(1, len(values) - 1)] for name, values in found.items()}


def fit(work: npt.NDArray[np.float64], nanoseconds: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Returns the costs, one for each column of `work`, that explain the times of its rows best.

    Args:
        work: Counts [runs, terms].
        nanoseconds: Times [runs].
    """
    from scipy.optimize import least_squares

    usual = np.maximum(np.median(work / nanoseconds[:, None], axis=0), 1e-9)
    found = None
    for start in (0.05, 0.3, 1.0):
        result = least_squares(
            lambda logs: np.log(work @ np.exp(logs)) - np.log(nanoseconds),
            np.clip(np.log(start / usual), -18, 11),
            loss="soft_l1",
            f_scale=0.15,
            bounds=(-20, 12),
        )
        if found is None or result.cost < found.cost:
            found = result
    costs = np.exp(found.x)
    shares = work * costs / (work @ costs)[:, None]
    return np.where(shares.max(axis=0) < _LEAST_SHARE, 0, costs)


def refine(costs: Mapping[str, Sequence[float]], found: Sequence[Measured]) -> dict[str, list[float]]:
    """Returns costs by which the choices give away less speed.

    Of a shape, each implementation is taken to be chosen with a probability that falls with its estimate. What is
    minimised is the expected logarithm of the chosen one's time in those of the fastest one, together with the errors
    of the estimates and the distance from `costs`.

    Args:
        costs: Fitted costs of each row.
        found: What was measured.
    """
    from scipy.optimize import minimize

    rows = list(costs)
    entries = [
        (shape, rows.index(_SAME_COSTS.get(name, name)), counts, each.nanoseconds[name])
        for shape, each in enumerate(found)
        for name, counts in each.work.items()
    ]
    shapes, row = (np.array([entry[i] for entry in entries]) for i in (0, 1))
    work, times = (np.array([entry[i] for entry in entries]) for i in (2, 3))
    fastest = np.full(len(found), np.inf)
    np.minimum.at(fastest, shapes, times)
    lost = np.log(times / fastest[shapes])
    fitted = np.array([costs[name] for name in rows])
    used = fitted > 0
    start = np.log(np.where(used, fitted, 1))

    def per_shape(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        sums = np.zeros(len(found))
        np.add.at(sums, shapes, values)
        return sums

    def objective(flat: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
        logs = flat.reshape(start.shape)
        parts = work * (np.exp(logs) * used)[row]
        estimates = parts.sum(axis=1)
        scores = -np.log(estimates) / _SPREAD
        highest = np.full(len(found), -np.inf)
        np.maximum.at(highest, shapes, scores)
        weights = np.exp(scores - highest[shapes])
        chances = weights / per_shape(weights)[shapes]
        expected = per_shape(chances * lost)
        off = np.log(estimates / times)
        bounded = np.clip(off, -_LARGE_ERROR, _LARGE_ERROR)
        errors = np.where(np.abs(off) < _LARGE_ERROR, off * off / 2, _LARGE_ERROR * (np.abs(off) - _LARGE_ERROR / 2))
        moved = logs - start
        slopes = (
            chances * (expected[shapes] - lost) / _SPREAD / len(found) + _OF_ERRORS * bounded / len(times)
        ) / estimates
        gradient = np.zeros_like(start)
        np.add.at(gradient, row, slopes[:, None] * parts)
        gradient += 2 * _OF_MOVES * moved / moved.size
        value = expected.mean() + _OF_ERRORS * errors.mean() + _OF_MOVES * (moved * moved).mean()
        return float(value), gradient.ravel()

    result = minimize(objective, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 400})
    moved = np.exp(result.x.reshape(start.shape)) * used
    return {name: moved[i].tolist() for i, name in enumerate(rows)}


def predicted(costs: Mapping[str, Sequence[float]], measured: Measured) -> dict[str, float]:
    """Returns the time that each implementation is estimated to take, in nanoseconds."""
    return {name: float(np.dot(costs[_SAME_COSTS.get(name, name)], counts)) for name, counts in measured.work.items()}


def _report(console: Console, found: Sequence[Measured], session: float) -> None:
    rows: dict[str, list[tuple[tuple[float, ...], float]]] = defaultdict(list)
    for each in found:
        for name, counts in each.work.items():
            rows[_SAME_COSTS.get(name, name)].append((counts, each.nanoseconds[name]))
    fitted: dict[str, Sequence[float]] = {}
    for name in _ROWS:
        if not rows[name]:
            console.print(f"    // {name}: computed none of the shapes")
            continue
        work, times = (np.array(part) for part in zip(*rows[name], strict=True))
        fitted[name] = fit(work, times).tolist()
    costs = refine(fitted, found)
    for name, found_costs in costs.items():
        work, times = (np.array(part) for part in zip(*rows[name], strict=True))
        off = np.exp(np.abs(np.log(work @ found_costs / times)))
        numbers = ", ".join(f"{cost:.3g}" for cost in (max(found_costs[0] - session, _LEAST_RUN), *found_costs[1:]))
        usual, most = np.median(off), np.quantile(off, 0.9)
        console.print(f"    {{{numbers}}},  // {name}: {len(times)} runs, off by {usual:.2f}x, {most:.2f}x for a tenth")
    ratios, lost = [], []
    for each in found:
        estimated = predicted(costs, each)
        chosen = each.nanoseconds[min(estimated, key=lambda name: estimated[name])]
        ratios.append(each.peer / chosen)
        lost.append(chosen / min(each.nanoseconds.values()))
    console.print(
        f"chosen by these: {geometric_mean(ratios):.2f}x ONNX Runtime, {geometric_mean(lost):.3f} times the time of "
        f"the fastest (median {statistics.median(lost):.3f})"
    )


@click.command(epilog="Example: python -m benchmarks.costs --seed 1 --count 400 --json costs.json")
@click.option("--seed", type=int, default=1, show_default=True, help="Names the list of shapes.")
@click.option("--count", type=click.IntRange(0), default=400, show_default=True, help="How many shapes of it.")
@click.option("--named", is_flag=True, help="The layers of benchmarks/shapes.py too.")
@click.option("--dtype", type=click.Choice(["f32", "f16"]), default="f32", show_default=True, help="Element type.")
@click.option("--rounds", type=click.IntRange(1), default=7, show_default=True, help="Turns of each implementation.")
@click.option("--seconds", type=float, default=0.008, show_default=True, help="How long a turn lasts, about.")
@click.option(
    "--measured",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=pathlib.Path),
    help="A file that --json wrote: fit to what it holds too.",
)
@click.option(
    "--session",
    type=click.FloatRange(0),
    default=3400.0,
    show_default=True,
    help="Nanoseconds that a session takes for a node that computes nothing: no cost of an implementation.",
)
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=pathlib.Path), help="Write everything.")
def main(
    seed: int,
    count: int,
    named: bool,
    dtype: str,
    rounds: int,
    seconds: float,
    measured: Sequence[pathlib.Path],
    session: float,
    json_file: pathlib.Path | None,
) -> None:
    """Measure every implementation on random shapes, and fit the costs by which one is chosen."""
    console = Console(width=180, highlight=False)
    shapes = [*distributions.shapes(seed, count), *(SHAPES if named else ())]
    found = [Measured(**entry) for file in measured for entry in json.loads(file.read_text(encoding="utf-8"))]
    if not shapes and not found:
        raise click.UsageError("--count 0 measures no shapes: add --named, or --measured with a file that holds some")
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("measuring", total=len(shapes))
        for shape in shapes:
            found.append(measure(shape, dtype, rounds=rounds, seconds=seconds))
            progress.advance(task)
    if json_file:
        entries: list[Any] = [dataclasses.asdict(each) for each in found]
        json_file.write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")
    _report(console, found, session)


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.costs")
