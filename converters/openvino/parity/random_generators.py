"""Random number generators in integer ops: Philox 4x32-10 and Mersenne Twister MT19937.

Both generate 32-bit integers, here as int64, which are the same on every run for the same seeds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from ortconv.converters.openvino.lib.loops import iteration
from ortconv.graph.builder import Builder

__all__ = ["drawn_seed", "mersenne_twister", "philox", "seed_sequence", "seeded_state"]

_F64, _I64 = ir.DataType.DOUBLE, ir.DataType.INT64
_U32, _U64 = ir.DataType.UINT32, ir.DataType.UINT64

_WORD = 0xFFFFFFFF

_ROUNDS = 10
_FACTORS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)

_STATE = 624
_AHEAD = 397
_TWIST = 0x9908B0DF
_BEHIND = _STATE - _AHEAD

State = npt.NDArray[np.uint32]


def philox(b: Builder, key: int | ir.Value, counter: int, count: ir.Value) -> ir.Value:
    """Emits the first numbers of a Philox sequence.

    Args:
        b: The builder.
        key: The global seed, 64 bits; or an int64 scalar that is computed at run time, 0 to 2^32 - 1.
        counter: The op's seed, 64 bits.
        count: How many, an int64 vector of one entry.

    Returns:
        int64 [count].
    """
    groups = b.op("Div", b.op("Add", count, b.constant([3])), b.constant([4]))
    steps = b.op("Range", b.constant(0), b.op("Squeeze", groups, b.constant([0])), b.constant(1))
    rows = b.op("Unsqueeze", b.op("Cast", steps, to=int(_U64)), b.constant([0]))
    zeros = b.op("Mul", rows, b.constant(0, np.uint64))
    # The 32-bit halves of both counters: the group number and the op's seed.
    low = b.op("Concat", rows, b.op("Add", zeros, b.constant(counter & _WORD, np.uint64)), axis=0)
    high = b.op("Concat", zeros, b.op("Add", zeros, b.constant(counter >> 32, np.uint64)), axis=0)
    keys = _keys(b, key)
    factors = b.constant(np.array(_FACTORS, np.uint64)[:, None])
    word, other = b.constant(_WORD, np.uint64), b.constant([1, 0])
    with b.body() as body:
        number = iteration(body, "round")
        lows = body.input("low", _U64, [2, None])
        highs = body.input("high", _U64, [2, None])
        products = b.op("Gather", b.op("Mul", lows, factors), other, axis=0)
        upper = b.op("BitShift", products, b.constant(32, np.uint64), direction="RIGHT")
        mixed = b.op("BitwiseXor", b.op("BitwiseXor", upper, highs), b.op("Gather", keys, number, axis=0))
        graph = body.graph([b.constant(True), mixed, b.op("BitwiseAnd", products, word)])
    results = b.op("Loop", b.constant(_ROUNDS), b.constant(True), low, high, outputs=2, body=graph)
    pairs = b.op("Concat", *(b.op("Unsqueeze", half, b.constant([2])) for half in results), axis=2)
    flat = b.op("Reshape", b.op("Transpose", pairs, perm=[1, 0, 2]), b.constant([-1]))
    return b.typed(b.op("Slice", b.op("Cast", flat, to=int(_I64)), b.constant([0]), count), _I64, [None])


def _keys(b: Builder, key: int | ir.Value) -> ir.Value:
    """Returns the keys of all rounds, uint64 [rounds, 2, 1]."""
    first = [key & _WORD, key >> 32] if isinstance(key, int) else [0, 0]
    table = [
        [(start + step * number) & _WORD for start, step in zip(first, _KEY_STEPS, strict=True)]
        for number in range(_ROUNDS)
    ]
    keys = np.array(table, np.uint64)[:, :, None]
    if isinstance(key, int):
        return b.constant(keys)
    halves = b.op("Concat", b.op("Unsqueeze", key, b.constant([0])), b.constant([0]), axis=0)
    own = b.op("Unsqueeze", b.op("Cast", halves, to=int(_U64)), b.constant([1]))
    return b.op("BitwiseAnd", b.op("Add", b.constant(keys), own), b.constant(_WORD, np.uint64))


def drawn_seed(b: Builder) -> ir.Value:
    """Emits a 31-bit seed that differs on each run, an int64 scalar."""
    number = b.op("RandomUniform", dtype=int(_F64), low=0.0, high=float(2**31), shape=[1])
    return b.op("Squeeze", b.op("Cast", b.op("Floor", b.typed(number, _F64, [1])), to=int(_I64)), b.constant([0]))


def mersenne_twister(b: Builder, state: State, count: ir.Value) -> ir.Value:
    """Emits the first numbers of a Mersenne Twister.

    Args:
        b: The builder.
        state: The state that it starts from; see `seeded_state` and `seed_sequence`.
        count: How many, an int64 vector of one entry.

    Returns:
        int64 [count].
    """
    blocks = b.op("Div", b.op("Add", count, b.constant([_STATE - 1])), b.constant([_STATE]))
    with b.body() as body:
        iteration(body, "block")
        before = body.input("state", _U32, [_STATE])
        after = _next_state(b, before)
        graph = body.graph([b.constant(True), after, after])
    trips = b.op("Squeeze", blocks, b.constant([0]))
    _, states = b.op("Loop", trips, b.constant(True), b.constant(state), outputs=2, body=graph)
    y = b.op("Reshape", b.typed(states, _U32, [None, _STATE]), b.constant([-1]))
    y = b.op("BitwiseXor", y, _shifted(b, y, 11, "RIGHT"))
    y = b.op("BitwiseXor", y, _masked(b, _shifted(b, y, 7, "LEFT"), 0x9D2C5680))
    y = b.op("BitwiseXor", y, _masked(b, _shifted(b, y, 15, "LEFT"), 0xEFC60000))
    y = b.op("BitwiseXor", y, _shifted(b, y, 18, "RIGHT"))
    return b.typed(b.op("Slice", b.op("Cast", y, to=int(_I64)), b.constant([0]), count), _I64, [None])


def _next_state(b: Builder, state: ir.Value) -> ir.Value:
    """Emits the next state, in parts, as a word depends on the new word 227 positions before."""
    twisted = _twisted(b, _part(b, state, 0, _STATE - 1), _part(b, state, 1, _STATE))
    first = b.op("BitwiseXor", _part(b, state, _AHEAD, _STATE), _part(b, twisted, 0, _BEHIND))
    second = b.op("BitwiseXor", first, _part(b, twisted, _BEHIND, 2 * _BEHIND))
    rest = _STATE - 1 - 2 * _BEHIND
    third = b.op("BitwiseXor", _part(b, second, 0, rest), _part(b, twisted, 2 * _BEHIND, _STATE - 1))
    end = _twisted(b, _part(b, state, _STATE - 1, _STATE), _part(b, first, 0, 1))
    last = b.op("BitwiseXor", _part(b, second, rest, rest + 1), end)
    return b.typed(b.op("Concat", first, second, third, last, axis=0), _U32, [_STATE])


def _twisted(b: Builder, words: ir.Value, following: ir.Value) -> ir.Value:
    joined = b.op("BitwiseOr", _masked(b, words, 0x80000000), _masked(b, following, 0x7FFFFFFF))
    odd = b.op("Mul", _masked(b, following, 1), b.constant(_TWIST, np.uint32))
    return b.op("BitwiseXor", _shifted(b, joined, 1, "RIGHT"), odd)


def _part(b: Builder, words: ir.Value, start: int, stop: int) -> ir.Value:
    return b.op("Slice", words, b.constant([start]), b.constant([stop]))


def _shifted(b: Builder, words: ir.Value, bits: int, direction: str) -> ir.Value:
    return b.op("BitShift", words, b.constant(bits, np.uint32), direction=direction)


def _masked(b: Builder, words: ir.Value, mask: int) -> ir.Value:
    return b.op("BitwiseAnd", words, b.constant(mask, np.uint32))


def seeded_state(seed: int) -> State:
    """Returns the state of a Mersenne Twister seeded with the low 32 bits of a number."""
    words = [seed & _WORD]
    for index in range(1, _STATE):
        words.append((1812433253 * (words[-1] ^ words[-1] >> 30) + index) & _WORD)
    return np.array(words, np.uint32)


def seed_sequence(seeds: Sequence[int]) -> State:
    """Returns the state of a Mersenne Twister seeded with std::seed_seq."""
    given = [seed & _WORD for seed in seeds]
    size, count = _STATE, len(given)
    words = [0x8B8B8B8B] * size
    lag = 11
    middle = (size - lag) // 2
    steps = max(count + 1, size)

    def mixed(value: int, factor: int) -> int:
        return (value ^ value >> 27) * factor & _WORD

    for step in range(steps):
        here, near, far = step % size, (step + middle) % size, (step + middle + lag) % size
        first = mixed(words[here] ^ words[near] ^ words[(step - 1) % size], 1664525)
        if step == 0:
            second = first + count
        elif step <= count:
            second = first + here + given[step - 1]
        else:
            second = first + here
        words[near] = (words[near] + first) & _WORD
        words[far] = (words[far] + second) & _WORD
        words[here] = second & _WORD
    for step in range(steps, steps + size):
        here, near, far = step % size, (step + middle) % size, (step + middle + lag) % size
        third = mixed((words[here] + words[near] + words[(step - 1) % size]) & _WORD, 1566083941)
        fourth = third - here
        words[near] ^= third
        words[far] ^= fourth & _WORD
        words[here] = fourth & _WORD
    if not words[0] & 0x80000000 and not any(words[1:]):
        words[0] = 0x80000000
    return np.array(words, np.uint32)
