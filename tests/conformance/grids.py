"""Random problems of the OpenVINO convolution family, and what the spec page and the CPU plugin make of their sizes.

The rules stand here a second time on purpose: written from the page and from measurements, not from our lowerings.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from tests import oracle


@dataclasses.dataclass(frozen=True)
class Problem:
    """One node and its data."""

    op: str
    attributes: dict[str, Any]
    data: np.ndarray
    filter: np.ndarray
    output_shape: np.ndarray | None = None
    runtime_shape: bool = False
    dynamic: bool = False

    @property
    def feeds(self) -> dict[str, np.ndarray]:
        fed = {"data": self.data}
        if self.runtime_shape:
            assert self.output_shape is not None
            fed["output_shape"] = self.output_shape
        return fed

    @property
    def rank(self) -> int:
        return self.data.ndim - 2

    @property
    def transposed(self) -> bool:
        return self.op.endswith("BackpropData")

    @property
    def groups(self) -> int:
        return self.filter.shape[0] if self.op.startswith("Group") else 1

    @property
    def full(self) -> list[int]:
        a = self.attributes
        kernel = self.filter.shape[-self.rank :]
        return [
            s * (x - 1) + (k - 1) * d + 1
            for s, x, k, d in zip(a["strides"], self.data.shape[2:], kernel, a["dilations"], strict=True)
        ]

    def placement(self, semantics: str) -> tuple[list[int], list[int]]:
        """Returns begin paddings and output sizes."""
        return self._transposed(semantics) if self.transposed else self._direct()

    def _transposed(self, semantics: str) -> tuple[list[int], list[int]]:
        a = self.attributes
        auto_pad, extra = a["auto_pad"], a.get("output_padding", [0] * self.rank)
        begin = a["pads_begin"] if auto_pad == "explicit" else [0] * self.rank
        end = a["pads_end"] if auto_pad == "explicit" else [0] * self.rank
        if self.output_shape is None:
            return begin, [f - b - e + o for f, b, e, o in zip(self.full, begin, end, extra, strict=True)]
        size = [int(y) for y in self.output_shape]
        totals = [max(f - y + o, 0) for f, y, o in zip(self.full, size, extra, strict=True)]
        if auto_pad == "same_upper":
            return [-(-t // 2) for t in totals], size
        if auto_pad == "same_lower" or semantics == "spec":
            return [t // 2 for t in totals], size
        # OpenVINO's Python function for the grouped op, which builds the model, leaves pads_begin out here.
        return (begin if self.op == "ConvolutionBackpropData" else [0] * self.rank), size

    def _direct(self) -> tuple[list[int], list[int]]:
        a = self.attributes
        begins, sizes = [], []
        for axis, (x, k) in enumerate(zip(self.data.shape[2:], self.filter.shape[-self.rank :], strict=True)):
            s, extent = a["strides"][axis], (k - 1) * a["dilations"][axis] + 1
            if a["auto_pad"].startswith("same"):
                y = -(-x // s)
                total = max(0, (y - 1) * s + extent - x)
                begins.append(total // 2 if a["auto_pad"] == "same_upper" else -(-total // 2))
            else:
                explicit = a["auto_pad"] == "explicit"
                begin, end = (a["pads_begin"][axis], a["pads_end"][axis]) if explicit else (0, 0)
                y = (x + begin + end - extent) // s + 1
                begins.append(begin)
            sizes.append(y)
        return begins, sizes

    def expected(self, semantics: str) -> np.ndarray:
        """Returns the exact result, converted to the data's type once; integers wrap."""
        begin, size = self.placement(semantics)
        weights = self.filter.reshape(-1, *self.filter.shape[2:]) if self.op.startswith("Group") else self.filter
        compute = oracle.transposed if self.transposed else oracle.direct
        result = compute(
            self.data,
            weights,
            strides=self.attributes["strides"],
            dilations=self.attributes["dilations"],
            begin=begin,
            size=size,
            group=self.groups,
        )
        return oracle.wrapped(result, self.data.dtype)


OPS = ("Convolution", "GroupConvolution", "ConvolutionBackpropData", "GroupConvolutionBackpropData")
AUTO_PADS = ("explicit", "same_upper", "same_lower", "valid")


def problem(seed: int, dtype: np.dtype, largest: int = 4) -> Problem:
    """Draws a problem that OpenVINO accepts; small integers as values, so that floats are exact."""
    rng = np.random.default_rng(seed)
    while True:
        drawn = _draw(rng, dtype, largest)
        if all(y > 0 for y in drawn.placement("spec")[1]) and _kernel_fits(drawn):
            return drawn


def _draw(rng: np.random.Generator, dtype: np.dtype, largest: int) -> Problem:
    op = str(rng.choice(OPS))
    transposed, grouped = op.endswith("BackpropData"), op.startswith("Group")
    rank = int(rng.integers(1, 4))
    groups = int(rng.integers(2, 4)) if grouped else 1

    def ints(low: int, high: int) -> list[int]:
        return [int(value) for value in rng.integers(low, high, rank)]

    kernel, spatial = ints(1, 5 if rank < 3 else 4), ints(1, 6 if rank < 3 else 4)
    attributes: dict[str, Any] = {
        "strides": ints(1, 4),
        "pads_begin": ints(0, 3),
        "pads_end": ints(0, 3),
        "dilations": ints(1, 3),
        "auto_pad": str(rng.choice(AUTO_PADS)),
    }
    inputs, outputs = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    lowest = 0 if dtype.kind == "u" else -largest

    def values(*shape: int) -> np.ndarray:
        return rng.integers(lowest, largest + 1, shape).astype(dtype)

    data = values(int(rng.integers(1, 3)), inputs * groups, *spatial)
    channels = (inputs, outputs) if transposed else (outputs, inputs)
    weights = values(*([groups] if grouped else []), *channels, *kernel)
    if not transposed:
        return Problem(op, attributes, data, weights, dynamic=bool(rng.integers(2)))
    if rng.integers(2):
        attributes["output_padding"] = ints(0, 3)
    drawn = Problem(op, attributes, data, weights)
    if rng.integers(3) == 0:
        return dataclasses.replace(drawn, dynamic=bool(rng.integers(2)))
    around = [max(1, full + int(rng.integers(-4, 3))) for full in drawn.full]
    shape_type = np.dtype(rng.choice(["int32", "int64"]))
    runtime = bool(rng.integers(2))
    return dataclasses.replace(drawn, output_shape=np.array(around, shape_type), runtime_shape=runtime, dynamic=runtime)


def _kernel_fits(drawn: Problem) -> bool:
    """OpenVINO crashes on some dynamic convolutions whose kernel is larger than the padded input."""
    if drawn.transposed or drawn.attributes["auto_pad"].startswith("same"):
        return True
    explicit = drawn.attributes["auto_pad"] == "explicit"
    for axis, (x, k) in enumerate(zip(drawn.data.shape[2:], drawn.filter.shape[-drawn.rank :], strict=True)):
        pads = drawn.attributes["pads_begin"][axis] + drawn.attributes["pads_end"][axis] if explicit else 0
        if (k - 1) * drawn.attributes["dilations"][axis] + 1 > x + pads:
            return False
    return True
