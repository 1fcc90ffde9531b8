"""Reads an OpenVINO IR into a source graph.

Wiring follows layer and port ids; friendly names are for people. Types and shapes are the file's own: nothing is
inferred that the file states.
"""

from __future__ import annotations

import math
import pathlib
from collections.abc import Hashable, Mapping, Set

import onnx_ir as ir

from ortconv.converters.openvino import markup
from ortconv.converters.openvino.layers import Layer, Net, Port, Wire, read_net
from ortconv.converters.openvino.naming import join_names, split_names, unique_names
from ortconv.converters.openvino.precision import BITS, DTYPES, UNSUPPORTED
from ortconv.converters.openvino.shapes import MAX_RANK, parse_shape
from ortconv.converters.openvino.topology import live_layers
from ortconv.converters.openvino.weights import Weights
from ortconv.errors import ModelFormatError, UnsupportedTypeError, shown
from ortconv.source import Dim, SourceGraph, SourceNode, SourceOutput, SourceValue

__all__ = ["NAMES_KEY", "SHAPE_KEY", "read_ir"]

NAMES_KEY = "ortconv.names"
"""Metadata of a value: its other tensor names, separated by commas; a comma in a name is escaped with a backslash."""

SHAPE_KEY = "ortconv.shape"
"""Metadata of an input: its shape as the source states it, where that says more than ONNX can (``1..16``)."""

_SINKS = frozenset({"Result", "Assign"})
"""What keeps a layer alive; a state that is written matters although no output shows it."""

_RANK_FROM_DATA = frozenset({"If", "Loop", "ReadValue", "TensorIterator"})
"""Ops whose ports without dims say nothing: bodies and states have their own shapes."""


