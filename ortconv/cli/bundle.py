"""``ortconv bundle``."""

from __future__ import annotations

import pathlib
from typing import Literal

import click

from ortconv.cli import options, output
from ortconv.serving import triton

__all__ = ["command"]


@click.command("bundle", epilog="Example: ortconv bundle network.onnx --for triton -o models")
@click.argument("model", type=options.SOURCE, metavar="MODEL.onnx")
@click.option("--for", "server", type=click.Choice(["triton"]), required=True, help="The server.")
@click.option(
    "-o",
    "--output",
    "repository",
    type=click.Path(file_okay=False, path_type=pathlib.Path),
    required=True,
    metavar="DIR",
    help="The model repository to write to; DIR/NAME is created or updated.",
)
@click.option("--name", help="Name of the model on the server. Default: that of the file.")
@click.option(
    "--seen-at",
    default="/models",
    show_default=True,
    metavar="PATH",
    help="Where the server sees the model repository: the path of the native library in the configuration.",
)
@click.option(
    "--max-batch-size",
    "max_batch",
    type=click.IntRange(0),
    help="Largest batch that the server forms of requests; 0: none. Default: 8 if the model computes each example of a "
    "batch as it does alone, which is tried, else 0.",
)
@click.option(
    "--delay",
    type=click.IntRange(0),
    default=500,
    show_default=True,
    help="Microseconds that a request waits for others to form a batch.",
)
@click.option(
    "--instances", type=click.IntRange(1), default=1, show_default=True, help="Instances on the CPU or on each GPU."
)
@click.option("--gpu", is_flag=True, help="Run the instances on GPUs.")
@click.option("--no-plugin", is_flag=True, help="Run operators of org.ortconv by their function bodies.")
def command(
    model: pathlib.Path,
    server: Literal["triton"],
    repository: pathlib.Path,
    name: str | None,
    seen_at: str,
    max_batch: int | None,
    delay: int,
    instances: int,
    gpu: bool,
    no_plugin: bool,
) -> None:
    """Write a model repository for an inference server: the model, its configuration, and the native library.

    Triton loads DIR/NAME as it is. Batches are formed only of models that compute each example of a batch as it does
    alone; two examples of random data are compared.
    """
    options.refuse_source(model)
    how = triton.Options(
        name=model.stem if name is None else name,
        seen_at=seen_at,
        max_batch=max_batch,
        delay=delay,
        instances=instances,
        gpu=gpu,
        plugin=not no_plugin,
    )
    with output.progress(f"Bundling {model}"):
        written = triton.write(model, repository, how)
    if written.alone:
        output.warning(f"{model}: the server forms no batches: {written.alone}")
    for path in written.files:
        output.line(output.plain(path))
