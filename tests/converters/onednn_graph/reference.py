"""The six convolution ops of oneDNN from their definition, in float64. Nothing here imports ortconv.

All are views of one bilinear map: ``small[n, a, p]`` meets ``big[n, b, p*s - begin + k*d]`` through
``weights[a, b, k]``, with the channels of both sides split into groups in order. Data is [N, C, spatial...], weights
are [a, b/groups, kernel...].
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

Ints = Sequence[int]


@dataclasses.dataclass(frozen=True)
class Map:
    """The geometry of the map."""

    strides: Ints
    dilations: Ints
    begin: Ints
    groups: int = 1

    def small(self, big: np.ndarray, weights: np.ndarray, size: Ints) -> np.ndarray:
        """Convolution, and the gradient of a transposed one."""
        small = np.zeros((big.shape[0], weights.shape[0], *size))
        for at, to, tap, (a, _), (b, _) in self._terms(size, big.shape, weights.shape):
            small[:, a, *at] += big[:, b, *to] @ weights[a, :, *tap].T
        return small

    def big(self, small: np.ndarray, weights: np.ndarray, size: Ints) -> np.ndarray:
        """Transposed convolution, and the gradient of a convolution."""
        big = np.zeros((small.shape[0], weights.shape[1] * self.groups, *size))
        for at, to, tap, (a, _), (b, _) in self._terms(small.shape[2:], big.shape, weights.shape):
            big[:, b, *to] += small[:, a, *at] @ weights[a, :, *tap]
        return big

    def weights(self, big: np.ndarray, small: np.ndarray, kernel: Ints) -> np.ndarray:
        """Gradient of the weights."""
        weights = np.zeros((small.shape[1], big.shape[1] // self.groups, *kernel))
        for at, to, tap, (a, _), (b, _) in self._terms(small.shape[2:], big.shape, weights.shape):
            weights[a, :, *tap] += small[:, a, *at].T @ big[:, b, *to]
        return weights

    def _terms(self, small: Ints, big: Ints, weights: Ints) -> Iterator[Any]:
        """Iterates over positions of the small side, of the big side, taps, and slices of channels that meet."""
        per_a, per_b = weights[0] // self.groups, weights[1]
        for at in np.ndindex(*small):
            for tap in np.ndindex(*weights[2:]):
                rows = zip(at, self.strides, self.begin, tap, self.dilations, strict=True)
                to = tuple(p * s - b + k * d for p, s, b, k, d in rows)
                if all(0 <= q < size for q, size in zip(to, big[2:], strict=True)):
                    for g in range(self.groups):
                        yield (
                            at,
                            to,
                            tap,
                            (slice(g * per_a, (g + 1) * per_a), g),
                            (slice(g * per_b, (g + 1) * per_b), g),
                        )


def full(x: int, k: int, s: int, d: int) -> int:
    """Size of an unpadded transposed convolution."""
    return s * (x - 1) + (k - 1) * d + 1


def split(total: int, *, larger_first: bool) -> tuple[int, int]:
    """Halves a total padding, which is never negative."""
    total = max(total, 0)
    halves = total // 2, math.ceil(total / 2)
    return (halves[1], halves[0]) if larger_first else halves


def conv_same(auto_pad: str, x: int, k: int, s: int, d: int) -> tuple[int, int]:
    """Paddings of a convolution under same_*: the size divided by the stride, rounded up."""
    total = (k - 1) * d + 1 - (x % s or s)
    return split(total, larger_first=auto_pad.casefold() == "same_lower")


def conv_transpose_same(auto_pad: str, k: int, s: int, d: int) -> tuple[int, int]:
    """Paddings of ConvTranspose under same_*."""
    return split((k - 1) * d + 1 - s, larger_first=auto_pad.casefold() == "same_lower")


def backward_data_begin(
    semantics: str, auto_pad: str, x: int, k: int, y: int, s: int, d: int, output_padding: int
) -> int:
    """Begin padding of ConvolutionBackwardData under same_*: by its specification or by the library."""
    if semantics == "runtime":
        return conv_same(auto_pad, y, k, s, d)[0]
    total = full(x, k, s, d) - y + output_padding
    return split(total, larger_first=auto_pad.casefold() == "same_upper")[0]


def from_ncx(array: np.ndarray, data_format: str) -> np.ndarray:
    """Lays [N, C, spatial...] out in a data format."""
    return array if data_format == "NCX" else np.moveaxis(array, 1, -1)


def from_first(weights: np.ndarray, weights_format: str) -> np.ndarray:
    """Lays [a, b/groups, kernel...] out in a weights format: OIX and IOX are that, XIO and XOI are kernel, b, a."""
    if not weights_format.startswith("X"):
        return weights
    return np.moveaxis(weights, (0, 1), (-1, -2))
