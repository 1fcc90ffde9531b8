"""oneDNN's ops that move, generate or convert elements, and Dropout."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ortconv.model_io.input_data import Array
from ortconv.verification.onednn.call import Call

__all__ = ["MOVEMENT"]

_LOW = (1 << 32) - 1


def _reshape(call: Call) -> Array:
    src = call.input(0)
    shape = [int(size) for size in call.node.attributes["shape"]]  # type: ignore[attr-defined]
    if call.flag("special_zero", False):
        shape = [src.shape[axis] if size == 0 else size for axis, size in enumerate(shape)]
    return src.reshape(shape)


def _transpose(call: Call) -> Array:
    src = call.input(0)
    return np.transpose(src, [axis % src.ndim for axis in call.ints("order")] or None)


def _concat(call: Call) -> Array:
    return np.concatenate([call.input(index) for index in range(len(call.inputs))], axis=int(call.number("axis")))


def _gen_index(call: Call) -> Array:
    return np.asarray(np.indices(call.input(0).shape, np.int32)[int(call.number("axis"))])


def _dropout(call: Call) -> tuple[Array, Array]:
    src, (seed, offset, p) = call.input(0), (call.input(index).item() for index in range(1, 4))
    words = _words(src.size, int(seed), int(offset)).reshape(src.shape)
    keep = words.astype(np.float64) > _LOW * min(max(p, 0.0), 1.0)
    return np.where(keep, src / (1.0 - p) if p != 1.0 else 0.0, 0.0), keep.astype(np.uint8)


def _words(count: int, seed: int, offset: int) -> Array:
    """Returns a word of Philox4x32-10 for each element.

    The library derives the counter from the offset and the element's index. With an offset of 0 it uses the index of
    a group of four elements, which all get the same word.
    """
    low, half = np.uint64(_LOW), np.uint64(32)
    index = np.arange(count, dtype=np.uint64)
    group = index & ~np.uint64(3)
    key = [seed & _LOW, seed >> 32 & _LOW]
    counter = [np.full_like(index, offset & _LOW), np.full_like(index, offset >> 32 & _LOW), group & low, group >> half]
    if offset == 0:
        key[1] = key[0]
        counter = [group & low, group + np.uint64(1) & low, group & low, group + np.uint64(3) & low]
    for step in range(10):
        first, second = counter[0] * np.uint64(0xD2511F53), counter[2] * np.uint64(0xCD9E8D57)
        keys = [np.uint64(k + step * more & _LOW) for k, more in zip(key, (0x9E3779B9, 0xBB67AE85), strict=True)]
        counter = [
            second >> half ^ counter[1] ^ keys[0],
            second & low,
            first >> half ^ counter[3] ^ keys[1],
            first & low,
        ]
    return counter[2] if offset == 0 else np.choose((index & np.uint64(3)).astype(np.intp), counter)


MOVEMENT: dict[str, Callable[[Call], Array | tuple[Array, ...]]] = {
    "Concat": _concat,
    "Dropout": _dropout,
    "GenIndex": _gen_index,
    "Reorder": lambda call: call.input(0),
    "StaticReshape": _reshape,
    "StaticTranspose": _transpose,
    "TypeCast": lambda call: call.input(0),
}
"""Op kind -> its evaluation."""
