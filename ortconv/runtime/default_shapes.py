"""Chooses shapes for inputs with dynamic dimensions: 1 for batches, else the least size with which the model runs."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ortconv.errors import ExecutionError
from ortconv.model_io import input_data
from ortconv.model_io.input_data import Array, Input

__all__ = ["Shapes", "choose"]

Shapes = Mapping[str, tuple[int, ...]]

_LARGEST = 1 << 10
"""The largest size that is tried."""

_MOST = 1 << 24
"""The largest number of elements of an input that is tried."""

_FURTHER = 8
"""Up to how many times as large sizes are tried if the results have no elements."""

_EMPTY, _GOOD = 1, 2
"""Rating of a run: results that are empty or NaN, or other results. 0 if the run fails."""


def choose(
    inputs: Sequence[Input],
    given: Mapping[str, Array],
    shapes: Mapping[str, Sequence[int]],
    seed: int,
    run: Callable[[Mapping[str, Array]], Mapping[str, Array]],
    accepts: Callable[[Shapes], bool] = lambda _: True,
) -> Shapes:
    """Chooses shapes for the inputs with dynamic dimensions for which no data or shape is given.

    The first dimension of a tensor is its batch: that of the given inputs if they agree, else 1. The other dynamic
    dimensions of states are 0, as of an empty cache. All others have one size, which is found by running the model:
    with all numbers up to 8 and four in every octave above, until one works, and then by bisection. If none works,
    the batch is that number, too.

    Args:
        inputs: The model's inputs.
        given: Data by input name.
        shapes: Requested shapes by input name.
        seed: Seed of the random data.
        run: Runs the model on data of all inputs; raises ExecutionError if that fails.
        accepts: Returns whether shapes with which the model runs are good enough.

    Returns:
        A shape for each of these inputs; nothing if the rank of one is not known.

    Raises:
        ExecutionError: The model fails with all sizes that were tried; the error is that of the smallest.
        InputError: Given data or shapes do not fit.
    """
    wanted = [each for each in inputs if each.name not in given and each.name not in shapes and not each.is_known]
    if not wanted or any(each.shape is None for each in wanted):
        return {}  # No shape can be chosen for an unknown rank; `input_data.fill` raises an error.
    symbols, batch = _bound(inputs, {name: array.shape for name, array in given.items()} | dict(shapes))
    failures: list[ExecutionError] = []

    def judge(chosen: Shapes) -> int:
        if any(math.prod(sizes) > _MOST for sizes in chosen.values()):
            return 0
        try:
            results = run(input_data.fill(inputs, given, {**shapes, **chosen}, seed))
        except ExecutionError as error:
            failures.append(error)
            return 0
        return _GOOD if all(map(_is_good, results.values())) else _EMPTY

    for first in (batch, None):
        shape = functools.partial(_shapes, wanted, symbols, first)
        largest = 1 if shape(1) == shape(2) else _LARGEST
        size: int | None = 0
        while size is not None:
            size = _least(lambda number, shape=shape: judge(shape(number)), size + 1, largest)  # type: ignore[misc]
            if size is not None and accepts(shape(size)):
                return shape(size)
    if not failures:
        return _shapes(wanted, symbols, batch, 1)  # `accepts` has refused it; its caller reports why.
    error = failures[0]
    if not any(each.dtype.is_integer() and each.name not in given for each in inputs):
        example = "x".join(map(str, _shapes(wanted, symbols, batch, 8)[wanted[0].name]))
        error.hint = error.hint or (
            f"The model has dynamic dimensions, and fails with sizes up to {_LARGEST}: set them with --shape "
            f"{wanted[0].name}={example}."
        )
    raise error


def _bound(inputs: Sequence[Input], shapes: Mapping[str, Sequence[int]]) -> tuple[dict[str, int], int]:
    """Returns the symbolic dimensions that inputs with known shapes determine, and their batch or 1."""
    places = [
        (axis, dim, size)
        for each in inputs
        for axis, (dim, size) in enumerate(zip(each.shape or (), shapes.get(each.name, ()), strict=False))
        if not isinstance(dim, int)
    ]
    batches = {size for axis, _, size in places if axis == 0}
    symbols = {dim: size for _, dim, size in places if dim is not None}
    return symbols, batches.pop() if len(batches) == 1 else 1


def _shapes(wanted: Sequence[Input], symbols: Mapping[str, int], batch: int | None, size: int) -> Shapes:
    """Returns the shapes with one size for all dynamic dimensions but the batch, or for all if `batch` is None."""
    sizes = dict(symbols)
    if batch is not None:
        for dim in (each.shape[0] for each in wanted if each.shape):
            if isinstance(dim, str):
                sizes.setdefault(dim, batch)
    found = {}
    for each in wanted:
        places = []
        for axis, dim in enumerate(each.shape or ()):
            if isinstance(dim, int):
                places.append(dim)
                continue
            if axis == 0:
                chosen = size if batch is None and each.state is None else batch or 1
            else:
                chosen = size if each.state is None else 0
            places.append(chosen if dim is None else sizes.setdefault(dim, chosen))
        found[each.name] = tuple(places)
    return found


def _least(judge: Callable[[int], int], start: int, largest: int) -> int | None:
    """Returns the least size from a start that has the best rating, provided that ratings grow with the size."""
    judged: dict[int, int] = {}
    size = start
    while size <= largest and _GOOD not in judged.values():
        judged[size] = judge(size)
        works = [each for each, verdict in judged.items() if verdict]
        if works and size >= _FURTHER * works[0]:
            break
        size += 1 << max(size.bit_length() - 3, 0)
    wanted = max(judged.values(), default=0)
    if not wanted:
        return None
    high = min(each for each, verdict in judged.items() if verdict == wanted)
    low = max((each for each in judged if each < high), default=high - 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if judge(middle) >= wanted else (middle, high)
    return high


def _is_good(array: Array) -> bool:
    return array.size > 0 and not (input_data.is_float(array) and np.isnan(array.astype(np.float64)).any())
