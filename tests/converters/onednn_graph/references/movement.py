"""Ops that move, generate or convert elements."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.converters.onednn_graph.references.call import Call

_MASK = (1 << 32) - 1


def _reshape(call: Call) -> np.ndarray:
    x = call.inputs[0]
    shape = list(call.attributes["shape"])
    if call.attributes["special_zero"]:
        shape = [x.shape[axis] if size == 0 else size for axis, size in enumerate(shape)]
    return x.reshape(shape)


def _transpose(call: Call) -> np.ndarray:
    return np.transpose(call.inputs[0], call.attributes["order"] or None)


def _gen_index(call: Call) -> np.ndarray:
    return np.indices(call.inputs[0].shape)[call.attributes["axis"]]


def philox(counter: list[int], key: list[int]) -> list[int]:
    """Philox4x32-10, one block, in Python's integers."""
    c, k = list(counter), list(key)
    for _ in range(10):
        first, second = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [(second >> 32) ^ c[1] ^ k[0], second & _MASK, (first >> 32) ^ c[3] ^ k[1], first & _MASK]
        k = [(k[0] + 0x9E3779B9) & _MASK, (k[1] + 0xBB67AE85) & _MASK]
    return c


def word(index: int, seed: int, offset: int) -> int:
    """The random word of an element."""
    group = index & ~3
    if offset == 0:
        return philox([group, group + 1, group, group + 3], [seed & _MASK] * 2)[2]
    counter = [offset & _MASK, offset >> 32 & _MASK, group & _MASK, group >> 32]
    return philox(counter, [seed & _MASK, seed >> 32 & _MASK])[index & 3]


def _dropout(call: Call) -> tuple[np.ndarray, np.ndarray]:
    x = call.x()
    seed, offset = (int(call.inputs[i].item()) for i in (1, 2))
    p = float(call.inputs[3].item())
    words = _words(x.size, seed, offset) if x.size > 1000 else [word(i, seed, offset) for i in range(x.size)]
    keep = (np.array(words, np.float64) > _MASK * min(max(p, 0.0), 1.0)).reshape(x.shape)
    return np.where(keep, x / (1 - p) if p != 1 else 0, 0), keep


def _words(size: int, seed: int, offset: int) -> np.ndarray:
    """The same as `word`, for many elements at once."""
    half, low = np.uint64(32), np.uint64(_MASK)
    index = np.arange(size, dtype=np.uint64)
    group = index - index % np.uint64(4)
    fixed = np.full(size, offset & _MASK, np.uint64), np.full(size, offset >> 32 & _MASK, np.uint64)
    c = [*fixed, group & low, group >> half] if offset else [group, group + np.uint64(1), group, group + np.uint64(3)]
    k = [seed & _MASK, seed >> 32 & _MASK] if offset else [seed & _MASK] * 2
    for _ in range(10):
        first, second = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [
            (second >> half) ^ c[1] ^ np.uint64(k[0]),
            second & low,
            (first >> half) ^ c[3] ^ np.uint64(k[1]),
            first & low,
        ]
        k = [(k[0] + 0x9E3779B9) & _MASK, (k[1] + 0xBB67AE85) & _MASK]
    return np.choose((index % np.uint64(4)).astype(int), c) if offset else c[2]


OPS: dict[str, Callable[[Call], np.ndarray | tuple[np.ndarray, ...]]] = {
    "Concat": lambda call: np.concatenate(call.inputs, axis=call.attributes["axis"]),
    "Dropout": _dropout,
    "GenIndex": _gen_index,
    "Reorder": lambda call: call.inputs[0],
    "StaticReshape": _reshape,
    "StaticTranspose": _transpose,
    "TypeCast": lambda call: call.inputs[0],
}
