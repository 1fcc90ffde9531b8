"""Builds models of one QLinearConvolution, and checks their results."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from ortconv.opset.ops.qlinear_convolution import QLINEAR_CONVOLUTION
from tests.operators import integer_convs, integer_nodes

__all__ = ["CASES", "NAMES", "Case", "assert_equal", "model", "tensors"]

NAMES = tuple(each.name for each in QLINEAR_CONVOLUTION.inputs)

Kinds = tuple[type[np.integer[Any]], type[np.integer[Any]], type[np.integer[Any]]]


@dataclasses.dataclass(frozen=True)
class Case(integer_convs.Case):
    """One node: shapes and attributes."""

    activation: tuple[float, float, float] = (1.0, -np.inf, np.inf)
    hard_sigmoid: tuple[float, float] | None = None

    @property
    def attributes(self) -> dict[str, Any]:
        """Of the node; what is not stated is 1, or 0 for pads."""
        return {**super().attributes, "activation": self.activation, "hard_sigmoid": self.hard_sigmoid}

    @property
    def y(self) -> tuple[int, ...]:
        """The shape of the result."""
        a, axes = self.attributes, len(self.x) - 2
        sizes = [
            (self.x[i + 2] + a["pads"][i] + a["pads"][i + axes] - (self.w[i + 2] - 1) * a["dilations"][i] - 1)
            // a["strides"][i]
            + 1
            for i in range(axes)
        ]
        return (self.x[0], self.w[0], *sizes)


_ACTIVATIONS = [(1.0, -np.inf, np.inf), (0.0, -np.inf, np.inf), (0.25, -np.inf, np.inf), (1.0, 0.0, 6.0)]
_HARD_SIGMOIDS = [None, (1 / 6, 0.5), (-0.25, 1.5)]

CASES = [
    Case(
        each.x,
        each.w,
        each.strides,
        each.pads,
        each.dilations,
        each.group,
        _ACTIVATIONS[index % 4],
        _HARD_SIGMOIDS[index % 3],
    )
    for index, each in enumerate(integer_convs.CASES)
]


def tensors(case: Case, kinds: Kinds, *, biases: bool = True, channels: bool = True) -> dict[str, np.ndarray]:
    """Returns the inputs of a node.

    Args:
        case: Shapes.
        kinds: Types of X, W and Y.
        biases: Whether each element has a bias of its own.
        channels: Whether each output channel has a scale of its own.
    """
    random = np.random.default_rng([*case.x, *case.w])

    def draw(shape: tuple[int, ...], kind: type[np.integer[Any]]) -> np.ndarray:
        limits = np.iinfo(kind)
        return random.integers(limits.min, limits.max, shape, kind, endpoint=True)

    count, spread = case.w[0], max(int(np.prod(case.w[1:])), 1) ** 0.5
    found = {
        "X": draw(case.x, kinds[0]),
        "x_scale": np.float32(random.uniform(0.01, 0.1)),
        "x_zero_point": draw((), kinds[0]),
        "W": draw(case.w, kinds[1]),
        "w_scale": random.uniform(0.001, 0.01, (count,) if channels else (1,)).astype(np.float32),
        "w_zero_point": draw((1,), kinds[1]) if channels else np.zeros((), kinds[1]),
        "y_scale": np.float32(random.uniform(0.01, 0.05) * spread),
        "y_zero_point": draw((1,), kinds[2]),
        "B": (random.standard_normal(case.y[1:] if biases else (count, *[1] * (len(case.x) - 2))) * spread),
        "factor": random.uniform(-2, 2, count),
        "addend": random.standard_normal(count) * spread,
    }
    found |= {name: found[name].astype(np.float32) for name in ("B", "factor", "addend")}
    return {name: np.asarray(found[name]) for name in NAMES}


model = functools.partial(integer_nodes.model, QLINEAR_CONVOLUTION)
"""Returns a model of one node: see there."""


def assert_equal(case: Case, given: Mapping[str, np.ndarray], y: np.ndarray, *, rounded_sums: bool = False) -> None:
    """Asserts that a result is that of the definition, bit for bit.

    Args:
        case: Shapes and attributes.
        given: The inputs of the node.
        y: The result.
        rounded_sums: Whether sums may be rounded, as function bodies do where they exceed 2^24.
    """
    ones = [1] * (len(case.x) - 2)
    x, w = (
        given[name].astype(np.int64) - int(given[zero].reshape(()))
        for name, zero in (("X", "x_zero_point"), ("W", "w_zero_point"))
    )
    sums = integer_convs.sums(case, x, w).astype(np.float32)
    scale = given["x_scale"].reshape(()) * given["w_scale"].reshape(-1)
    values = sums * scale.reshape(-1, *ones) + given["B"]
    slope, least, most = np.array(case.activation, np.float32)
    values = np.clip(np.where(values < 0, values * slope, values), least, most)
    if case.hard_sigmoid is not None:
        alpha, beta = np.array(case.hard_sigmoid, np.float32)
        values = values * np.clip(values * alpha + beta, np.float32(0), np.float32(1))
    values = values * given["factor"].reshape(-1, *ones) + given["addend"].reshape(-1, *ones)
    limits = np.iinfo(given["y_zero_point"].dtype)
    levels = np.rint(values / given["y_scale"].reshape(())) + int(given["y_zero_point"].reshape(()))
    want = np.clip(levels, limits.min, limits.max).astype(limits.dtype)
    assert y.dtype == want.dtype
    assert y.shape == want.shape == case.y
    if rounded_sums:
        assert np.abs(y.astype(int) - want).max(initial=0) <= 1
    else:
        np.testing.assert_array_equal(y, want)
