"""Speed of convolutions of 8-bit integers on an NVIDIA GPU: ours to floats, and ONNX Runtime's and torch's of floats.

``python -m benchmarks.cuda.integer_convs --help``, from the top of the source tree, on a machine with onnxruntime-gpu
and torch. The layers are those of `benchmarks.integer_convs`, in batches.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import json
import math
import pathlib
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from benchmarks.cuda import comparing, gpu
from benchmarks.cuda.engines import Prepared, bind, captured, provider, session_options
from benchmarks.engines import OURS
from benchmarks.integer_convs import LAYERS, X_SCALE, X_ZERO, Layer, draw, exact

__all__ = ["BATCHES", "ENGINES", "TOLERANCES", "compare", "main"]

Array = npt.NDArray[Any]

BATCHES = (1, 32)
_BYTES = 256 << 20
_MOST = 64


def _runs(layer: Layer, batch: int) -> int:
    """Returns how many runs of a graph there are: their results are more than a cache holds."""
    size = (layer.size - 1) // layer.stride + 1
    return max(1, min(_MOST, math.ceil(_BYTES / (4 * batch * layer.outputs * size * size))))


def _ours(layer: Layer, data: Mapping[str, Array], graph: bool) -> Prepared:
    import ortconv
    from ortconv.opset.domain import DOMAIN
    from ortconv.opset.ops.conv_integer_to_float import CONV_INTEGER_TO_FLOAT

    constants = {
        "S": X_SCALE,
        "V": data["w_scale"],
        "Z": np.uint8(X_ZERO),
        "N": np.zeros(layer.outputs, np.int8),
        "B": (data["bias"] * (X_SCALE * data["w_scale"])).astype(np.float32),
    }
    model = _model(layer, data["x"], data["w"], constants, CONV_INTEGER_TO_FLOAT.name, DOMAIN, "SVZNB", np.float32)
    session = ortconv.InferenceSession(model, session_options(), providers=[provider("f32", graph)])
    return bind(session, data["x"], _result(layer, data), np.float32)


def _ort(dtype: Any, layer: Layer, data: Mapping[str, Array], graph: bool) -> Prepared:
    import onnxruntime

    from ortconv.runtime import cuda

    cuda.load_libraries(onnxruntime)
    x, w, b = (each.astype(dtype) for each in _floats(data))
    model = _model(layer, x, w, {"B": b}, "Conv", "", "B", dtype)
    name = "f16" if dtype == np.float16 else "f32"
    session = onnxruntime.InferenceSession(
        model, session_options(), providers=[provider(name, graph)], enable_fallback=0
    )  # fmt: skip
    return bind(session, x, _result(layer, data))


def _torch(layer: Layer, data: Mapping[str, Array], graph: bool) -> Prepared:
    import torch

    torch.set_grad_enabled(False)
    torch.backends.cudnn.benchmark = True
    x, w, b = (torch.from_numpy(each).cuda().half() for each in _floats(data))
    x, w = (each.to(memory_format=torch.channels_last) for each in (x, w))
    weights = [w.clone() for _ in range(_runs(layer, data["x"].shape[0]))]
    convolve = functools.partial(
        torch.nn.functional.conv2d, x, bias=b, stride=layer.stride, padding=layer.kernel // 2, groups=layer.group
    )
    return captured(lambda: [convolve(each) for each in weights], np.dtype(np.float16), graph)


ENGINES: dict[str, Callable[[Layer, Mapping[str, Array], bool], Prepared]] = {
    "ort, float": functools.partial(_ort, np.float32),
    "ort, float16": functools.partial(_ort, np.float16),
    "torch, float16": _torch,
    OURS: _ours,
}
"""By name; torch has channels last."""

TOLERANCES = {"ort, float": 1e-5, "ort, float16": 1e-2, "torch, float16": 1e-2, OURS: 1e-5}
"""How far an answer may be off, of the largest magnitude of an output."""


def _floats(data: Mapping[str, Array]) -> tuple[Array, Array, Array]:
    """Returns what X, W and the bias mean, in float32."""
    scales = data["w_scale"]
    x = ((data["x"].astype(np.float32) - X_ZERO) * X_SCALE).astype(np.float32)
    return x, data["w"] * scales.reshape(-1, 1, 1, 1), (data["bias"] * (X_SCALE * scales)).astype(np.float32)


def _result(layer: Layer, data: Mapping[str, Array]) -> list[int]:
    size = (layer.size - 1) // layer.stride + 1
    return [data["x"].shape[0], layer.outputs, size, size]


def _model(
    layer: Layer, x: Array, w: Array, constants: Mapping[str, Any], op_type: str, domain: str, names: str, result: Any
) -> bytes:
    """Returns a model of many convolutions of the same data, each with weights of its own."""
    from onnx import helper, numpy_helper

    from ortconv.opset.domain import DOMAIN

    runs = range(_runs(layer, x.shape[0]))
    element = helper.np_dtype_to_tensor_dtype(np.dtype(result))
    graph = helper.make_graph(
        [
            helper.make_node(op_type, ["X", f"W{run}", *names], [f"Y{run}"], domain=domain, **layer.attributes)
            for run in runs
        ],
        "convolutions",
        [helper.make_tensor_value_info("X", helper.np_dtype_to_tensor_dtype(x.dtype), list(x.shape))],
        [helper.make_tensor_value_info(f"Y{run}", element, None) for run in runs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
        + [numpy_helper.from_array(w, f"W{run}") for run in runs],
    )
    opsets = [helper.make_opsetid(name, version) for name, version in (("", 21), (DOMAIN, 1))]
    made: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
    return made


def compare(layer: Layer, batch: int, rounds: int, seconds: float, graph: bool) -> dict[str, Any]:
    """Checks the answers of all engines, and times them in turns.

    Args:
        layer: The layer.
        batch: How many images a run has.
        rounds: How many turns each engine has.
        seconds: How long a turn takes, about.
        graph: Whether runs are captured in graphs.

    Returns:
        What was found, as it stands in the JSON.
    """
    data = draw(layer, batch)
    engines = {name: functools.partial(engine, layer, data, graph) for name, engine in ENGINES.items()}
    found = comparing.compare(engines, exact(layer, data), TOLERANCES, rounds, seconds)
    return {"layer": {**dataclasses.asdict(layer), "name": layer.name}, "batch": batch, **found}


@click.command(epilog="Example: python -m benchmarks.cuda.integer_convs --json found.json")
@click.option("--layer", "texts", multiple=True, metavar="TEXT", help="Only layers with this in their name.")
@comparing.options
def main(
    texts: tuple[str, ...],
    rounds: int,
    seconds: float,
    no_graph: bool,
    minutes: float | None,
    json_file: pathlib.Path | None,
) -> None:
    """Compare the speed of convolutions of 8-bit integers on the GPU.

    Engines take turns in one process; times are medians over the turns. Every answer is compared with float64 before it
    is timed: the exit code is 1 if one is wrong.
    """
    layers = [layer for layer in LAYERS if not texts or any(text in layer.name for text in texts)]
    if not layers:
        raise click.UsageError("--layer: no layer has that in its name.")
    end = math.inf if minutes is None else monotonic() + 60 * minutes
    machine = gpu.describe()
    click.echo(f"| layer | images | {' | '.join(f'{name}, us' for name in ENGINES)} | best peer / ours |")
    click.echo("|---|--:|" + "--:|" * (len(ENGINES) + 1))
    wanted = [(batch, layer) for batch in BATCHES for layer in layers]
    cases: list[dict[str, Any]] = []
    for batch, layer in wanted:
        if monotonic() > end:
            break
        cases.append(compare(layer, batch, rounds, seconds, not no_graph))
        click.echo(_row(cases[-1]))
        if json_file:
            document = {
                "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
                "machine": machine,
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
            click.echo(f"WRONG {each['layer']['name']}, {each['batch']} images: {name}: {problem}", err=True)
    if any(each["wrong"] for each in cases):
        raise click.exceptions.Exit(1)


def _means(cases: list[dict[str, Any]]) -> dict[str, float]:
    """Returns the geometric means of the ratios, by number of images and engine."""
    groups: dict[str, list[Mapping[str, float]]] = {}
    for each in cases:
        groups.setdefault(f"{each['batch']} images", []).append(each["ratios"])
    return comparing.means(groups)


def _row(found: Mapping[str, Any]) -> str:
    times = [f"{found['seconds'][name] * 1e6:.1f}" if name in found["seconds"] else "-" for name in ENGINES]
    best = f"{min(found['ratios'].values()):.2f}" if found["ratios"] else "-"
    return f"| {found['layer']['name']} | {found['batch']} | {' | '.join(times)} | {best} |"


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.cuda.integer_convs")
