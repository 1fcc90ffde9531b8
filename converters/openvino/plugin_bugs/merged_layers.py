"""Warnings of layers that OpenVINO's CPU plugin merges, or takes away, so that the result is another one.

It makes one convolution of a Pad of zeros and a convolution. Where sizes are dynamic, what auto_pad says is lost; of
what is in front of a transposed one, the strides.

It takes away two Transposes of the last two of three axes that undo each other, although activations lie between. Of
what a convolution along one axis gives, which it keeps with the channels last, the axes are then mixed up.

It moves the strides of a convolution with one tap to what makes its data, and pads what is left of them as before,
also by a Pad that it has made part of the convolution.
"""

from __future__ import annotations

import collections
import dataclasses
import typing
from collections.abc import Iterator, Sequence

import numpy as np

from ortconv.frontend.attributes import coerce_text
from ortconv.frontend.source_graph import Dim, SourceNode, SourceOutput, SourceValue

__all__ = ["with_merges"]

_PADDED = (
    "the page is followed: OpenVINO's CPU plugin makes one convolution of a Pad of zeros and this one, and leaves out "
    "what auto_pad says along dynamic axes"
)
_MISPLACED = (
    "the page is followed: OpenVINO's CPU plugin takes the Pad of zeros in front for less padding of the result, and "
    "does not multiply it by the strides, so that its result is smaller"
)
_TURNED = (
    "the page is followed: OpenVINO's CPU plugin takes away a Transpose of a convolution's result and, behind "
    "activations, this one, and mixes up the axes"
)
_STRIDDEN = (
    "the page is followed: OpenVINO's CPU plugin moves the strides of a convolution with one tap to what is in front, "
    "and pads behind them, so that its result is larger"
)

_CONVOLUTIONS = frozenset({"Convolution", "GroupConvolution"})
_TRANSPOSED = frozenset({"ConvolutionBackpropData", "GroupConvolutionBackpropData"})
_SAME = frozenset({"same_upper", "same_lower"})
_SWAP = [0, 2, 1]

_UNARY = frozenset(
    {
        *("Abs", "Ceiling", "Clamp", "Elu", "Erf", "Exp", "Floor", "Gelu", "HSigmoid", "HSwish", "Log", "Mish"),
        *("Negative", "ReLU", "Round", "Sigmoid", "SoftPlus", "SoftSign", "Sqrt", "Tanh"),
    }
)
_BY_NUMBER = frozenset(
    {
        *("Add", "Divide", "FloorMod", "Maximum", "Minimum", "Multiply", "Power", "SquaredDifference", "Subtract"),
    }
)
"""Ops between the Transposes where their second input is one number."""

_STRIDES_PASS = _UNARY | _BY_NUMBER | {"Convolution", "Sign"}
"""Ops that take over strides."""

_SCALES = {"Divide": [[False, True]], "Multiply": [[False, True], [True, False]]}
"""Ops that scale, and which of their inputs are constants then."""

_LAID_OUT_ALIKE = (
    _UNARY
    | _BY_NUMBER
    | {
        *("AvgPool", "Concat", "MaxPool", "PReLU", "Reshape", "Slice", "Split", "Squeeze", "StridedSlice", "Swish"),
        *("Transpose", "Unsqueeze", "VariadicSplit"),
    }
)
"""Ops whose results lie as what they read does."""


def with_merges(nodes: Sequence[SourceNode], outputs: Sequence[SourceOutput]) -> tuple[SourceNode, ...]:
    """Returns the nodes of a model, with warnings on those that OpenVINO's CPU plugin merges wrongly.

    Args:
        nodes: In topological order.
        outputs: Of the model.
    """
    graph = _Graph(nodes, outputs)
    made = []
    for node in nodes:
        if graph.loses_padding(node):
            node = dataclasses.replace(node, warnings=(*node.warnings, _PADDED))
        elif graph.misplaces_padding(node):
            node = dataclasses.replace(node, warnings=(*node.warnings, _MISPLACED))
        elif graph.loses_order(node):
            node = dataclasses.replace(node, warnings=(*node.warnings, _TURNED))
        elif graph.moves_strides(node):
            node = dataclasses.replace(node, warnings=(*node.warnings, _STRIDDEN))
        made.append(node)
    return tuple(made)


