"""How fast quantized networks run, beside OpenVINO and beside the same networks in float32.

Run ``python -m benchmarks.quantized``; it needs torch, torchvision and nncf beside the packages of the tests. Each
network of `benchmarks.networks` and `benchmarks.quantized_sources` goes through OpenVINO's converter and NNCF's
post-training quantization to 8 bits; of the latter, those whose package is not installed are skipped. With ``--file``
quantized OpenVINO files are compared instead; their form in float32 has no FakeQuantize. Ours run with our execution
provider, which decides by the CPU what computes a quantized layer. What OpenVINO computes without its int8 kernels is
what the file says: first, ours must be as close to it as OpenVINO with them. All run in one process on one thread, in
turns.
"""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import pathlib
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from benchmarks.engines import session_options
from benchmarks.networks import NETWORKS, mean, network, options
from benchmarks.quantized_sources import OCR, TRANSPOSED, Missing, ocr_file, transposed
from benchmarks.turn import in_turns

__all__ = ["check", "compare", "compare_file", "compare_files"]

Array = npt.NDArray[Any]
Run = Callable[[], list[Array]]

_TRANSFORMERS = ("vit", "swin", "maxvit", "convnext")
_IMAGES = 8
"""By which NNCF finds ranges."""
_IMAGE_AXES = 4
_LOSS = 1.5
_LEAST = 0.005
"""How far off ours may be: so many times as far as OpenVINO, or so much of the root mean square of the output."""


def compare(name: str, rounds: int, seconds: float) -> dict[str, float]:
    """Times a quantized network in OpenVINO and in ONNX Runtime, and there the one that is not quantized.

    Args:
        name: A key of `benchmarks.networks.NETWORKS`, or of `benchmarks.quantized_sources.OCR` or `TRANSPOSED`.
        rounds: How many turns each has.
        seconds: How long a turn takes.

    Returns:
        The median of the milliseconds per image, of "OpenVINO", "ortconv" and "float32".

    Raises:
        click.ClickException: Ours is farther off than OpenVINO.
        Missing: A package is not installed.
    """
    import openvino

    module, image = _source(name)
    with tempfile.TemporaryDirectory(prefix="ortconv-quantized-") as folder:
        plain, quantized = pathlib.Path(folder, "plain.xml"), pathlib.Path(folder, "quantized.xml")
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            example = {} if isinstance(module, pathlib.Path) else {"example_input": image}
            converted = openvino.convert_model(module, input=[tuple(image.shape)], **example)
            openvino.save_model(converted, plain, compress_to_fp16=False)
            openvino.save_model(_quantized(name, converted, image), quantized, compress_to_fp16=False)
        return compare_files(name, quantized, plain, [np.asarray(image)], rounds, seconds)


def compare_file(path: pathlib.Path, rounds: int, seconds: float) -> dict[str, float]:
    """Times a quantized OpenVINO file as `compare` does a network.

    Args:
        path: The ``.xml`` file, whose inputs have static shapes. Images are numbers from 0 to 255.
        rounds: How many turns each has.
        seconds: How long a turn takes.

    Returns:
        As `compare`.

    Raises:
        click.ClickException: Ours is farther off than OpenVINO.
    """
    import openvino

    rng = np.random.default_rng(1)
    shapes = [tuple(each.shape) for each in openvino.Core().read_model(path).inputs]
    feeds = [
        (rng.uniform(0, 255, shape) if len(shape) == _IMAGE_AXES else rng.standard_normal(shape)).astype(np.float32)
        for shape in shapes
    ]
    with tempfile.TemporaryDirectory(prefix="ortconv-quantized-") as folder:
        plain = pathlib.Path(folder, "plain.xml")
        openvino.save_model(_without_quantizers(openvino.Core().read_model(path)), plain, compress_to_fp16=False)
        return compare_files(path.parent.name, path, plain, feeds, rounds, seconds)


def _without_quantizers(model: Any) -> Any:
    for op in list(model.get_ordered_ops()):
        if op.get_type_name() == "FakeQuantize" and op.input_value(0).get_node().get_type_name() != "Constant":
            op.output(0).replace(op.input_value(0))
    return model


def _source(name: str) -> tuple[Any, Any]:
    """Returns a network, or the path of its ONNX file, and data for it."""
    if name in OCR:
        return ocr_file(name), np.random.default_rng(1).uniform(-1, 1, OCR[name][1]).astype(np.float32)
    return transposed(name) if name in TRANSPOSED else network(name)


