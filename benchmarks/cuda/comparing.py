"""Engines on the GPU in one process: their answers checked, and their times in turns."""

from __future__ import annotations

import math
import pathlib
import statistics
from collections.abc import Callable, Mapping
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from benchmarks.cuda.engines import Prepared
from benchmarks.engines import OURS, Unsupported
from benchmarks.report import geometric_mean

__all__ = ["compare", "means", "options"]


def compare(
    engines: Mapping[str, Callable[[], Prepared]],
    expected: npt.NDArray[Any],
    tolerances: Mapping[str, float],
    rounds: int,
    seconds: float,
) -> dict[str, Any]:
    """Checks the answers of all engines, and times those that are right.

    Args:
        engines: By name, what loads an engine; it raises `Unsupported` where the engine has no such thing.
        expected: The answer in float64.
        tolerances: How far each engine's answer may be off, of the largest magnitude of an output.
        rounds: How many turns each engine has.
        seconds: How long a turn takes, about.

    Returns:
        The seconds of a run, how many times ours they are, the errors, and what was skipped or wrong and why, by
        engine, as it stands in the JSON.
    """
    ready: dict[str, Prepared] = {}
    errors, skipped, wrong = {}, {}, {}
    for name, load in engines.items():
        try:
            prepared = load()
            answer = prepared.answer()
        except Unsupported as reason:
            skipped[name] = str(reason)
        except Exception as raised:  # ONNX Runtime's own exception classes have no common base
            wrong[name] = str(raised)
        else:
            error = float(np.abs(answer.astype(np.float64) - expected).max() / np.abs(expected).max())
            errors[name] = error
            if error <= tolerances[name]:
                ready[name] = prepared
            else:
                wrong[name] = f"is off by {error:.1e} of the largest output; allowed: {tolerances[name]:.0e}"
    runs = {name: max(1, math.ceil(seconds / each.time(1).seconds)) for name, each in ready.items()}
    times: dict[str, list[float]] = {name: [] for name in ready}
    order = list(ready)
    for turn in range(rounds):
        start = turn % max(len(order), 1)
        for name in [*order[start:], *order[:start]]:
            times[name].append(ready[name].time(runs[name]).seconds)
    medians = {name: statistics.median(each) for name, each in times.items()}
    ratios = {
        name: statistics.median(a / b for a, b in zip(times[name], times[OURS], strict=True))
        for name in medians
        if OURS in medians and name != OURS
    }
    return {
        "seconds": {name: float(f"{value:.4g}") for name, value in medians.items()},
        "ratios": {name: float(f"{value:.4g}") for name, value in ratios.items()},
        "errors": {name: float(f"{value:.2g}") for name, value in errors.items()},
        "skipped": skipped,
        "wrong": wrong,
    }


def means(found: Mapping[str, list[Mapping[str, float]]]) -> dict[str, float]:
    """Returns the geometric means of ratios.

    Args:
        found: Ratios by engine of each case, by group of cases.
    """
    groups: dict[str, list[float]] = {}
    for group, cases in found.items():
        for each in cases:
            for name, ratio in each.items():
                groups.setdefault(f"{group}: {name}", []).append(ratio)
    return {group: float(f"{geometric_mean(ratios):.4g}") for group, ratios in groups.items()}


def options(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options rounds, seconds, no_graph, minutes and json_file."""
    for option in (
        click.option("--rounds", type=click.IntRange(1), default=9, show_default=True, help="Turns of each engine."),
        click.option(
            "--seconds",
            type=click.FloatRange(0, min_open=True),
            default=0.02,
            show_default=True,
            help="Length of a turn.",
        ),
        click.option("--no-graph", is_flag=True, help="Launch every run from the CPU rather than in CUDA graphs."),
        click.option("--minutes", type=click.FloatRange(0), help="Begin no other case after so many minutes."),
        click.option(
            "--json",
            "json_file",
            type=click.Path(dir_okay=False, writable=True, path_type=pathlib.Path),
            help="Write everything that was found, after every case.",
        ),
    )[::-1]:
        command = option(command)
    return command
