"""The state of one ConvTranspose node: what it becomes, which nodes are fused into it, and which are not."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import onnx_ir as ir

from ortconv.convolution_arithmetic import AutoPad
from ortconv.opset.convolution_terms import NO_ACTIVATION
from ortconv.optimizer.values import Array, Dims, permuted

__all__ = ["Ints", "Kept", "Left", "Outcome", "Rule", "Shapes", "Site", "fold", "name_of", "named"]

Ints = tuple[int, ...]
Shapes = Mapping[str, tuple[int | str | None, ...]]
"""Shapes of values by name."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of one node.

    Attributes:
        name: The node's name, or the name of its output if it has none.
        becomes: The op type of ours that took its place, or "" where the node was left alone.
        folded: The nodes that were fused with it, in order.
        kept: Neighbours that look as if they could be fused, and why they are not.
        reason: Why the node was left alone, or "".
        op_type: What the node was.
        recognised: What Fourier transform the node was found to be, or "".
    """

    name: str
    becomes: str
    folded: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    reason: str = ""
    op_type: str = "ConvTranspose"
    recognised: str = ""


class Left(Exception):  # noqa: N818 - an answer, not a failure
    """The node stays as it is; the message says why."""


class Kept(Exception):  # noqa: N818 - an answer, not a failure
    """The neighbour stays as it is; the message names it and says why."""


def name_of(node: ir.Node) -> str:
    """Returns a node's name, or the name of its output if it has none."""
    return node.name or str(node.outputs[0].name)


def named(node: ir.Node) -> str:
    """Returns how reports call a node."""
    return f"{node.op_type} {name_of(node)}"


@dataclasses.dataclass
class Site:
    """The node of ours that a ConvTranspose becomes, in the words of its attributes; rules change it.

    Attributes:
        node: The ConvTranspose.
        x: Data.
        w: Weights.
        bias: A value, data for a new constant, or None.
        factor: What the weights of each channel are multiplied by, in float64, or None.
        dtype: Element type.
        strides: As in the op, and so the five that follow.
        output_shape: Spatial output sizes where the node becomes a TransposedConvolutionToShape, else None.
        rule: auto_pad of a TransposedConvolutionToShape.
        least: Spatial sizes of the result for the smallest input that is possible; those of every input where `exact`.
        exact: Whether `least` are the sizes, per axis.
        channels: M, or None when unknown.
        output: The value that the new node computes.
        before: Transposes that were fused before the node.
        residual: What is added to the result, or None; comes before the activation.
        activation: Slope below zero, minimum and maximum.
        shapes: Those of values of the model as it was, where they are certain.
        after: Nodes that were fused after it, in order.
    """

    node: ir.Node
    x: ir.Value
    w: ir.Value
    bias: ir.Value | Array | None
    dtype: ir.DataType
    strides: Ints
    dilations: Ints
    group: int
    begin: Ints
    end: Ints
    output_padding: Ints
    output_shape: Ints | None
    rule: AutoPad
    least: Ints
    exact: tuple[bool, ...]
    channels: int | None
    x_perm: Ints
    w_perm: Ints
    y_perm: Ints
    output: ir.Value
    batch: int | None = None
    factor: Array | None = None
    residual: ir.Value | None = None
    activation: tuple[float, float, float] = NO_ACTIVATION
    shapes: Shapes = dataclasses.field(default_factory=dict)
    before: list[ir.Node] = dataclasses.field(default_factory=list)
    after: list[ir.Node] = dataclasses.field(default_factory=list)

    @property
    def rank(self) -> int:
        """Number of spatial axes."""
        return len(self.strides)

    @property
    def size(self) -> Dims:
        """Sizes of the output, as the output lies."""
        spatial = tuple(y if exact else None for y, exact in zip(self.least, self.exact, strict=True))
        return permuted((self.batch, self.channels, *spatial), self.y_perm)

    def spatial(self, axis: int) -> int | None:
        """Returns the spatial axis that an axis of the output is, or None for batch and channels."""
        source = self.y_perm[axis]
        return source - 2 if source >= 2 else None

    def crop(self, begin: Ints, end: Ints) -> None:
        """Takes positions off the result."""
        self.begin = tuple(a + b for a, b in zip(self.begin, begin, strict=True))
        self.end = tuple(a + b for a, b in zip(self.end, end, strict=True))
        self.least = tuple(y - a - b for y, a, b in zip(self.least, begin, end, strict=True))

    def extend(self, count: Ints) -> None:
        """Appends positions to the result."""
        self.output_padding = tuple(a + b for a, b in zip(self.output_padding, count, strict=True))
        self.least = tuple(a + b for a, b in zip(self.least, count, strict=True))

    def take(self, node: ir.Node) -> None:
        """Fuses the node that consumes the output."""
        self.after.append(node)
        self.output = node.outputs[0]


Rule = Callable[[Site], str | None]
"""Fuses a neighbour and says so; returns None where there is none, and raises `Kept` where one has to stay."""


def fold(site: Site, rules: Sequence[Rule]) -> tuple[list[str], list[str]]:
    """Applies rules until none applies; returns what they fused and what the last round did not, with reasons."""
    folded: list[str] = []
    while True:
        kept: list[str] = []
        for rule in rules:
            try:
                done = rule(site)
            except Kept as reason:
                if str(reason) not in kept:  # two rules may look at one neighbour
                    kept.append(str(reason))
            else:
                if done is not None:
                    folded.append(done)
                    break
        else:
            return folded, kept
