"""Reads oneDNN Graph JSON into checked tensors and operations.

The format repeats every tensor wherever it is used, writes vectors of twelve defaults for attributes that are not set,
and INT64_MIN for unknown dimensions. Documents contain none of that.
"""

from __future__ import annotations

import dataclasses
import math
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import cast, get_args

from ortconv.converters.onednn_graph.reader.json_file import Place, parse
from ortconv.errors import shown
from ortconv.onednn import OWN_FIELD, UNKNOWN, Op, Tensor
from ortconv.onednn.attributes import Attribute, typed
from ortconv.onednn.op_schema import ATTRIBUTE_TYPES, DTYPES, KINDS, MAX_RANK, AttributeType, is_unset

__all__ = ["Document", "read_document"]

_IDS = range(1 << 64)
_ID_DIGITS = 20
_INT64 = range(-(1 << 63), 1 << 63)
_PARTITIONING = ("partition_id", "backend")
"""Attributes that a dump of partitions adds to every op."""

_RENAMED = {
    f"{kind}Backprop": f"{kind}Backward"
    for kind in (
        *("Abs", "BiasAdd", "Clamp", "Elu", "GELU", "HardSwish", "LogSoftmax", "Mish", "PReLU", "ReLU", "Sigmoid"),
        *("SoftMax", "SoftPlus", "Sqrt", "Tanh"),
    )
}
"""Names of op kinds in files of version 0 -> today's names; arguments and attributes are the same."""

_HEADER = ("version", "engine_kind", "fpmath_mode", "fpmath_mode_apply_to_int")
"""Fields that describe the library that wrote the file and its settings."""


@dataclasses.dataclass(frozen=True)
class Document:
    """A oneDNN graph as stored in a file.

    Attributes:
        path: The file, for messages.
        name: The graph's name.
        ops: The operations, in the file's order, which need not be topological.
        input_ports: Ids in the file's order; hand-edited files may list other ids than those of the inputs.
        output_ports: The same for the outputs.
        header: The library that wrote the file, and its settings.
        size: Of the file, in bytes.
    """

    path: str
    name: str
    ops: tuple[Op, ...]
    input_ports: tuple[int, ...] = ()
    output_ports: tuple[int, ...] = ()
    header: Mapping[str, str] = dataclasses.field(default_factory=dict)
    size: int = 0


def read_document(path: str | os.PathLike[str]) -> Document:
    """Reads a file.

    Raises:
        ModelFormatError: The file cannot be read or is not a oneDNN graph; `where` is a JSON pointer.
    """
    root = parse(path)
    ops = list(root.field("graph").items())
    names = _names(root)
    tensors, doubts = _tensors(ops, names)
    own = root.find(OWN_FIELD)
    name = own.find("name") if own else None
    return Document(
        root.path,
        name.text() if name else pathlib.Path(root.path).stem,
        tuple(_op(op, tensors, doubts) for op in ops),
        _ports(root, "input_ports"),
        _ports(root, "output_ports"),
        {field: str(place.value) for field in _HEADER if (place := root.find(field)) is not None},
        os.stat(path).st_size,
    )


def _tensors(ops: Sequence[Place], names: Mapping[int, str]) -> tuple[dict[int, Tensor], dict[str, str]]:
    """Reads the tensors of all operations; every operation describes its inputs and outputs.

    Returns:
        The tensors by id, and by JSON pointer a warning for each input whose sizes contradict the producer's.
    """
    inputs = [place for op in ops for place in op.field("inputs").items()]
    outputs = [place for op in ops for place in op.field("outputs").items()]
    tensors: dict[int, Tensor] = {}
    doubts: dict[str, str] = {}
    for place in outputs:
        tensor = _tensor(place, names)
        tensors[tensor.id] = _merged(tensors[tensor.id], tensor, place) if tensor.id in tensors else tensor
    produced = set(tensors)
    for place in inputs:
        tensor = _tensor(place, names)
        known = tensors.get(tensor.id, tensor)
        ours, theirs = known.shape or (), tensor.shape or ()
        if tensor.id in produced and len(ours) == len(theirs) and _differ_in_size(ours, theirs):
            doubts[place.pointer] = (
                f"input {tensor.id} is said to have shape {shown(tensor.shape)}; the operation that computes it says "
                f"{shown(known.shape)}, which counts"
            )
            tensor = dataclasses.replace(tensor, shape=known.shape)
        tensors[tensor.id] = _merged(known, tensor, place)
    return tensors, doubts


def _names(root: Place) -> dict[int, str]:
    """Reads the tensor names that `ortconv.onednn` wrote."""
    own = root.find(OWN_FIELD)
    table = own.find("tensor_names") if own else None
    ids: dict[str, int] = {}
    for key, place in table.fields() if table else ():
        name = place.text()
        if not name or name.isdecimal() or name in ids:
            place.fail(f"the name {shown(name)} is empty, a number or taken.")
        if not key.isdecimal() or len(key) > _ID_DIGITS:
            place.fail(f"{shown(key)} is not a tensor id.")
        ids[name] = int(key)
    return {identity: name for name, identity in ids.items()}


def _ports(root: Place, name: str) -> tuple[int, ...]:
    place = root.find(name)
    return tuple(port.integer(_IDS) for port in place.items()) if place else ()


