"""Random nodes whose results are exact in every type: their values are small integers."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ortconv.convolution_arithmetic import AutoPad
from tests import oracle
from tests.operators.convolutions import Case


@dataclasses.dataclass(frozen=True)
class Problem:
    """A node, its inputs as it takes them, and what it must give."""

    case: Case
    inputs: list[np.ndarray | None]
    expected: np.ndarray

    def check(self, actual: np.ndarray) -> None:
        assert actual.dtype == self.expected.dtype
        np.testing.assert_array_equal(actual, self.expected, err_msg=str(self.case))


def draw(seed: int, dtype: np.dtype[Any], most_channels: int = 70) -> Problem:
    """Draws a node of any op, layout and number of axes."""
    rng = np.random.default_rng(seed)
    op = str(rng.choice(["TransposedConvolution", "TransposedConvolutionToShape", "Convolution"]))
    axes = int(rng.integers(1, 4))
    group = int(rng.choice([1, 1, 1, 2, 3]))

    def ints(low: int, high: int) -> list[int]:
        return [int(value) for value in rng.integers(low, high + 1, axes)]

    def channels() -> int:
        return int(rng.choice([1, 2, 3, 4, 8, 16, 24, 32, 64, int(rng.integers(1, most_channels + 1))]))

    if rng.integers(6) == 0:  # depthwise
        group, inputs, outputs = channels() * 2, 1, 1
    else:
        inputs, outputs = channels(), channels()
    spatial, kernel = ints(1, (40, 11, 5)[axes - 1]), ints(1, (9, 4, 3)[axes - 1])
    at: dict[str, Any] = {"strides": ints(1, 4), "dilations": ints(1, 2), "group": group}
    if rng.integers(3) == 0:  # kernel and stride alike
        at["strides"] = kernel
    begin, end, extra = ints(0, 2), ints(0, 2), ints(0, 1)
    extents = [(k - 1) * d + 1 for k, d in zip(kernel, at["dilations"], strict=True)]
    full = [s * (x - 1) + e for s, x, e in zip(at["strides"], spatial, extents, strict=True)]
    if op == "Convolution":
        spatial = [max(x, e) for x, e in zip(spatial, extents, strict=True)]
        steps = zip(spatial, begin, end, extents, at["strides"], strict=True)
        size = [(x + b + c - e) // s + 1 for x, b, c, e, s in steps]
        at |= {"auto_pad": AutoPad.NOTSET, "pads": [*begin, *end]}
    elif op == "TransposedConvolution":
        size = [f - b - c + o for f, b, c, o in zip(full, begin, end, extra, strict=True)]
        at |= {"pads": [*begin, *end], "output_padding": extra}
        if min(size) < 0:
            return draw(seed + 1_000_003, dtype, most_channels)
    else:
        size = [max(f + int(rng.integers(-3, 4)), 0) for f in full]
        at |= {"auto_pad": AutoPad.NOTSET, "pads_begin": begin, "output_padding": extra}
    identity = list(range(axes + 2))
    last = {"x_perm": [0, axes + 1, *range(1, axes + 1)], "y_perm": [0, *range(2, axes + 2), 1]}
    layout = int(rng.integers(3))
    at |= {"x_perm": identity, "w_perm": identity, "y_perm": identity}
    if layout == 1:
        at |= last
    elif layout == 2:
        at |= {name: [int(axis) for axis in rng.permutation(axes + 2)] for name in ("x_perm", "w_perm", "y_perm")}
    if rng.integers(3) == 0:
        at["activation"] = [0.25, -6.0, 40.0]

    x_shape = (int(rng.integers(1, 4)), inputs * group, *spatial)
    w_shape = (outputs * group, inputs, *kernel) if op == "Convolution" else (inputs * group, outputs, *kernel)
    bias = bool(rng.integers(2))
    case = Case(op, x_shape, w_shape, at, bias, tuple(size) if op == "TransposedConvolutionToShape" else None)

    def values(*shape: int) -> np.ndarray:
        return rng.integers(-3, 4, shape).astype(dtype)

    x, w, b = values(*x_shape), values(*w_shape), values(outputs * group) if bias else None
    compute = oracle.direct if op == "Convolution" else oracle.transposed
    exact = compute(
        x, w, strides=at["strides"], dilations=at["dilations"], begin=begin, size=size, group=group, bias=b
    ).astype(dtype)
    if "activation" in at:
        slope, low, high = at["activation"]
        exact = np.clip(np.where(exact < 0, exact.astype(np.float32) * slope, exact), low, high).astype(dtype)
    physical = [
        np.ascontiguousarray(np.transpose(array, np.argsort(at[name])))
        for array, name in ((x, "x_perm"), (w, "w_perm"))
    ]
    shape = [] if case.output_shape is None else [np.array(size, np.int64)]
    return Problem(case, [*physical, *shape, b], np.transpose(exact, at["y_perm"]))
