"""What cases of operators are drawn from."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

__all__ = ["ELEMENTS", "FLOATS", "HOSTILE", "HUGE", "Draw", "constants_of"]

HUGE = [1 << bits for bits in (12, 16, 20, 24, 28, 31, 32, 40, 52, 60)]
HOSTILE = [
    *HUGE, 0, -1, 1, 2, 3, (1 << 31) - 1, (1 << 61) - 1, 1 << 61, 1 << 62, (1 << 63) - 1, -(1 << 31), -(1 << 61),
    -(1 << 63),
]  # fmt: skip
FLOATS = [np.float32, np.float32, np.float16, ml_dtypes.bfloat16]
ELEMENTS = [*FLOATS, np.float64, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]


@dataclasses.dataclass
class Draw:
    """Draws at random."""

    random: random.Random
    numbers: np.random.Generator

    def happens(self, probability: float) -> bool:
        return self.random.random() < probability

    def of(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def integers(self, shape: Sequence[int], dtype: Any) -> np.ndarray:
        low = 0 if np.dtype(dtype).kind == "u" else -3
        return self.numbers.integers(low, 4, tuple(shape)).astype(dtype)

    def size(self, huge: bool) -> int:
        """Returns a size of 1 or more."""
        if huge and self.happens(0.5):
            return max(int(self.of(*HUGE)) + self.random.randint(-2, 2), 1)
        return int(self.of(1, 1, 2, 3, 4))

    def split(self, total: int) -> tuple[int, int]:
        """Splits a padding."""
        total = max(total, 0)
        begin = self.of(0, total, total // 2, max(total - 2, 0), self.random.randint(0, total))
        return begin, total - begin


def constants_of(draw: Draw, names: Sequence[str]) -> frozenset[str]:
    """Returns which inputs are initializers: all of these, or some."""
    if draw.happens(0.5):
        return frozenset(names)
    return frozenset(name for name in names if draw.happens(0.4))
