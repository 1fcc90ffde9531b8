"""oneDNN's ops that move, generate or convert elements, and Dropout."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ortconv.onednn.call import Array, Call
from ortconv.onednn.op_schema import define
from ortconv.onednn.shape_rules import Attributes, Shape, like

_LOW = (1 << 32) - 1

define("Reorder", "src", "dst")(lambda call: call.input(0))
define("TypeCast", "src", "dst", dtype=None)(lambda call: call.input(0))
define("End", "src", "")(lambda call: ())
define("Wildcard", "src?*", "dst?*", shapes=lambda inputs, attributes: None)


def _reshape_shape(inputs: Sequence[Shape], attributes: Attributes) -> Shape:
    src, wanted = inputs[0], attributes.get("shape", ())
    shape: list[int | None] = list(wanted)
    if attributes.get("special_zero") and 0 in wanted:
        if src is None or any(size == 0 and axis >= len(src) for axis, size in enumerate(wanted)):
            return None
        shape = [src[axis] if size == 0 else size for axis, size in enumerate(wanted)]
    if -1 not in shape:
        return tuple(shape)
    rest = math.prod(size for size in shape if size is not None and size != -1)
    if src is None or None in src or None in shape or shape.count(-1) > 1 or rest == 0:
        return None
    total = math.prod(size for size in src if size is not None)
    return tuple(total // rest if size == -1 else size for size in shape) if total % rest == 0 else None


@define("StaticReshape", "src", "dst", "shape:s64[] special_zero:bool", shapes=_reshape_shape)
def _reshape(call: Call) -> Array:
    src = call.input(0)
    shape = [int(size) for size in call.node.attributes["shape"]]  # type: ignore[attr-defined]
    if call.flag("special_zero", False):
        shape = [src.shape[axis] if size == 0 else size for axis, size in enumerate(shape)]
    return src.reshape(shape)


def _transpose_shape(inputs: Sequence[Shape], attributes: Attributes) -> Shape:
    src, order = inputs[0], attributes.get("order", ())
    if src is None:
        return None
    order = order or tuple(reversed(range(len(src))))
    if sorted(axis % max(len(src), 1) for axis in order) != list(range(len(src))):
        return None
    return tuple(src[axis] for axis in order)


@define("StaticTranspose", "src", "dst", "order:s64[]", shapes=_transpose_shape)
def _transpose(call: Call) -> Array:
    src = call.input(0)
    return np.transpose(src, [axis % src.ndim for axis in call.ints("order")] or None)


def _concat_shape(inputs: Sequence[Shape], attributes: Attributes) -> Shape:
    first, axis = inputs[0], attributes.get("axis", 0)
    if first is None or not -len(first) <= axis < len(first):
        return None
    along, total = axis % len(first), 0
    for shape in inputs:
        if shape is None or len(shape) != len(first) or shape[along] is None:
            return None
        total += shape[along] or 0
    return (*first[:along], total, *first[along + 1 :])


@define("Concat", "src_i*", "dst", "axis", shapes=_concat_shape)
def _concat(call: Call) -> Array:
    return np.concatenate([call.input(index) for index in range(len(call.inputs))], axis=int(call.number("axis")))


@define("GenIndex", "src", "dst", "axis", dtype="s32")
def _gen_index(call: Call) -> Array:
    return np.asarray(np.indices(call.input(0).shape, np.int32)[int(call.number("axis"))])


@define("Dropout", "src seed offset probability", "dst mask?", shapes=like(0, 0), other_dtype="u8")
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
