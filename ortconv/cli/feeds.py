"""``--input``, ``--shape`` and ``--random``: what the user gives for a model's inputs."""

from __future__ import annotations

import contextlib
import json
import pathlib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import click
import numpy as np
import onnx_ir as ir

from ortconv.cli import files, output
from ortconv.errors import ExecutionError, InputError, shown
from ortconv.model_io.input_data import Array, Input

__all__ = [
    "cells",
    "feed_options",
    "fields",
    "files_given",
    "integers_in_mind",
    "pairs",
    "parse_inputs",
    "parse_open_shapes",
    "parse_shapes",
    "print_data",
    "tell_chosen",
]

_LISTED = 3
"""How many inputs a line lists."""

_F = TypeVar("_F", bound=Callable[..., Any])


def feed_options(function: _F) -> _F:
    """Adds the three options, as ``input_texts``, ``shape_texts`` and ``seed``."""
    for decorate in (
        click.option(
            "--random",
            "seed",
            type=click.IntRange(0),
            default=0,
            show_default=True,
            metavar="SEED",
            help="Seed of the random data for inputs that are not given: floats standard normal, integers -10 to 10.",
        ),
        click.option(
            "--shape",
            "shape_texts",
            multiple=True,
            metavar="NAME=1x3x8x8",
            help="Shape of the random data, for dynamic dimensions. Default: 1 for batches, elsewhere the least that "
            "the model accepts.",
        ),
        click.option(
            "--input",
            "input_texts",
            multiple=True,
            metavar="NAME=FILE.npy",
            help="Data for an input: a file, or numbers in brackets, as in --input size=[28,28]. PREFIX=FILE.npz, "
            "or a folder of .npy files, gives all inputs whose names begin with PREFIX, as those of a cache do.",
        ),
    ):
        function = decorate(function)
    return function


def files_given(texts: Iterable[str], inputs: Sequence[Input]) -> list[pathlib.Path]:
    """Returns the files that ``--input`` names.

    Raises:
        click.UsageError: An input does not exist.
    """
    single, groups = _grouped(texts, inputs)
    found = [pathlib.Path(text) for text in pairs(single, inputs, "--input").values() if not _is_literal(text)]
    for path, members in groups.values():
        found += [path / f"{name}.npy" for each in members for name in _stored_as(each)] if path.is_dir() else [path]
    return found


def parse_inputs(texts: Iterable[str], inputs: Sequence[Input]) -> dict[str, Array]:
    """Reads what ``--input`` names: data for an input, or for all whose names begin with a prefix.

    Raises:
        click.UsageError: An input does not exist, or is given twice.
        InputError: A file cannot be read, or lacks an input.
    """
    dtypes = {each.name: each.dtype for each in inputs}
    single, groups = _grouped(texts, inputs)
    found = {
        name: _literal(text, dtypes[name]) if _is_literal(text) else files.read_npy(pathlib.Path(text))
        for name, text in pairs(single, inputs, "--input").items()
    }
    for prefix, (path, members) in groups.items():
        stored = _folder(path, members) if path.is_dir() else files.read_npz(path)
        for each in members:
            names = [name for name in _stored_as(each) if name in stored]
            if not names:
                raise InputError(
                    str(path), f"lacks {each.name}; all inputs whose names begin with {shown(prefix)} are required."
                )
            if each.name in found:
                raise click.UsageError(f"--input: input {each.name} is given twice.")
            found[each.name] = stored[names[0]]
    return found


def _grouped(
    texts: Iterable[str], inputs: Sequence[Input]
) -> tuple[list[str], dict[str, tuple[pathlib.Path, list[Input]]]]:
    """Takes apart what is given for one input, and for those whose names begin with a prefix: a file or a folder."""
    single: list[str] = []
    groups: dict[str, tuple[pathlib.Path, list[Input]]] = {}
    for text in texts:
        name = max((each.name for each in inputs if text.startswith(f"{each.name}=")), key=len, default="")
        prefix = name or text.partition("=")[0]
        path = text[len(prefix) + 1 :]
        members = [each for each in inputs if (each.name == name if name else each.name.startswith(prefix))]
        if not (prefix and path and members) or _is_literal(path) or (name and not _holds_many(path)):
            single.append(text)
        elif prefix in groups:
            raise click.UsageError(f"--input: {shown(prefix)} is given twice.")
        else:
            groups[prefix] = pathlib.Path(path), members
    return single, groups


def _holds_many(path: str) -> bool:
    return path.lower().endswith(".npz") or pathlib.Path(path).is_dir()


def _stored_as(each: Input) -> list[str]:
    """Returns the names under which a file may hold data for an input: its own, and that of a state's next value."""
    return [each.name, *([each.state] if each.state else [])]


def _folder(path: pathlib.Path, members: Iterable[Input]) -> dict[str, Array]:
    names = [name for each in members for name in _stored_as(each)]
    return {name: files.read_npy(path / f"{name}.npy") for name in names if (path / f"{name}.npy").is_file()}


