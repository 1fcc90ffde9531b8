"""Speed of products by compressed weights on an NVIDIA GPU: ours, ONNX Runtime's own and torch's dense ones.

``python -m benchmarks.cuda.products --help``, from the top of the source tree, on a machine with onnxruntime-gpu and
torch. Matrices are those of language models of seven billion parameters; one row is what decoding multiplies.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import itertools
import json
import math
import pathlib
from collections.abc import Mapping
from time import monotonic
from typing import Any

import click
import numpy as np

from benchmarks.answers import NUMPY
from benchmarks.cuda import comparing, gpu
from benchmarks.cuda.answers import stored
from benchmarks.cuda.product_engines import ENGINES, Layer, Weights
from benchmarks.engines import OURS

__all__ = ["LAYERS", "TOLERANCES", "compare", "main"]

_KINDS = (("u4", 128), ("i4", 32), ("i8", 0))
_MATRICES = ((4096, 4096), (11008, 4096), (4096, 11008))
_ROWS = (1, 16, 256)

LAYERS = tuple(
    Layer(*kind, *matrix, rows) for rows, kind, matrix in itertools.product(_ROWS, _KINDS, _MATRICES)
)  # fmt: skip
"""What is measured, those first that tell most."""

TOLERANCES = {"f32": 1e-5, "tf32": 3e-3, "f16": 1e-2, "bf16": 3e-2}
"""How far an answer may be off, of the largest magnitude of an output. ONNX Runtime's and torch's may sum in the narrow
type; `error` tells how far each is off."""


def compare(layer: Layer, dtype: str, rounds: int, seconds: float, graph: bool) -> dict[str, Any]:
    """Checks the answers of all engines, and times them in turns.

    Args:
        layer: The product.
        dtype: One of `benchmarks.cuda.gpu.DTYPES`.
        rounds: How many turns each engine has.
        seconds: How long a turn takes, about.
        graph: Whether runs are captured in graphs.

    Returns:
        What was found, as it stands in the JSON.
    """
    random = np.random.default_rng(1)
    x = random.standard_normal((layer.rows, layer.inputs)).astype(NUMPY[stored(dtype)])
    weights = Weights.draw(layer, dtype)
    expected = x.astype(np.float64) @ weights.dense().T
    engines = {
        name: functools.partial(engine, layer, dtype, x, weights, graph) for name, engine in ENGINES.items()
    }  # fmt: skip
    tolerances = dict.fromkeys(ENGINES, TOLERANCES[dtype])
    found = comparing.compare(engines, expected, tolerances, rounds, seconds)
    return {"layer": {**dataclasses.asdict(layer), "name": layer.name}, "dtype": dtype, **found}


def _roofline(found: Mapping[str, Any], layer: Layer, ceiling: gpu.Ceiling) -> float:
    """Returns the share of the roofline that ours reaches."""
    dtype = found["dtype"]
    least = max(layer.bytes_moved(gpu.DTYPES[dtype]) / ceiling.copy, layer.flops / ceiling.peak[dtype]) / 1e9
    return least / float(found["seconds"][OURS])


@click.command(epilog="Example: python -m benchmarks.cuda.products --dtype f16 --json found.json")
@click.option("--layer", "texts", multiple=True, metavar="TEXT", help="Only products with this in their name.")
@click.option(
    "--dtype",
    "dtypes",
    multiple=True,
    type=click.Choice(list(gpu.DTYPES)),
    default=("f16", "f32", "bf16"),
    help="Element type of the data; repeatable. Default: f16, f32 and bf16.",
)
@comparing.options
def main(
    texts: tuple[str, ...],
    dtypes: tuple[str, ...],
    rounds: int,
    seconds: float,
    no_graph: bool,
    minutes: float | None,
    json_file: pathlib.Path | None,
) -> None:
    """Compare the speed of products by compressed weights on the GPU.

    Engines take turns in one process; times are medians over the turns. Every answer is compared with float64 before it
    is timed: the exit code is 1 if one is wrong.
    """
    layers = [layer for layer in LAYERS if not texts or any(text in layer.name for text in texts)]
    if not layers:
        raise click.UsageError("--layer: no product has that in its name.")
    end = math.inf if minutes is None else monotonic() + 60 * minutes
    ceiling, machine = gpu.measure(dtypes), gpu.describe()
    click.echo(f"| product | type | {' | '.join(f'{name}, us' for name in ENGINES)} | best peer / ours | of roofline |")
    click.echo("|---|---|" + "--:|" * (len(ENGINES) + 2))
    wanted = [(dtype, layer) for dtype in dtypes for layer in layers]
    cases: list[dict[str, Any]] = []
    for dtype, layer in wanted:
        if monotonic() > end:
            break
        found = compare(layer, dtype, rounds, seconds, not no_graph)
        if OURS in found["seconds"]:
            found["of_roofline"] = float(f"{_roofline(found, layer, ceiling):.3g}")
        cases.append(found)
        click.echo(_row(found))
        if json_file:
            document = {
                "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
                "machine": machine,
                "ceiling": dataclasses.asdict(ceiling),
                "settings": {"rounds": rounds, "seconds": seconds, "graph": not no_graph},
                "means": _means(cases),
                "cases": cases,
                "missing": len(wanted) - len(cases),
            }
            json_file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    for name, mean in _means(cases).items():
        click.echo(f"{name} / ours: {mean:.2f}")
    for each in cases:
        for name, problem in each["wrong"].items():
            click.echo(f"WRONG {each['layer']['name']} {each['dtype']}: {name}: {problem}", err=True)
    if any(each["wrong"] for each in cases):
        raise click.exceptions.Exit(1)


def _means(cases: list[dict[str, Any]]) -> dict[str, float]:
    """Returns the geometric means of the ratios, by type, number of rows and engine."""
    groups: dict[str, list[Mapping[str, float]]] = {}
    for each in cases:
        groups.setdefault(f"{each['dtype']}, {each['layer']['rows']} rows", []).append(each["ratios"])
    return comparing.means(groups)


def _row(found: Mapping[str, Any]) -> str:
    times = [f"{found['seconds'][name] * 1e6:.1f}" if name in found["seconds"] else "-" for name in ENGINES]
    best = f"{min(found['ratios'].values()):.2f}" if found["ratios"] else "-"
    share = f"{found['of_roofline']:.0%}" if "of_roofline" in found else "-"
    return f"| {found['layer']['name']} | {found['dtype']} | {' | '.join(times)} | {best} | {share} |"


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.cuda.products")
