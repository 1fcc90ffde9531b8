"""Bugs of recurrent sequences and of states."""

from __future__ import annotations

from typing import Any

import numpy as np

from ortconv.converters.openvino.plugin_bugs.bug import Bug, Live, random

__all__ = ["CACHE_IN_8_BITS", "LAST_STATE_SCALED", "STATE_OF_64_BITS"]


def _last_state(ov: Any, x: Any) -> Any:
    """Makes a sequence of one step whose last state is the data, clipped."""
    zeros, ones = np.zeros((1, 3, 3), np.float32), np.eye(3, dtype=np.float32)[None]
    state = np.zeros((2, 1, 3), np.float32)
    sequence = ov.opset5.rnn_sequence(
        x, state, np.array([1, 1]), ones, zeros, zeros[:, 0], 3, "forward", ["relu"], clip=1.0
    )
    return sequence.output(1)


LAST_STATE_SCALED = Bug(
    op="RNNSequence, GRUSequence, LSTMSequence",
    case="a last state that a number is added to or multiplied by, with clip, other activations or runtime weights",
    fault="returns another shape",
    live=Live(
        lambda ov, x: ov.opset1.multiply(_last_state(ov, x), np.float32(2)),
        [random(2, 1, 3, low=0, high=2)],
        2 * np.clip(random(2, 1, 3, low=0, high=2), -1, 1),
    ),
)


def _counter(ov: Any, x: Any) -> Any:
    read = ov.opset6.read_value(np.zeros(2, np.int64), "memory", ov.Type.i64, [2])
    y = ov.opset1.add(read, x)
    return ov.Model([ov.opset1.result(y)], [ov.opset6.assign(y, "memory")], [x], "wide")


STATE_OF_64_BITS = Bug(
    op="ReadValue",
    case="a state of 64-bit numbers",
    fault="keeps it in memory of the wrong size",
    live=Live(_counter, [np.array([1, 2])], steady=False),
)


def _decoder(ov: Any, x: Any, order: Any) -> Any:
    """Makes attention to a KV cache that is reordered."""
    shape, empty = [-1, 2, -1, 4], np.zeros((1, 2, 0, 4), np.float32)
    caches = []
    for name in ("keys", "values"):
        read = ov.opset6.read_value(empty, name, ov.Type.f32, shape)
        caches.append(ov.opset1.concat([ov.opset8.gather(read, order, np.array(0)), x], 2))
    writes = [ov.opset6.assign(each, name) for each, name in zip(caches, ("keys", "values"), strict=True)]
    return ov.Model(
        [ov.opset1.result(ov.opset13.scaled_dot_product_attention(x, *caches))], writes, [x, order], "decoder"
    )


CACHE_IN_8_BITS = Bug(
    op="ScaledDotProductAttention",
    case="a KV cache that is reordered",
    fault="keeps the cache in 8 bits, unless its property KV_CACHE_PRECISION is f32",
    live=Live(
        _decoder,
        [random(1, 2, 3, 4), np.array([0], np.int32)],
        shapes=[[-1, 2, -1, 4], [-1]],
        steady=False,
    ),
)
