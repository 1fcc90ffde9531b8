"""How fast converted networks run, beside torch's own export of them in ONNX Runtime and beside OpenVINO.

Run ``python -m benchmarks.networks``; it needs torch and torchvision beside the packages of the tests. Each network, of
torchvision's architecture and random weights, goes through OpenVINO's converter and ortconv, and through
``torch.onnx.export``. All three run in one process on one thread, in turns, and every answer is first compared with
torch's. A turn during which somebody else slowed the core, as `benchmarks.turn` tells, is repeated.
"""

from __future__ import annotations

import contextlib
import io
import logging
import math
import pathlib
import statistics
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from benchmarks.engines import session_options
from benchmarks.turn import in_turns

__all__ = ["NETWORKS", "compare", "mean", "network", "options"]

Array = npt.NDArray[Any]
Run = Callable[[], Array]

_ENGINES = ("torch's export", "OpenVINO", "ortconv")
_TOLERANCE = 1e-4
"""Of the largest magnitude of an output."""
_OPSET = 20
_LENGTH = click.FloatRange(0.01)

NETWORKS = {
    "resnet18": 224,
    "resnet50": 224,
    "densenet121": 224,
    "googlenet": 224,
    "squeezenet1_1": 224,
    "shufflenet_v2_x1_0": 224,
    "mobilenet_v3_large": 224,
    "mnasnet1_0": 224,
    "efficientnet_b0": 224,
    "regnet_y_800mf": 224,
    "convnext_tiny": 224,
    "vit_b_16": 224,
    "swin_t": 224,
    "swin_v2_t": 224,
    "maxvit_t": 224,
    "lraspp_mobilenet_v3_large": 256,
    "deeplabv3_mobilenet_v3_large": 256,
    "fcn_resnet50": 192,
}
"""Names of torchvision, and the sides of their images."""


def compare(name: str, rounds: int, seconds: float) -> dict[str, float]:
    """Times the engines on a network.

    Args:
        name: A key of `NETWORKS`.
        rounds: How many turns each engine has.
        seconds: How long a turn takes.

    Returns:
        The median of the milliseconds per image, by engine.

    Raises:
        click.ClickException: An engine's answer is not torch's.
    """
    module, image = network(name)
    expected = _first(module(image)).numpy()
    with tempfile.TemporaryDirectory(prefix="ortconv-networks-") as folder:
        runs = dict(zip(_ENGINES, _engines(module, image, pathlib.Path(folder)), strict=True))
        for engine, run in runs.items():
            error = np.abs(run() - expected).max() / np.abs(expected).max()
            if not error <= _TOLERANCE:
                raise click.ClickException(f"{name}: {engine} differs from torch by {error:.1e} of the largest output")
        return {engine: found * 1e3 for engine, found in in_turns(runs, rounds, seconds).items()}


def network(name: str) -> tuple[Any, Any]:
    """Returns a network, and an image for it; its normalisations and its last layer do something."""
    import torch
    import torchvision

    torch.manual_seed(0)
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    torch.backends.mha.set_fastpath_enabled(False)  # an operator that torch.onnx.export lacks
    module = torchvision.models.get_model(name, weights=None, **_without_weights(name)).eval()
    for layer in module.modules():
        if isinstance(layer, torch.nn.modules.batchnorm._BatchNorm):
            for tensor, low in ((layer.running_mean, -0.1), (layer.running_var, 0.5), (layer.weight, 0.5)):
                tensor.uniform_(low, low + 0.5)
            layer.bias.uniform_(-0.2, 0.2)
    for parameter in module.parameters():
        if not parameter.any():
            parameter.normal_(0, 0.02)
    return module, torch.randn(1, 3, NETWORKS[name], NETWORKS[name])


def _without_weights(name: str) -> dict[str, object]:
    if name == "googlenet":
        return {"init_weights": True, "aux_logits": False}
    return {"weights_backbone": None} if name.startswith(("lraspp", "deeplab", "fcn")) else {}


def _first(output: Any) -> Any:
    return output["out"] if isinstance(output, dict) else output


def _engines(module: Any, image: Any, folder: pathlib.Path) -> Iterator[Run]:
    """Yields what runs the network once, in the order of `_ENGINES`."""
    import onnxruntime
    import openvino
    import torch

    import ortconv

    exported, source = folder / "exported.onnx", folder / "model.xml"
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        torch.onnx.export(module, (image,), str(exported), dynamo=False, opset_version=_OPSET)
        converted = openvino.convert_model(module, example_input=image, input=[tuple(image.shape)])
        openvino.save_model(converted, source, compress_to_fp16=False)
    options = session_options(1)
    data = image.numpy()

    def of_session(session: Any) -> Run:
        name = session.get_inputs()[0].name
        return lambda: session.run(None, {name: data})[0]

    yield of_session(onnxruntime.InferenceSession(exported, options, providers=["CPUExecutionProvider"]))
    settings = {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    request = openvino.Core().compile_model(source, "CPU", settings).create_infer_request()
    yield lambda: request.infer([data])[0]
    yield of_session(ortconv.InferenceSession(ortconv.convert(source), options))


def mean(ratios: Sequence[float]) -> float:
    """Returns the geometric mean."""
    return math.exp(statistics.fmean(map(math.log, ratios)))


def options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of the benchmarks of networks: `texts`, `rounds` and `seconds`."""
    for option in (
        click.option("--seconds", default=0.3, show_default=True, type=_LENGTH, help="Length of a turn."),
        click.option("--rounds", default=9, show_default=True, type=click.IntRange(1), help="Turns of each engine."),
        click.option(
            "--network", "texts", multiple=True, metavar="TEXT", help="Only those with this in their name; repeatable."
        ),
    ):
        command = option(command)
    return command


@click.command()
@options
def main(texts: tuple[str, ...], rounds: int, seconds: float) -> None:
    """Compare the speed of converted networks, and print a table in Markdown."""
    logging.disable(logging.WARNING)
    ratios: list[tuple[float, float]] = []
    click.echo("| network | torch's export, ms | OpenVINO, ms | ortconv, ms | export / ours | OpenVINO / ours |")
    click.echo("|---|--:|--:|--:|--:|--:|")
    for name in NETWORKS:
        if texts and not any(text in name for text in texts):
            continue
        exported, openvino, ours = compare(name, rounds, seconds).values()
        ratios.append((exported / ours, openvino / ours))
        times = " | ".join(f"{each:.2f}" for each in (exported, openvino, ours))
        click.echo(f"| {name} | {times} | {ratios[-1][0]:.2f} | {ratios[-1][1]:.2f} |")
    if not ratios:
        raise click.UsageError(f"no network has {' or '.join(map(repr, texts))} in its name")
    means = " | ".join(f"{mean(each):.2f}" for each in zip(*ratios, strict=True))
    click.echo(f"| geometric mean | | | | {means} |")


if __name__ == "__main__":
    main()
