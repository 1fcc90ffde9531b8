"""How fast transposed convolutions of 8-bit integers run: ours, the same layer in floats, and OpenVINO's.

Run ``python -m benchmarks.integer_transposed``. Each layer is an ONNX model of a ConvTranspose between
DequantizeLinear and QuantizeLinear, from uint8 to uint8, with int8 weights that have a scale for each output channel.
ONNX Runtime has no int8 ConvTranspose and computes it in floats; ortconv runs what `ortconv optimize` makes of it;
OpenVINO reads the same file. The float engines run the ConvTranspose of the same numbers alone. All engines run in one
process on one thread, in turns; each answer is first compared with the exact one. A turn during which somebody else
slowed the core, as `benchmarks.turn` tells, is repeated.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from benchmarks.engines import session_options
from benchmarks.turn import in_turns

__all__ = ["LAYERS", "Layer", "compare"]

Array = npt.NDArray[Any]

_SCALE, _ZERO = 0.02, 128
"""Of the data."""
_STEPS = 1.01
"""How far an answer may be from the exact one: a step of the quantized result and rounding."""


@dataclasses.dataclass(frozen=True)
class Layer:
    """A layer of a network, with square kernels and images.

    Attributes:
        network: Where such layers stand.
        inputs: Channels of the data.
        outputs: Channels of the result.
        kernel: Size of the kernel.
        stride: Stride of both axes.
        pad: Padding of all sides.
        size: Height and width of the data.
        group: How many groups of channels there are.
    """

    network: str
    inputs: int
    outputs: int
    kernel: int
    stride: int
    pad: int
    size: int
    group: int = 1

    @property
    def name(self) -> str:
        """What a table shows."""
        groups = f" in {self.group} groups" if self.group > 1 else ""
        return (
            f"{self.network} {self.inputs}>{self.outputs}{groups} k{self.kernel} s{self.stride}, "
            f"{self.size}x{self.size}"
        )


LAYERS = (
    Layer("U-Net", 1024, 512, 2, 2, 0, 14),
    Layer("U-Net", 256, 128, 2, 2, 0, 56),
    Layer("U-Net", 128, 64, 2, 2, 0, 112),
    Layer("DCGAN", 512, 256, 4, 2, 1, 8),
    Layer("DCGAN", 256, 128, 4, 2, 1, 16),
    Layer("DCGAN", 128, 64, 4, 2, 1, 32),
    Layer("text detector", 64, 64, 2, 2, 0, 80),
    Layer("CenterNet", 256, 256, 4, 2, 1, 16),
    Layer("CycleGAN", 128, 64, 3, 2, 1, 64),
    Layer("LinkNet", 64, 32, 3, 2, 1, 112),
    Layer("FCN", 32, 32, 16, 8, 4, 28),
    Layer("pose", 256, 256, 4, 2, 1, 16, 8),
)


def compare(layer: Layer, rounds: int, seconds: float) -> dict[str, float]:
    """Times the engines.

    Args:
        layer: The layer.
        rounds: How many turns each engine has.
        seconds: How long a turn takes.

    Returns:
        The median of the microseconds of a run, by engine; without OpenVINO where it is not installed.

    Raises:
        click.ClickException: An engine's answer is wrong.
    """
    random = np.random.default_rng(0)
    shape = (layer.inputs, layer.outputs // layer.group, layer.kernel, layer.kernel)
    # As quantizers find them: the largest of normally distributed weights is 127.
    floats = random.standard_normal(shape).astype(np.float32)
    scale = (np.abs(floats).max(axis=(0, 2, 3)) / 127).astype(np.float32)
    w = np.rint(floats / scale.reshape(1, -1, 1, 1)).astype(np.int8)
    x = random.integers(0, 256, (1, layer.inputs, layer.size, layer.size), np.uint8)
    exact = _exact(layer, (x.astype(np.float64) - _ZERO) * _SCALE, w * scale.astype(np.float64).reshape(1, -1, 1, 1))
    step = float(np.abs(exact).max()) / 120
    engines = _engines(layer, x, w, scale, step)
    for engine, run in engines.items():
        answer, allowed = run().astype(np.float64), 0.01 * step
        if "float32" not in engine:
            answer, allowed = (answer - _ZERO) * step, _STEPS * step
        error = float(np.abs(answer - exact).max())
        if not error <= allowed:
            raise click.ClickException(f"{layer.name}: {engine} is wrong by {error:.1e}; allowed: {allowed:.1e}")
    return {engine: found * 1e6 for engine, found in in_turns(engines, rounds, seconds).items()}


def _exact(layer: Layer, x: Array, w: Array) -> Array:
    """Returns the result in float64."""
    full = (layer.size - 1) * layer.stride + layer.kernel
    y = np.zeros((1, layer.outputs, full, full))
    inputs, outputs = layer.inputs // layer.group, layer.outputs // layer.group
    reach = (layer.size - 1) * layer.stride + 1
    for group in range(layer.group):
        data = x[0, group * inputs : (group + 1) * inputs].reshape(inputs, -1)
        for i in range(layer.kernel):
            for j in range(layer.kernel):
                part = w[group * inputs : (group + 1) * inputs, :, i, j].T @ data
                window = y[0, group * outputs : (group + 1) * outputs, i : i + reach : layer.stride]
                window[:, :, j : j + reach : layer.stride] += part.reshape(outputs, layer.size, layer.size)
    return y[:, :, layer.pad : full - layer.pad, layer.pad : full - layer.pad]


def _engines(layer: Layer, x: Array, w: Array, scale: Array, step: float) -> dict[str, Callable[[], Array]]:
    import onnxruntime

    import ortconv

    quantized = _model(layer, x, w, scale, step)
    plain = _model(layer, x, w, scale, None)
    providers = ["CPUExecutionProvider"]
    sessions = {
        "ortconv int8": ortconv.InferenceSession(ortconv.optimize(quantized), session_options(1), providers=providers),
        "ortconv float32": ortconv.InferenceSession(ortconv.optimize(plain), session_options(1), providers=providers),
        "ONNX Runtime, QDQ": onnxruntime.InferenceSession(
            quantized.SerializeToString(), session_options(1), providers=providers
        ),
        "ONNX Runtime float32": onnxruntime.InferenceSession(
            plain.SerializeToString(), session_options(1), providers=providers
        ),
    }
    wide = ((x.astype(np.float32) - _ZERO) * np.float32(_SCALE)).astype(np.float32)
    runs: dict[str, Callable[[], Array]] = {
        engine: (lambda session=session, fed={"x": wide if "float32" in engine else x}: session.run(None, fed)[0])
        for engine, session in sessions.items()
    }
    try:
        import openvino
    except ImportError:
        return runs
    core = openvino.Core()
    config = {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    request = core.compile_model(core.read_model(quantized.SerializeToString()), "CPU", config).create_infer_request()

    def run() -> Array:
        answer: Array = request.infer({"x": x})[0]
        return answer

    return {**runs, "OpenVINO int8": run}


def _model(layer: Layer, x: Array, w: Array, scale: Array, step: float | None) -> Any:
    """Returns the model: quantized where it has the step of the result, else of floats."""
    from onnx import TensorProto, helper, numpy_helper

    window = {"strides": [layer.stride] * 2, "pads": [layer.pad] * 4, "group": layer.group}
    node = helper.make_node
    if step is None:
        stored = {"w": (w * scale.reshape(1, -1, 1, 1)).astype(np.float32)}
        nodes = [node("ConvTranspose", ["x", "w"], ["y"], **window)]
    else:
        stored = {
            "w": w, "ws": scale, "wz": np.zeros(scale.shape, np.int8), "s": np.float32(_SCALE), "z": np.uint8(_ZERO),
            "ys": np.float32(step), "yz": np.uint8(_ZERO),
        }  # fmt: skip
        nodes = [
            node("DequantizeLinear", ["x", "s", "z"], ["xd"]),
            node("DequantizeLinear", ["w", "ws", "wz"], ["wd"], axis=1),
            node("ConvTranspose", ["xd", "wd"], ["c"], **window),
            node("QuantizeLinear", ["c", "ys", "yz"], ["y"]),
        ]
    kind = TensorProto.FLOAT if step is None else TensorProto.UINT8
    graph = helper.make_graph(
        nodes,
        "layer",
        [helper.make_tensor_value_info("x", kind, x.shape)],
        [helper.make_tensor_value_info("y", kind, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in stored.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    import onnx

    return onnx.shape_inference.infer_shapes(model)


@click.command()
@click.option("--rounds", default=9, show_default=True, type=click.IntRange(1), help="Turns of each engine.")
@click.option("--seconds", default=0.1, show_default=True, type=click.FloatRange(0.01), help="Length of a turn.")
def main(rounds: int, seconds: float) -> None:
    """Compare the speed of transposed convolutions of 8-bit integers, and print a table in Markdown."""
    ratios: dict[str, list[float]] = {}
    for layer in LAYERS:
        times = compare(layer, rounds, seconds)
        engines = [engine for engine in times if engine != "ortconv int8"]
        if not ratios:
            click.echo(f"| layer | ortconv int8, us | {' | '.join(f'{engine} / ours' for engine in engines)} |")
            click.echo("|---|--:" + "|--:" * len(engines) + "|")
        for engine in engines:
            ratios.setdefault(engine, []).append(times[engine] / times["ortconv int8"])
        row = " | ".join(f"{ratios[engine][-1]:.2f}" for engine in engines)
        click.echo(f"| {layer.name} | {times['ortconv int8']:.0f} | {row} |")
    means = " | ".join(f"{math.exp(sum(map(math.log, each)) / len(each)):.2f}" for each in ratios.values())
    click.echo(f"| geometric mean | | {means} |")


if __name__ == "__main__":
    main()
