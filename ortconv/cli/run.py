"""``ortconv run``."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping

import click
import numpy as np

from ortconv.cli import feeds, files, options, output
from ortconv.errors import InputError, PluginError
from ortconv.model_io import input_data
from ortconv.model_io.input_data import Array
from ortconv.runtime import default_shapes, library
from ortconv.runtime.library import Backend
from ortconv.runtime.runner import Model

__all__ = ["command"]

_STATISTICS = ("min", "mean", "max", "NaN", "inf")


@click.command("run", epilog="Example: ortconv run network.onnx --input image=photo.npy --output results.npz")
@click.argument("model", type=options.SOURCE, metavar="MODEL.onnx")
@feeds.feed_options
@options.file_to_write(
    "--output",
    "output_file",
    metavar="FILE.npz",
    help="Write the outputs by name. numpy has no bfloat16 or float8: they are written as float32, which is exact.",
)
@options.file_to_write(
    "--json", "json_file", metavar="FILE.json", help="Write what is printed about inputs and outputs as JSON."
)
@options.providers
@options.tf32
@click.option("--no-plugin", is_flag=True, help="Run operators of org.ortconv by their function bodies.")
@click.option(
    "--backend",
    type=click.Choice(["native", "python"]),
    default=None,
    help="What runs operators of org.ortconv: the native library (default if installed), or "
    "Python (onnxruntime-extensions).",
)
def command(
    model: pathlib.Path,
    input_texts: tuple[str, ...],
    shape_texts: tuple[str, ...],
    seed: int,
    output_file: pathlib.Path | None,
    json_file: pathlib.Path | None,
    providers: tuple[str, ...],
    tf32: bool,
    no_plugin: bool,
    backend: Backend | None,
) -> None:
    """Run an ONNX file in ONNX Runtime, with our plugin, and show its outputs.

    Inputs that are not given get random data. Statistics exclude NaN and infinities, which are counted.
    """
    if no_plugin and backend:
        raise click.UsageError("--no-plugin and --backend exclude each other.")
    options.writable("--output", output_file)
    options.writable("--json", json_file)
    if not model.is_file():
        raise InputError(str(model), "is not a file.")
    options.refuse_source(model)
    names = options.provider_names(providers, tf32=tf32)
    backend = "none" if no_plugin else backend or _default_backend()
    with output.progress(f"Loading {model}"):
        loaded = Model(model, str(model), backend=backend, providers=names, tf32=tf32)
    options.keep_apart([output_file, json_file], [model, *feeds.files_given(input_texts, loaded.inputs)])
    given = feeds.parse_inputs(input_texts, loaded.inputs)
    shapes = feeds.parse_shapes(shape_texts, loaded.inputs)
    with output.progress(f"Running {model}"), feeds.integers_in_mind(loaded.inputs, given):
        chosen = default_shapes.choose(loaded.inputs, given, shapes, seed, loaded.run)
        data = input_data.fill(loaded.inputs, given, {**shapes, **chosen}, seed)
        results = loaded.run(data)
    feeds.tell_chosen(chosen, loaded.inputs)
    if loaded.inputs:
        feeds.print_data(data, given, seed)
        output.line()
    output.table(
        ("output", "type", "shape", *_STATISTICS),
        [_row(name, array) for name, array in results.items()],
        numbers=_STATISTICS,
    )
    if output_file:
        files.write_npz(output_file, _storable(results))
    if json_file:
        document = {
            "model": str(model),
            "backend": backend,
            "providers": names,
            "seed": seed,
            "inputs": [{**feeds.fields(name, array), "given": name in given} for name, array in data.items()],
            "outputs": [{**feeds.fields(name, array), **_numbers(array)} for name, array in results.items()],
        }
        files.write_json(json_file, document)


def _default_backend() -> Backend:
    """Returns "native", or "none" with a warning where this installation has no native library."""
    try:
        library.library_path()
    except PluginError as error:
        output.warning(f"{error.problem} Our operators run by the function bodies in the file.")
        return "none"
    return "native"


def _row(name: str, array: Array) -> list[str]:
    found = _numbers(array)
    shown = ["-" if found[key] is None else f"{found[key]:.6g}" for key in _STATISTICS]
    return [*feeds.cells(name, array), *shown]


def _numbers(array: Array) -> dict[str, float | None]:
    """Returns the statistics of an output; those of no number are None."""
    numbers = array.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    summary = [float(each) for each in (finite.min(), finite.mean(), finite.max())] if finite.size else [None] * 3
    counts = [int(np.isnan(numbers).sum()), int(np.isinf(numbers).sum())]
    return dict(zip(_STATISTICS, [*summary, *counts], strict=True))


def _storable(results: Mapping[str, Array]) -> dict[str, Array]:
    """Returns arrays of types that numpy has by itself, with the same values."""
    return {
        name: array
        if array.dtype.isbuiltin == 1
        else array.astype(np.float32 if input_data.is_float(array) else np.int8)
        for name, array in results.items()
    }