class _Graph:
    """Who makes and who reads each value of a model."""

    def __init__(self, nodes: Sequence[SourceNode], outputs: Sequence[SourceOutput]) -> None:
        self._makers = {value: node for node in nodes for value in node.outputs}
        self._readers: dict[SourceValue, list[SourceNode | None]] = collections.defaultdict(list)
        for node in nodes:
            for value in node.inputs:
                if value is not None:
                    self._readers[value].append(node)
        for output in outputs:
            self._readers[output.value].append(None)

    def loses_padding(self, node: SourceNode) -> bool:
        """Tells whether a node is a convolution whose auto_pad is lost beside a Pad."""
        auto_pad = str(node.attributes.get("auto_pad", "")).lower()
        if node.ref.op_type not in _CONVOLUTIONS or auto_pad not in _SAME or not _pads_open_sizes(node):
            return False
        return any(map(any, self._zeros_in_front(node)))

    def misplaces_padding(self, node: SourceNode) -> bool:
        """Tells whether a node is a transposed convolution that takes a Pad of its data for one of its result."""
        if node.ref.op_type not in _TRANSPOSED or len(node.inputs) != 2:
            return False
        strides, *pads = (_integers(node.attributes.get(name, "")) for name in ("strides", "pads_begin", "pads_end"))
        zeros = self._zeros_in_front(node)
        rows = [row for side in zip(zeros, pads, strict=True) for row in zip(*side, strides, strict=False)]
        return all(count <= pad for count, pad, _ in rows) and any(count and stride > 1 for count, _, stride in rows)

    def _zeros_in_front(self, node: SourceNode) -> list[list[float]]:
        """Returns what a Pad of zeros, which nothing else reads, puts at both ends of the spatial axes."""
        pad = self._alone(_input(node, 0))
        if pad is None or pad.ref.op_type != "Pad" or str(pad.attributes.get("pad_mode")).lower() != "constant":
            return [[], []]
        begin, end = (_numbers(_input(pad, index)) for index in (1, 2))
        if begin is None or end is None or min(begin + end) < 0 or any((*begin[:2], *end[:2])):
            return [[], []]
        return [begin[2:], end[2:]] if len(pad.inputs) < 4 or _numbers(_input(pad, 3)) == [0] else [[], []]

    def loses_order(self, node: SourceNode) -> bool:
        """Tells whether a node is a Transpose that is taken away wrongly, with another one in front."""
        if not _swaps(node):
            return False
        shape = node.outputs[0].shape
        readers = self._readers[node.outputs[0]]
        if shape is None or not all(isinstance(size, int) and size > 1 for size in shape[1:]):
            return False
        if len(readers) != 1 and not self._meet(readers):
            return False
        if not isinstance(shape[0], int) or (readers[0] is not None and readers[0].ref.op_type in _CONVOLUTIONS):
            return False
        between = self._alone(_input(node, 0))
        first = between
        while first is not None and _acts(first):
            first = self._alone(_input(first, 0))
        return first is not None and first is not between and _swaps(first) and self._is_convolved(_input(first, 0))

    def _meet(self, readers: Sequence[SourceNode | None]) -> bool:
        """Tells whether several nodes are parts of one formula of elements, which the plugin makes one node of."""
        left = set(readers)
        if len(left) < 2:
            return False
        while len(left) > 1:
            steps = ((node, self._next_of_formula(node)) for node in left)
            node, following = next(((node, to) for node, to in steps if to is not None), (None, None))
            if following is None:
                return False
            left = left - {node} | {following}
        return True

    def _next_of_formula(self, node: SourceNode | None) -> SourceNode | None:
        """Returns the only node that reads what a node gives, if both compute each element by itself."""
        readers = [] if node is None else self._readers[node.outputs[0]]
        follows = readers[0] if len(readers) == 1 else None
        if node is None or follows is None:
            return None
        return follows if {node.ref.op_type, follows.ref.op_type} <= _UNARY | _BY_NUMBER else None

    def moves_strides(self, node: SourceNode) -> bool:
        """Tells whether a node is a convolution whose strides are moved, although it pads."""
        strides, (data, pads) = _strides_of_one_tap(node), self._padded(node)
        if not any(stride > 1 and pad for row in pads for stride, pad in zip(strides, row, strict=False)):
            return False
        while (scaled := self._alone(data)) is not None and _scales_channels(scaled):
            data = next((value for value in scaled.inputs if value is not None and value.constant is None), None)
        front = None if data is None else self._makers.get(data)
        if data is None or front is None or front.ref.op_type not in _STRIDES_PASS:
            return False
        return all(self._hands_on(reader, strides) for reader in self._readers[data])

    def _padded(self, node: SourceNode) -> tuple[SourceValue | None, list[list[float]]]:
        """Returns what a convolution pads once a Pad is part of it, and how much: in front, behind, by each of both."""
        pads: list[list[float]] = []
        if str(node.attributes.get("auto_pad", "explicit")).lower() == "explicit":
            pads += ([*_integers(node.attributes.get(name, ""))] for name in ("pads_begin", "pads_end"))
        data, zeros = _input(node, 0), self._zeros_in_front(node)
        pad = self._alone(data)
        return (data, pads) if pad is None or zeros == [[], []] else (_input(pad, 0), [*pads, *zeros])

    def _hands_on(self, node: SourceNode | None, strides: Sequence[int]) -> bool:
        """Tells whether a node is a convolution with such strides and one tap, or goes into one."""
        if node is None:
            return False
        if node.ref.op_type == "Convolution":
            return _strides_of_one_tap(node) == strides
        readers = self._readers[node.outputs[0]]
        behind = readers[0] if len(readers) == 1 else None
        if behind is None or not (_scales_channels(node) or self._padded(behind)[0] in node.inputs):
            return False
        return self._hands_on(behind, strides)

    def _alone(self, value: SourceValue | None) -> SourceNode | None:
        """Returns the node that makes a value which one other reads."""
        return None if value is None or len(self._readers[value]) != 1 else self._makers.get(value)

    def _is_convolved(self, value: SourceValue | None) -> bool:
        """Tells whether a value comes from a convolution, through ops that leave it as it lies."""
        return any(node.ref.op_type in _CONVOLUTIONS for node in self._behind(value))

    def _behind(self, value: SourceValue | None) -> Iterator[SourceNode]:
        left, seen = [value], set[SourceNode]()
        while left:
            last = left.pop()
            node = None if last is None else self._makers.get(last)
            if node is not None and node not in seen:
                seen.add(node)
                yield node
                if node.ref.op_type in _LAID_OUT_ALIKE:
                    left += node.inputs


