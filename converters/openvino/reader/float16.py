"""float16 of a file becomes float32, in which OpenVINO's CPU plugin computes.

There a Convert to float16 does not round; outputs and states are rounded. Values that depend on constants and static
shapes alone are folded before, in float16, except for quantized weights and for inputs of a Convert to float32.
OpenVINO reads files of version 10 with inputs and outputs of float32.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

import onnx_ir as ir

from ortconv.converters.openvino.lib.element_types import DTYPES
from ortconv.converters.openvino.reader.bodies import BranchNode, IterationNode
from ortconv.errors import NodeRef
from ortconv.frontend.source_graph import SourceGraph, SourceNode, SourceOutput, SourceValue
from ortconv.graph.annotations import LOCATION_USES
from ortconv.graph.constant_folding import fold
from ortconv.options import Options

__all__ = ["with_types"]

_F16, _F32 = ir.DataType.FLOAT16, ir.DataType.FLOAT
_SPELLED = {_F16: "f16", _F32: "f32"}
_MOST_BITS = 8
"""The widest type of quantized weights."""
_CONVERTS = frozenset({"Convert", "ConvertLike"})
_NOT_ROUNDED = frozenset(
    {
        *("Broadcast", "Concat", "FakeQuantize", "Gather", "GatherElements", "GatherND", "Pad", "Reshape", "Reverse"),
        *("Select", "Slice", "Split", "Squeeze", "StridedSlice", "Tile", "Transpose", "Unsqueeze", "VariadicSplit"),
    }
)
"""Ops that move elements, and FakeQuantize, which OpenVINO folds later."""
_WHY = "the file states float16, and OpenVINO computes in float32"


def with_types(graph: SourceGraph, options: Options, version: int) -> SourceGraph:
    """Returns the graph of a file in the requested types.

    Args:
        graph: The graph, with the types that the file states.
        options: What the user asked for.
        version: The IR version.
    """
    inside = _F32 if options.compute == "f32" else _F16
    outside = _F32 if options.io == "runtime" and version == 10 else _F16
    return _Typing(graph, inside).model(outside)


class _Typing:
    """Changes the types of a graph's values.

    Args:
        graph: The graph.
        inside: The type to compute in where the graph states float16.
    """

    def __init__(self, graph: SourceGraph, inside: ir.DataType) -> None:
        self._graph, self._inside = graph, inside
        self._known, self._compressed = _constants(graph.nodes)
        self._made: dict[SourceValue, SourceValue] = {}
        self._singles: dict[SourceValue, SourceValue] = {}
        computed = (value for node in graph.nodes for value in node.outputs)
        self._names = {value.name for value in (*graph.inputs, *computed, *(each.value for each in graph.outputs))}

    def model(self, outside: ir.DataType) -> SourceGraph:
        """Returns the graph of a whole model.

        Args:
            outside: The type of inputs and outputs that are float16 in the file; states stay float16.
        """
        states = {state.input for state in self._graph.states}
        before = []
        inputs = {}
        for value in self._graph.inputs:
            dtype = _F16 if value in states else outside
            inputs[value] = value
            if value.dtype == _F16 and dtype == self._inside:
                inputs[value] = self._of(value)
            elif value.dtype == _F16:
                inputs[value] = dataclasses.replace(value, dtype=dtype)
                self._made[value] = self._renamed(value)
                before.append(self._convert(inputs[value], self._made[value], value.name))
        kept = {state.output for state in self._graph.states}
        returned = {output: _F16 if output in kept else outside for output in self._graph.outputs}
        for output, dtype in returned.items():
            if output.value.dtype == _F16 and dtype != self._inside and output.value not in self._made:
                self._made[output.value] = self._renamed(output.value)
        nodes = [*before, *self._nodes()]
        outputs = {}
        for output, dtype in returned.items():
            value, outputs[output] = output.value, output
            if value.dtype == _F16:
                inner = self._single(value, nodes)
                if dtype != self._inside:
                    outer = dataclasses.replace(value, name=output.name, dtype=dtype, constant=None)
                    nodes.append(self._convert(inner, outer, output.name))
                    inner = outer
                outputs[output] = SourceOutput(output.name, inner)
        return dataclasses.replace(
            self._graph,
            inputs=tuple(inputs.values()),
            outputs=tuple(outputs.values()),
            nodes=tuple(nodes),
            states=tuple(
                dataclasses.replace(state, input=inputs[state.input], output=state.output and outputs[state.output])
                for state in self._graph.states
            ),
        )

    def body(self) -> SourceGraph:
        """Returns the graph of a body, whose inputs have the type to compute in."""
        nodes = [*self._nodes()]
        outputs = [SourceOutput(each.name, self._single(each.value, nodes)) for each in self._graph.outputs]
        inputs = [self._of(value) for value in self._graph.inputs]
        return dataclasses.replace(self._graph, inputs=tuple(inputs), outputs=tuple(outputs), nodes=tuple(nodes))

    def _nodes(self) -> list[SourceNode]:
        rounded = self._rounded()
        made: list[SourceNode] = []
        for node in self._graph.nodes:
            if any(value in self._compressed for value in node.outputs):
                made.append(node)
                continue
            inputs = [None if value is None else self._single(value, made) for value in node.inputs]
            if node.ref.op_type in _CONVERTS and node.inputs[0] in self._compressed:
                inputs[0] = node.inputs[0]
            outputs = [self._of(value) for value in node.outputs]
            changed = dataclasses.replace(node, inputs=tuple(inputs), outputs=tuple(outputs))
            if self._inside != _F16:
                rounds_to = _F16 if any(value in rounded for value in node.outputs) else None
                changed = dataclasses.replace(changed, attributes=_widened(node.attributes), rounds_to=rounds_to)
            made.append(self._with_bodies(changed))
        return made

    def _with_bodies(self, node: SourceNode) -> SourceNode:
        if isinstance(node, IterationNode):
            return dataclasses.replace(node, body=_Typing(node.body, self._inside).body())
        if isinstance(node, BranchNode):
            then, otherwise = (
                dataclasses.replace(side, body=_Typing(side.body, self._inside).body())
                for side in (node.then, node.otherwise)
            )
            return dataclasses.replace(node, then=then, otherwise=otherwise)
        return node

    def _of(self, value: SourceValue) -> SourceValue:
        """Returns a value in the type to compute in."""
        if value.dtype != _F16 or (self._inside == _F16 and value not in self._made):
            return value
        if value not in self._made:
            self._made[value] = dataclasses.replace(value, dtype=self._inside, constant=_wide(value.constant))
        return self._made[value]

    def _single(self, value: SourceValue, nodes: list[SourceNode]) -> SourceValue:
        """Returns a value in the type to compute in; quantized weights get a Convert."""
        if value not in self._compressed or self._inside == _F16:
            return self._of(value)
        if value not in self._singles:
            self._singles[value] = self._renamed(value)
            nodes.append(self._convert(value, self._singles[value], value.name))
        return self._singles[value]

    def _rounded(self) -> set[SourceValue]:
        """Returns the values that OpenVINO rounds to float16: folded constants, and first values of states."""
        wide: set[SourceValue | None] = set()
        for node in reversed(self._graph.nodes):
            if not wide.isdisjoint(node.outputs) or (node.ref.op_type == "Convert" and node.outputs[0].dtype != _F16):
                wide.update(value for value in node.inputs if value in self._known)
        computed = (node for node in self._graph.nodes if node.ref.op_type not in _NOT_ROUNDED)
        return {
            value
            for node in computed
            for value in node.outputs
            if value.dtype == _F16
            and (_begins(node) or (value in self._known and (value not in wide or _converts_constant(node))))
        }

    def _renamed(self, value: SourceValue) -> SourceValue:
        """Returns a value in the type to compute in, under a new name."""
        wanted = f"{value.name}/{_SPELLED[self._inside]}"
        names = itertools.chain([wanted], (f"{wanted}_{number}" for number in itertools.count(2)))
        name = next(name for name in names if name not in self._names)
        self._names.add(name)
        return dataclasses.replace(
            value,
            name=name,
            dtype=self._inside,
            constant=_wide(value.constant) if self._inside == _F32 else value.constant,
            metadata={},
        )

    def _convert(self, value: SourceValue, to: SourceValue, name: str) -> SourceNode:
        notes = (_WHY,) if self._inside == _F32 else ()
        ref = NodeRef(self._graph.path, "Convert", name, name, "opset1")
        return SourceNode(ref, (value,), (to,), {"destination_type": _SPELLED[to.dtype]}, notes=notes)


def _widened(attributes: Mapping[str, object]) -> Mapping[str, object]:
    """Returns the attributes of a node, with float32 in the place of float16."""
    return {
        name: _SPELLED[_F32] if isinstance(given, str) and DTYPES.get(given.strip().lower()) == _F16 else given
        for name, given in attributes.items()
    }


def _wide(tensor: ir.TensorProtocol | None) -> ir.TensorProtocol | None:
    """Returns a constant of float16 in float32."""
    if tensor is None:
        return None
    folded = fold("Cast", [tensor], {"to": _F32}, 1)
    assert folded is not None, "halves become floats, whatever their size"
    (wide,) = folded
    LOCATION_USES.copy(tensor, wide)
    return wide


def _constants(nodes: Sequence[SourceNode]) -> tuple[set[SourceValue], set[SourceValue]]:
    """Returns the values that depend on constants and static shapes alone: those without and with quantized weights."""
    known: set[SourceValue] = set()
    compressed: set[SourceValue] = set()
    for node in nodes:
        values = [value for value in node.inputs if value is not None]
        is_shape = node.ref.op_type == "ShapeOf"
        if not values or not all(
            value in known or value in compressed or value.constant is not None or (is_shape and _is_static(value))
            for value in values
        ):
            continue
        of_few_bits = any(
            value in compressed or (value.constant is not None and _has_few_bits(value.dtype)) for value in values
        )
        (compressed if of_few_bits and not is_shape else known).update(node.outputs)
    return known, {value for value in compressed if value.dtype == _F16}


def _begins(node: SourceNode) -> bool:
    """Tells whether a node computes the first value of a state."""
    return node.ref.op_type == "ReadValue" and len(node.inputs) > 1


def _converts_constant(node: SourceNode) -> bool:
    return node.ref.op_type == "Convert" and node.inputs[0] is not None and node.inputs[0].constant is not None


def _has_few_bits(dtype: ir.DataType) -> bool:
    return dtype != ir.DataType.BOOL and dtype.bitwidth <= _MOST_BITS


def _is_static(value: SourceValue) -> bool:
    return value.shape is not None and all(isinstance(size, int) for size in value.shape)
