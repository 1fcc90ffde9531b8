"""ONNX files for ``ortconv optimize``."""

from __future__ import annotations

import pathlib
import random
from collections.abc import Callable, Sequence

import onnx
from google.protobuf.message import DecodeError

from ortconv.optimizer import optimization
from tests.fuzz import values

__all__ = ["SUFFIX", "mutate", "run"]

SUFFIX = ".onnx"

_OPS = (
    *("ConvTranspose", "Transpose", "Pad", "Slice", "Add", "Relu", "LeakyRelu", "Clip", "Mul", "Sub", "Identity"),
    *("Cast", "Conv", "Reshape", "Concat", "Shape", "If", "Loop", "Constant", "BatchNormalization"),
    *("Div", "STFT", "DFT", "Squeeze", "Unsqueeze"),
)
_DOMAINS = ("", "ai.onnx", "org.ortconv", "com.microsoft", "mine")
_LOCATIONS = ("../secret", "/etc/passwd", "model.onnx", "missing", "a\0b", "", ".", "x/../y", "\u00e9")


def run(data: bytes, folder: pathlib.Path) -> None:
    """Optimizes a model and writes the result."""
    path = folder / "model.onnx"
    path.write_bytes(data)
    optimization(path).save(folder / "faster.onnx")


def mutate(data: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes | None:
    """Changes a model, or returns None where it is none; `others` are models to take nodes from."""
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError:
        return None
    for _ in range(rng.choice((1, 1, 2, 3, 5))):
        try:
            rng.choice(_MUTATIONS)(model, rng, others)
        except (IndexError, ValueError, TypeError, DecodeError):
            return None  # there is nothing of the kind that was to be changed
    return model.SerializeToString()


def _node(model: onnx.ModelProto, rng: random.Random) -> onnx.NodeProto:
    nodes = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    return rng.choice(nodes)


def _names(model: onnx.ModelProto) -> list[str]:
    made = [name for node in model.graph.node for name in (*node.input, *node.output)]
    return [*made, *(value.name for value in model.graph.input), *(value.name for value in model.graph.initializer), ""]


def _op_type(model: onnx.ModelProto, rng: random.Random, others: Sequence[bytes]) -> None:
    node = _node(model, rng)
    if rng.random() < 0.8:
        node.op_type = rng.choice((*_OPS, "\u00e9", ""))
    else:
        node.domain = rng.choice(_DOMAINS)


def _attribute(model: onnx.ModelProto, rng: random.Random, others: Sequence[bytes]) -> None:
    node = _node(model, rng)
    names = [attribute.name for attribute in node.attribute]
    name = rng.choice((*names, "pads", "strides", "dilations", "output_padding", "output_shape", "group", "perm"))
    kept = [attribute for attribute in node.attribute if attribute.name != name]
    old = next((attribute for attribute in node.attribute if attribute.name == name), None)
    value: object
    if old is not None and old.ints and rng.random() < 0.6:
        value = list(old.ints)
        value[rng.randrange(len(value))] = values.integer(rng)
    else:
        value = rng.choice(
            (values.integer(rng), values.listed(rng), 0.5, "SAME_UPPER", rng.choice(values.WORDS), [0.5], [b"x"], None)
        )
    del node.attribute[:]
    node.attribute.extend(kept)
    if value is not None and value != []:
        node.attribute.append(onnx.helper.make_attribute(name, value))
        if rng.random() < 0.05:
            node.attribute[-1].ref_attr_name = "outer"


def _links(model: onnx.ModelProto, rng: random.Random, others: Sequence[bytes]) -> None:
    """Renames, drops or adds an input or output of a node: circles and repeated names among the results."""
    node = _node(model, rng)
    side = node.output if rng.random() < 0.25 else node.input
    match rng.randrange(4):
        case 0 if side:
            del side[rng.randrange(len(side))]
        case 1:
            side.append(rng.choice(_names(model)))
        case _:
            side[rng.randrange(len(side))] = rng.choice(_names(model))


def _nodes(model: onnx.ModelProto, rng: random.Random, others: Sequence[bytes]) -> None:
    """Drops, repeats or moves a node, or takes one of another model."""
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in model.graph.node]
    index = rng.randrange(len(nodes))
    match rng.randrange(4):
        case 0:
            del nodes[index]
        case 1:
            nodes.insert(rng.randint(0, len(nodes)), nodes[index])
        case 2:
            nodes.insert(rng.randint(0, len(nodes)), nodes.pop(index))
        case _:
            nodes.insert(index, rng.choice(onnx.ModelProto.FromString(rng.choice(others)).graph.node))
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def _initializer(model: onnx.ModelProto, rng: random.Random, others: Sequence[bytes]) -> None:
    tensor = rng.choice(model.graph.initializer)
    match rng.randrange(5):
        case 0:
            tensor.dims[rng.randrange(len(tensor.dims))] = values.integer(rng)
        case 1:
            tensor.data_type = rng.choice((0, 1, 2, 7, 10, 16, 22, 99))
        case 2:
            tensor.raw_data = tensor.raw_data[: rng.randrange(len(tensor.raw_data) + 1)] + b"x" * rng.randrange(3)
        case 3:
            tensor.name = rng.choice(_names(model))
        case _:
            tensor.data_location = onnx.TensorProto.EXTERNAL
            for key, value in (
                ("location", rng.choice(_LOCATIONS)),
                ("offset", str(values.integer(rng))),
                ("length", str(values.integer(rng))),
            ):
                if rng.random() < 0.9:
                    tensor.external_data.add(key=key, value=value)