def _pads_open_sizes(node: SourceNode) -> bool:
    """Tells whether a convolution has an axis whose size is not known, and more than one tap along it."""
    data, kernel = _shapes(node)
    if data is None or kernel is None or len(data) < 3:
        return False
    taps = kernel[len(kernel) - len(data) + 2 :]
    return any(not isinstance(size, int) and count != 1 for size, count in zip(data[2:], taps, strict=False))


def _strides_of_one_tap(node: SourceNode) -> list[int]:
    """Returns the strides of a Convolution of data of known sizes with one tap; none for other nodes."""
    data, kernel = _shapes(node)
    if node.ref.op_type != "Convolution" or data is None or kernel is None or len(data) != len(kernel):
        return []
    if any(count != 1 for count in kernel[2:]) or not all(isinstance(size, int) for size in data[2:]):
        return []
    return _integers(node.attributes.get("strides", ""))


def _scales_channels(node: SourceNode) -> bool:
    """Tells whether a node multiplies by a constant that can become part of weights behind it."""
    if node.ref.op_type == "Negative":
        return True
    shape = node.outputs[0].shape
    constants = [value is not None and value.constant is not None for value in node.inputs]
    if constants not in _SCALES.get(node.ref.op_type, []) or shape is None:
        return False
    factor = node.inputs[constants.index(True)]
    return factor is not None and all(size == 1 for size in (factor.shape or ())[2 - len(shape) :])


def _integers(text: object) -> list[int]:
    """Returns the integers of an attribute; none where it holds something else, which the lowering refuses."""
    try:
        return list(typing.cast(tuple[int, ...], coerce_text(text, tuple[int, ...])))
    except ValueError:
        return []


def _input(node: SourceNode, index: int) -> SourceValue | None:
    return node.inputs[index] if index < len(node.inputs) else None


def _shapes(node: SourceNode) -> list[tuple[Dim, ...] | None]:
    """Returns the shapes of the first two inputs, None where they are not known."""
    return [None if value is None else value.shape for value in (_input(node, 0), _input(node, 1))]


def _swaps(node: SourceNode) -> bool:
    return node.ref.op_type == "Transpose" and len(node.inputs) == 2 and _numbers(node.inputs[1]) == _SWAP


def _acts(node: SourceNode) -> bool:
    """Tells whether a node changes each element by itself."""
    if node.ref.op_type in _BY_NUMBER:
        constant = node.inputs[1].constant if len(node.inputs) == 2 and node.inputs[1] is not None else None
        return constant is not None and constant.size == 1
    return node.ref.op_type in _UNARY


def _numbers(value: SourceValue | None) -> list[float] | None:
    """Returns what a short constant holds."""
    tensor = None if value is None else value.constant
    if tensor is None or tensor.size > 16:
        return None
    return [float(entry) for entry in np.asarray(tensor.numpy()).ravel()]