def parse_shapes(texts: Iterable[str], inputs: Sequence[Input]) -> dict[str, tuple[int, ...]]:
    """Parses what ``--shape`` says: sizes between "x" or ",", nothing for a scalar.

    Raises:
        click.UsageError: An input does not exist, or a shape is malformed.
    """
    return {
        name: tuple(_size(text, size) for size in _split(text))
        for name, text in pairs(texts, inputs, "--shape").items()
    }


def parse_open_shapes(texts: Iterable[str], inputs: Sequence[Input]) -> dict[str, tuple[int | None, ...]]:
    """Parses what ``--shape`` says where "?" stands for a size that stays dynamic, which becomes None.

    Raises: see `parse_shapes`.
    """
    return {
        name: tuple(None if size == "?" else _size(text, size) for size in _split(text))
        for name, text in pairs(texts, inputs, "--shape").items()
    }


def _split(text: str) -> list[str]:
    return [size.strip() for size in text.replace(",", "x").split("x")] if text.strip() else []


def _size(text: str, size: str) -> int:
    if not (size.isascii() and size.isdigit() and len(size) < 10):
        raise click.UsageError(f"--shape: {shown(text)} is not a shape; allowed: sizes as in 1x3x224x224.")
    return int(size)


def tell_chosen(
    chosen: Mapping[str, Sequence[int]], inputs: Sequence[Input], advice: str = "--shape sets others"
) -> None:
    """Prints one line on the shapes that were chosen for dynamic sizes, with what one may do about it."""
    if not chosen:
        return
    open_inputs = [each for each in inputs if each.name in chosen]
    rules = ["1 for batches"] * any(each.shape and not isinstance(each.shape[0], int) for each in open_inputs)
    rules += ["empty caches"] * any(0 in chosen[each.name] for each in open_inputs if each.state is not None)
    rest = [dim for each in open_inputs if each.state is None for dim in (each.shape or ())[1:]]
    rules += ["otherwise the least that the model accepts"] * any(not isinstance(dim, int) for dim in rest)
    names = [output.plain(name) for name in chosen]
    if len(names) > _LISTED:
        names[_LISTED:] = [f"{len(names) - _LISTED} more"]
    output.line(f"dynamic sizes of {', '.join(names)}: {', '.join(rules)}; {advice}")
    output.line()


def cells(name: str, array: Array) -> list[str]:
    """Returns what tables say of a tensor: name, type, shape."""
    return [output.plain(name), array.dtype.name, str(list(array.shape))]


def fields(name: str, array: Array) -> dict[str, object]:
    """Returns the same for JSON."""
    return {"name": name, "type": array.dtype.name, "shape": list(array.shape)}


def print_data(data: Mapping[str, Array], given: Container[str], seed: int, first: Container[str] = ()) -> None:
    """Prints a table of the data of inputs and where it comes from; `first` are states with their first values."""
    origin = f"random, seed {seed}"
    rows = [
        [*cells(name, array), "first value" if name in first else "given" if name in given else origin]
        for name, array in data.items()
    ]
    output.table(("input", "type", "shape", "data"), rows)


@contextlib.contextmanager
def integers_in_mind(inputs: Sequence[Input], given: Iterable[str]) -> Iterator[None]:
    """Adds a hint to a failure: random integers are seldom good sizes or indices."""
    try:
        yield
    except ExecutionError as error:
        chosen = set(given)
        random = [each.name for each in inputs if each.dtype.is_integer() and each.name not in chosen]
        if random and not error.hint:
            error.hint = f"Random integers went into {', '.join(random)}: give sizes and indices by --input NAME=[1,2]."
        raise


def pairs(texts: Iterable[str], inputs: Sequence[Input], option: str) -> dict[str, str]:
    """Splits NAME=REST, where a name may itself hold "=".

    Raises:
        click.UsageError: An input does not exist, or is named twice.
    """
    found: dict[str, str] = {}
    for text in texts:
        names = [each.name for each in inputs if text.startswith(f"{each.name}=")]
        if not names:
            known = ", ".join(each.name for each in inputs) or "none"
            raise click.UsageError(
                f"{option}: {shown(text)} does not begin with an input's name and =; inputs: {known}."
            )
        name = max(names, key=len)
        if name in found:
            raise click.UsageError(f"{option}: input {name} is given twice.")
        found[name] = text[len(name) + 1 :]
    return found


def _is_literal(text: str) -> bool:
    return text.lstrip().startswith("[")


def _literal(text: str, dtype: ir.DataType) -> Array:
    """Parses numbers in brackets. For an input of floats, decimals mean the nearest number of its type."""
    try:
        array = np.array(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"--input: {shown(text)} is not a list of numbers: {error}.") from error
    if array.dtype.kind not in "biuf":
        raise click.UsageError(f"--input: {shown(text)} is not a list of numbers.")
    if array.dtype.kind == "f" and dtype.is_floating_point():
        with np.errstate(over="ignore"):
            nearest = array.astype(dtype.numpy())
        # A number that is too large stays as it is, for `inputs.fit` to refuse.
        if np.array_equal(np.isfinite(nearest), np.isfinite(array)):
            return nearest
    return array
