"""Bugs of slices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ortconv.converters.openvino.plugin_bugs.bug import Bug, Live, random
from ortconv.graph.builder import Ints

__all__ = [
    "NEGATIVE_SLICE_AXIS",
    "NEW_AND_SHRUNK_AXES",
    "NEW_AXIS_BEHIND_ELLIPSIS",
    "RUNTIME_BOUNDS_OF_STATIC_SLICE",
    "SLICE_SCATTER_OF_STATIC_SHAPE",
]

_DATA = (5, 6, 4)


def _strided(
    ov: Any, x: Any, begin: Any, end: Any, mask: Ints, new: Ints = (), shrink: Ints = (), ellipsis: Ints = ()
) -> Any:
    """Makes a StridedSlice with strides of 1 and the same mask for begin and end."""
    ones = np.ones(len(mask), np.int64)
    return ov.opset1.strided_slice(x, begin, end, ones, [*mask], [*mask], [*new], [*shrink], [*ellipsis])


NEW_AND_SHRUNK_AXES = Bug(
    op="StridedSlice",
    case="new_axis_mask and shrink_axis_mask together",
    fault="may read other memory or crash",
    live=Live(
        lambda ov, x: _strided(ov, x, np.array([0, -1]), np.array([0, 0]), (1, 0), new=(1, 0), shrink=(0, 1)),
        [random(*_DATA)],
        random(*_DATA)[np.newaxis, -1],
        steady=False,
    ),
)

RUNTIME_BOUNDS_OF_STATIC_SLICE = Bug(
    op="StridedSlice",
    case="bounds known only at run time and a result of static shape",
    fault="reads other memory",
    live=Live(
        lambda ov, x, begin, end: _strided(ov, x, begin, end, (0,), shrink=(1,)),
        [random(*_DATA), np.array([2]), np.array([3])],
        random(*_DATA)[2],
        steady=False,
    ),
)

NEW_AXIS_BEHIND_ELLIPSIS = Bug(
    op="StridedSlice",
    case="bounds known only at run time and a new axis behind the ellipsis",
    fault="inserts the axis at another place",
    live=Live(
        lambda ov, x, begin, end: _strided(ov, x, begin, end, (1, 1), new=(0, 1), ellipsis=(1, 0)),
        [random(*_DATA), np.array([0, 0]), np.array([0, 0])],
        random(*_DATA)[..., np.newaxis],
        steady=False,
    ),
)

SLICE_SCATTER_OF_STATIC_SHAPE = Bug(
    op="SliceScatter",
    case="bounds known only at run time and static shapes",
    fault="writes to other memory or crashes",
    live=Live(
        lambda ov, x, updates, start: ov.opset15.slice_scatter(
            x, updates, start, np.array([4]), np.array([1]), np.array([0])
        ),
        [random(5, 3), random(3, 3, seed=1), np.array([1])],
        np.concatenate([random(5, 3)[:1], random(3, 3, seed=1), random(5, 3)[4:]]),
        steady=False,
    ),
)


def _iterated(ov: Any, x: Any) -> Any:
    part = ov.opset1.parameter([2, 1, 4], dtype=np.float32)
    body = ov.Model([ov.opset1.relu(part).output(0)], [part])
    iterator = ov.opset1.tensor_iterator()
    iterator.set_function(body)
    iterator.set_sliced_input(part, x.output(0), 0, 1, 1, -1, -2)
    return iterator.get_concatenated_slices(body.results[0].output(0), 0, 1, 1, -1, 1)


NEGATIVE_SLICE_AXIS = Bug(
    op="TensorIterator, Loop",
    case="a slice axis below zero, which counts from the end",
    fault="reads and writes wrong memory",
    live=Live(_iterated, [random(2, 3, 4)], np.maximum(random(2, 3, 4), 0), steady=False),
)
