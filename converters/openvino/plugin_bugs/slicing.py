"""Bugs of slices."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from ortconv.converters.openvino.plugin_bugs.bug import Bug, Live, random
from ortconv.converters.openvino.plugin_bugs.network import BINARY, UNARY, Network, input_of
from ortconv.frontend.source_graph import SourceGraph, SourceNode, SourceValue
from ortconv.graph.builder import Ints

__all__ = [
    "NEGATIVE_SLICE_AXIS",
    "NEW_AND_SHRUNK_AXES",
    "NEW_AXIS_BEHIND_ELLIPSIS",
    "RUNTIME_BOUNDS_OF_STATIC_SLICE",
    "SLICE_SCATTER_OF_STATIC_SHAPE",
    "STATE_IN_A_SLICE",
    "may_lie_in_a_slice",
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


_VIEWS = frozenset({"Gather", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})


def may_lie_in_a_slice(state: SourceValue, body: SourceGraph, slices: Collection[SourceValue]) -> bool:
    """Tells whether the plugin may compute the next state of a loop in the memory of a slice; see `STATE_IN_A_SLICE`.

    Args:
        state: The value of the body that becomes the state of the next iteration.
        body: The body of the loop.
        slices: The inputs of the body that are slices.
    """
    network = Network(body.nodes, body.outputs)

    def is_written_in_place(node: SourceNode) -> bool:
        view = network.producer(input_of(node, 0))
        if node.ref.op_type not in BINARY or view is None or view.ref.op_type not in _VIEWS:
            return False
        while view is not None and view.ref.op_type in _VIEWS:
            value = input_of(view, 0)
            view = network.producer(value)
        return value in slices

    def operands(node: SourceNode) -> tuple[SourceValue | None, ...]:
        return node.inputs if node.ref.op_type in BINARY | UNARY | {"SoftMax"} else ()

    return network.comes_from(state, is_written_in_place, operands)


def _accumulated(ov: Any, x: Any) -> Any:
    part = ov.opset1.parameter([2, 1, 4], dtype=np.float32)
    state = ov.opset1.parameter([2, 4], dtype=np.float32)
    result = ov.opset1.result(ov.opset1.add(ov.opset1.squeeze(part, np.array([1])), state))
    iterator = ov.opset1.tensor_iterator()
    iterator.set_function(ov.Model([result], [part, state]))
    iterator.set_sliced_input(part, x.output(0), 0, 1, 1, -1, 1)
    zeros = ov.opset1.constant(np.zeros((2, 4), np.float32))
    iterator.set_merged_input(state, zeros.output(0), result.output(0))
    return iterator.get_iter_value(result.output(0), -1)


STATE_IN_A_SLICE = Bug(
    op="TensorIterator, Loop",
    case="a state that elementwise ops compute from a slice behind Squeeze, Reshape, Transpose or Gather",
    fault="may overwrite the state with the next slice",
    live=Live(_accumulated, [random(2, 3, 4)], random(2, 3, 4).sum(1)),
)
