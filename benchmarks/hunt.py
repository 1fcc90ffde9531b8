"""Random shapes that nobody tuned for: is any of them slower, or less exact, than in ONNX Runtime?

Run ``python -m benchmarks.hunt --seed 1 --count 300``. Each seed names one list of shapes, which `draw` takes from the
distribution that its docstring states. ONNX Runtime and ortconv run them in float32 in turns, in processes of their
own; both answers are first compared with float64.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import pathlib
import random
import statistics
from collections.abc import Iterator, Sequence

import click
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks import engines, machine
from benchmarks.engines import OURS
from benchmarks.measure import Case, measure
from benchmarks.report import geometric_mean, rounded
from benchmarks.shapes import Shape
from benchmarks.turn import Fastest
from benchmarks.worker import Worker

__all__ = ["draw", "has_gaps", "main", "shapes"]

_PEER = "ort"
_BATCHES, _CHANNELS = 16, 4098
_SIZES = {1: 4096, 2: 160, 3: 32}
_KERNELS = {1: 4096, 2: 24, 3: 7}
"""Largest sizes of an axis of the input and of the kernel, by number of axes."""

_FLOPS = 2e9
_ELEMENTS = 1 << 24
"""Most operations of a shape, and most elements of its input, weights or output."""

_SLOW, _INEXACT = 0.9, 1.25
"""Ratios of speed below which, and of the largest errors above which, a shape is listed."""


def _log_uniform(rng: random.Random, most: int, least: int = 1) -> int:
    """Returns an integer whose logarithm is uniform, `least` and `most` among the possible ones."""
    return min(most, int(math.exp(rng.uniform(math.log(least), math.log(most + 1)))))


def draw(rng: random.Random) -> Shape:
    """Draws a shape.

    - Axes: 1 (two in five), 2 (two in five) or 3 (one in five).
    - Batch: 1 (three in five), otherwise log-uniform up to 16.
    - Input sizes: log-uniform, up to 4096, 160 and 32 for 1, 2 and 3 axes. One axis in eight has size 1.
    - Kernel sizes: log-uniform, up to 4096, 24 and 7. Two of three kernels have the same size on every axis.
    - Strides: 1, 2, the kernel size, a half or a quarter of it, or log-uniform up to it; one shape in eight has strides
      of up to twice the kernel's extent, which leave gaps between windows.
    - Dilations: 1 (four in five), otherwise 2 to 8.
    - Padding: 0 (half of the shapes), otherwise up to half of the kernel's extent on each side.
    - Output padding: 0 (four in five), otherwise below the stride.
    - Channels, inputs and outputs each: log-uniform up to 4098; one shape in six is depthwise, one in six has 2 to 32
      groups. One shape in five has 1 to 8 outputs per group.
    """
    axes = rng.choice((1, 1, 2, 2, 3))
    size = tuple(1 if rng.random() < 1 / 8 else _log_uniform(rng, _SIZES[axes]) for _ in range(axes))
    same = rng.random() < 2 / 3
    first = _log_uniform(rng, _KERNELS[axes])
    kernel = tuple(first if same else _log_uniform(rng, _KERNELS[axes]) for _ in range(axes))
    dilation = (1 if rng.random() < 0.8 else rng.randint(2, 8),) * axes
    extent = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True))
    kind = rng.choice(("one", "two", "kernel", "half", "quarter", "any", "any", "gaps"))
    stride = tuple(_stride(rng, kind, k, e) for k, e in zip(kernel, extent, strict=True))
    pad = (0,) * axes if rng.random() < 0.5 else tuple(rng.randint(0, e // 2) for e in extent)
    extra = tuple(0 if rng.random() < 0.8 else rng.randrange(s) for s in stride)
    group, inputs, outputs = _channels(rng)
    batch = 1 if rng.random() < 0.6 else _log_uniform(rng, _BATCHES)
    return Shape("", batch, inputs, outputs, size, kernel, stride, pad, extra, group, dilation)


def _stride(rng: random.Random, kind: str, kernel: int, extent: int) -> int:
    return {
        "one": 1,
        "two": 2,
        "kernel": kernel,
        "half": max(1, kernel // 2),
        "quarter": max(1, kernel // 4),
        "any": _log_uniform(rng, kernel),
        "gaps": rng.randint(extent + 1, 2 * extent),
    }[kind]


def _channels(rng: random.Random) -> tuple[int, int, int]:
    """Draws groups, inputs and outputs."""
    kind = rng.choice(("depthwise", "grouped", "one", "one", "one", "one"))
    if kind == "depthwise":
        channels = _log_uniform(rng, _CHANNELS)
        return channels, channels, channels
    group = rng.randint(2, 32) if kind == "grouped" else 1
    most = _CHANNELS // group
    outputs = rng.randint(1, 8) if rng.random() < 0.2 else _log_uniform(rng, most)
    return group, group * _log_uniform(rng, most), group * outputs


def shapes(seed: int, count: int) -> list[Shape]:
    """Returns the first shapes of a seed that have an output, and are no larger than 2 GFLOP and 64 MiB a tensor."""
    rng = random.Random(seed)
    found: list[Shape] = []
    while len(found) < count:
        shape = draw(rng)
        tensors = (shape.x_shape, shape.w_shape, shape.y_shape)
        if min(shape.y_shape) < 1 or max(map(math.prod, tensors)) > _ELEMENTS or not 0 < shape.flops <= _FLOPS:
            continue
        found.append(dataclasses.replace(shape, name=_name(len(found), shape)))
    return found


def _name(number: int, shape: Shape) -> str:
    def each(values: Sequence[int]) -> str:
        return "x".join(map(str, values[:1] if len(set(values)) == 1 else values))

    parts = [f"{number}: {shape.axes}-D k{each(shape.kernels)} s{each(shape.strides)}"]
    parts += [f"d{each(shape.dilations)}"] if max(shape.dilations) > 1 else []
    parts += [f"p{each(shape.pads)}"] if any(shape.pads) else []
    parts += [f"op{each(shape.extras)}"] if any(shape.extras) else []
    parts += [f"{shape.inputs}>{shape.outputs}", *([f"g{shape.group}"] if shape.group > 1 else [])]
    parts += ["x".join(map(str, shape.size)), *([f"b{shape.batch}"] if shape.batch > 1 else [])]
    return " ".join(parts)


def has_gaps(shape: Shape) -> bool:
    """Tells whether a stride exceeds the kernel's extent, so that some outputs are the bias alone."""
    extents = ((k - 1) * d + 1 for k, d in zip(shape.kernels, shape.dilations, strict=True))
    return any(stride > extent for stride, extent in zip(shape.strides, extents, strict=True))


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
@click.option("--count", type=click.IntRange(1), default=300, show_default=True, help="How many shapes of it.")
@click.option("--dtype", type=click.Choice(["f32", "f16"]), default="f32", show_default=True, help="Element type.")
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True, help="Threads of each engine.")
@click.option("--rounds", type=click.IntRange(1), default=7, show_default=True, help="Turns of each engine.")
@click.option("--seconds", type=float, default=0.02, show_default=True, help="How long a turn lasts, about.")
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=pathlib.Path), help="Write everything.")
@click.option("--plot", "plot_file", type=click.Path(dir_okay=False, path_type=pathlib.Path), help="Draw a PNG.")
def main(
    seed: int,
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
        for case in _measured(shapes(seed, count), dtype, threads, rounds, seconds):
            cases.append(case)
            progress.advance(task)
    _show(console, cases)
    if json_file:
        about = {"seed": seed, "dtype": dtype, "threads": threads, "rounds": rounds, "machine": machine.describe()}
        versions = {name: engines.version(name) for name in (_PEER, OURS)}
        found = {**about, "versions": versions, "shapes": [_entry(case) for case in cases]}
        json_file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if plot_file:
        _plot(cases, plot_file)
    if any(case.wrong for case in cases):
        raise click.exceptions.Exit(1)


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.hunt")
