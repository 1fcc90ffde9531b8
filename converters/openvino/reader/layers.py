"""The tables of an OpenVINO IR: layers, their ports, and the edges between them, checked against each other."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

from ortconv.converters.openvino.reader.ignored_attributes import kept_attributes
from ortconv.converters.openvino.reader.shapes import parse_dim, require_countable
from ortconv.converters.openvino.reader.tensor_names import split_names
from ortconv.converters.openvino.reader.xml import Element
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import ModelFormatError, NodeRef, shown
from ortconv.frontend.source_graph import MAX_RANK, Dim

__all__ = ["VERSIONS", "Layer", "Net", "Port", "Wire", "read_layers", "read_net"]

VERSIONS = (10, 11)
"""The supported IR versions."""

Wire = tuple[int, int]
"""The source of a value: the id of a layer, and the index of its output."""

_HINTS = frozenset({"PrimitivesPriority", "alt_width"})
"""Attributes of ``data`` that choose an implementation and change no result."""

_OPSET = re.compile(r"opset([1-9][0-9]{0,2})", re.ASCII)

_LAST_OPSET = 17

_LATE_IN_OPSET1 = frozenset({"MVN", "ROIPooling", "ReorgYolo"})
"""Files write opset1 for these, which opset2 introduced."""

_FORMER_EXTENSIONS = frozenset({"experimental", "extension"})
_INTRODUCED = {
    "ExperimentalDetectronDetectionOutput": 6,
    "ExperimentalDetectronGenerateProposalsSingleImage": 6,
    "ExperimentalDetectronPriorGridGenerator": 6,
    "ExperimentalDetectronROIFeatureExtractor": 6,
    "ExperimentalDetectronTopKROIs": 6,
    "GRUCell": 3,
    "Proposal": 4,
    "RNNCell": 1,
}
"""What older files have as extensions: the opset whose op OpenVINO takes them for."""


@dataclasses.dataclass(frozen=True, slots=True)
class Port:
    """An input or output of a layer.

    Attributes:
        id: Unique among the inputs, or among the outputs, of its layer.
        precision: The element type as text, or None where the file does not say.
        dims: Empty for a scalar, and for a dynamic rank too.
        names: Tensor names, sorted.
    """

    id: int
    precision: str | None
    dims: tuple[Dim, ...]
    names: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """A layer of the file.

    Attributes:
        id: Unique in its model.
        name: The friendly name, which is not unique.
        type: The op type as the specification spells it.
        version: An opset that has it, as the file spells it.
        element: Its XML element.
        inputs: In the op's order.
        outputs: In the op's order.
        attributes: As text.
    """

    id: int
    name: str
    type: str
    version: str
    element: Element
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    attributes: Mapping[str, str]

    @property
    def opset(self) -> int:
        """The number of the opset that introduced this version of the op; 0 for ops in no opset.

        A file may name any later opset that has it.
        """
        return _opset(self.type, self.version)

    def ref(self, file: str) -> NodeRef:
        """Returns the reference to the layer that messages about its conversion contain."""
        return NodeRef(file, self.type, self.name, str(self.id), self.version)

    def error(self, problem: str) -> ModelFormatError:
        """Returns an error that names this layer."""
        where = f"line {self.element.line}: layer {self.id} {shown(self.name)} ({self.type})"
        return ModelFormatError(self.element.path, where, problem)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Net:
    """A model of the file.

    Attributes:
        name: Its name, possibly empty.
        version: The IR version.
        layers: By id, in file order.
        wires: By layer id: where each input comes from, None where nothing is connected.
    """

    name: str
    version: int
    layers: Mapping[int, Layer]
    wires: Mapping[int, tuple[Wire | None, ...]]


def _opset(type: str, version: str) -> int:
    match = _OPSET.fullmatch(version)
    if match is None:
        return _INTRODUCED.get(type, 0) if version in _FORMER_EXTENSIONS else 0
    opset = 2 if match[1] == "1" and type in _LATE_IN_OPSET1 else int(match[1])
    return REGISTRY.newest(type, opset) if opset <= _LAST_OPSET else opset


def read_net(root: Element) -> Net:
    """Reads the layers and edges of a ``net`` element.

    Raises:
        ModelFormatError: It is no OpenVINO IR of version 10 or 11, or contradicts itself.
    """
    if root.tag != "net":
        raise root.error("this is no OpenVINO IR; the root element must be <net>.")
    version = root.integer("version")
    if version not in VERSIONS:
        hint = (
            "Such files were written before OpenVINO 2020: convert the original model again with a newer OpenVINO."
            if version < VERSIONS[0]
            else "It is newer than this ortconv."
        )
        raise root.error(f"IR version {version} is not supported; allowed: {', '.join(map(str, VERSIONS))}. {hint}")
    if (preprocessing := root.child("pre-process")) is not None:
        raise preprocessing.error("preprocessing stored outside the graph is not supported.")
    return read_layers(root, root.attributes.get("name", ""), version)


def read_layers(root: Element, name: str, version: int) -> Net:
    """Reads the layers and edges of a ``net`` or of a body.

    Raises:
        ModelFormatError: They contradict themselves.
    """
    table = root.child("layers")
    if table is None:
        raise root.error("element <layers> is missing.")
    layers: dict[int, Layer] = {}
    for element in table.all("layer"):
        layer = _read_layer(element)
        if layer.id in layers:
            raise layer.error(f"layer id {layer.id} is used twice; first on line {layers[layer.id].element.line}.")
        layers[layer.id] = layer
    return Net(name, version, layers, _read_edges(root.child("edges"), layers))


def _read_layer(element: Element) -> Layer:
    data = element.child("data")
    op_type = REGISTRY.spelled(element.required("type"))  # OpenVINO reads ops in any case of letters
    version = element.required("version")
    attributes = {} if data is None else {k: v for k, v in data.attributes.items() if k not in _HINTS}
    return Layer(
        id=element.integer("id"),
        name=element.required("name"),
        type=op_type,
        version=version,
        element=element,
        inputs=_read_ports(element.child("input")),
        outputs=_read_ports(element.child("output")),
        attributes=kept_attributes(op_type, _opset(op_type, version), attributes),
    )


def _read_ports(table: Element | None) -> tuple[Port, ...]:
    ports: dict[int, Port] = {}
    for element in () if table is None else table.all("port"):
        port = Port(
            id=element.integer("id"),
            precision=element.attributes.get("precision"),
            dims=tuple(_read_dim(dim) for dim in element.all("dim")),
            names=split_names(element.attributes.get("names", "")),
        )
        if port.id in ports:
            raise element.error(f"port id {port.id} is used twice.")
        if len(port.dims) > MAX_RANK:
            raise element.error(f"the port has {len(port.dims)} dimensions; allowed: at most {MAX_RANK}.")
        try:
            require_countable(port.dims)
        except ValueError as error:
            raise element.error(f"the port has dimensions {shown(port.dims)}; allowed: {error}.") from error
        ports[port.id] = port
    return tuple(ports.values())


def _read_dim(element: Element) -> Dim:
    try:
        return parse_dim(element.text)
    except ValueError as error:
        raise element.error(f"dimension {shown(element.text)} is malformed; allowed: {error}.") from error


def _read_edges(table: Element | None, layers: Mapping[int, Layer]) -> dict[int, tuple[Wire | None, ...]]:
    """Connects the ports; an input is identified by its index in the layer, not by its port number."""
    inputs = {(layer.id, port.id): index for layer in layers.values() for index, port in enumerate(layer.inputs)}
    outputs = {(layer.id, port.id): index for layer in layers.values() for index, port in enumerate(layer.outputs)}
    wires: dict[int, list[Wire | None]] = {layer.id: [None] * len(layer.inputs) for layer in layers.values()}
    for edge in () if table is None else table.all("edge"):
        source = edge.integer("from-layer"), edge.integer("from-port")
        target = edge.integer("to-layer"), edge.integer("to-port")
        for (layer, port), known, kind in ((source, outputs, "output"), (target, inputs, "input")):
            if layer not in layers:
                raise edge.error(f"layer {layer} does not exist.")
            if (layer, port) not in known:
                ports = layers[layer].outputs if known is outputs else layers[layer].inputs
                allowed = shown([other.id for other in ports])
                raise edge.error(f"layer {layer} has no {kind} port {port}; its {kind} ports: {allowed}.")
        index = inputs[target]
        if wires[target[0]][index] is not None:
            raise edge.error(f"a second edge ends in input port {target[1]} of layer {target[0]}.")
        wires[target[0]][index] = (source[0], outputs[source])
    return {layer: tuple(inputs) for layer, inputs in wires.items()}