def check(name: str, ours: list[Array], openvino: list[Array], said: list[Array]) -> None:
    """Checks that ours is as close to what the file says as OpenVINO's int8 kernels are.

    Args:
        name: The network.
        ours: Its outputs in ONNX Runtime.
        openvino: Those of OpenVINO's int8 kernels.
        said: Those of OpenVINO without them.

    Raises:
        click.ClickException: It is not.
    """
    if any(each.shape != right.shape for found in (ours, openvino) for each, right in zip(found, said, strict=True)):
        # As many objects as were found, which the rounding of one number may change.
        click.echo(f"{name}: answers have other shapes than those of the file, and are not compared", err=True)
        return
    mine, other = (max(map(_distance, found, said)) for found in (ours, openvino))
    if not mine <= max(_LOSS * other, _LEAST):
        raise click.ClickException(f"{name}: ortconv is off by {mine:.1e}, OpenVINO by {other:.1e}")


def _distance(found: Array, right: Array) -> float:
    """Returns the root mean square of the difference, relative to that of the numbers."""
    size = float(np.sqrt(np.mean(np.square(right))))
    return float(np.sqrt(np.mean(np.square(found - right)))) / max(size, 1e-30)


def compare_files(
    name: str, quantized: pathlib.Path, plain: pathlib.Path, feeds: Sequence[Array], rounds: int, seconds: float
) -> dict[str, float]:
    """Times a quantized file and its form in float32.

    Args:
        name: How messages name the network.
        quantized: The quantized file.
        plain: The other one.
        feeds: The data of its inputs.
        rounds: How many turns each has.
        seconds: How long a turn takes.

    Returns:
        As `compare`.

    Raises:
        click.ClickException: Ours is farther off than OpenVINO.
    """
    runs, said = _engines(quantized, plain, feeds)
    check(name, runs["ortconv"](), runs["OpenVINO"](), said)
    return {engine: found * 1e3 for engine, found in in_turns(runs, rounds, seconds).items()}


def _engines(
    quantized: pathlib.Path, plain: pathlib.Path, feeds: Sequence[Array]
) -> tuple[Mapping[str, Run], list[Array]]:
    """Returns what runs a network once, and what its quantized file says."""
    import openvino

    import ortconv

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models = {"ortconv": ortconv.convert(quantized), "float32": ortconv.convert(plain)}
    core = openvino.Core()

    def of_openvino(**settings: object) -> Run:
        settings = {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32", **settings}
        request = core.compile_model(quantized, "CPU", settings).create_infer_request()
        return lambda: [np.array(each) for each in request.infer(list(feeds)).values()]

    def of_session(model: Any) -> Run:
        session = ortconv.InferenceSession(model, session_options(1), backend="ep")
        names = [each.name for each in session.get_inputs()]
        data = dict(zip(names, feeds, strict=True))
        return lambda: [np.asarray(each) for each in session.run(None, data)]

    said = of_openvino(LP_TRANSFORMS_MODE="NO")()
    return {"OpenVINO": of_openvino(), **{engine: of_session(model) for engine, model in models.items()}}, said


def _quantized(name: str, model: Any, image: Any) -> Any:
    import nncf

    nncf.set_log_level(logging.ERROR)
    rng = np.random.default_rng(0)
    images = [rng.standard_normal(tuple(image.shape)).astype(np.float32) for _ in range(_IMAGES)]
    kind = nncf.ModelType.TRANSFORMER if name.startswith(_TRANSFORMERS) else None
    return nncf.quantize(model, nncf.Dataset(images), subset_size=_IMAGES, model_type=kind)


@click.command()
@options
@click.option(
    "--file",
    "files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=pathlib.Path),
    help="A quantized OpenVINO file, instead of the networks; repeatable.",
)
def main(texts: tuple[str, ...], files: tuple[pathlib.Path, ...], rounds: int, seconds: float) -> None:
    """Compare the speed of quantized networks, and print a table in Markdown."""
    logging.disable(logging.WARNING)
    ratios: list[tuple[float, float]] = []
    click.echo("| network | OpenVINO, ms | ortconv, ms | ortconv, float32, ms | OpenVINO / ours | float32 / ours |")
    click.echo("|---|--:|--:|--:|--:|--:|")
    networks = [] if files else [*NETWORKS, *OCR, *TRANSPOSED]
    todo: dict[str, Callable[[int, float], dict[str, float]]] = {
        **{name: functools.partial(compare, name) for name in networks},
        **{file.parent.name: functools.partial(compare_file, file) for file in files},
    }
    for name, run in todo.items():
        if texts and not any(text in name for text in texts):
            continue
        try:
            openvino, ours, single = run(rounds, seconds).values()
        except Missing as missing:
            click.echo(f"{name} is skipped: {missing}", err=True)
            continue
        ratios.append((openvino / ours, single / ours))
        times = " | ".join(f"{each:.2f}" for each in (openvino, ours, single))
        click.echo(f"| {name} | {times} | {ratios[-1][0]:.2f} | {ratios[-1][1]:.2f} |")
    if not ratios:
        raise click.UsageError(f"no network has {' or '.join(map(repr, texts))} in its name")
    means = " | ".join(f"{mean(each):.2f}" for each in zip(*ratios, strict=True))
    click.echo(f"| geometric mean | | | | {means} |")


if __name__ == "__main__":
    main()
