"""Reads an OpenVINO IR into a source graph.

Wiring follows layer and port ids; friendly names are for people. Types and shapes are the file's own: nothing is
inferred that the file states.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import pathlib
from collections.abc import Hashable, Mapping, Set

import onnx_ir as ir

from ortconv.converters.openvino.lib.element_types import CODES, DTYPES, NARROW, UNSUPPORTED, bytes_of
from ortconv.converters.openvino.plugin_bugs.table import with_warnings
from ortconv.converters.openvino.reader import xml
from ortconv.converters.openvino.reader.bodies import read_branch, read_iteration
from ortconv.converters.openvino.reader.float16 import with_types
from ortconv.converters.openvino.reader.layers import Layer, Net, Port, Wire, read_layers, read_net
from ortconv.converters.openvino.reader.shapes import parse_shape
from ortconv.converters.openvino.reader.states import State, cut_states, metadata
from ortconv.converters.openvino.reader.tensor_names import join_names, known_name, split_names, unique_names
from ortconv.converters.openvino.reader.topology import live_layers
from ortconv.converters.openvino.reader.upper_bounds import bounded_layers, certain_dims, stacked_parts
from ortconv.converters.openvino.reader.weights_file import Weights
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import ModelFormatError, NodeRef, UnsupportedOpError, UnsupportedTypeError, shown
from ortconv.frontend.source_graph import Dim, SourceGraph, SourceNode, SourceOutput, SourceState, SourceValue
from ortconv.graph.annotations import CODEBOOK
from ortconv.model_io.regular_files import open_regular
from ortconv.options import Options

__all__ = ["NAMES_KEY", "SHAPE_KEY", "read_ir"]

NAMES_KEY = "ortconv.names"
"""Metadata of a value: its other tensor names, separated by commas; a comma in a name is escaped with a backslash."""

SHAPE_KEY = "ortconv.shape"
"""Metadata of an input: its shape as the source states it, if ONNX cannot express it (``1..16``)."""

_SINKS = frozenset({"Result", "Assign"})
"""Roots of dead-code elimination: a state that is written is needed although no output depends on it."""

_STATES = frozenset({"Assign", "ReadValue"})
"""Layers that get a state as a further input."""

_RANK_FROM_DATA = frozenset({"If", "Loop", "ReadValue", "TensorIterator"})
"""Ops for which a port without dims may have a dynamic rank: bodies and states have their own shapes."""


def read_ir(
    path: pathlib.Path, options: Options | None = None, *, label: str | None = None, in_memory: bool = False
) -> SourceGraph:
    """Reads an IR of version 10 or 11.

    Args:
        path: The ``.xml`` file; the ``.bin`` file of the same name holds its constants.
        options: What the user asked for.
        label: What messages call the source; the path by default.
        in_memory: Keep nothing open: read the weights instead of mapping them.

    Returns:
        The graph: Parameters and Results in file order, and the layers that Results and Assigns need. Constants are
        views of the mapped file.

    Raises:
        ModelFormatError: The file is not what it claims to be; it says where.
        UnsupportedTypeError: A tensor's element type has no counterpart in ONNX.
    """
    label = str(path) if label is None else label
    try:
        with open_regular(path) as stream:
            root = xml.parse(label, stream)
    except (OSError, ValueError) as error:  # a path with a zero byte is a ValueError
        raise ModelFormatError(
            label, "", f"the file cannot be read: {getattr(error, 'strerror', None) or error}."
        ) from error
    weights = Weights(path.with_suffix(".bin"), in_memory=in_memory)
    net = read_net(root)
    graph = with_types(_Reader(label, net, weights).graph(), options or Options(), net.version)
    return dataclasses.replace(graph, size=path.stat().st_size + weights.size)


class _Reader:
    """Converts layers to nodes, values and constants.

    Args:
        label: What messages call the source.
        net: The layers of the model or of a body.
        weights: The file's constants.
        outer: For a body, its place: the id of the layer around it, and its tag if the layer has several.
        around: For a body, the layer around it.
        bounded: Whether the stated shapes of a body's inputs are upper bounds.
    """

    def __init__(
        self,
        label: str,
        net: Net,
        weights: Weights,
        outer: str = "",
        *,
        around: Layer | None = None,
        bounded: bool = False,
    ) -> None:
        self._label = label
        self._weights = weights
        self._outer = outer
        self._around_bounded = bounded
        self._parts = {} if around is None else stacked_parts(around, net)
        self._bounded: Set[int] = frozenset()
        self._values: dict[Wire, SourceValue] = {}
        self._net, self._states = (net, ()) if outer else cut_states(net)
        layers = self._net.layers.values()
        self.parameters = [layer for layer in layers if layer.type == "Parameter"]
        self.results = [layer for layer in layers if layer.type == "Result"]

    def graph(self) -> SourceGraph:
        """Builds the graph."""
        if not self.results:
            raise ModelFormatError(self._label, self._outer, "the model has no Result layer, hence no outputs.")
        sinks = [layer for layer in self._net.layers.values() if layer.type in _SINKS]
        reads = [state.reads[0] for state in self._states]
        order = live_layers(self._net, self.parameters + sinks + reads)
        self._bounded = bounded_layers(self._net, order, parameters_too=self._around_bounded)
        sources = {result.id: self._source_of(result) for result in self.results}
        names = self._names(order, sources)
        used = {wire for layer in order for wire in self._net.wires[layer.id] if wire is not None}
        states = [self._state(state, names) for state in self._states]
        pairs = list(zip(self._states, states, strict=True))
        read = {layer.id: value for state, value in pairs for layer in state.reads}
        first = {state.reads[0].id: self._first_value(state) for state in self._states}
        nodes = []
        for layer in order:
            self._require_inputs(layer)
            for index in range(len(layer.outputs)):
                self._values[layer.id, index] = self._value(layer, index, names)
            if layer.type not in ("Parameter", "Const", "Result"):
                nodes.append(self._node(layer, used, read.get(layer.id), first.get(layer.id, ())))
        outputs = [SourceOutput(names[result.id], self._values[sources[result.id]]) for result in self.results]
        kept = [self._kept(state, value, names) for state, value in pairs]
        outputs += [state.output for state in kept if state.output is not None]
        return SourceGraph(
            path=self._label,
            format="openvino",
            name=self._net.name,
            inputs=(*(self._values[layer.id, 0] for layer in self.parameters), *states),
            outputs=tuple(outputs),
            nodes=tuple(nodes) if self._outer else with_warnings(nodes, outputs),
            metadata=metadata(kept),
            states=tuple(kept),
        )

    def _require_inputs(self, layer: Layer) -> None:
        """Refuses a layer without an input that its op requires, before anything looks at its inputs."""
        for wire in self._net.wires[layer.id]:
            if wire is not None and self._net.layers[wire[0]].type == "Result":
                raise layer.error(f"it takes the output of layer {wire[0]}, a Result, which has none.")
        lowering = REGISTRY.find(layer.type, layer.opset) or REGISTRY.any_version(layer.type)
        if lowering is None or layer.type in _STATES:
            return
        wires = self._net.wires[layer.id]
        for index, (name, optional) in enumerate(lowering.inputs):
            if not optional and (index >= len(wires) or wires[index] is None):
                raise layer.error(f"input {name} (number {index}) is not connected; it is required.")

    def _state(self, state: State, names: Mapping[Hashable, str]) -> SourceValue:
        """Returns the input of a state; it has the type and shape of its ReadValue."""
        value = self._value(state.reads[0], 0, names)
        return dataclasses.replace(value, name=names["state", state.variable], metadata={})

    def _first_value(self, state: State) -> tuple[str, ...]:
        """Returns the warning about a variable's first value, which the caller has to feed; none if it is zero."""
        layer = state.first
        if layer is None or state.begins:
            return ()
        where = f"layer {layer.id} {shown(layer.name)} ({layer.type})"
        if layer.type != "Const":
            return (
                f"the first value of variable {state.variable!r} comes from {where}, and is for the caller to feed",
            )
        constant = self._value(layer, 0, {(layer.id, 0): ""}).constant
        if constant is None or not constant.numpy().any():
            return ()
        return (f"the first value of variable {state.variable!r} is {where}, not zero, and is for the caller to feed",)

    def _kept(self, state: State, value: SourceValue, names: Mapping[Hashable, str]) -> SourceState:
        if not state.writes:
            return SourceState(state.variable, value, None)
        (wire,) = self._net.wires[state.writes[0].id] or (None,)
        if wire is None:
            raise state.writes[0].error("its input is not connected.")
        return SourceState(state.variable, value, SourceOutput(names["next", state.variable], self._values[wire]))

    def _source_of(self, result: Layer) -> Wire:
        wires = self._net.wires[result.id]
        if len(wires) != 1 or wires[0] is None:
            raise result.error(
                f"a Result needs one connected input, and has {sum(wire is not None for wire in wires)}."
            )
        return wires[0]

    def _names(self, order: list[Layer], sources: Mapping[int, Wire]) -> dict[Hashable, str]:
        """Names every live tensor, by wire, every Result, by id, and every state; inputs and outputs choose first."""
        wanted: dict[Hashable, str] = {}
        for parameter in self.parameters:
            if len(parameter.outputs) != 1:
                raise parameter.error(f"a Parameter has one output port; this has {len(parameter.outputs)}.")
            wanted[parameter.id, 0] = self._tensor_name(parameter, 0)
        shared: dict[Wire, int] = {}
        for result in self.results:
            producer, index = sources[result.id]
            own = split_names(result.element.attributes.get("output_names", ""))
            layer = self._net.layers[producer]
            wanted[result.id] = known_name(own, layer.name) if own else self._tensor_name(layer, index)
            if layer.type not in ("Parameter", "Const"):
                shared.setdefault((producer, index), result.id)
        for state in self._states:
            wanted["state", state.variable] = state.variable
            wanted["next", state.variable] = f"{state.variable}.next"
        for layer in order:
            for index in range(len(layer.outputs)):
                if (layer.id, index) not in shared:
                    wanted.setdefault((layer.id, index), self._tensor_name(layer, index))
        names = unique_names(wanted)
        return names | {wire: names[result] for wire, result in shared.items()}

    def _tensor_name(self, layer: Layer, index: int) -> str:
        if layer.outputs[index].names:
            return known_name(layer.outputs[index].names, layer.name)
        name = layer.name or f"{layer.type}_{layer.id}"
        return name if len(layer.outputs) == 1 else f"{name}.{index}"

    def _value(self, layer: Layer, index: int, names: Mapping[Hashable, str]) -> SourceValue:
        port = layer.outputs[index]
        name = names[layer.id, index]
        precision = self._precision(layer, index)
        metadata = {}
        if aliases := [alias for alias in port.names if alias != name]:
            metadata[NAMES_KEY] = join_names(aliases)
        shape: tuple[Dim, ...] | None
        constant = None
        if layer.type in ("Parameter", "Const"):
            shape = _attribute_shape(layer, port)
            if ".." in layer.attributes.get("shape", ""):
                metadata[SHAPE_KEY] = layer.attributes["shape"]
            if layer.type == "Const":
                constant = self._constant(layer, precision, shape)
        else:
            shape = None if not port.dims and self._rank_is_open(layer) else port.dims
        if shape is not None and layer.id in self._bounded:
            inputs = [None if wire is None else self._values[wire] for wire in self._net.wires[layer.id]]
            shape = certain_dims(layer, index, shape, inputs)
        if shape and (axis := self._parts.get((layer.id, index))) is not None:
            axis %= len(shape)
            shape = (*shape[:axis], 1, *shape[axis + 1 :])
        return SourceValue(name, DTYPES[precision], shape, constant, metadata)

    def _precision(self, layer: Layer, index: int) -> str:
        """Returns the type of an output, a key of `DTYPES`; very old files state it for the layer, not for the port."""
        port = layer.outputs[index]
        own = layer.attributes.get("element_type") if layer.type in ("Parameter", "Const") else None
        text = own or port.precision or layer.element.attributes.get("precision")
        if text is None:
            raise layer.error(f"the precision of output port {port.id} is missing.")
        precision = text.strip().lower()
        if layer.type == "Const" and self._users[layer.id] == {"Convert"}:
            if precision in CODES:
                return CODES[precision].storage
            if precision in NARROW:
                return "u4"
        if precision in UNSUPPORTED:
            refused = UnsupportedTypeError(f"output {index}", text, tuple(sorted(DTYPES)))
            refused.node = self._ref(layer)
            raise refused
        if precision not in DTYPES:
            raise layer.error(f"precision {shown(text)} is unknown; allowed: {', '.join(sorted(DTYPES))}.")
        target = layer.attributes.get("destination_type", "").strip().lower()
        if layer.type == "Convert" and target in DTYPES:
            return target  # OpenVINO states another at a port where a compressed constant is a result
        return precision

    @functools.cached_property
    def _users(self) -> Mapping[int, set[str]]:
        """The types of the layers that use each layer's outputs."""
        users: dict[int, set[str]] = {layer: set() for layer in self._net.layers}
        for layer, wires in self._net.wires.items():
            for wire in wires:
                if wire is not None:
                    users[wire[0]].add(self._net.layers[layer].type)
        return users

    def _rank_is_open(self, layer: Layer) -> bool:
        """Tells a dynamic rank from a scalar, which look alike in a port.

        A rank can only be dynamic because an input's is, or because it follows from data or from the length of an
        input (a Reshape's pattern, a Squeeze's axes). Where in doubt the shape stays unknown, which is never wrong.
        """
        wires = self._net.wires[layer.id]
        inputs = [self._values[wire] for wire in wires if wire is not None]
        if layer.type in _RANK_FROM_DATA or any(value.shape is None for value in inputs):
            return True
        if layer.type in ("Einsum", "MatMul"):
            return False
        if layer.type in ("GatherND", "StridedSlice"):  # as many axes go as an index, or begin, has entries
            return (inputs[1].shape or (None,))[-1] is None
        if layer.type == "Squeeze" and len(inputs) == 1:
            return None in (inputs[0].shape or ())
        if layer.type in ("Squeeze", "Unsqueeze"):  # OpenVINO gives no rank to either, one axis or several
            return inputs[1].constant is None
        return any(value.constant is None and value.shape != () for value in inputs[1:])

    def _constant(self, layer: Layer, precision: str, shape: tuple[Dim, ...] | None) -> ir.TensorProtocol:
        data = layer.element.child("data")
        if data is None:
            raise layer.error("element <data> is missing.")
        if shape is None or not all(isinstance(dim, int) for dim in shape):
            raise layer.error(f"shape {shown(shape)} of a constant must be static.")
        sizes = [dim for dim in shape if isinstance(dim, int)]
        offset, size = data.integer("offset"), data.integer("size")
        stated = layer.attributes.get("element_type", precision).strip().lower()
        held = stated if stated in NARROW else precision
        needed = bytes_of(held, math.prod(sizes))
        if size < needed:
            raise layer.error(f"size = {size} contradicts shape {sizes} of {held}, which takes {needed} bytes.")
        try:
            tensor = self._weights.tensor(held, sizes, offset, needed, size)
        except EOFError as error:
            raise layer.error(str(error)) from error
        if stated in CODES:
            CODEBOOK.set(tensor, stated)
        return tensor

    def _node(self, layer: Layer, used: Set[Wire], state: SourceValue | None, warnings: tuple[str, ...]) -> SourceNode:
        """Returns the node of a layer, without trailing outputs that have no consumer."""
        inputs = [None if wire is None else self._values[wire] for wire in self._net.wires[layer.id]]
        while inputs and inputs[-1] is None:
            inputs.pop()
        count = max((index + 1 for index in range(len(layer.outputs)) if (layer.id, index) in used), default=0)
        outputs = tuple(self._values[layer.id, index] for index in range(count))
        if self._outer and layer.type in ("Assign", "ReadValue"):
            raise UnsupportedOpError(
                "a state inside a body is not supported; allowed: in the model itself.", node=self._ref(layer)
            )
        given = tuple(inputs) if state is None else (state, *inputs)
        unused = frozenset(index for index in range(count) if (layer.id, index) not in used)
        node = SourceNode(
            self._ref(layer), given, outputs, layer.attributes, layer.opset, warnings=warnings, unused=unused
        )
        if layer.type in ("Loop", "TensorIterator"):
            return read_iteration(layer, node, functools.partial(self._body, layer))
        return read_branch(layer, node, functools.partial(self._body, layer)) if layer.type == "If" else node

    def _body(self, layer: Layer, element: xml.Element, tag: str) -> tuple[SourceGraph, dict[int, int], dict[int, int]]:
        """Reads a body of a layer; see `bodies.ReadBody`."""
        outer = (
            f"{self._outer}{layer.id}/" if tag == "body" else f"{self._outer}{layer.id}/{tag.removesuffix('_body')}/"
        )
        bounded = any(wire is not None and wire[0] in self._bounded for wire in self._net.wires[layer.id])
        net = read_layers(element, tag, self._net.version)
        reader = _Reader(self._label, net, self._weights, outer, around=layer, bounded=bounded)
        return (
            reader.graph(),
            {parameter.id: index for index, parameter in enumerate(reader.parameters)},
            {result.id: index for index, result in enumerate(reader.results)},
        )

    def _ref(self, layer: Layer) -> NodeRef:
        """Returns where a layer stands; in a body its id follows that of the layer around it."""
        ref = layer.ref(self._label)
        return dataclasses.replace(ref, id=f"{self._outer}{ref.id}") if self._outer else ref


def _attribute_shape(layer: Layer, port: Port) -> tuple[Dim, ...] | None:
    """Returns the shape of a Parameter or Const.

    The attribute tells a scalar from a dynamic rank, a port does not, and OpenVINO does not look at that.
    """
    text = layer.attributes.get("shape")
    if text is None:
        return port.dims or None
    try:
        shape = parse_shape(text)
    except ValueError as error:
        raise layer.error(f"attribute shape = {shown(text)} is malformed; allowed: {error}.") from error
    return shape
