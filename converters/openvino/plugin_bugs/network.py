"""The nodes of a model with producers and consumers, and what matchers ask about constants."""

from __future__ import annotations

import collections
import typing
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from ortconv.frontend.attributes import coerce_text
from ortconv.frontend.source_graph import Dim, SourceNode, SourceOutput, SourceValue

__all__ = ["BINARY", "CONVOLUTIONS", "UNARY", "Network", "constant_numbers", "input_of", "integers_of", "shapes_of"]

UNARY = frozenset(
    {
        *("Abs", "Ceiling", "Clamp", "Elu", "Erf", "Exp", "Floor", "Gelu", "HSigmoid", "HSwish", "Log", "Mish"),
        *("Negative", "ReLU", "Round", "Sigmoid", "SoftPlus", "SoftSign", "Sqrt", "Tanh"),
    }
)
"""Elementwise ops of one input that the plugin fuses."""

BINARY = frozenset(
    {
        *("Add", "Divide", "FloorMod", "Maximum", "Minimum", "Multiply", "Power", "SquaredDifference", "Subtract"),
    }
)
"""Elementwise ops of two inputs that the plugin fuses."""

CONVOLUTIONS = frozenset({"Convolution", "GroupConvolution"})

_MOST_NUMBERS = 16


class Network:
    """The nodes of a model.

    Attributes:
        nodes: In topological order.
        op_types: The op types that occur.
        producers: The node that produces each value.
        consumers: The nodes that consume each value; None stands for an output of the model.
    """

    def __init__(self, nodes: Sequence[SourceNode], outputs: Sequence[SourceOutput]) -> None:
        self.nodes = nodes
        self.op_types = frozenset(node.ref.op_type for node in nodes)
        self.producers = {value: node for node in nodes for value in node.outputs}
        self.consumers: dict[SourceValue, list[SourceNode | None]] = collections.defaultdict(list)
        for node in nodes:
            for value in node.inputs:
                if value is not None:
                    self.consumers[value].append(node)
        for output in outputs:
            self.consumers[output.value].append(None)

    def producer(self, value: SourceValue | None) -> SourceNode | None:
        """Returns the producer of a value, or None."""
        return None if value is None else self.producers.get(value)

    def sole_producer(self, value: SourceValue | None) -> SourceNode | None:
        """Returns the producer of a value that has a single consumer, or None."""
        return None if value is None or len(self.consumers[value]) != 1 else self.producers.get(value)

    def sole_consumer(self, node: SourceNode) -> SourceNode | None:
        """Returns the single consumer of a node's first output, or None."""
        consumers = self.consumers[node.outputs[0]]
        return consumers[0] if len(consumers) == 1 else None

    def comes_from(
        self,
        value: SourceValue | None,
        wanted: Callable[[SourceNode], bool],
        passed: Callable[[SourceNode], Iterable[SourceValue | None]],
    ) -> bool:
        """Tells whether a node that `wanted` is true of produces a value, directly or through inputs that are passed.

        Args:
            value: The value.
            wanted: Tells of a node whether it is one of those.
            passed: Returns the inputs of another node to go on with.
        """
        seen: set[SourceNode] = set()
        left = [value]
        while left:
            node = self.producer(left.pop())
            if node is None or node in seen:
                continue
            seen.add(node)
            if wanted(node):
                return True
            left += passed(node)
        return False

    def zeros_padded(self, node: SourceNode) -> list[list[float]]:
        """Returns the begin and end paddings of the spatial axes by a Pad of zeros that only this node consumes."""
        pad = self.sole_producer(input_of(node, 0))
        if pad is None or pad.ref.op_type != "Pad" or str(pad.attributes.get("pad_mode")).lower() != "constant":
            return [[], []]
        begin, end = (constant_numbers(input_of(pad, index)) for index in (1, 2))
        if begin is None or end is None or min(begin + end) < 0 or any((*begin[:2], *end[:2])):
            return [[], []]
        return [begin[2:], end[2:]] if len(pad.inputs) < 4 or constant_numbers(input_of(pad, 3)) == [0] else [[], []]


def input_of(node: SourceNode, index: int) -> SourceValue | None:
    """Returns an input of a node, or None where it has fewer."""
    return node.inputs[index] if index < len(node.inputs) else None


def shapes_of(node: SourceNode) -> list[tuple[Dim, ...] | None]:
    """Returns the shapes of the first two inputs; None where a rank is unknown or there is no input."""
    return [None if value is None else value.shape for value in (input_of(node, 0), input_of(node, 1))]


def integers_of(text: object) -> list[int]:
    """Returns the integers of an attribute; none where it holds something else, which the lowering refuses."""
    try:
        return list(typing.cast(tuple[int, ...], coerce_text(text, tuple[int, ...])))
    except ValueError:
        return []


def constant_numbers(value: SourceValue | None) -> list[float] | None:
    """Returns the numbers of a short constant, or None."""
    tensor = None if value is None else value.constant
    if tensor is None or tensor.size > _MOST_NUMBERS:
        return None
    return [float(entry) for entry in np.asarray(tensor.numpy()).ravel()]
