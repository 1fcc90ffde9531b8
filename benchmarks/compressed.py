"""How fast products by compressed weights run: ours, ONNX Runtime's standard operators, and OpenVINO.

Run ``python -m benchmarks.compressed``. Each model is a layer of a language model: OpenVINO's MatMul by a matrix of 8
or 4-bit integers that are converted, shifted and scaled, as nncf writes them. There are as many matrices as do not stay
in the caches. All engines run in one process on one thread, in turns; each answer is first compared with float64. A
turn during which somebody else slowed the core, as `benchmarks.turn` tells, is repeated.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from benchmarks.engines import session_options
from benchmarks.turn import in_turns

__all__ = ["Layer", "compare"]

Array = npt.NDArray[Any]

_BYTES = 48 << 20
_TOLERANCE = 1e-5
"""Of the largest magnitude of an output."""
_BITS = {"u8": 8, "i8": 8, "u4": 4, "i4": 4}
_SHAPES = ((1024, 1024), (1024, 2816), (2816, 1024))
_ROWS = (1, 4, 16, 96)


@dataclasses.dataclass(frozen=True)
class Layer:
    """Products of the same data by several matrices.

    Attributes:
        codes: OpenVINO's name of the integers' type.
        block: How many of a row share a scale; 0 for all of them.
        outputs: Rows of a matrix.
        inputs: Its columns.
    """

    codes: str
    block: int
    outputs: int
    inputs: int

    @property
    def name(self) -> str:
        """What a table shows."""
        return f"{self.codes}, {f'blocks of {self.block}' if self.block else 'one scale a row'}"

    @property
    def matrices(self) -> int:
        """How many matrices there are."""
        return -(-_BYTES * 8 // (self.outputs * self.inputs * _BITS[self.codes]))


def compare(layer: Layer, rows: int, rounds: int, seconds: float) -> dict[str, float]:
    """Times the engines.

    Args:
        layer: The matrices.
        rows: How many rows of data are multiplied at once.
        rounds: How many turns each engine has.
        seconds: How long a turn takes.

    Returns:
        The median of the microseconds per product, by engine.

    Raises:
        click.ClickException: An engine's answer is wrong.
    """
    x = np.random.default_rng(1).standard_normal((rows, layer.inputs)).astype(np.float32)
    model, first = _model(layer, rows)
    expected = x.astype(np.float64) @ first.T
    runs = _engines(model, x)
    for engine, run in runs.items():
        error = np.abs(run() - expected).max() / np.abs(expected).max()
        if not error <= _TOLERANCE:
            raise click.ClickException(f"{layer.name}: {engine} is wrong by {error:.1e} of the largest output")
    return {engine: found * 1e6 / layer.matrices for engine, found in in_turns(runs, rounds, seconds).items()}


def _model(layer: Layer, rows: int) -> tuple[Any, Array]:
    """Returns a model of OpenVINO, and the first of its matrices in float64."""
    import openvino
    from openvino import opset13 as ops

    random = np.random.default_rng(0)
    low = 0 if layer.codes[0] == "u" else -1 << (_BITS[layer.codes] - 1)
    high = low + (1 << _BITS[layer.codes])
    blocks = (layer.inputs // layer.block, layer.block) if layer.block else (layer.inputs,)
    x = ops.parameter([rows, layer.inputs], openvino.Type.f32)
    results, first = [], None
    for _ in range(layer.matrices):
        codes = random.integers(low, high, (layer.outputs, *blocks))
        points = random.integers(low, high, (layer.outputs, *blocks[:-1], 1))
        scales = (random.random(points.shape) / 64 + 1 / 64).astype(np.float16)
        shifted = ops.subtract(*(ops.convert(_constant(layer.codes, each), "f16") for each in (codes, points)))
        weights = ops.multiply(shifted, ops.constant(scales))
        if layer.block:
            weights = ops.reshape(weights, np.array([layer.outputs, layer.inputs]), False)
        results.append(ops.matmul(x, ops.convert(weights, "f32"), False, True))
        if first is None:
            first = ((codes - points) * scales.astype(np.float64)).reshape(layer.outputs, layer.inputs)
    assert first is not None
    return openvino.Model(results, [x], "compressed"), first


def _constant(codes: str, integers: Array) -> Any:
    """Returns integers as a constant; those of 4 bits in pairs, the first one in the low half of a byte."""
    import openvino

    held = integers.astype(np.uint8)
    if _BITS[codes] == 4:
        low, high = (held.reshape(-1, 2) & 15).T
        held = low | high << 4
    tensor = openvino.Tensor(getattr(openvino.Type, codes), openvino.Shape(integers.shape))
    tensor.data.reshape(-1).view(np.uint8)[:] = held.reshape(-1)
    return openvino.op.Constant(tensor)


def _engines(model: Any, x: Array) -> dict[str, Callable[[], Array]]:
    import onnxruntime
    import openvino

    import ortconv

    options = session_options(1)
    standard = ortconv.convert(model, target="onnx").SerializeToString()
    ours = ortconv.InferenceSession(ortconv.convert(model), options)
    theirs = onnxruntime.InferenceSession(standard, options, providers=["CPUExecutionProvider"])
    settings = {
        "INFERENCE_NUM_THREADS": 1,
        "NUM_STREAMS": 1,
        "INFERENCE_PRECISION_HINT": "f32",
        # Its own default would round the data to 8 bits.
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0,
    }
    request = openvino.Core().compile_model(model, "CPU", settings).create_infer_request()
    feed = {ours.get_inputs()[0].name: x}
    return {
        "standard operators": lambda: theirs.run(None, feed)[0],
        "OpenVINO": lambda: request.infer([x])[0],
        "ortconv": lambda: ours.run(None, feed)[0],
    }


@click.command()
@click.option("--rounds", default=7, show_default=True, type=click.IntRange(1), help="Turns of each engine.")
@click.option("--seconds", default=0.1, show_default=True, type=click.FloatRange(0.01), help="Length of a turn.")
def main(rounds: int, seconds: float) -> None:
    """Compare the speed of products by compressed weights, and print a table in Markdown."""
    click.echo("| weights | matrix | rows | standard operators, us | OpenVINO, us | ortconv, us | OpenVINO / ours |")
    click.echo("|---|---|--:|--:|--:|--:|--:|")
    kinds = (("u4", 128), ("i4", 32), ("u8", 0))
    for (codes, block), (outputs, inputs), rows in itertools.product(kinds, _SHAPES, _ROWS):
        layer = Layer(codes, block, outputs, inputs)
        standard, openvino, ours = compare(layer, rows, rounds, seconds).values()
        times = " | ".join(f"{each:.0f}" for each in (standard, openvino, ours))
        click.echo(f"| {layer.name} | {outputs} x {inputs} | {rows} | {times} | {openvino / ours:.2f} |")


if __name__ == "__main__":
    main()