def read_ir(path: pathlib.Path, *, label: str | None = None, in_memory: bool = False) -> SourceGraph:
    """Reads an IR of version 10 or 11.

    Args:
        path: The ``.xml`` file; the ``.bin`` file of the same name holds its constants.
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
        with path.open("rb") as stream:
            root = markup.parse(label, stream)
    except (OSError, ValueError) as error:  # a path with a zero byte is a ValueError
        raise ModelFormatError(
            label, "", f"the file cannot be read: {getattr(error, 'strerror', None) or error}."
        ) from error
    weights = Weights(path.with_suffix(".bin"), in_memory=in_memory)
    return _Reader(label, read_net(root), weights).graph()


class _Reader:
    """Turns layers into nodes, values and constants."""

    def __init__(self, label: str, net: Net, weights: Weights) -> None:
        self._label = label
        self._net = net
        self._weights = weights
        self._values: dict[Wire, SourceValue] = {}

    def graph(self) -> SourceGraph:
        """Builds the graph."""
        layers = self._net.layers.values()
        parameters = [layer for layer in layers if layer.type == "Parameter"]
        results = [layer for layer in layers if layer.type == "Result"]
        if not results:
            raise ModelFormatError(self._label, "", "the model has no Result layer, hence no outputs.")
        sinks = [layer for layer in layers if layer.type in _SINKS]
        order = live_layers(self._net, parameters + sinks)
        sources = {result.id: self._source_of(result) for result in results}
        names = self._names(order, parameters, results, sources)
        used = {wire for layer in order for wire in self._net.wires[layer.id] if wire is not None}
        nodes = []
        for layer in order:
            for index in range(len(layer.outputs)):
                self._values[layer.id, index] = self._value(layer, index, names)
            if layer.type not in ("Parameter", "Const", "Result"):
                nodes.append(self._node(layer, used))
        return SourceGraph(
            path=self._label,
            format="openvino",
            name=self._net.name,
            inputs=tuple(self._values[layer.id, 0] for layer in parameters),
            outputs=tuple(SourceOutput(names[result.id], self._values[sources[result.id]]) for result in results),
            nodes=tuple(nodes),
        )

    def _source_of(self, result: Layer) -> Wire:
        wires = self._net.wires[result.id]
        if len(wires) != 1 or wires[0] is None:
            raise result.error(
                f"a Result needs one connected input, and has {sum(wire is not None for wire in wires)}."
            )
        return wires[0]

    def _names(
        self, order: list[Layer], parameters: list[Layer], results: list[Layer], sources: Mapping[int, Wire]
    ) -> dict[Hashable, str]:
        """Names every live tensor, by wire, and every Result, by id; the graph's inputs and outputs choose first."""
        wanted: dict[Hashable, str] = {}
        for parameter in parameters:
            if len(parameter.outputs) != 1:
                raise parameter.error(f"a Parameter has one output port; this has {len(parameter.outputs)}.")
            wanted[parameter.id, 0] = self._tensor_name(parameter, 0)
        shared: dict[Wire, int] = {}
        for result in results:
            producer, index = sources[result.id]
            own = split_names(result.element.attributes.get("output_names", ""))
            wanted[result.id] = own[0] if own else self._tensor_name(self._net.layers[producer], index)
            if self._net.layers[producer].type not in ("Parameter", "Const"):
                shared.setdefault((producer, index), result.id)
        for layer in order:
            for index in range(len(layer.outputs)):
                if (layer.id, index) not in shared:
                    wanted.setdefault((layer.id, index), self._tensor_name(layer, index))
        names = unique_names(wanted)
        return names | {wire: names[result] for wire, result in shared.items()}

    def _tensor_name(self, layer: Layer, index: int) -> str:
        if layer.outputs[index].names:
            return layer.outputs[index].names[0]
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
        return SourceValue(name, DTYPES[precision], shape, constant, metadata)

    def _precision(self, layer: Layer, index: int) -> str:
        """Returns the type of an output, a key of `DTYPES`; very old files state it for the layer, not for the port."""
        port = layer.outputs[index]
        own = layer.attributes.get("element_type") if layer.type in ("Parameter", "Const") else None
        text = own or port.precision or layer.element.attributes.get("precision")
        if text is None:
            raise layer.error(f"the precision of output port {port.id} is missing.")
        precision = text.strip().lower()
        if precision in UNSUPPORTED:
            refused = UnsupportedTypeError(f"output {index}", text, tuple(sorted(DTYPES)))
            refused.node = layer.ref(self._label)
            raise refused
        if precision not in DTYPES:
            raise layer.error(f"precision {shown(text)} is unknown; allowed: {', '.join(sorted(DTYPES))}.")
        stated = (port.precision or text).strip().lower()
        if DTYPES.get(stated) != DTYPES[precision]:
            raise layer.error(
                f"attribute element_type says {precision}, output port {port.id} says {shown(port.precision)}."
            )
        return precision

    def _rank_is_open(self, layer: Layer) -> bool:
        """Tells a dynamic rank from a scalar, which look alike in a port.

        A rank can only be dynamic because an input's is, or because it follows from data or from the length of an
        input (a Reshape's pattern, a Squeeze's axes). Where in doubt the shape stays unknown, which is never wrong.
        """
        wires = self._net.wires[layer.id]
        inputs = [self._values[wire] for wire in wires if wire is not None]
        if layer.type in _RANK_FROM_DATA or any(value.shape is None for value in inputs):
            return True
        if layer.type == "MatMul":
            return False
        if layer.type == "Squeeze" and len(inputs) == 1:
            return None in (inputs[0].shape or ())
        return any(value.constant is None and value.shape != () for value in inputs[1:])

    def _constant(self, layer: Layer, precision: str, shape: tuple[Dim, ...] | None) -> ir.TensorProtocol:
        data = layer.element.child("data")
        if data is None:
            raise layer.error("element <data> is missing.")
        if shape is None or not all(isinstance(dim, int) for dim in shape):
            raise layer.error(f"shape {shown(shape)} of a constant must be static.")
        sizes = [dim for dim in shape if isinstance(dim, int)]
        offset, size = data.integer("offset"), data.integer("size")
        needed = (math.prod(sizes) * BITS[precision] + 7) // 8
        # A constant without elements takes one byte in files that OpenVINO writes.
        if size != needed and not (needed == 0 and size == 1):
            raise layer.error(f"size = {size} contradicts shape {sizes} of {precision}, which takes {needed} bytes.")
        try:
            return self._weights.tensor(precision, sizes, offset, needed)
        except EOFError as error:
            raise layer.error(str(error)) from error

    def _node(self, layer: Layer, used: Set[Wire]) -> SourceNode:
        """Makes a node; outputs at the end that nothing uses are left out, so that a lowering need not make them."""
        inputs = [None if wire is None else self._values[wire] for wire in self._net.wires[layer.id]]
        while inputs and inputs[-1] is None:
            inputs.pop()
        count = max((index + 1 for index in range(len(layer.outputs)) if (layer.id, index) in used), default=0)
        outputs = tuple(self._values[layer.id, index] for index in range(count))
        return SourceNode(layer.ref(self._label), tuple(inputs), outputs, layer.attributes, layer.opset)


def _attribute_shape(layer: Layer, port: Port) -> tuple[Dim, ...] | None:
    """Returns the shape of a Parameter or Const: the attribute tells a scalar from a dynamic rank, a port does not."""
    text = layer.attributes.get("shape")
    if text is None:
        return port.dims or None
    try:
        shape = parse_shape(text)
    except ValueError as error:
        raise layer.error(f"attribute shape = {shown(text)} is malformed; allowed: {error}.") from error
    if shape is not None and not _agree(shape, port.dims):
        raise layer.error(f"attribute shape = {shown(text)} contradicts the dims {list(port.dims)} of its output port.")
    return shape


def _agree(shape: tuple[Dim, ...], dims: tuple[Dim, ...]) -> bool:
    pairs = zip(shape, dims, strict=False)
    return len(shape) == len(dims) <= MAX_RANK and all(None in pair or pair[0] == pair[1] for pair in pairs)
