"""Sorted and selected results, in which equal elements may be in another order."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from ortconv.model_io.input_data import Array
from ortconv.verification.steps import Step

__all__ = ["SELECTING", "SORTING", "chosen", "reordered"]

SORTING = frozenset({"TopK"})
"""Operations whose second output says where the sorted elements of the first input are."""

SELECTING = frozenset(
    {"DetectionOutput", "ExperimentalDetectronDetectionOutput", "ExperimentalDetectronGenerateProposalsSingleImage"}
    | {"ExperimentalDetectronTopKROIs", "GenerateProposals", "MatrixNms", "MulticlassNms", "NMSRotated"}
    | {"NonMaxSuppression", "Proposal"}
)
"""Operations whose results are rows, sorted by a score."""


def reordered(step: Step, values: Mapping[Hashable, Array], apart: float, actual: Array) -> Array:
    """Returns the indices that a sorting operation gives, those of equal elements in the order that `actual` has.

    Args:
        step: The operation.
        values: What it reads and computes.
        apart: Relative distance up to which elements are equal.
        actual: Other indices.
    """
    data, indices = values.get(step.inputs[0]), values[step.outputs[1]]
    axis = int(str(step.attributes["axis"]))
    if data is None or actual.shape != indices.shape or not actual.size:
        return indices
    if actual.min() < 0 or actual.max() >= data.shape[axis]:
        return indices
    once = np.diff(np.sort(actual, axis), axis=axis).all(axis, keepdims=True)
    found, expected = (np.take_along_axis(data, each, axis).astype(np.float64) for each in (actual, indices))
    with np.errstate(all="ignore"):
        equal = (found == expected) | (np.abs(found - expected) <= apart * np.abs(expected))
    return np.where(once & equal, actual, indices)


def chosen(evaluations: Sequence[Array], tolerance: float, actual: Array) -> Array:
    """Returns the rows of the first evaluation, but those of `actual` that others have at such a place, too.

    A row of `actual` is one that equally good evaluations have, no more often than one of them has it, and stands where
    they put it: between the first and the last of these places, half of their distance added at each end.

    Args:
        evaluations: Rows as equally good evaluations select and sort them.
        tolerance: Relative error up to which rows of floats are the same.
        actual: Other rows.
    """
    exact = evaluations[0]
    if actual.shape != exact.shape or not actual.size:
        return exact
    if actual.dtype.kind in "iu":
        tolerance = 0.0
    wanted = _rows(actual)
    tables = [_rows(each) for each in evaluations]
    with np.errstate(all="ignore"):
        typical = np.sqrt(np.nanmean(np.square(np.where(np.isfinite(tables[0]), tables[0], np.nan)), axis=0))
    settled = _rows(exact).astype(actual.dtype)
    for place, row in enumerate(wanted):
        found = [_places(table, row, np.nan_to_num(typical) * tolerance, tolerance) for table in tables]
        places = np.concatenate(found)
        if not places.size:
            continue
        slack = (places.max() - places.min()) / 2
        often = len(_places(wanted, row, np.zeros_like(typical), 0.0))
        if places.min() - slack <= place <= places.max() + slack and often <= max(map(len, found)):
            settled[place] = actual.reshape(wanted.shape)[place]
    return settled.reshape(exact.shape)


def _rows(array: Array) -> npt.NDArray[np.float64]:
    return array.astype(np.float64).reshape(-1, array.shape[-1] if array.ndim > 1 else 1)


def _places(
    table: npt.NDArray[np.float64], row: npt.NDArray[np.float64], typical: npt.NDArray[np.float64], tolerance: float
) -> npt.NDArray[np.intp]:
    """Returns where a table has a row."""
    with np.errstate(all="ignore"):
        near = (table == row) | (np.abs(table - row) <= np.maximum(typical, np.abs(row) * tolerance))
    return np.flatnonzero(near.all(axis=1))
