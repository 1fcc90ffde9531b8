"""OpenVINO IR: the ``.xml``, a zero byte, and the ``.bin``."""

from __future__ import annotations

import pathlib
import random
import xml.etree.ElementTree as ElementTree
import zlib
from collections.abc import Sequence

import numpy as np

from ortconv.api import conversion
from tests.fuzz import values

__all__ = ["SUFFIX", "mutate", "run"]

SUFFIX = ".ir"

_TYPES = (
    "f32",
    "f16",
    "bf16",
    "f64",
    "i64",
    "i32",
    "i16",
    "i8",
    "u8",
    "u16",
    "u32",
    "u64",
    "boolean",
    "i4",
    "u4",
    "u1",
)
_PORT_TYPES = ("FP32", "FP16", "BF16", "FP64", "I64", "I32", "I16", "I8", "U8", "BOOL", "I4", "U4", "BIN")
_NUMPY = {
    **{"f32": "<f4", "f64": "<f8", "f16": "<f2", "i64": "<i8", "i32": "<i4"},
    **{"i8": "i1", "u8": "u1", "boolean": "u1"},
}


def run(data: bytes, folder: pathlib.Path) -> None:
    """Converts a file; the checksum of its bytes chooses how."""
    text, _, weights = data.partition(b"\0")
    path = folder / "model.xml"
    path.write_bytes(text)
    path.with_suffix(".bin").write_bytes(weights)
    choice = zlib.crc32(data)
    conversion(
        path,
        semantics=("spec", "runtime")[choice % 2],
        target=("auto", "onnx", "plugin")[choice // 2 % 3],
    ).to_proto()


def mutate(data: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes | None:
    """Changes elements of a file, or returns None where it is no XML.

    Args:
        data: The file.
        rng: Chooses.
        others: Files to take layers from.
    """
    text, _, weights = data.partition(b"\0")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError:
        return None
    document = _Document(root, bytearray(weights), rng, others)
    try:
        for _ in range(rng.choice((1, 1, 2, 3, 5))):
            rng.choice(_MUTATIONS)(document)
    except (ElementTree.ParseError, IndexError):  # another file is no XML, or there is nothing to choose from
        return None
    return ElementTree.tostring(root) + b"\0" + bytes(document.weights)


def _text(rng: random.Random) -> str:
    """Returns a value of an attribute."""
    kind = rng.random()
    if kind < 0.5:
        return str(values.integer(rng))
    if kind < 0.7:
        return ",".join(map(str, values.listed(rng)))
    return rng.choice(values.FLOATS if kind < 0.85 else values.WORDS)


class _Document:
    def __init__(
        self, root: ElementTree.Element, weights: bytearray, rng: random.Random, others: Sequence[bytes]
    ) -> None:
        self.root, self.weights, self.rng, self.others = root, weights, rng, others

    def pick(self, *tags: str) -> ElementTree.Element | None:
        """Returns an element with one of the tags, or any if none is named."""
        found = [element for element in self.root.iter() if not tags or element.tag in tags]
        return self.rng.choice(found) if found else None

    def layers(self, kind: str | None = None) -> list[ElementTree.Element]:
        return [layer for layer in self.root.iter("layer") if kind is None or layer.get("type") == kind]


def _dimension(document: _Document) -> None:
    dim = document.pick("dim")
    if dim is not None:
        dim.text = str(values.size(document.rng)) if document.rng.random() < 0.9 else _text(document.rng)


def _attribute(document: _Document) -> None:
    """Gives an attribute of an op another value: any, or one that the attribute has elsewhere."""
    data = document.pick("data")
    if data is None:
        return
    rng = document.rng
    name = rng.choice(sorted(data.attrib) or ["axis"])
    known = [other.get(name, "") for other in document.root.iter("data") if name in other.attrib]
    data.set(name, rng.choice(known) if known and rng.random() < 0.1 else _text(rng))


def _entry(document: _Document) -> None:
    """Changes one entry of an attribute that is a list."""
    data = document.pick("data")
    lists = [name for name, value in data.attrib.items() if "," in value] if data is not None else []
    if data is not None and lists:
        name = document.rng.choice(lists)
        entries = data.attrib[name].split(",")
        index = document.rng.randrange(len(entries))
        entries[index : index + 1] = document.rng.choice(([], [str(values.integer(document.rng))], ["1", "2"]))
        data.set(name, ",".join(entries))


def _any_attribute(document: _Document) -> None:
    element = document.pick()
    if element is None or not element.attrib:
        return
    name = document.rng.choice(sorted(element.attrib))
    if document.rng.random() < 0.3:
        del element.attrib[name]
    else:
        element.set(name, _text(document.rng))


def _type(document: _Document) -> None:
    """Gives a layer the type, version and attributes of another one."""
    rng = document.rng
    layers = document.layers()
    source = document.layers()
    if document.others and rng.random() < 0.8:
        source = list(ElementTree.fromstring(rng.choice(document.others).partition(b"\0")[0]).iter("layer"))
    if not layers or not source:
        return
    layer, other = rng.choice(layers), rng.choice(source)
    for name in ("type", "version"):
        layer.set(name, other.get(name, ""))
    for data in layer.findall("data"):
        layer.remove(data)
    layer[:0] = other.findall("data")


def _parameter(document: _Document) -> None:
    """Gives an input another shape, in the attribute and at the port."""
    layers = document.layers("Parameter")
    if layers:
        layer = document.rng.choice(layers)
        rank = len(layer.findall("output/port/dim")) if document.rng.random() < 0.7 else document.rng.randint(0, 6)
        shape = [str(values.size(document.rng)) if document.rng.random() < 0.85 else "-1" for _ in range(rank)]
        _declare(layer, shape)


def _constant(document: _Document) -> None:
    """Gives a constant other elements, in a shape and of a type that fit them."""
    layers = document.layers("Const")
    if not layers:
        return
    rng = document.rng
    layer = rng.choice(layers)
    data = layer.find("data")
    if data is None:
        return
    kind = data.get("element_type", "i64") if rng.random() < 0.8 else rng.choice(sorted(_NUMPY))
    if kind not in _NUMPY:
        return
    rank = len(layer.findall("output/port/dim")) if rng.random() < 0.7 else rng.randint(0, 4)
    shape = [rng.choice((0, 1, 1, 2, 2, 3, 4)) for _ in range(rank)]
    count = int(np.prod(shape, dtype=np.int64))
    numbers = np.array([values.integer(rng) for _ in range(count)], np.int64)
    with np.errstate(all="ignore"):
        raw = numbers.astype(_NUMPY[kind]).tobytes()
    if rng.random() < 0.2:
        for places in (values.SIZES, values.SIZES, values.SIZES):
            shape.append(rng.choice(places))
    data.attrib.update(element_type=kind, offset=str(len(document.weights)), size=str(len(raw)))
    document.weights += raw
    _declare(layer, list(map(str, shape)))


def _declare(layer: ElementTree.Element, shape: Sequence[str]) -> None:
    for data in layer.findall("data"):
        data.set("shape", ",".join(shape))
    for port in layer.findall("output/port"):
        for dim in port.findall("dim"):
            port.remove(dim)
        for size in shape:
            ElementTree.SubElement(port, "dim").text = size


def _precision(document: _Document) -> None:
    layers = document.layers()
    if layers:
        layer = document.rng.choice(layers)
        index = document.rng.randrange(len(_PORT_TYPES))
        for data in layer.findall("data"):
            if "element_type" in data.attrib:
                data.set("element_type", _TYPES[index] if document.rng.random() < 0.5 else document.rng.choice(_TYPES))
        for port in layer.findall("output/port"):
            port.set("precision", _PORT_TYPES[index])


def _edge(document: _Document) -> None:
    """Drops an edge, or leads it from elsewhere."""
    rng = document.rng
    parents = list(document.root.iter("edges"))
    edges = [(parent, edge) for parent in parents for edge in parent.findall("edge")]
    if not edges:
        return
    parent, edge = rng.choice(edges)
    if rng.random() < 0.3:
        parent.remove(edge)
        return
    _, other = rng.choice(edges)
    for name in ("from-layer", "from-port"):
        edge.set(name, other.get(name, ""))


def _inputs(document: _Document) -> None:
    """Takes an input of a layer away, with its edge."""
    layers = [layer for layer in document.layers() if layer.findall("input/port")]
    if not layers:
        return
    layer = document.rng.choice(layers)
    table = layer.find("input")
    assert table is not None
    port = document.rng.choice(table.findall("port"))
    table.remove(port)
    for parent in document.root.iter("edges"):
        for edge in parent.findall("edge"):
            if (edge.get("to-layer"), edge.get("to-port")) == (layer.get("id"), port.get("id")):
                parent.remove(edge)


def _port(document: _Document) -> None:
    """Repeats or drops a dim of a port."""
    port = document.pick("port")
    if port is None:
        return
    dims = port.findall("dim")
    if dims and document.rng.random() < 0.6:
        port.remove(document.rng.choice(dims))
    else:
        ElementTree.SubElement(port, "dim").text = str(values.size(document.rng))


def _element(document: _Document) -> None:
    """Drops, repeats or moves an element."""
    parents = [element for element in document.root.iter() if len(element)]
    if not parents:
        return
    rng = document.rng
    parent = rng.choice(parents)
    index = rng.randrange(len(parent))
    element = parent[index]
    match rng.randrange(3):
        case 0:
            del parent[index]
        case 1:
            parent.append(element)
        case _:
            del parent[index]
            parent.insert(rng.randint(0, len(parent)), element)


def _weights(document: _Document) -> None:
    """Overwrites or cuts the weights."""
    rng, weights = document.rng, document.weights
    if not weights:
        return
    if rng.random() < 0.2:
        del weights[rng.randrange(len(weights)) :]
        return
    start = rng.randrange(len(weights))
    word = (values.integer(rng) % (1 << 64)).to_bytes(8, "little")[: rng.choice((1, 4, 8))]
    weights[start : start + len(word)] = word


_MUTATIONS = (
    *(_dimension, _attribute, _attribute, _attribute, _entry, _any_attribute, _type, _type, _parameter, _parameter),
    *(_constant, _constant, _constant, _precision, _edge, _inputs, _port, _element, _weights),
)
