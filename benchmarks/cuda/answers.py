"""The data on the GPU, and what is right there. References are computed by torch, on the GPU: they are large."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import answers
from benchmarks.answers import NUMPY, Errors
from benchmarks.shapes import Shape

__all__ = ["Answer", "data", "expect", "stored"]

Array = npt.NDArray[Any]

_TF32_UNIT = 2.0**-10
"""Relative error of a factor that is cut off to TF32, as the tensor cores do with what was not rounded to it."""

_DRAWN = 1_000_003
"""How many numbers are drawn; larger arrays repeat them. A prime, so that no two images or channels are alike."""


def stored(dtype: str) -> str:
    """Returns the type in which tensors of a type lie in memory."""
    return "f32" if dtype == "tf32" else dtype


def data(shape: Shape, dtype: str) -> tuple[Array, Array]:
    """Returns input and weights: normal numbers, the same in every process."""
    random = np.random.default_rng(0)

    def draw(dims: tuple[int, ...], scale: float) -> Array:
        drawn = random.standard_normal(min(math.prod(dims), _DRAWN), np.float32) / np.float32(scale)
        return np.resize(drawn.astype(NUMPY[stored(dtype)]), dims)

    return draw(shape.x_shape, 1.0), draw(shape.w_shape, math.sqrt(shape.terms))


@dataclasses.dataclass(frozen=True)
class Answer:
    """What is right, and how far an element may be off, as `benchmarks.answers.Answer`.

    Attributes:
        expected: The result, a tensor of float64.
        bound: The largest error allowed of each element, likewise.
        dtype: The type of the result.
    """

    expected: Any
    bound: Any
    dtype: np.dtype[Any]

    def errors(self, actual: Array) -> Errors:
        """Returns how far a result is off."""
        if actual.shape != tuple(self.expected.shape) or actual.dtype != self.dtype:
            return Errors(math.inf, math.inf, math.inf)
        error = (_tensor(actual, self.expected.device) - self.expected).abs()
        excess = (error / self.bound).where(error != 0, 0.0)
        return Errors(float(excess.max()), float(error.max()), math.sqrt(float((error * error).mean())))


def expect(shape: Shape, dtype: str, device: str = "cuda") -> Answer:
    """Computes the answer to the data of a shape in float64, as `benchmarks.answers.expect` does.

    Where float32 may be multiplied in TF32, each factor of a product is brought to it, too.
    """
    import torch

    x, w = (_tensor(array, device) for array in data(shape, dtype))

    def zeros(dims: tuple[int, ...]) -> Any:
        return torch.zeros(dims, dtype=torch.float64, device=device)

    expected, bound = answers.reference(shape, stored(dtype), x, w, zeros)
    if dtype == "tf32":
        share = (shape.terms + 1) * float(np.finfo(np.float32).eps) / 2  # of Σ|x·w|, that the bound is
        bound = bound * (1 + (2 + _TF32_UNIT) * _TF32_UNIT / share)
    return Answer(expected, bound, NUMPY[stored(dtype)])


def _tensor(array: Array, device: Any) -> Any:
    """Returns an array in float64 on a device. The bits of bfloat16 travel as those of another type of that size."""
    import torch

    contiguous = np.ascontiguousarray(array)
    if array.dtype == NUMPY["bf16"]:
        return torch.from_numpy(contiguous.view(np.int16)).to(device).view(torch.bfloat16).double()
    return torch.from_numpy(contiguous).to(device).double()