def _value(model: onnx.ModelProto, rng: random.Random, others: Sequence[bytes]) -> None:
    """Changes the type or shape of an input, an output or what is stated in between."""
    value = rng.choice([*model.graph.input, *model.graph.output, *model.graph.value_info])
    tensor = value.type.tensor_type
    match rng.randrange(5):
        case 0:
            tensor.elem_type = rng.choice((0, 1, 7, 9, 10, 16))
        case 1:
            tensor.ClearField("shape")
        case 2:
            value.name = rng.choice(_names(model))
        case 3:
            tensor.shape.dim.add().dim_value = values.size(rng)
        case _:
            dim = rng.choice(tensor.shape.dim)
            if rng.random() < 0.8:
                dim.dim_value = values.integer(rng)
            else:
                dim.dim_param = rng.choice(("N", ""))


def _header(model: onnx.ModelProto, rng: random.Random, others: Sequence[bytes]) -> None:
    match rng.randrange(4):
        case 0:
            rng.choice(model.opset_import).version = values.integer(rng) if rng.random() < 0.3 else rng.randint(6, 27)
        case 1:
            model.opset_import.add(domain=rng.choice(_DOMAINS), version=rng.randint(0, 22))
        case 2:
            model.ir_version = rng.randint(0, 15)
        case _:
            del model.opset_import[:]


def _function(model: onnx.ModelProto, rng: random.Random, others: Sequence[bytes]) -> None:
    """Adds a function of the model's own, and calls it."""
    node = _node(model, rng)
    domain, name = rng.choice((("org.ortconv", "Relu"), ("mine", "F"), ("", "Relu"), ("org.ortconv", node.op_type)))
    inner = onnx.NodeProto.FromString(node.SerializeToString())
    function = onnx.helper.make_function(domain, name, [x for x in node.input if x], list(node.output), [inner], [])
    function.opset_import.extend(model.opset_import)
    model.functions.append(function)
    node.domain, node.op_type = domain, name


def _graph(model: onnx.ModelProto, rng: random.Random, others: Sequence[bytes]) -> None:
    """Moves the nodes into a graph of an If, or gives a node the model's own graph as an attribute."""
    node = _node(model, rng)
    node.attribute.append(onnx.helper.make_attribute(rng.choice(("then_branch", "body", "x")), model.graph))


_MUTATIONS: tuple[Callable[[onnx.ModelProto, random.Random, Sequence[bytes]], None], ...] = (
    *(_op_type, _op_type, _attribute, _attribute, _attribute, _attribute, _links, _links, _nodes, _nodes),
    *(_initializer, _initializer, _value, _value, _value, _header, _function, _graph),
)
