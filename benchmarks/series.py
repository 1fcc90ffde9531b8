"""Shapes that differ in one size at a time, so that each has neighbours whose speed it should have."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

from benchmarks.shapes import Shape

__all__ = ["SERIES", "Series"]

_CHANNELS = (1, 2, 3, 4, 5, 7, 8, 11, 13, 16, 17, 23, 29, 31, 32, 33, 47, 61, 64, 67, 97, 127, 128, 131, 251, 256, 257)
"""Round ones, primes, and what lies beside a power of two."""

_FEW = (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 14, 15, 16, 17, 19, 23, 28, 29, 31, 37)
_SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 17, 23, 31, 32, 33, 47, 63, 64, 65, 97, 127, 128, 131, 257)
_LENGTHS = (1, 2, 3, 5, 8, 13, 16, 17, 31, 33, 64, 67, 127, 256, 509, 1021, 2048, 4099, 16411, 65537)
_BATCHES = (1, 2, 3, 4, 5, 7, 8, 11, 13, 16, 17, 23, 31, 32)


@dataclasses.dataclass(frozen=True)
class Series:
    """Shapes in the order of the size in which they differ.

    Attributes:
        name: What they have in common.
        parameter: What differs.
        shapes: By its value, in ascending order.
    """

    name: str
    parameter: str
    shapes: dict[int, Shape]


def _series(name: str, parameter: str, values: Iterable[int], shape: Callable[[int], Shape]) -> Series:
    made = {value: dataclasses.replace(shape(value), name=f"{name}, {parameter} {value}") for value in values}
    return Series(name, parameter, made)


SERIES = (
    _series("k4s2 16x16", "channels", _CHANNELS, lambda n: Shape("", 1, n, n, (16, 16), 4, 2, 1)),
    _series("k4s2 n>64 15x15", "inputs", _CHANNELS, lambda n: Shape("", 1, n, 64, (15, 15), 4, 2, 1)),
    _series("k4s2 64>n 23x23", "outputs", _FEW, lambda n: Shape("", 1, 64, n, (23, 23), 4, 2, 1)),
    _series("k2s2 61>n 40x40", "outputs", _FEW, lambda n: Shape("", 1, 61, n, (40, 40), 2, 2)),
    _series("k3s2 op1 17x19", "channels", _CHANNELS, lambda n: Shape("", 1, n, n, (17, 19), 3, 2, 1, 1)),
    _series("k3s1 19x17", "channels", _CHANNELS, lambda n: Shape("", 1, n, n, (19, 17), 3, 1, 1)),
    _series("k4s2 32>32", "size of both axes", _SIZES, lambda n: Shape("", 1, 32, 32, (n, n), 4, 2, 1)),
    _series("k2s2 67>29", "size of both axes", _SIZES, lambda n: Shape("", 1, 67, 29, (n, n), 2, 2)),
    _series("k3s1 61>61", "size of both axes", _SIZES[:-3], lambda n: Shape("", 1, 61, 61, (n, n), 3, 1, 1)),
    _series("k4s2 64>64 1xn", "width", _LENGTHS[:-2], lambda n: Shape("", 1, 64, 64, (1, n), 4, 2, 1)),
    _series("k4s2 64>64 nx1", "height", _LENGTHS[:-2], lambda n: Shape("", 1, 64, 64, (n, 1), 4, 2, 1)),
    _series("k3s2 32>32 nx5", "height", _LENGTHS[:-2], lambda n: Shape("", 1, 32, 32, (n, 5), 3, 2, 1)),
    _series("k4s2 128>64 7x7", "batch", _BATCHES, lambda n: Shape("", n, 128, 64, (7, 7), 4, 2, 1)),
    _series("k4s1 100>128 1x1", "batch", _BATCHES, lambda n: Shape("", n, 100, 128, (1, 1), 4, 1)),
    _series("k2s2 37>31 13x11", "batch", _BATCHES, lambda n: Shape("", n, 37, 31, (13, 11), 2, 2)),
    _series("k n s2 48>48 20x20", "kernel", range(2, 12), lambda n: Shape("", 1, 48, 48, (20, 20), n, 2)),
    _series("k n s1 48>48 20x20", "kernel", range(1, 10), lambda n: Shape("", 1, 48, 48, (20, 20), n, 1)),
    _series("k n s n 48>48 20x20", "stride", range(1, 10), lambda n: Shape("", 1, 48, 48, (20, 20), n, n)),
    _series("k 2n s n 48>16 12x12", "stride", range(1, 10), lambda n: Shape("", 1, 48, 16, (12, 12), 2 * n, n)),
    _series("k3s1 64>64 24x24", "dilation", range(1, 9), lambda n: Shape("", 1, 64, 64, (24, 24), 3, 1, n, 0, 1, n)),
    _series("k4s2 64>64 20x20", "padding", range(0, 7), lambda n: Shape("", 1, 64, 64, (20, 20), 4, 2, n)),
    _series("depthwise k4s2 32x32", "channels", _CHANNELS, lambda n: Shape("", 1, n, n, (32, 32), 4, 2, 1, group=n)),
    _series("depthwise k3s1 29x29", "channels", _CHANNELS, lambda n: Shape("", 1, n, n, (29, 29), 3, 1, 1, group=n)),
    _series(
        "depthwise k4s2 32", "size of both axes", _SIZES, lambda n: Shape("", 1, 32, 32, (n, n), 4, 2, 1, group=32)
    ),
    _series(
        "grouped k4s2 192>192 14x14",
        "groups",
        (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 192),
        lambda n: Shape("", 1, 192, 192, (14, 14), 4, 2, 1, group=n),
    ),
    _series(
        "16 groups k3s2 op1 17x17",
        "channels of a group",
        (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 16, 17),
        lambda n: Shape("", 1, 16 * n, 16 * n, (17, 17), 3, 2, 1, 1, group=16),
    ),
    _series("1-D k4s2 64>64", "length", _LENGTHS, lambda n: Shape("", 1, 64, 64, (n,), 4, 2, 1)),
    _series("1-D k16s8 64>32", "length", _LENGTHS[:-1], lambda n: Shape("", 1, 64, 32, (n,), 16, 8, 4)),
    _series("1-D k8s4 255", "channels", _CHANNELS, lambda n: Shape("", 1, n, n, (255,), 8, 4, 2)),
    _series("1-D k3s1 1>1", "length", _LENGTHS, lambda n: Shape("", 1, 1, 1, (n,), 3, 1, 1)),
    _series("3-D k2s2 32>32", "size of all axes", _SIZES[:14], lambda n: Shape("", 1, 32, 32, (n, n, n), 2, 2)),
    _series(
        "3-D k3s2 op1 24>24", "size of all axes", _SIZES[:13], lambda n: Shape("", 1, 24, 24, (n, n, n), 3, 2, 1, 1)
    ),
    _series("3-D k4s2 7x7x7", "channels", _CHANNELS[:20], lambda n: Shape("", 1, n, n, (7, 7, 7), 4, 2, 1)),
    _series("3-D k3s1 9x9x9", "channels", _CHANNELS[:20], lambda n: Shape("", 1, n, n, (9, 9, 9), 3, 1, 1)),
)
