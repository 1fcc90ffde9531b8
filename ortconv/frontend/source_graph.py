"""The graph every reader produces and every lowering consumes.

Nothing here knows a file format. Constants are ONNX IR tensors, so that a reader can hand over lazily read or
memory-mapped data without a copy.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import onnx_ir as ir

from ortconv.errors import NodeRef

__all__ = ["MAX_RANK", "Dim", "SourceGraph", "SourceNode", "SourceOutput", "SourceState", "SourceValue"]

MAX_RANK = 32
"""Axes that a tensor may have: as many as every supported version of NumPy can hold and broadcast."""

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
        metadata: Written into the value's metadata.
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
        ref: Its place in the source, for messages and for the origin recorded in the ONNX file.
        inputs: In order; None where an optional input in the middle is absent.
        outputs: In order.
        attributes: As the source holds them: text for a textual format, typed values for a typed one.
        version: Number of the opset that introduced this form of the op, 1 where the source has no versions.
        notes: Notes of the reader.
        warnings: Warnings of the reader.
        unused: Numbers of the outputs that nothing uses.
        rounds_to: The type to which the source rounds its results, if they are declared with a wider type.
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
    """An output of the graph: its public name, and the tensor."""

    name: str
    value: SourceValue


@dataclasses.dataclass(frozen=True, eq=False)
class SourceState:
    """A state, which the source keeps from one call to the next: an input and an output of the graph.

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
        inputs: In the source's order, states last.
        outputs: In the source's order, states last.
        nodes: In topological order.
        metadata: Written into the model's metadata.
        notes: Notes of the reader.
        states: Which of the inputs and outputs are states.
        size: Bytes of the source with its weights; 0 if it is no file.
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

    def with_values(self, made: Mapping[SourceValue, SourceValue]) -> SourceGraph:
        """Returns a graph with other values in the place of some."""

        def new(value: SourceValue) -> SourceValue:
            return made.get(value, value)

        outputs = {output: dataclasses.replace(output, value=new(output.value)) for output in self.outputs}
        return dataclasses.replace(
            self,
            inputs=tuple(map(new, self.inputs)),
            outputs=tuple(outputs.values()),
            nodes=tuple(
                node
                if made.keys().isdisjoint((*node.inputs, *node.outputs))
                else dataclasses.replace(
                    node,
                    inputs=tuple(value and new(value) for value in node.inputs),
                    outputs=tuple(map(new, node.outputs)),
                )
                for node in self.nodes
            ),
            states=tuple(
                dataclasses.replace(state, input=new(state.input), output=state.output and outputs[state.output])
                for state in self.states
            ),
        )
