"""Finds out whether the filters of a convolution are those of a short-time Fourier transform.

Such a filter is ``gains[c] * window[j] * cos(2 pi f j / n_fft)``, or the sine, for a frequency f = 0, 1, ... Nothing
but the numbers is looked at. n_fft comes from a few candidates; window and gains are fitted in float64, by least
squares, one alternating with the other. Then the window and the gains, rounded to the filters' type as a node states
them, are multiplied out, and every element of every filter is compared. The largest difference, relative to the
largest element of its filter, is the distance: results for inputs of at most 1 differ by at most the distance times
the sum of these largest elements, over all filters and frames that reach an output.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from ortconv.optimizer.values import Array

__all__ = ["BOTH", "COSINES", "LEAST_FILTERS", "LEAST_TAPS", "SINES", "Basis", "basis", "diagonal", "fit"]

BOTH, COSINES, SINES = 0, 1, 2
"""Values of the attribute `parts`: first all cosines, then all sines; cosines only; sines only."""

LEAST_TAPS = 16
"""Shorter filters are not looked at: a fast Fourier transform does not pay."""

LEAST_FILTERS = 4
"""Fewer filters are not looked at."""

_LIMITS = {np.dtype(np.float32): 64 * 2.0**-24, np.dtype(np.float16): 3.2 * 2.0**-12}
"""How large the distance may be, by element type: a small number of rounding errors.

A basis of float64 that is rounded has 1 to 2, products of float32 cosines and windows up to 20, pseudo-inverses that
are computed in float32 up to 30; filters that are off by one part in a thousand have 16777. Cosines of phases that
grow up to pi * n_fft in float32 have 35 for n_fft = 16, which passes, and 2700 for 1024, which does not: such a model
computes another transform in its fourth digit. In float16 there is one rounding of the basis and one of each of our two
constants, 2^-12 each at most; one part in a thousand is 4.1 of these.
"""

_RESEMBLANCE = 0.02
"""Filters with a larger share of energy beside the fitted ones do not even resemble a basis."""

_SAMPLE = 8
"""Number of frequencies that candidates for n_fft are compared at."""

_BLOCK = 1 << 20
"""Elements of filters that are worked on at a time."""

_SMALLEST = 2.0**-10
"""Of filters that are smaller, relative to the largest of all, differences count as if they had this size."""

_ROUNDS = 40
"""Most alternations of a fit."""


@dataclasses.dataclass(frozen=True)
class Basis:
    """The basis nearest to some filters.

    Attributes:
        n_fft: Length of the transform.
        parts: Which filters there are: `BOTH`, `COSINES` or `SINES`.
        window: [K], in the type of the filters; its largest magnitude is 1.
        gains: [C], in the type of the filters.
        distance: The largest difference between an element and the fitted one, relative to the largest of its filter.
        limit: The largest distance that rounding explains.
    """

    n_fft: int
    parts: int
    window: Array
    gains: Array
    distance: float
    limit: float

    @property
    def bins(self) -> int:
        """Number of frequencies."""
        return len(self.gains) // 2 if self.parts == BOTH else len(self.gains)

    @property
    def fits(self) -> bool:
        """Whether rounding explains how the filters differ from the basis."""
        return self.distance <= self.limit


def diagonal(filters: Array) -> Array | None:
    """Returns the diagonal of [K, K] filters that are zero elsewhere, with which frames are added up, or None."""
    taps = filters.shape[1]
    if filters.shape != (taps, taps) or taps < LEAST_TAPS or np.any(filters[0, 1:]) or np.any(filters[-1, :-1]):
        return None
    window: Array = np.diagonal(filters).copy()
    if not np.all(np.isfinite(window)) or np.count_nonzero(filters) != np.count_nonzero(window):
        return None
    return window if np.any(window) else None


def fit(filters: Array) -> Basis | None:
    """Returns the basis that is nearest to filters [C, K] of float32 or float16.

    Returns:
        The basis, which may be too far away: see `Basis.fits`. None where the filters do not resemble any.
    """
    limit = _LIMITS.get(filters.dtype)
    count, taps = filters.shape
    if limit is None or count < LEAST_FILTERS or taps < LEAST_TAPS:
        return None
    if not np.all(np.isfinite(filters)) or not np.any(filters):
        return None
    best, least = None, _RESEMBLANCE
    for parts in _possible_parts(filters):
        bins = count // 2 if parts == BOTH else count
        rows = _sample(bins, parts)
        sample = filters[rows].astype(np.float64)
        for n_fft in _lengths(filters, bins):
            table = basis(n_fft, parts, bins, taps, rows)
            window = _window(sample, table, rows[0] == 0 and parts != SINES)
            rest = _rest(sample, table, window)
            if rest < least:
                best, least = (n_fft, parts, window), rest
    return None if best is None else _whole(filters, *best, limit)


def basis(n_fft: int, parts: int, bins: int, taps: int, rows: Array) -> Array:
    """Returns cosines and sines [len(rows), taps] of filters of a basis, in float64; zeros are exact."""
    places = np.arange(n_fft)
    cosines, sines = np.cos(2 * np.pi / n_fft * places), np.sin(2 * np.pi / n_fft * places)
    cosines[(4 * places) % (2 * n_fft) == n_fft] = 0
    sines[(2 * places) % n_fft == 0] = 0
    is_sine = (rows >= bins) | (parts == SINES)
    frequencies = np.where(rows >= bins, rows - bins, rows).astype(np.int64)
    at = frequencies[:, np.newaxis] * np.arange(taps) % n_fft
    at[is_sine] += n_fft
    found: Array = np.concatenate([cosines, sines])[at]
    return found


def _possible_parts(filters: Array) -> Iterator[int]:
    """Yields what the filters may be: every sine is zero where it starts, and so is the sine of frequency 0."""
    count = len(filters)
    largest = np.abs(filters).max()
    zero = 2.0**-8 * largest
    first, middle = (np.abs(filters[row]).max() > zero for row in (0, count // 2))
    start = np.abs(filters[:, 0]) > zero
    if count % 2 == 0 and not middle and not np.any(start[count // 2 :]):
        yield BOTH
    yield COSINES
    if not first and not np.any(start):
        yield SINES


def _sample(bins: int, parts: int) -> Array:
    """Returns the numbers of a few filters: the lowest, the highest, and some in between."""
    spread = np.linspace(0, bins - 1, _SAMPLE).round()
    frequencies = np.unique(np.concatenate([[0, 1, min(2, bins - 1), max(bins - 2, 0)], spread]).astype(np.int64))
    return np.concatenate([frequencies, bins + frequencies]) if parts == BOTH else frequencies


def _lengths(filters: Array, bins: int) -> list[int]:
    """Returns candidates for n_fft: from the number of filters and taps, and from where the spectra have their peak."""
    taps = filters.shape[1]
    found = [2 * (bins - 1), taps, bins, 2 * bins - 1, 2 * bins, 1 << (taps - 1).bit_length()]
    for frequency in (bins - 1, bins - 2, bins // 2, bins // 4):
        row = filters[frequency].astype(np.float64)
        if frequency < 1 or not np.any(row):
            continue
        size = 16 * taps
        peak = int(np.argmax(np.abs(np.fft.rfft(row, size))))
        if peak:
            length = frequency * size / peak
            slack = 1 + int(length / peak)
            found += range(int(length) - min(slack, 4), int(length) + min(slack, 4) + 2)
    return [length for length in dict.fromkeys(found) if length >= max(taps, bins, LEAST_TAPS)]


def _window(filters: Array, table: Array, from_first: bool) -> Array:
    """Returns the window, up to a factor, of filters that are gains * window * table."""
    energy = np.sqrt(_quotient(np.sum(filters**2, 0), np.sum(table**2, 0)))
    window = energy
    if from_first and np.sum(filters[0] ** 2) > 0.01 * np.sum(filters**2) / len(filters):
        window = filters[0]
    last = np.inf
    for _ in range(_ROUNDS):
        gains = _gains(filters, table, window)
        window = _normal(_quotient(gains @ (filters * table), gains**2 @ table**2))
        rest = _rest(filters, table, window)
        if not rest < 0.9 * last:
            break
        last = rest
    return window


def _gains(filters: Array, table: Array, window: Array) -> Array:
    return _quotient((filters * table) @ window, table**2 @ window**2)


def _rest(filters: Array, table: Array, window: Array) -> float:
    """Returns the share of the filters' energy that is not that of the fitted filters."""
    fitted = _gains(filters, table, window)[:, np.newaxis] * window * table
    return float(np.sum((filters - fitted) ** 2) / max(np.sum(filters**2), np.finfo(np.float64).tiny))


