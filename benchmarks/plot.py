"""The picture of a run: GFLOP/s per shape and engine, with the roofline. Needs matplotlib."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence

from benchmarks.engines import ENGINES, OURS
from benchmarks.machine import Ceiling
from benchmarks.measure import Case

__all__ = ["draw"]

_LABELS = {"ort": "ONNX Runtime", "openvino": "OpenVINO", "torch": "torch", "ours": "ortconv"}
_COLORS = {"ort": "#9aa5b1", "openvino": "#c3a6d8", "torch": "#f0b27a", "ours": "#1a7f5a"}


def draw(cases: Sequence[Case], ceilings: Mapping[int, Ceiling], path: pathlib.Path) -> None:
    """Draws the cases of the first type and number of threads.

    Raises:
        ImportError: matplotlib is not installed.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    first = cases[0]
    chosen = [case for case in cases if (case.dtype, case.threads) == (first.dtype, first.threads)]
    ceiling = ceilings[first.threads]
    figure, axes = pyplot.subplots(figsize=(9, 1.2 + 0.26 * len(chosen)))
    places = range(len(chosen))
    for name in ENGINES:
        points = [
            (case.gflops(name), place) for place, case in zip(places, chosen, strict=True) if name in case.timings
        ]
        if points:
            xs, ys = zip(*points, strict=True)
            size, order = (44, 3) if name == OURS else (26, 2)
            axes.scatter(xs, ys, s=size, color=_COLORS[name], label=_LABELS[name], zorder=order)
    roofs = [ceiling.roofline(case.shape, case.dtype) for case in chosen]
    axes.scatter(roofs, list(places), marker="|", s=110, color="#444444", label="roofline", zorder=1)
    axes.set_yticks(list(places), [case.shape.name for case in chosen], fontsize=8)
    axes.margins(y=0.02)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.grid(axis="x", which="both", alpha=0.25)
    axes.grid(axis="y", alpha=0.15)
    threads = "1 thread" if first.threads == 1 else f"{first.threads} threads"
    axes.set_xlabel(f"GFLOP/s of useful operations, {first.dtype}, {threads} (further right is faster)")
    axes.legend(
        loc="upper center", bbox_to_anchor=(0.4, 1.0 + 0.9 / len(chosen) + 0.03), ncols=5, frameon=False, fontsize=8
    )
    figure.savefig(path, dpi=80, bbox_inches="tight")
    pyplot.close(figure)
