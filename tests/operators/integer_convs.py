"""Models of one ConvIntegerToFloat, and what they must give."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from ortconv.opset.ops.conv_integer_to_float import CONV_INTEGER_TO_FLOAT
from tests.operators import integer_nodes

__all__ = ["CASES", "KINDS", "NAMES", "Case", "assert_convolved", "model", "sums", "tensors"]

KINDS = list(itertools.product((np.uint8, np.int8), repeat=2))
"""Types of X and W."""

NAMES = tuple(each.name for each in CONV_INTEGER_TO_FLOAT.inputs)


@dataclasses.dataclass(frozen=True)
class Case:
    """One node: shapes and attributes."""

    x: tuple[int, ...]
    w: tuple[int, ...]
    strides: tuple[int, ...] = ()
    pads: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    group: int = 1

    @property
    def attributes(self) -> dict[str, Any]:
        """Of the node; what is not stated is 1, or 0 for pads."""
        axes = len(self.x) - 2
        return {
            "strides": self.strides or (1,) * axes,
            "pads": self.pads or (0,) * 2 * axes,
            "dilations": self.dilations or (1,) * axes,
            "group": self.group,
        }

    def __str__(self) -> str:
        parts = {key: value for key, value in self.attributes.items() if getattr(self, key) not in ((), 1)}
        return "-".join(["x".join(map(str, each)) for each in (self.x, self.w)] + [f"{k}{v}" for k, v in parts.items()])


CASES = [
    Case((1, 1, 1), (1, 1, 1)),
    Case((2, 3, 40), (5, 3, 7), pads=(2, 5), strides=(3,)),
    Case((1, 16, 9, 11), (24, 16, 1, 1)),
    Case((2, 6, 9, 11), (7, 6, 3, 3), pads=(1, 1, 1, 1)),
    Case((1, 9, 14, 14), (33, 9, 3, 3), pads=(1, 1, 1, 1), strides=(2, 2)),
    Case((1, 3, 20, 21), (16, 3, 7, 7), pads=(3, 2, 0, 4), strides=(2, 3)),
    Case((1, 8, 7, 7), (12, 2, 3, 3), pads=(1, 1, 1, 1), group=4),
    Case((1, 6, 13, 8), (6, 1, 3, 3), pads=(1, 1, 1, 1), group=6),
    Case((2, 5, 17, 30), (10, 1, 5, 5), pads=(2, 2, 2, 2), strides=(2, 2), group=5),
    Case((1, 4, 19, 19), (4, 1, 3, 3), pads=(4, 4, 4, 4), dilations=(4, 3), group=4),
    Case((1, 5, 12, 13), (6, 5, 3, 2), pads=(2, 0, 3, 1), dilations=(2, 4)),
    Case((1, 3, 9, 9), (4, 3, 1, 1), strides=(2, 2), pads=(0, 1, 1, 0)),
    Case((1, 3, 5, 6, 7), (9, 3, 3, 2, 3), pads=(1, 0, 1, 1, 1, 1), strides=(1, 2, 1)),
    Case((1, 2, 4, 3, 4, 5), (3, 2, 2, 1, 3, 2), pads=(0, 0, 1, 0, 1, 0, 1, 1)),
    Case((1, 40, 3, 3), (70, 40, 3, 3), pads=(1, 1, 1, 1)),
    Case((1, 2, 3, 3), (3, 2, 9, 9), pads=(4, 4, 4, 4)),
    Case((0, 4, 6, 6), (8, 4, 3, 3), pads=(1, 1, 1, 1)),
    Case((1, 0, 4, 4), (3, 0, 3, 3), pads=(1, 1, 1, 1)),
]


def tensors(
    case: Case,
    kinds: tuple[type[np.integer[Any]], type[np.integer[Any]]],
    *,
    zeros: bool = True,
    channels: bool = True,
    bias: bool = True,
    fill: str = "any",
) -> dict[str, np.ndarray]:
    """Returns the inputs of a node, but those that it lacks.

    Args:
        case: Shapes.
        kinds: Types of X and W.
        zeros: Whether it has zero points.
        channels: Whether each output channel has a scale, and a zero point, of its own.
        bias: Whether it has a bias.
        fill: "any" integers, or the "least" or "greatest" in X and W.
    """
    random = np.random.default_rng(list(case.x))

    def draw(shape: tuple[int, ...], kind: type[np.integer[Any]], how: str = "any") -> np.ndarray:
        limits = np.iinfo(kind)
        if how != "any":
            return np.full(shape, limits.min if how == "least" else limits.max, kind)
        return random.integers(limits.min, limits.max, shape, kind, endpoint=True)

    count = case.w[0]
    found = {
        "X": draw(case.x, kinds[0], fill),
        "W": draw(case.w, kinds[1], fill),
        "x_scale": np.float32(random.uniform(0.01, 0.1)).reshape(() if channels else (1,)),
        "w_scale": random.uniform(-0.1, 0.1, (count,) if channels else ()).astype(np.float32),
    }
    if zeros:
        found["x_zero_point"] = draw(() if channels else (1,), kinds[0])
        found["w_zero_point"] = draw((count,) if channels else (), kinds[1])
    if bias:
        found["B"] = (random.standard_normal(count) * 10).astype(np.float32)
    return {name: np.asarray(data) for name, data in found.items()}


model = functools.partial(integer_nodes.model, CONV_INTEGER_TO_FLOAT)
"""Returns a model of one node: see there."""


def sums(case: Case, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Returns the sums of a convolution of integers, from which zero points are taken off, in int64."""
    axes = len(case.x) - 2
    strides, pads, dilations = (case.attributes[name] for name in ("strides", "pads", "dilations"))
    padded = np.pad(x, [(0, 0), (0, 0), *((pads[i], pads[i + axes]) for i in range(axes))])
    sizes = [
        (padded.shape[i + 2] - (w.shape[i + 2] - 1) * dilations[i] - 1) // strides[i] + 1 for i in range(axes)
    ]  # fmt: skip
    result = np.zeros((x.shape[0], w.shape[0], *sizes), np.int64)
    inputs, outputs = w.shape[1], w.shape[0] // case.group
    for tap in itertools.product(*map(range, w.shape[2:])):
        starts = [k * d for k, d in zip(tap, dilations, strict=True)]
        steps = [
            slice(first, first + (size - 1) * s + 1, s) for first, size, s in zip(starts, sizes, strides, strict=True)
        ]
        window = padded[(slice(None), slice(None), *steps)]
        for group in range(case.group):
            mine = slice(group * outputs, (group + 1) * outputs)
            part = window[:, group * inputs : (group + 1) * inputs]
            result[:, mine] += np.einsum("nc...,mc->nm...", part, w[(mine, slice(None), *tap)])
    return result