def _whole(filters: Array, n_fft: int, parts: int, window: Array, limit: float) -> Basis:
    """Fits a basis to all filters and measures how far it is from them."""
    count, taps = filters.shape
    bins = count // 2 if parts == BOTH else count
    step = max(1, _BLOCK // taps)
    blocks = [np.arange(start, min(start + step, count)) for start in range(0, count, step)]
    largest = float(np.abs(filters).max())
    floor = largest * _SMALLEST
    numerator, denominator = np.zeros(taps), np.zeros(taps)
    for rows in blocks:
        table, data = basis(n_fft, parts, bins, taps, rows), filters[rows].astype(np.float64)
        # Each filter counts by its own size: rounding is relative to that.
        weight = 1 / np.maximum(np.max(np.abs(data), 1), floor)
        gains = _gains(data, table, window)
        numerator += (gains * weight**2) @ (data * table)
        denominator += (gains * weight) ** 2 @ table**2
    rounded = _normal(_quotient(numerator, denominator)).astype(filters.dtype)
    window = rounded.astype(np.float64)
    all_gains, distance = [], 0.0
    for rows in blocks:
        table, data = basis(n_fft, parts, bins, taps, rows), filters[rows].astype(np.float64)
        gains = _gains(data, table, window).astype(filters.dtype)
        all_gains.append(gains)
        table *= window
        # A filter whose basis function is all zero, as the sine of frequency 0, is noise beside the others.
        scale = np.where(np.any(table, 1), np.maximum(np.max(np.abs(data), 1), floor), largest)
        table *= gains.astype(np.float64)[:, np.newaxis]
        distance = max(distance, float(np.max(np.max(np.abs(data - table), 1) / scale)))
    return Basis(n_fft, parts, rounded, np.concatenate(all_gains), distance, limit)


def _normal(window: Array) -> Array:
    """Returns the window divided by its largest element, which becomes 1."""
    largest = window[np.argmax(np.abs(window))]
    return window / largest if largest else window


def _quotient(numerator: Array, denominator: Array) -> Array:
    """Returns the quotient, and 0 where the denominator is nothing beside the others."""
    some = denominator > 1e-18 * np.max(denominator, initial=0)
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=some)
