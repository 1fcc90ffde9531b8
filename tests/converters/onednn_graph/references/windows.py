"""Where the windows of convolutions and pools stand: paddings and sizes, per spatial axis."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

from tests.converters.onednn_graph.references.call import Call

Ints = Sequence[int]


def same(auto_pad: str, total: int) -> tuple[int, int]:
    """Splits a total padding: the odd element at the end for same_upper, in front for same_lower."""
    total = max(total, 0)
    small = total // 2
    return (small, total - small) if auto_pad == "same_upper" else (total - small, small)


@dataclasses.dataclass(frozen=True)
class Axis:
    """A spatial axis under a moving window."""

    kernel: int
    stride: int
    dilation: int
    begin: int
    end: int

    @property
    def extent(self) -> int:
        """Positions that a window covers."""
        return (self.kernel - 1) * self.dilation + 1

    def count(self, size: int, *, ceil: bool = False) -> int:
        """Number of windows."""
        room = size + self.begin + self.end - self.extent
        return -(-room // self.stride) + 1 if ceil else room // self.stride + 1

    def taps(self, window: int, size: int) -> list[int]:
        """Positions of a window that lie inside."""
        start = window * self.stride - self.begin
        return [q for q in range(start, start + self.extent, self.dilation) if 0 <= q < size]


def axes_of(call: Call, sizes: Ints, kernel: Ints) -> list[Axis]:
    """Reads an op's windows; `sizes` are those that the windows move over."""
    auto_pad = call.get("auto_pad", "None").casefold()
    dilations = call.get("dilations", [1] * len(sizes))
    found = []
    for axis, (size, k) in enumerate(zip(sizes, kernel, strict=True)):
        s, d = call.attributes["strides"][axis], dilations[axis]
        begin, end = call.attributes["pads_begin"][axis], call.attributes["pads_end"][axis]
        if auto_pad == "valid":
            begin = end = 0
        elif auto_pad.startswith("same"):
            begin, end = same(auto_pad, (k - 1) * d + 1 - (size % s or s))
        found.append(Axis(k, s, d, begin, end))
    return found


def windows(axes: Sequence[Axis], counts: Ints, sizes: Ints) -> Iterator[tuple[tuple[int, ...], list[tuple[int, ...]]]]:
    """Iterates over windows: where each stands, and the positions inside that it covers, in order."""
    for at in itertools.product(*map(range, counts)):
        rows = [axis.taps(window, size) for axis, window, size in zip(axes, at, sizes, strict=True)]
        yield at, list(itertools.product(*rows))
