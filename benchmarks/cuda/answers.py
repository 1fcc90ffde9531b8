"""What is right on the GPU."""

from __future__ import annotations

import numpy as np

from benchmarks import answers
from benchmarks.shapes import Shape

__all__ = ["expect"]

_TF32_UNIT = 2.0**-11
"""Relative error of rounding a factor to TF32."""


def expect(shape: Shape, dtype: str) -> answers.Answer:
    """Computes the answer to the data of a shape in float64, as `benchmarks.answers.expect` does.

    Where float32 may be multiplied in TF32, each factor of a product is rounded to it, too.
    """
    if dtype != "tf32":
        return answers.expect(shape, dtype, *answers.data(shape, dtype))
    x, w = answers.data(shape, "f32")
    exact = answers.expect(shape, "f32", x, w)
    magnitude = answers.expect(shape, "f32", np.abs(x), np.abs(w)).expected
    return answers.Answer(exact.expected, exact.bound + (2 + _TF32_UNIT) * _TF32_UNIT * magnitude, exact.dtype)
