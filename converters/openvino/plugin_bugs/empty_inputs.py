"""Bugs of empty inputs, and of inputs that are too small."""

from __future__ import annotations

import numpy as np

from ortconv.converters.openvino.plugin_bugs.bug import Bug, Live, random

__all__ = [
    "EMPTY_AXES_OF_SQUEEZE",
    "EMPTY_BATCH_SHAPE",
    "EMPTY_REPEATS",
    "EMPTY_RUNTIME_AXES",
    "LAST_BAG_EMPTY",
    "LOWEST_OF_16_BITS",
    "LRN_WITHOUT_BOUND",
    "NO_DEFAULT_ROW",
    "RANGE_AWAY_FROM_STOP",
    "SINGLE_SHIFT_OF_SEVERAL_AXES",
    "SMALLER_THAN_BLOCK",
]

_NONE = np.zeros(0, np.int64)
_X = (2, 1, 3)

EMPTY_AXES_OF_SQUEEZE = Bug(
    op="Squeeze",
    case="empty axes and a dynamic shape",
    fault="fails or returns nothing",
    live=Live(
        lambda ov, x: ov.opset1.squeeze(x, _NONE), [random(*_X)], random(*_X)[:, 0], shapes=[[-1, 1, -1]], steady=False
    ),
)

EMPTY_REPEATS = Bug(
    op="Tile",
    case="empty repeats",
    fault="returns other memory or nothing",
    live=Live(lambda ov, x: ov.opset1.tile(x, _NONE), [random(*_X)], random(*_X), steady=False),
)

EMPTY_BATCH_SHAPE = Bug(
    op="Eye",
    case="an empty batch_shape",
    fault="does not write the result",
    live=Live(
        lambda ov, x: ov.opset9.eye(x, np.array(3), np.array(1), "f32", _NONE),
        [np.array(2)],
        np.eye(2, 3, 1, dtype=np.float32),
        steady=False,
    ),
)

EMPTY_RUNTIME_AXES = Bug(
    op="reductions, MVN, NormalizeL2, Transpose, Reverse",
    case="empty axes that are known only at run time",
    fault="returns nothing or crashes",
    live=Live(lambda ov, x, axes: ov.opset1.reduce_sum(x, axes), [random(*_X), _NONE], random(*_X), steady=False),
)

SINGLE_SHIFT_OF_SEVERAL_AXES = Bug(
    op="Roll",
    case="one shift of several axes",
    fault="fails or returns nothing",
    live=Live(
        lambda ov, x: ov.opset7.roll(x, np.array(1), np.array([0, 2])),
        [random(*_X)],
        np.roll(random(*_X), 1, (0, 2)),
        steady=False,
    ),
)

SMALLER_THAN_BLOCK = Bug(
    op="SpaceToBatch",
    case="begin padding and data that may be smaller than a block",
    fault="may misplace entries",
    live=Live(
        lambda ov, x: ov.opset2.space_to_batch(x, np.array([1, 2, 1]), np.array([0, 0, 0]), np.array([0, 1, 0])),
        [random(*_X)],
        np.concatenate([random(*_X), np.zeros(_X, np.float32)]),
        steady=False,
    ),
)

RANGE_AWAY_FROM_STOP = Bug(
    op="Range",
    case="a step that leads away from stop, which gives an empty result",
    fault="goes on in the direction of the step",
    live=Live(
        lambda ov, *bounds: ov.opset4.range(*bounds, "f32"),
        [np.array(each, np.float32) for each in (5, 0, 1)],
        np.zeros(0, np.float32),
    ),
)

LRN_WITHOUT_BOUND = Bug(
    op="LRN",
    case="a dynamic number of channels without an upper bound",
    fault="may return nothing or crash",
    live=Live(
        lambda ov, x: ov.opset1.lrn(x, np.array([1]), 0.7, 0.75, 2.0, 5),
        [random(1, 6, 4, 4)],
        shapes=[[1, -1, 4, 4]],
        right_shapes=[[1, 6, 4, 4]],
        steady=False,
    ),
)

NO_DEFAULT_ROW = Bug(
    op="EmbeddingSegmentsSum",
    case="default_index -1, for which empty segments are zeros",
    fault="returns other memory or nothing",
    live=Live(
        lambda ov, x: ov.opset3.embedding_segments_sum(
            x, np.array([1, 2]), np.array([0, 2]), np.array(4), np.array(-1)
        ),
        [random(4, 3)],
        np.stack([random(4, 3)[1], np.zeros(3), random(4, 3)[2], np.zeros(3)]),
        steady=False,
    ),
)


def _bags() -> tuple[np.ndarray, ...]:
    """Returns indices, offsets, the default index and weights of two bags; the second bag is empty."""
    return np.array([1, 3, 0]), np.array([0, 3]), np.array(2), np.array([10, 20, 30], np.float32)


LAST_BAG_EMPTY = Bug(
    op="EmbeddingBagOffsets, EmbeddingBagOffsetsSum",
    case="weights and a default_index, which an empty last bag takes unweighted",
    fault="multiplies it by other memory",
    live=Live(
        lambda ov, x: ov.opset3.embedding_bag_offsets_sum(x, *map(ov.opset1.constant, _bags())),
        [random(4, 2)],
        np.stack([np.array([10, 20, 30]) @ random(4, 2)[[1, 3, 0]], random(4, 2)[2]]),
        steady=False,
    ),
)

LOWEST_OF_16_BITS = Bug(
    op="SegmentMax",
    case="fill_mode lowest for a type whose lowest number the plugin does not know",
    fault="fills empty segments with another number",
    live=Live(
        lambda ov, x: ov.opset16.segment_max(x, np.array([0, 0, 2]), fill_mode="LOWEST"),
        [np.array([1, 2, 3], np.int16)],
        np.array([2, -(2**15), 3], np.int16),
    ),
)
