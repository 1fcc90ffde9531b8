"""Models of one transposed convolution of 8-bit integers, and what they must give."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from ortconv.opset.operator import Operator
from ortconv.opset.ops import quantized_transposed_convolutions
from tests.operators.integer_nodes import model

__all__ = ["CASES", "KINDS", "OPS", "Case", "assert_equal", "model", "tensors"]

OPS: tuple[Operator, ...] = (
    quantized_transposed_convolutions.TRANSPOSED_CONVOLUTION_INTEGER_TO_FLOAT,
    quantized_transposed_convolutions.QLINEAR_TRANSPOSED_CONVOLUTION,
    quantized_transposed_convolutions.QLINEAR_TRANSPOSED_CONVOLUTION_ADD,
)

Kinds = tuple[type[np.integer[Any]], type[np.integer[Any]], type[np.integer[Any]]]

KINDS: list[Kinds] = list(itertools.product((np.uint8, np.int8), repeat=3))
"""Types of X, W and Y."""


@dataclasses.dataclass(frozen=True)
class Case:
    """One node: shapes and attributes."""

    x: tuple[int, ...]
    w: tuple[int, ...]
    strides: tuple[int, ...] = ()
    pads: tuple[int, ...] = ()
    output_padding: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    group: int = 1
    activation: tuple[float, float, float] = (1.0, -np.inf, np.inf)

    @property
    def attributes(self) -> dict[str, Any]:
        """Of the node; what is not stated is 1, or 0 for paddings."""
        axes = len(self.x) - 2
        return {
            "strides": self.strides or (1,) * axes,
            "pads": self.pads or (0,) * 2 * axes,
            "output_padding": self.output_padding or (0,) * axes,
            "dilations": self.dilations or (1,) * axes,
            "group": self.group,
            "activation": self.activation,
        }

    @property
    def y(self) -> tuple[int, ...]:
        """The shape of the result."""
        a, axes = self.attributes, len(self.x) - 2
        sizes = [
            max((self.x[i + 2] - 1) * a["strides"][i] + (self.w[i + 2] - 1) * a["dilations"][i] + 1, 0)
            - a["pads"][i] - a["pads"][i + axes] + a["output_padding"][i]
            for i in range(axes)
        ]  # fmt: skip
        return (self.x[0], self.w[1] * self.group, *sizes)

    def __str__(self) -> str:
        parts = [f"{each.name}{getattr(self, each.name)}" for each in dataclasses.fields(self)[2:]
                 if getattr(self, each.name) != each.default]  # fmt: skip
        return "-".join(["x".join(map(str, each)) for each in (self.x, self.w)] + parts)


CASES = [
    Case((1, 1, 1), (1, 1, 1)),
    Case((2, 3, 40), (3, 5, 7), strides=(3,), pads=(2, 5)),
    Case((1, 32, 9, 11), (32, 24, 4, 4), strides=(2, 2), pads=(1, 1, 1, 1), activation=(0.25, -np.inf, np.inf)),
    Case((1, 16, 8, 8), (16, 32, 2, 2), strides=(2, 2), activation=(1.0, 0.0, 6.0)),
    Case((1, 9, 7, 6), (9, 10, 3, 3), strides=(2, 2), pads=(1, 1, 1, 1), output_padding=(1, 1)),
    Case((1, 8, 5, 7), (8, 3, 3, 2), strides=(1, 3), pads=(0, 1, 1, 0), group=4),
    Case((2, 6, 13, 8), (6, 1, 4, 4), strides=(2, 2), pads=(1, 1, 1, 1), group=6),
    Case((1, 4, 6, 9), (4, 2, 5, 3), strides=(2, 1), dilations=(2, 3), group=4),
    Case((1, 5, 7, 6), (5, 6, 3, 2), strides=(1, 2), dilations=(2, 4), pads=(2, 0, 3, 1)),
    Case((1, 3, 4, 5, 3), (3, 9, 3, 2, 3), strides=(2, 1, 2), pads=(1, 0, 1, 1, 1, 1)),
    Case((1, 2, 3, 2, 3, 4), (2, 3, 2, 1, 3, 2), strides=(1, 2, 1, 2)),
    Case((1, 64, 3, 3), (64, 70, 16, 16), strides=(8, 8), pads=(4, 4, 4, 4)),
    Case((1, 4, 5), (4, 3, 2), strides=(9,), output_padding=(11,)),
    Case((1, 4, 9, 9), (4, 5, 3, 3), pads=(9, 0, 0, 2)),
    Case((1, 700, 3), (700, 2, 3)),
    Case((0, 4, 6, 6), (4, 8, 3, 3)),
    Case((1, 4, 3, 3), (4, 0, 3, 3)),
]


def tensors(op: Operator, case: Case, kinds: Kinds, *, channels: bool = True) -> dict[str, np.ndarray]:
    """Returns the inputs of a node.

    Args:
        op: The operator.
        case: Shapes.
        kinds: Types of X, W and Y.
        channels: Whether each output channel has a scale of its own.
    """
    random = np.random.default_rng([*case.x, *case.w])

    def draw(shape: tuple[int, ...], kind: type[np.integer[Any]]) -> np.ndarray:
        limits = np.iinfo(kind)
        return random.integers(limits.min, limits.max, shape, kind, endpoint=True)

    count, spread = case.w[1] * case.group, max(case.w[0] // case.group * int(np.prod(case.w[2:])), 1) ** 0.5
    found = {
        "X": draw(case.x, kinds[0]),
        "x_scale": np.float32(random.uniform(0.01, 0.1)),
        "x_zero_point": draw((), kinds[0]),
        "W": draw(case.w, kinds[1]),
        "w_scale": random.uniform(0.001, 0.01, (count,) if channels else (1,)).astype(np.float32),
        "w_zero_point": draw((1,), kinds[1]) if channels else np.zeros((), kinds[1]),
        "y_scale": np.float32(random.uniform(0.01, 0.05) * spread),
        "y_zero_point": draw((1,), kinds[2]),
        "B": (random.standard_normal(count) * spread).astype(np.float32),
        "R": draw(case.y, kinds[2]),
        "r_scale": np.float32(random.uniform(0.01, 0.02) * spread),
        "r_zero_point": draw((), kinds[2]),
    }
    return {each.name: np.asarray(found[each.name]) for each in op.inputs}


def _expected(op: Operator, case: Case, given: Mapping[str, np.ndarray]) -> np.ndarray:
    """Returns what the definition gives, operation by operation."""
    a, axes, f32 = case.attributes, len(case.x) - 2, np.float32
    x = given["X"].astype(np.int64) - given["x_zero_point"].astype(np.int64).reshape(())
    w = given["W"].astype(np.int64) - given["w_zero_point"].astype(np.int64).reshape(())
    inputs, outputs = w.shape[0] // case.group, w.shape[1]
    full = [(x.shape[i + 2] - 1) * a["strides"][i] + (w.shape[i + 2] - 1) * a["dilations"][i] + 1 for i in range(axes)]
    wide = [max(size, a["pads"][i] + case.y[i + 2]) for i, size in enumerate(full)]
    sums = np.zeros((x.shape[0], outputs * case.group, *wide), np.int64)
    for tap in itertools.product(*map(range, w.shape[2:])):
        place = [
            slice(k * d, k * d + (size - 1) * s + 1, s)
            for k, d, s, size in zip(tap, a["dilations"], a["strides"], x.shape[2:], strict=True)
        ]
        for group in range(case.group):
            mine = slice(group * inputs, (group + 1) * inputs)
            part = np.einsum("nc...,cm->nm...", x[:, mine], w[(mine, slice(None), *tap)])
            sums[(slice(None), slice(group * outputs, (group + 1) * outputs), *place)] += part
    crop = [slice(a["pads"][i], a["pads"][i] + case.y[i + 2]) for i in range(axes)]
    ones = [1] * axes
    scale = (given["x_scale"].reshape(()) * given["w_scale"].reshape(-1)).astype(f32).reshape(-1, *ones)
    v = sums[(slice(None), slice(None), *crop)].astype(np.int32).astype(f32) * scale + given["B"].reshape(-1, *ones)
    if "R" in given:
        v = v + (given["R"].astype(np.int32) - given["r_zero_point"].astype(np.int32)).astype(f32) * given["r_scale"]
    slope, least, most = (f32(each) for each in case.activation)
    v = np.clip(np.where(v < 0, v * slope, v), least, most).astype(f32)
    if "y_scale" not in given:
        return v
    zero = given["y_zero_point"]
    limits = np.iinfo(zero.dtype)
    return np.clip(np.rint(v / given["y_scale"]) + zero.astype(f32), limits.min, limits.max).astype(zero.dtype)


def assert_equal(
    op: Operator, case: Case, given: Mapping[str, np.ndarray], y: np.ndarray, *, rounded_sums: bool = False
) -> None:
    """Asserts that a result is that of the definition, bit for bit.

    Args:
        op: The operator.
        case: Shapes and attributes.
        given: The inputs of the node.
        y: The result.
        rounded_sums: Whether sums may be rounded, as function bodies do where they exceed 2^24.
    """
    want = _expected(op, case, given)
    assert y.dtype == want.dtype
    assert y.shape == want.shape == case.y
    if not rounded_sums:
        np.testing.assert_array_equal(y, want)
    elif op.output.type == "F":
        np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-4 * max(float(np.abs(want).max(initial=0)), 1e-30))
    else:
        assert np.abs(y.astype(int) - want).max(initial=0) <= 1