def _op(place: Place, tensors: dict[int, Tensor], doubts: Mapping[str, str]) -> Op:
    name = place.find("name")
    written = place.field("kind").text()
    kind = _RENAMED.get(written, written)
    attributes = place.find("attrs")
    inputs, outputs = (
        tuple(tensors[tensor.field("id").integer(_IDS)] for tensor in place.field(field).items())
        for field in ("inputs", "outputs")
    )
    if kind in KINDS:
        schema = KINDS[kind]
        if not schema.takes(len(inputs)):
            place.field("inputs").fail(f"has {len(inputs)} tensors; allowed for {kind}: {', '.join(schema.inputs)}.")
        if not schema.gives(len(outputs)):
            allowed = ", ".join(schema.outputs) or "none"
            place.field("outputs").fail(f"has {len(outputs)} tensors; allowed for {kind}: {allowed}.")
    notes = [] if kind == written else [f"{written} is {kind} today"]
    warnings = [doubts[tensor.pointer] for tensor in place.field("inputs").items() if tensor.pointer in doubts]
    return Op(
        place.field("id").integer(_IDS),
        kind,
        name.text() if name else "",
        inputs,
        outputs,
        _attributes(kind, attributes, notes, warnings) if attributes else {},
        tuple(notes),
        tuple(warnings),
    )


def _attributes(kind: str, place: Place, notes: list[str], warnings: list[str]) -> dict[str, Attribute]:
    attributes: dict[str, Attribute] = {}
    for name, attribute in place.fields():
        type_place, value_place = attribute.field("type"), attribute.field("value")
        if name in _PARTITIONING:
            notes.append(f"{name} is {value_place.value}")
            continue
        known = kind in KINDS and name in KINDS[kind].attributes
        allowed = (ATTRIBUTE_TYPES[name],) if known else get_args(AttributeType)
        json_type = cast(AttributeType, type_place.choice(*allowed))
        value = value_place.value
        if json_type == "bool" and type(value) is int and value in (0, 1):
            value = bool(value)
        if json_type == "string":
            value = value_place.text()
        if isinstance(value, dict):
            value_place.fail(f"{shown(value)} is not of type {json_type}.")
        try:
            checked = typed(name, json_type, value)
        except ValueError as error:
            value_place.fail(f"{error}.")
        if kind in KINDS and not known:
            warnings.append(f"attribute {name} = {shown(value)} is ignored: {kind} has none of that name")
        elif not (known and is_unset(kind, name, checked)):
            attributes[name] = checked
    return attributes


def _tensor(place: Place, names: Mapping[int, str]) -> Tensor:
    identity = place.field("id").integer(_IDS)
    shape = _shape(place.field("shape"))
    layout, property_type = place.find("layout_type"), place.find("property_type")
    if layout:
        layout.choice("strided", "any", "opaque", "undef")
    return Tensor(
        identity,
        place.field("dtype").choice("undef", *DTYPES),
        shape,
        names.get(identity, ""),
        property_type.choice("undef", "variable", "constant", "host_scalar") if property_type else "undef",
        _stride(place, shape),
    )


def _shape(place: Place) -> tuple[int | None, ...] | None:
    dims = [item.integer(_INT64) for item in place.items()]
    if dims == [UNKNOWN]:
        return None
    if len(dims) > MAX_RANK or any(dim < 0 and dim != UNKNOWN for dim in dims):
        place.fail(f"{shown(dims)} is not a shape; allowed: up to {MAX_RANK} dimensions, none negative.")
    if math.prod(max(dim, 1) for dim in dims) not in _INT64:
        place.fail(f"{shown(dims)} has more elements than 64 bits can count.")
    return tuple(None if dim == UNKNOWN else dim for dim in dims)


def _stride(tensor: Place, shape: tuple[int | None, ...] | None) -> tuple[int, ...] | None:
    """Returns the stride if the tensor is not dense: dimensions in another order, or gaps between them.

    A stride that is not positive (files contain twelve zeros for none) or has another length is ignored.
    """
    place = tensor.find("stride")
    stride = tuple(item.integer(_INT64) for item in place.items()) if place else ()
    if shape is None or None in shape or len(stride) != len(shape):
        return None
    dims = [(step, dim) for step, dim in zip(stride, shape, strict=True) if dim is not None and dim > 1]
    if any(step < 1 for step, _ in dims):
        return None
    packed = 1
    for step, dim in reversed(dims):
        if step != packed:
            return stride
        packed *= dim
    return None


def _differ_in_size(first: Sequence[int | None], second: Sequence[int | None]) -> bool:
    return any(None not in pair and pair[0] != pair[1] for pair in zip(first, second, strict=False))


def _merged(first: Tensor, second: Tensor, place: Place) -> Tensor:
    """Merges two descriptions of a tensor: each fills in what the other does not know."""
    if "undef" not in (first.dtype, second.dtype) and first.dtype != second.dtype:
        place.field("dtype").fail(f"tensor {first.id} has dtype {second.dtype} here and {first.dtype} before.")
    shape = first.shape if second.shape is None else second.shape
    if first.shape is not None and second.shape is not None:
        if len(first.shape) != len(second.shape) or _differ_in_size(first.shape, second.shape):
            place.field("shape").fail(
                f"tensor {first.id} has shape {shown(second.shape)} here and {shown(first.shape)} before."
            )
        shape = tuple(theirs if ours is None else ours for ours, theirs in zip(first.shape, second.shape, strict=True))
    return dataclasses.replace(
        first,
        dtype=second.dtype if first.dtype == "undef" else first.dtype,
        shape=shape,
        property_type=second.property_type if first.property_type == "undef" else first.property_type,
        stride=first.stride or second.stride,
    )
