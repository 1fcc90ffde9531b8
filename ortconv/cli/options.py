"""Options that several commands share, and how they read files and name things."""

from __future__ import annotations

import math
import os
import pathlib
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

from ortconv.errors import ModelFormatError
from ortconv.runtime import cuda, library

__all__ = [
    "SOURCE",
    "Number",
    "file_to_write",
    "keep_apart",
    "provider_names",
    "provider_titles",
    "providers",
    "random_constants",
    "refuse_source",
    "semantics",
    "target",
    "tensors",
    "tf32",
    "tolerance",
    "types",
    "weights_of",
    "writable",
]

_F = TypeVar("_F", bound=Callable[..., Any])


class _Source(click.Path):
    """A path; the empty one, which stands for the current directory elsewhere, is refused."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Returns the path."""
        if value == "":
            self.fail("the name of the file is empty.", param, ctx)
        return super().convert(value, param, ctx)


SOURCE = _Source(path_type=pathlib.Path)
"""A file that is read: one that is missing is a failure of that file (exit 1), not wrong usage."""


class Number(click.FloatRange):
    """A number of a range; nan, of which no comparison says that it lies outside, is refused."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Returns the number."""
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail("nan is not a number.", param, ctx)
        return number


tensors = click.option(
    "--tensors",
    "tensors_file",
    type=SOURCE,
    metavar="FILE.npz",
    help="Data of tensors that the source only declares (oneDNN constants), by tensor id or name.",
)

random_constants = click.option(
    "--random-constants",
    "constants_seed",
    type=click.IntRange(min=0),
    metavar="SEED",
    help="Seed of random data for constants that the source only declares. Default: they become inputs.",
)

providers = click.option(
    "--provider",
    "providers",
    multiple=True,
    metavar="NAME",
    help="Execution provider, in order of preference: cpu (default), cuda, or any name known to ONNX Runtime.",
)

tolerance = click.option(
    "--tolerance",
    type=Number(0.0),
    help="Relative error up to which elements agree; a tenth of it is taken for rounding. Default: "
    "integers must be equal; floats by the narrowest type computed in, 2e-5 for float32.",
)

tf32 = click.option(
    "--tf32", is_flag=True, help="Allow a GPU to multiply float32 in TF32, which has 11 bits of precision."
)


def file_to_write(*names: str, **more: Any) -> Callable[[_F], _F]:
    """Adds an option that takes a file to write; names and arguments as for `click.option`."""
    return click.option(*names, type=click.Path(dir_okay=False, path_type=pathlib.Path), **more)


def semantics(default: str | None, explanation: str) -> Callable[[_F], _F]:
    """Adds ``--semantics``."""
    return click.option("--semantics", type=click.Choice(["spec", "runtime"]), default=default, help=explanation)


def target(explanation: str) -> Callable[[_F], _F]:
    """Adds ``--target``."""
    return click.option("--target", type=click.Choice(["auto", "onnx", "plugin"]), default="auto", help=explanation)


def types(function: _F) -> _F:
    """Adds ``--io``, ``--compute`` and ``--weights``."""
    for name, words, explanation in (
        (
            "--weights",
            ["source", "f32"],
            "source: float16 weights of a model that is computed in float32 are stored as float16, with a Cast that "
            "ONNX Runtime folds when it loads the model (default). f32: stored as float32.",
        ),
        (
            "--compute",
            ["f32", "f16"],
            "Type in which an OpenVINO model's float16 operations are computed. f32: as in OpenVINO's CPU plugin "
            "(default). f16: for GPUs.",
        ),
        (
            "--io",
            ["runtime", "source"],
            "Types of an OpenVINO model's inputs and outputs. runtime: as OpenVINO takes and returns them, float32 "
            "where a version 10 file declares float16 (default). source: as the file declares.",
        ),
    ):
        function = click.option(name, type=click.Choice(words), default=words[0], help=explanation)(function)
    return function


_CUDA = frozenset({"cuda", cuda.PROVIDER.casefold()})


def provider_names(given: tuple[str, ...], *, tf32: bool = False) -> list[str]:
    """Returns the providers' full names.

    Args:
        given: What the user wrote.
        tf32: Whether the user asks for TF32.

    Raises:
        click.UsageError: One is not available, or none of them has TF32.
    """
    available = library.import_onnxruntime().get_available_providers()
    short = {name.casefold(): name for name in available}
    short |= {name.removesuffix("ExecutionProvider").casefold(): name for name in available}
    for name in given:
        if name.casefold() not in short:
            problem = f"--provider: {name} is not available; available: {', '.join(available)}."
            raise click.UsageError(f"{problem} {cuda.INSTALLATION}" if name.casefold() in _CUDA else problem)
    names = list(dict.fromkeys(short[name.casefold()] for name in given)) or ["CPUExecutionProvider"]
    if tf32 and cuda.PROVIDER not in names:
        raise click.UsageError("--tf32 needs --provider cuda.")
    return names


def provider_titles(names: list[str]) -> str:
    """Returns how output names providers: CUDA, CPU."""
    return ", ".join(name.removesuffix("ExecutionProvider") for name in names)


def writable(option: str, path: pathlib.Path | None) -> None:
    """Refuses, before any work is done, a file in a folder that does not exist, or in the place of one.

    Raises:
        click.UsageError: There is no such folder, or the file is one, as the empty name is.
    """
    if path and path.is_dir():
        raise click.UsageError(f"{option}: {str(path)!r} is a directory.")
    if path and not path.parent.is_dir():
        raise click.UsageError(f"{option}: the directory {str(path.parent)!r} does not exist.")


def refuse_source(model: pathlib.Path) -> None:
    """Refuses a file that is to be converted where an ONNX file is asked for.

    Raises:
        ModelFormatError: It is one.
    """
    if model.suffix.lower() == ".onnx" or not model.is_file():
        return
    from ortconv import api

    try:
        kind = api.detect(model).title.partition(" (")[0]
    except ModelFormatError:
        return
    raise ModelFormatError(str(model), "", f"is {kind}, not an ONNX file: `ortconv convert` converts it.")


def keep_apart(writes: Iterable[str | os.PathLike[str] | None], reads: Iterable[str | os.PathLike[str] | None]) -> None:
    """Refuses to overwrite what is read, and to write two things to one file.

    Args:
        writes: The files to write; None for one that is not asked for.
        reads: The files that are read.

    Raises:
        click.UsageError: That would happen.
    """
    taken = {os.path.realpath(path) for path in reads if path is not None}
    for path in writes:
        if path is None:
            continue
        real = os.path.realpath(path)
        if real in taken:
            raise click.UsageError(
                f"{os.fspath(path)} would overwrite a file that this call reads or writes; choose another."
            )
        taken.add(real)


def weights_of(source: pathlib.Path) -> pathlib.Path:
    """Returns the file in which an OpenVINO source has its weights."""
    return source.parent / f"{source.stem}.bin"