def assert_convolved(case: Case, given: Mapping[str, np.ndarray], y: np.ndarray, *, floats: bool = False) -> None:
    """Asserts that a result is the convolution by the definition.

    Args:
        case: Shapes and attributes.
        given: The inputs of the node.
        y: The result.
        floats: Whether it was computed in floats, as the function body does.
    """
    ones = [1] * (len(case.x) - 2)
    wide = [
        given[name].astype(np.int64) - (given[zero].astype(np.int64).reshape(-1, *ones, 1) if zero in given else 0)
        for name, zero in (("X", "x_zero_point"), ("W", "w_zero_point"))
    ]
    exact_sums = sums(case, *wide)
    scale = (given["x_scale"].reshape(-1).astype(np.float64) * given["w_scale"].reshape(-1)).reshape(-1, *ones)
    bias = given["B"].astype(np.float64).reshape(-1, *ones) if "B" in given else 0.0
    exact = exact_sums * scale + bias
    # Roundings of the sum, the scales, their product and the whole; in floats of each term and the sums so far.
    magnitude = 3 * np.abs(exact_sums * scale) + np.abs(exact)
    if floats:
        terms = 4 + int(np.prod(case.w[1:]))
        magnitude += terms * np.abs(scale) * sums(case, *map(np.abs, wide)) + np.abs(bias)
    assert y.dtype == np.float32
    assert y.shape == exact.shape
    np.testing.assert_array_less(np.abs(y - exact), magnitude * np.finfo(np.float32).eps / 2 + 1e-30)
