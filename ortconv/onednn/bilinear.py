"""Reference of oneDNN's convolution ops in float64: the forward, data and weights computations, and their padding.

It computes padding without `ortconv.convolution_arithmetic`, so that it shares no code with the code that it checks.

Three tensors take part: ``big`` (the source of a convolution), ``small`` (its destination) and ``weights``. Each
method computes one of them from the other two, as sums of the products of the elements that belong together:
``small[n, a, p]``, ``weights[a, b, k]`` and ``big[n, b, p*stride - begin + k*dilation]``, for output position p and
kernel tap k. Group i has the i-th contiguous part of the channels of both. Shapes: data [N, C, spatial...], weights
[channels of small, channels of big per group, kernel...].
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ortconv.onednn.call import Array

__all__ = ["BilinearMap"]

Sizes = Sequence[int]
Pads = tuple[list[int], list[int]]


@dataclasses.dataclass(frozen=True)
class BilinearMap:
    """A convolution op's attributes, as lists with an entry per spatial axis.

    Attributes:
        strides: At least 1.
        dilations: At least 1.
        groups: Divides the channels of both tensors.
        auto_pad: "none" uses `begin` and `end`, "valid" no padding, "same_upper" and "same_lower" depend on the sizes.
        begin: Begin padding.
        end: End padding.
    """

    strides: list[int]
    dilations: list[int]
    groups: int
    auto_pad: str
    begin: list[int]
    end: list[int]

    def extent(self, kernel: Sizes) -> list[int]:
        """Returns the number of positions that a kernel covers."""
        return [(taps - 1) * dilation + 1 for taps, dilation in zip(kernel, self.dilations, strict=True)]

    def padded_sizes(self, small: Sizes, kernel: Sizes) -> list[int]:
        """Returns the spatial sizes of big including its padding: stride * (small - 1) + extent."""
        axes = zip(self.strides, small, self.extent(kernel), strict=True)
        return [stride * (size - 1) + extent for stride, size, extent in axes]

    def split(self, totals: Sizes, *, same_upper_pads_end_more: bool = True) -> Pads:
        """Returns the (begin, end) padding that `auto_pad` gives.

        Args:
            totals: The total padding under a same_* rule; a negative one counts as zero.
            same_upper_pads_end_more: Whether same_upper puts the larger half at the end, as in oneDNN and ONNX.
        """
        if self.auto_pad == "none":
            return self.begin, self.end
        if self.auto_pad == "valid":
            return [0] * len(totals), [0] * len(totals)
        smaller_first = (self.auto_pad == "same_upper") == same_upper_pads_end_more
        clamped = [max(total, 0) for total in totals]
        begin = [total // 2 if smaller_first else (total + 1) // 2 for total in clamped]
        return begin, [total - b for total, b in zip(clamped, begin, strict=True)]

    def convolution_pads(self, big: Sizes, kernel: Sizes) -> Pads:
        """Returns the padding of a convolution; under same_*, small then has the sizes ceil(big / stride)."""
        axes = zip(self.extent(kernel), big, self.strides, strict=True)
        return self.split([extent - (size % stride or stride) for extent, size, stride in axes])

    def transpose_pads(self, kernel: Sizes) -> Pads:
        """Returns the padding of a transposed convolution; under same_*, big then has the sizes stride * small."""
        return self.split([extent - stride for extent, stride in zip(self.extent(kernel), self.strides, strict=True)])

    def convolution_sizes(self, big: Sizes, kernel: Sizes, begin: Sizes, end: Sizes) -> list[int]:
        """Returns the sizes of small."""
        axes = zip(big, begin, end, self.extent(kernel), self.strides, strict=True)
        return [(size + b + e - extent) // stride + 1 for size, b, e, extent, stride in axes]

    def to_small(self, big: Array, weights: Array, begin: Sizes, sizes: Sizes) -> Array:
        """Returns small, of the given spatial sizes."""
        parts, taps = self._split_channels(big), self._split_weights(weights)
        small = np.zeros((big.shape[0], self.groups, taps.shape[1], *sizes))
        for k, here, there in self._overlaps(weights.shape[2:], begin, sizes, big.shape[2:]):
            small[_last(here)] += np.einsum("gab,ngb...->nga...", taps[_last(k)], parts[_last(there)])
        return small.reshape(small.shape[0], taps.shape[0] * taps.shape[1], *sizes)

    def to_big(self, small: Array, weights: Array, begin: Sizes, sizes: Sizes) -> Array:
        """Returns big, of the given spatial sizes."""
        parts, taps = self._split_channels(small), self._split_weights(weights)
        big = np.zeros((small.shape[0], self.groups, taps.shape[2], *sizes))
        for k, here, there in self._overlaps(weights.shape[2:], begin, small.shape[2:], sizes):
            big[_last(there)] += np.einsum("gab,nga...->ngb...", taps[_last(k)], parts[_last(here)])
        return big.reshape(big.shape[0], taps.shape[0] * taps.shape[2], *sizes)

    def to_weights(self, small: Array, big: Array, begin: Sizes, kernel: Sizes) -> Array:
        """Returns weights, of the given kernel sizes."""
        smalls, bigs = self._split_channels(small), self._split_channels(big)
        weights = np.zeros((self.groups, smalls.shape[2], bigs.shape[2], *kernel))
        for k, here, there in self._overlaps(kernel, begin, small.shape[2:], big.shape[2:]):
            weights[_last(k)] += np.einsum("ngap,ngbp->gab", _flat(smalls[_last(here)]), _flat(bigs[_last(there)]))
        return weights.reshape(-1, *weights.shape[2:])

    def _split_channels(self, array: Array) -> Array:
        return array.reshape(array.shape[0], self.groups, array.shape[1] // self.groups, *array.shape[2:])

    def _split_weights(self, array: Array) -> Array:
        return array.reshape(self.groups, array.shape[0] // self.groups, *array.shape[1:])

    def _overlaps(
        self, kernel: Sizes, begin: Sizes, small: Sizes, big: Sizes
    ) -> Iterator[tuple[tuple[int, ...], tuple[Array, ...], tuple[Array, ...]]]:
        """Yields each kernel tap k, the positions of small where k lies inside big, and those positions in big."""
        for k in itertools.product(*map(range, kernel)):
            here, there = [], []
            for axis, tap in enumerate(k):
                p = np.arange(small[axis])
                q = p * self.strides[axis] - begin[axis] + tap * self.dilations[axis]
                inside = (q >= 0) & (q < big[axis])
                here.append(p[inside])
                there.append(q[inside])
            yield k, np.ix_(*here), np.ix_(*there)


def _flat(array: Array) -> Array:
    """[N, G, C/G, spatial...] -> [N, G, C/G, all positions]."""
    return array.reshape(*array.shape[:3], math.prod(array.shape[3:]))


def _last(indices: tuple[Any, ...]) -> tuple[Any, ...]:
    """Returns an index that applies `indices` to the last axes of an array."""
    return (..., *indices)
