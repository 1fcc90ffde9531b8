"""How fast convolutions of 8-bit integers run: ours to floats, and ONNX Runtime's, of floats and to 8 bits again.

Run ``python -m benchmarks.integer_convs``. The layers are those of convolutional networks, with constant int8 weights
that have a scale for each output channel, and uint8 data. ONNX Runtime's Conv has the same numbers as floats; its
QLinearConv quantizes its result, which is less to write. All engines run in one process on one thread, in turns; each
answer is first compared with the exact sums. A turn during which somebody else slowed the core, as `benchmarks.turn`
tells, is repeated.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from benchmarks.engines import session_options
from benchmarks.turn import in_turns

__all__ = ["LAYERS", "X_SCALE", "X_ZERO", "Layer", "compare", "draw", "exact"]

Array = npt.NDArray[Any]

_TOLERANCE = 1e-5
"""Of the largest magnitude of an output."""
X_SCALE, X_ZERO = np.float32(0.02), 3
"""Of the data."""


@dataclasses.dataclass(frozen=True)
class Layer:
    """A layer of a network: square kernels and images, padded so that stride 1 keeps their size.

    Attributes:
        network: Where it comes from.
        inputs: Channels of the data.
        outputs: Channels of the result.
        kernel: Size of the kernel.
        stride: Stride of both axes.
        size: Height and width of the data.
        group: How many groups of channels there are.
    """

    network: str
    inputs: int
    outputs: int
    kernel: int
    stride: int
    size: int
    group: int = 1

    @property
    def name(self) -> str:
        """What a table shows."""
        depthwise = f"depthwise {self.inputs}" if self.group == self.inputs else f"{self.inputs}>{self.outputs}"
        groups = f" in {self.group} groups" if 1 < self.group < self.inputs else ""
        stride = f", stride {self.stride}" if self.stride > 1 else ""
        return f"{self.network} {depthwise}{groups} {self.kernel}x{self.kernel}, {self.size}x{self.size}{stride}"

    @property
    def attributes(self) -> dict[str, Any]:
        """Of a node."""
        pads = [self.kernel // 2] * 4
        return {"strides": [self.stride] * 2, "pads": pads, "dilations": [1, 1], "group": self.group}


LAYERS = (
    Layer("ResNet", 3, 64, 7, 2, 224),
    Layer("ResNet", 64, 64, 3, 1, 56),
    Layer("ResNet", 128, 128, 3, 1, 28),
    Layer("ResNet", 256, 256, 3, 1, 14),
    Layer("ResNet", 512, 512, 3, 1, 7),
    Layer("ResNet", 256, 64, 1, 1, 56),
    Layer("ResNet", 512, 2048, 1, 1, 7),
    Layer("YOLO", 64, 64, 3, 1, 80),
    Layer("YOLO", 128, 256, 3, 2, 80),
    Layer("YOLO", 320, 320, 3, 2, 40),
    Layer("ResNeXt", 128, 128, 3, 1, 56, 32),
    Layer("MobileNet", 3, 32, 3, 2, 224),
    Layer("MobileNet", 16, 96, 1, 1, 112),
    Layer("MobileNet", 96, 24, 1, 1, 56),
    Layer("MobileNet", 32, 32, 3, 1, 112, 32),
    Layer("MobileNet", 96, 96, 3, 2, 112, 96),
    Layer("MobileNet", 144, 144, 3, 1, 56, 144),
    Layer("MobileNet", 240, 240, 5, 1, 28, 240),
    Layer("MobileNet", 576, 576, 3, 1, 14, 576),
    Layer("MobileNet", 672, 672, 5, 2, 14, 672),
    Layer("MobileNet", 960, 960, 3, 1, 7, 960),
)


def compare(layer: Layer, rounds: int, seconds: float) -> dict[str, float]:
    """Times the engines.

    Args:
        layer: The layer.
        rounds: How many turns each engine has.
        seconds: How long a turn takes.

    Returns:
        The median of the microseconds of a run, by engine.

    Raises:
        click.ClickException: An engine's answer is wrong.
    """
    data = draw(layer)
    expected, runs = exact(layer, data), _engines(layer, data)
    # Of what is rounded to 8 bits.
    step = float(np.abs(expected).max()) / 100
    for engine, run in runs.items():
        answer = (run().astype(np.float64) - 128) * step if engine == "QLinearConv" else run()
        error, allowed = np.abs(answer - expected), 0.51 * step if engine == "QLinearConv" else _TOLERANCE * 100 * step
        if not error.max() <= allowed:
            raise click.ClickException(f"{layer.name}: {engine} is wrong by {error.max():.1e}; allowed: {allowed:.1e}")
    return {engine: found * 1e6 for engine, found in in_turns(runs, rounds, seconds).items()}


def draw(layer: Layer, batch: int = 1) -> dict[str, Array]:
    """Returns data of so many images, weights with their scales, and a bias in units of the products."""
    random = np.random.default_rng(0)
    shape = (layer.outputs, layer.inputs // layer.group, layer.kernel, layer.kernel)
    # As quantizers find them: the largest of normally distributed weights is 127.
    floats = random.standard_normal(shape).astype(np.float32)
    largest = np.abs(floats).max(axis=(1, 2, 3), keepdims=True)
    return {
        "x": random.integers(0, 256, (batch, layer.inputs, layer.size, layer.size), np.uint8),
        "w": np.rint(floats * (127 / largest)).astype(np.int8),
        "w_scale": random.uniform(0.001, 0.01, layer.outputs).astype(np.float32),
        # What 32 bits hold in QLinearConv.
        "bias": random.integers(-20000, 20000, layer.outputs, np.int32),
    }


def exact(layer: Layer, data: Mapping[str, Array]) -> Array:
    """Returns the result in float64, from sums of integers."""
    width = layer.kernel // 2
    x = np.pad(data["x"].astype(np.float64) - X_ZERO, [(0, 0), (0, 0), (width, width), (width, width)])
    w = data["w"].astype(np.float64).reshape(layer.group, -1, *data["w"].shape[1:])
    size = (layer.size - 1) // layer.stride + 1
    reach = (size - 1) * layer.stride + 1
    batch = x.shape[0]
    sums = np.zeros((batch, layer.group, w.shape[1], size * size))
    for i in range(layer.kernel):
        for j in range(layer.kernel):
            window = x[:, :, i : i + reach : layer.stride, j : j + reach : layer.stride]
            sums += w[:, :, :, i, j] @ window.reshape(batch, layer.group, -1, size * size)
    flat: Array = sums.reshape(batch, layer.outputs, size, size) + data["bias"].reshape(-1, 1, 1)
    scaled: Array = flat * (np.float64(X_SCALE) * data["w_scale"]).reshape(-1, 1, 1)
    return scaled


def _engines(layer: Layer, data: dict[str, Array]) -> dict[str, Callable[[], Array]]:
    from onnx import TensorProto

    from ortconv.opset.domain import DOMAIN
    from ortconv.opset.ops.conv_integer_to_float import CONV_INTEGER_TO_FLOAT

    x, w, scales = data["x"], data["w"], data["w_scale"]
    step = np.abs(exact(layer, data)).max() / 100
    floats = {"w": w * scales.reshape(-1, 1, 1, 1), "b": (data["bias"] * (X_SCALE * scales)).astype(np.float32)}
    common = {"s": X_SCALE, "z": np.uint8(X_ZERO), "w": w, "ws": scales, "wz": np.zeros(layer.outputs, np.int8)}
    eight = {**common, "b": data["bias"], "ys": np.float32(step), "yz": np.uint8(128)}
    float32, uint8 = TensorProto.FLOAT, TensorProto.UINT8
    wide = ((x.astype(np.float32) - X_ZERO) * X_SCALE).astype(np.float32)
    names, quantized = ["x", "w", "s", "ws", "z", "wz", "b"], ["x", "s", "z", "w", "ws", "wz", "ys", "yz", "b"]
    return {
        "Conv of floats": _runner("Conv", "", layer, ["x", "w", "b"], floats, wide, float32),
        "QLinearConv": _runner("QLinearConv", "", layer, quantized, eight, x, uint8),
        "ortconv": _runner(CONV_INTEGER_TO_FLOAT.name, DOMAIN, layer, names, {**common, "b": floats["b"]}, x, float32),
    }


def _runner(
    op_type: str, domain: str, layer: Layer, names: list[str], constants: dict[str, Any], x: Array, result: int
) -> Callable[[], Array]:
    """Returns what runs a model of one node."""
    from onnx import helper, numpy_helper

    import ortconv

    stored = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    graph = helper.make_graph(
        [helper.make_node(op_type, names, ["y"], domain=domain, **layer.attributes)],
        op_type,
        [helper.make_tensor_value_info("x", kind, x.shape)],
        [helper.make_tensor_value_info("y", result, None)],
        stored,
    )
    imports = [helper.make_opsetid("", 21), helper.make_opsetid(domain or "org.ortconv", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    session = ortconv.InferenceSession(model, session_options(1), providers=["CPUExecutionProvider"])

    def run() -> Array:
        (y,) = session.run(None, {"x": x})
        answer: Array = y
        return answer

    return run


@click.command()
@click.option("--rounds", default=9, show_default=True, type=click.IntRange(1), help="Turns of each engine.")
@click.option("--seconds", default=0.1, show_default=True, type=click.FloatRange(0.01), help="Length of a turn.")
def main(rounds: int, seconds: float) -> None:
    """Compare the speed of convolutions of 8-bit integers, and print a table in Markdown."""
    click.echo("| layer | Conv of floats, us | QLinearConv, us | ortconv, us | Conv / ours | QLinearConv / ours |")
    click.echo("|---|--:|--:|--:|--:|--:|")
    for layer in LAYERS:
        floats, quantized, ours = compare(layer, rounds, seconds).values()
        times = " | ".join(f"{each:.0f}" for each in (floats, quantized, ours))
        click.echo(f"| {layer.name} | {times} | {floats / ours:.2f} | {quantized / ours:.2f} |")


if __name__ == "__main__":
    main()
