"""Speed of Fourier operators on an NVIDIA GPU: ours, their function bodies in ONNX Runtime, and torch's, with cuFFT.

``python -m benchmarks.cuda.fourier --help``, from the top of the source tree, on a machine with onnxruntime-gpu and
torch.
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

__all__ = ["ENGINES", "LAYERS", "TOLERANCE", "Layer", "compare", "main"]

Array = npt.NDArray[Any]


@dataclasses.dataclass(frozen=True)
class Layer:
    """A Fourier transform of rows, or a short-time one of a signal by a Hann window.

    Attributes:
        length: Of the transform.
        count: Rows, or frames.
        hop: The distance of frames; 0 for rows.
    """

    length: int
    count: int
    hop: int = 0

    @property
    def name(self) -> str:
        """What a table shows."""
        return (
            f"STFT {self.length}, hop {self.hop}, {self.count} frames" if self.hop else f"{self.count} x {self.length}"
        )

    @property
    def bins(self) -> int:
        """Of real signals."""
        return self.length // 2 + 1

    @property
    def window(self) -> Array:
        """A periodic Hann window."""
        found: Array = np.hanning(self.length + 1)[:-1].astype(np.float32)
        return found

    @property
    def dims(self) -> list[int]:
        """The shape of the result."""
        return [1, 2 * self.bins, self.count] if self.hop else [self.count, self.length, 2]

    def draw(self) -> Array:
        """Draws data."""
        shape = (1, 1, (self.count - 1) * self.hop + self.length) if self.hop else (self.count, self.length, 2)
        return np.random.default_rng(1).standard_normal(shape, np.float32)

    def expect(self, x: Array) -> Array:
        """Returns the result in float64."""
        if not self.hop:
            spectrum = np.fft.fft(x[..., 0].astype(np.float64) + 1j * x[..., 1])
            return np.stack([spectrum.real, spectrum.imag], -1)
        frames = np.lib.stride_tricks.sliding_window_view(x[0, 0].astype(np.float64), self.length)[:: self.hop]
        spectrum = np.fft.rfft(frames * self.window).T
        return np.concatenate([spectrum.real, -spectrum.imag])[None]


LAYERS = (
    *(Layer(length, (1 << 22) // length) for length in (64, 256, 400, 1000, 1009, 1024, 4096, 6000, 1 << 16, 1 << 20)),
    *(Layer(length, 4000, length // 4) for length in (400, 512, 1024, 2048, 4096)),
)
"""What is measured."""

TOLERANCE = 2e-6
"""How far an answer may be off, of the largest magnitude of an output."""


def _session(entry: str, layer: Layer, x: Array, graph: bool) -> Prepared:
    import ortconv
    from ortconv.runtime.library import FOURIER_ENTRY

    options = session_options()
    options.add_session_config_entry(FOURIER_ENTRY, entry)
    session = ortconv.InferenceSession(_model(layer, x), options, providers=[provider("f32", graph)])
    return bind(session, x, layer.dims)


def _torch(layer: Layer, x: Array, graph: bool) -> Prepared:
    import torch

    data = torch.from_numpy(x).cuda()
    window = torch.from_numpy(layer.window).cuda()

    def run() -> list[Any]:
        if not layer.hop:
            return [torch.view_as_real(torch.fft.fft(torch.view_as_complex(data)))]
        spectrum = torch.stft(data[0], layer.length, layer.hop, window=window, center=False, return_complex=True)
        return [torch.cat([spectrum.real, -spectrum.imag], 1)]

    return captured(run, x.dtype, graph)


ENGINES: dict[str, Callable[[Layer, Array, bool], Prepared]] = {
    "bodies": functools.partial(_session, "0"),
    "torch": _torch,
    OURS: functools.partial(_session, "1"),
}
"""By name."""


def _model(layer: Layer, x: Array) -> bytes:
    """Returns a model of one node, with its function body."""
    import onnx_ir as ir
    from onnx import TensorProto, helper, numpy_helper

    from ortconv.opset import functions
    from ortconv.opset.domain import DOMAIN

    tensors: dict[str, Array] = {}
    attributes: dict[str, Any] = {"axis": 1, "inverse": 0, "onesided": 0}
    if layer.hop:
        tensors = {"window": layer.window, "gains": np.ones(2 * layer.bins, np.float32)}
        attributes = {"n_fft": layer.length, "hop": [layer.hop], "pads": [0, 0], "parts": 0}
    op_type = "ForwardSTFT" if layer.hop else "FourierTransform"
    graph = helper.make_graph(
        [helper.make_node(op_type, ["X", *tensors], ["Y"], name="n", domain=DOMAIN, **attributes)],
        "fourier",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, list(x.shape))],
        [helper.make_tensor_value_info("Y", TensorProto.FLOAT, layer.dims)],
        [numpy_helper.from_array(value, name) for name, value in tensors.items()],
    )
    opsets = [helper.make_opsetid(name, version) for name, version in (("", 21), (DOMAIN, 1))]
    model = ir.from_proto(helper.make_model(graph, opset_imports=opsets, ir_version=10))
    functions.attach(model)
    made: bytes = ir.to_proto(model).SerializeToString()
    return made


def compare(layer: Layer, rounds: int, seconds: float, graph: bool) -> dict[str, Any]:
    """Checks the answers of all engines, and times them in turns.

    Args:
        layer: What is transformed.
        rounds: How many turns each engine has.
        seconds: How long a turn takes, about.
        graph: Whether runs are captured in graphs.

    Returns:
        What was found, as it stands in the JSON.
    """
    x = layer.draw()
    engines = {name: functools.partial(engine, layer, x, graph) for name, engine in ENGINES.items()}
    tolerances = dict.fromkeys(ENGINES, TOLERANCE)
    found = comparing.compare(engines, layer.expect(x), tolerances, rounds, seconds)
    return {"layer": {**dataclasses.asdict(layer), "name": layer.name}, **found}


@click.command(epilog="Example: python -m benchmarks.cuda.fourier --json found.json")
@click.option("--layer", "texts", multiple=True, metavar="TEXT", help="Only transforms with this in their name.")
@comparing.options
def main(
    texts: tuple[str, ...],
    rounds: int,
    seconds: float,
    no_graph: bool,
    minutes: float | None,
    json_file: pathlib.Path | None,
) -> None:
    """Compare the speed of Fourier operators on the GPU.

    Engines take turns in one process; times are medians over the turns. Every answer is compared with float64 before it
    is timed: the exit code is 1 if one of ours is wrong. The bodies may be inexact, and are not timed then.
    """
    layers = [layer for layer in LAYERS if not texts or any(text in layer.name for text in texts)]
    if not layers:
        raise click.UsageError("--layer: no transform has that in its name.")
    end = math.inf if minutes is None else monotonic() + 60 * minutes
    machine = gpu.describe()
    click.echo(f"| transform | {' | '.join(f'{name}, us' for name in ENGINES)} | best peer / ours |")
    click.echo("|---|" + "--:|" * (len(ENGINES) + 1))
    cases: list[dict[str, Any]] = []
    for layer in layers:
        if monotonic() > end:
            break
        cases.append(compare(layer, rounds, seconds, not no_graph))
        click.echo(_row(cases[-1]))
        if json_file:
            document = {
                "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
                "machine": machine,
                "settings": {"rounds": rounds, "seconds": seconds, "graph": not no_graph},
                "cases": cases,
                "missing": len(layers) - len(cases),
            }
            json_file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    for each in cases:
        for name, problem in each["wrong"].items():
            click.echo(f"WRONG {each['layer']['name']}: {name}: {problem}", err=True)
    if any(OURS in each["wrong"] for each in cases):
        raise click.exceptions.Exit(1)


def _row(found: Mapping[str, Any]) -> str:
    times = [f"{found['seconds'][name] * 1e6:.1f}" if name in found["seconds"] else "-" for name in ENGINES]
    best = f"{min(found['ratios'].values()):.2f}" if found["ratios"] else "-"
    return f"| {found['layer']['name']} | {' | '.join(times)} | {best} |"


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.cuda.fourier")
