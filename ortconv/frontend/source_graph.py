"""The graph every reader produces and every lowering consumes.

Nothing here knows a file format. Constants are ONNX IR tensors, so that a reader can hand over lazily read or
memory-mapped data without a copy.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import onnx_ir as ir

from ortconv.errors import NodeRef

__all__ = ["Dim", "SourceGraph", "SourceNode", "SourceOutput", "SourceState", "SourceValue"]

Dim = int | str | None
"""A dimension: its size, its symbolic name, or None when nothing is known."""


@dataclasses.dataclass(frozen=True, eq=False)
class SourceValue:
    """One tensor of the source; identity is object identity.

    Attributes:
        name: Unique in its graph; becomes the name of the ONNX value.
        dtype: Element type.
        shape: Dimensions in the source's logical order, or None when not even the rank is known.
        constant: The data, when the source holds it. No node produces such a value.
        metadata: Facts that ONNX has no place for, kept in the value's metadata.
    """

    name: str
    dtype: ir.DataType
    shape: tuple[Dim, ...] | None
    constant: ir.TensorProtocol | None = None
    metadata: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, eq=False)
class SourceNode:
    """One operation of the source.

    Attributes:
        ref: Where it stands, for messages and for the origin recorded in the ONNX file.
        inputs: In order; None where an optional input in the middle is absent.
        outputs: In order.
        attributes: As the source holds them: text for a textual format, typed values for a typed one.
        version: Number of the opset that introduced this form of the op, 1 where the source has no versions.
        notes: What the reader has to say about it, in words.
        warnings: What a user of the result has to know, in words.
        unused: Numbers of the outputs that nothing uses.
        rounds_to: The type that its results are rounded to in the source, where they are declared as a wider one.
    """

    ref: NodeRef
    inputs: tuple[SourceValue | None, ...]
    outputs: tuple[SourceValue, ...]
    attributes: Mapping[str, object] = dataclasses.field(default_factory=dict)
    version: int = 1
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    unused: frozenset[int] = frozenset()
    rounds_to: ir.DataType | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class SourceOutput:
    """An output of the graph: the name users know it by, and the tensor."""

    name: str
    value: SourceValue


@dataclasses.dataclass(frozen=True, eq=False)
class SourceState:
    """What the source keeps from one call to the next, and the graph takes and returns.

    Attributes:
        variable: Its id in the source.
        input: The graph's input that takes it.
        output: The graph's output that returns it, or None where it never changes.
    """

    variable: str
    input: SourceValue
    output: SourceOutput | None


@dataclasses.dataclass(frozen=True, eq=False)
class SourceGraph:
    """A whole source.

    Attributes:
        path: The file, for messages.
        format: The frontend's name ("openvino", "onednn").
        name: The graph's own name.
        inputs: In the source's order, states behind the others.
        outputs: In the source's order, states behind the others.
        nodes: In topological order.
        metadata: Facts about the whole that ONNX has no place for, kept in the model's metadata.
        notes: What the reader has to say about it, in words.
        states: Which of the inputs and outputs are states.
        size: Bytes of the source, weights included; 0 for what is no file.
    """

    path: str
    format: str
    name: str
    inputs: tuple[SourceValue, ...]
    outputs: tuple[SourceOutput, ...]
    nodes: tuple[SourceNode, ...]
    metadata: Mapping[str, str] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()
    states: tuple[SourceState, ...] = ()
    size: int = 0
