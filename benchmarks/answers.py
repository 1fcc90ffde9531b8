"""The data of a case, and whether an answer to it is right."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from benchmarks.shapes import Shape

__all__ = ["NUMPY", "Answer", "Errors", "data", "expect", "reference"]

Array = npt.NDArray[Any]
Index = tuple[Any, ...]

NUMPY: dict[str, np.dtype[Any]] = {
    "f32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f64": np.dtype(np.float64),
}
"""Element types by name."""


def data(shape: Shape, dtype: str) -> tuple[Array, Array]:
    """Returns input and weights: normal numbers, the same in every process."""
    random = np.random.default_rng(0)
    x = random.standard_normal(shape.x_shape, np.float32)
    w = random.standard_normal(shape.w_shape, np.float32) / np.float32(math.sqrt(shape.terms))
    return x.astype(NUMPY[dtype]), w.astype(NUMPY[dtype])


@dataclasses.dataclass(frozen=True)
class Errors:
    """How far a result is off.

    Attributes:
        excess: The largest error in units of its bound: up to 1 is right, anything else (NaN, inf) is wrong.
        largest: The largest error.
        rms: The root mean square of the errors.
    """

    excess: float
    largest: float
    rms: float


@dataclasses.dataclass(frozen=True)
class Answer:
    """What is right, and how far an element may be off.

    Attributes:
        expected: The result, in float64.
        bound: The largest error allowed of each element.
        dtype: The type of the result.
    """

    expected: Array
    bound: Array
    dtype: np.dtype[Any]

    def errors(self, actual: Array) -> Errors:
        """Returns how far a result is off."""
        if actual.shape != self.expected.shape or actual.dtype != self.dtype:
            return Errors(math.inf, math.inf, math.inf)
        error = np.abs(actual.astype(np.float64) - self.expected)
        excess = float(np.max(np.where(error == 0, 0.0, error / self.bound), initial=0.0))
        return Errors(
            excess, float(np.max(error, initial=0.0)), math.sqrt(np.mean(error * error)) if error.size else 0.0
        )


def expect(shape: Shape, dtype: str, x: Array, w: Array) -> Answer:
    """Computes the answer in float64, from the definition."""
    expected, bound = reference(shape, dtype, x.astype(np.float64), w.astype(np.float64), np.zeros)
    return Answer(expected, bound, NUMPY[dtype])


def reference(shape: Shape, dtype: str, x: Any, w: Any, zeros: Callable[..., Any]) -> tuple[Any, Any]:
    """Returns the result, from the definition, and how far a result of this type may be off.

    The bound is that of a sum of n products in any order, n·u·Σ|x·w| with the unit roundoff u of the type in which
    products are summed (float for the narrow types), and one rounding to the result's type.

    Args:
        shape: The shape.
        dtype: The type.
        x: Its input in float64, an array of numpy or of torch.
        w: Its weights, likewise.
        zeros: Makes such an array of zeros.
    """
    expected = _transposed(shape, x, w, zeros)
    sums = np.finfo(np.float64 if dtype == "f64" else np.float32).eps / 2
    bound = (shape.terms + 1) * float(sums) * _transposed(shape, abs(x), abs(w), zeros)
    if dtype in ("f16", "bf16"):
        info = ml_dtypes.finfo(NUMPY[dtype])  # type: ignore[no-untyped-call]
        bound += float(info.eps) / 2 * (abs(expected) + bound) + float(info.smallest_subnormal)
    return expected, bound + float(np.finfo(np.float32).tiny)


def _transposed(shape: Shape, x: Any, w: Any, zeros: Callable[..., Any]) -> Any:
    """Scatters, tap by tap, a product of matrices into the output with its padding, which is then cut off."""
    groups, outputs = shape.group, shape.outputs // shape.group
    columns = x.reshape(shape.batch, groups, shape.inputs // groups, -1)
    weights = w.reshape(groups, shape.inputs // groups, outputs, *w.shape[2:])
    sizes = [
        stride * (size - 1) + (kernel - 1) * dilation + 1 + extra
        for size, kernel, stride, dilation, extra in zip(
            shape.size, shape.kernels, shape.strides, shape.dilations, shape.extras, strict=True
        )
    ]
    out = zeros((shape.batch, groups, outputs, *sizes))
    for tap in np.ndindex(shape.kernels):
        taken: Index = (..., *tap)
        product = weights[taken].swapaxes(1, 2) @ columns
        met: Index = (
            ...,
            *(
                slice(at * dilation, at * dilation + stride * (size - 1) + 1, stride)
                for at, size, stride, dilation in zip(tap, shape.size, shape.strides, shape.dilations, strict=True)
            ),
        )
        out[met] += product.reshape(shape.batch, groups, outputs, *shape.size)
    kept: Index = (..., *(slice(pad, size - pad) for pad, size in zip(shape.pads, sizes, strict=True)))
    return out[kept].reshape(shape.y_shape)
