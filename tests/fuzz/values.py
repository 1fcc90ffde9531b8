"""Numbers and words at the edge of what formats allow, or beyond."""

from __future__ import annotations

import random

__all__ = ["FLOATS", "INTEGERS", "SIZES", "WORDS", "integer", "listed", "size"]

SIZES = (
    *(0, 1, 2, 3, 4, 5, 7, 8, 16, 17, 64, 255, 1000, 65537),
    *(2**20, 2**30, 2**31 - 1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1),
)
INTEGERS = (*SIZES, -1, -2, -3, -4, -7, -(2**31), -(2**62), -(2**63))
FLOATS = ("0.5", "1.5", "-0.0", "1e-45", "1e38", "1e39", "-1e308", "nan", "inf", "-inf", "0.1", "-1")
WORDS = (
    *("", "?", "...", "1..2", "..", "true", "false", "numpy", "none", "NXC", "NCX", "OIX", "same_upper", "valid"),
    *("f32", "f16", "i64", "i4", "FP32", "linear", "nearest", "max", "avg", "\u00e9", "\U0001f600", "9" * 40, "0x10"),
    *(" 7 ", "1_0", "\u0663", "../x", "a\\b"),
)


def size(rng: random.Random) -> int:
    """Returns a size, mostly a small one: large ones are refused early."""
    return rng.randint(0, 9) if rng.random() < 0.75 else rng.choice(SIZES)


def integer(rng: random.Random) -> int:
    """Returns an integer, mostly a small one."""
    return rng.randint(-4, 9) if rng.random() < 0.7 else rng.choice(INTEGERS)


def listed(rng: random.Random) -> list[int]:
    """Returns a list of integers, mostly a short one."""
    return [integer(rng) for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 4, 5, 33)))]
