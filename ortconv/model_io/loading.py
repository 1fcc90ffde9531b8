"""Loads and validates untrusted ONNX models; every model from outside passes through here.

A model may be hostile. A valid one is a regular file, with external data in its own folder and of the size that its
tensors require, with UTF-8 strings, and with functions that replace no operator. ``onnx.checker`` checks the rest.
"""

from __future__ import annotations

import collections
import copy
import functools
import itertools
import os
from collections.abc import Iterable
from typing import Any

import onnx
from onnx import TensorProto

from ortconv.errors import CheckError, in_utf8, shown
from ortconv.model_io import protos
from ortconv.model_io.function_checks import check_expansion, check_own_functions
from ortconv.model_io.regular_files import open_regular
from ortconv.model_io.tensor_checks import check_tensor, check_total, is_external, read_external

__all__ = ["external_files", "is_ort_format", "load", "parse", "read_weights", "validate", "with_inner_weights"]

_MAX_BYTES = (1 << 31) - 1

_ORT_FORMAT = b"ORTM"
"""Bytes 4 to 7 of files in ONNX Runtime's own format."""


def load(path: str | os.PathLike[str], *, weights: bool = False) -> onnx.ModelProto:
    """Reads a model file.

    Args:
        path: The file.
        weights: Whether to read external data; otherwise the model refers to it.

    Raises:
        CheckError: The file cannot be read, is no ONNX model, or is not valid.
    """
    name = os.fspath(path)
    try:
        with open_regular(name) as file:
            size = os.fstat(file.fileno()).st_size
            if size > _MAX_BYTES:
                raise CheckError(in_utf8(name), f"has {size} bytes; allowed: {_MAX_BYTES}, protobuf's limit.")
            data = file.read()
    except (OSError, ValueError) as error:
        raise CheckError(in_utf8(name), f"cannot be read: {getattr(error, 'strerror', None) or error}") from error
    model = parse(data, name)
    validate(model, name, os.path.dirname(name))
    if weights:
        read_weights(model, name)
    return model


def is_ort_format(source: str | os.PathLike[str] | bytes) -> bool:
    """Returns whether a file, or its content, is in ONNX Runtime's own format; False if it cannot be read."""
    if not isinstance(source, bytes):
        try:
            with open_regular(source) as file:
                source = file.read(8)
        except (OSError, ValueError):
            return False
    return source[4:8] == _ORT_FORMAT


def parse(data: bytes, name: str) -> onnx.ModelProto:
    """Parses a serialized model, without validation.

    Raises:
        CheckError: The data is no ONNX model.
    """
    try:
        model: onnx.ModelProto = onnx.ModelProto.FromString(data)
    except Exception as error:  # DecodeError or ValueError, depending on protobuf's version
        raise CheckError(in_utf8(name), f"is not an ONNX model: {str(error) or type(error).__name__}") from error
    return model


def validate(model: onnx.ModelProto, name: str, folder: str) -> None:
    """Validates a model.

    Args:
        model: The model.
        name: The model's name in messages.
        folder: The folder of its external data; "" is the current one.

    Raises:
        CheckError: The model is not valid.
    """
    name = in_utf8(name)
    tensors = _tensors(model, name)
    for tensor in tensors:
        check_tensor(tensor, name, folder)
    check_total(tensors, name, folder)
    for domain, count in collections.Counter(entry.domain or "ai.onnx" for entry in model.opset_import).items():
        if count > 1:
            raise CheckError(name, f"opset_import: {shown(domain)} is imported {count} times; allowed: once.")
    check_expansion(model, name)
    check_own_functions(model, name)
    _check_equations(model, name)


def _check_equations(model: onnx.ModelProto, name: str) -> None:
    """Checks the equations of Einsum nodes."""
    for node in protos.all_nodes(model):
        for attribute in node.attribute if (node.domain, node.op_type) == ("", "Einsum") else ():
            equation = attribute.s.decode()
            if attribute.name == "equation" and not protos.EQUATION.fullmatch(equation.replace(" ", "")):
                raise CheckError(
                    name,
                    f"node {shown(node.name)} (Einsum) has equation = {shown(equation)}; allowed: terms of letters and "
                    "..., separated by commas, and perhaps -> and a term.",
                )


def with_inner_weights(model: onnx.ModelProto, path: str) -> onnx.ModelProto:
    """Returns a validated model, or a copy, in which only initializers of the main graph refer to external data.

    Args:
        model: The model; it is not changed.
        path: Its file, or "" if its external data lies in the current folder.

    Raises:
        CheckError: The data has changed since the validation.
    """
    if not any(map(is_external, _inner_tensors(model, path))):
        return model
    full = copy.deepcopy(model)
    for tensor in _inner_tensors(full, path):
        if is_external(tensor):
            read_external(tensor, path, os.path.dirname(path))
    return full


def read_weights(model: onnx.ModelProto, path: str | os.PathLike[str]) -> None:
    """Reads the external data of a validated model into it.

    Args:
        model: The model, which is changed.
        path: Its file.

    Raises:
        CheckError: The data has changed since the validation.
    """
    name = os.fspath(path)
    for tensor in _tensors(model, name):
        if is_external(tensor):
            read_external(tensor, name, os.path.dirname(name))


def external_files(model: onnx.ModelProto) -> list[str]:
    """Returns the files that hold external data of a validated model, relative to its folder."""
    entries = (entry for tensor in _tensors(model, "") if is_external(tensor) for entry in tensor.external_data)
    return sorted({entry.value for entry in entries if entry.key == "location"})


_Message = Any
_Place = tuple["_Place | None", str]
"""The place of the enclosing message, and the field of a message in it."""


def _tensors(model: onnx.ModelProto, name: str) -> list[TensorProto]:
    """Returns all tensors of a model, and checks all strings in it.

    Raises:
        CheckError: A string is not UTF-8, or a node has two attributes of one name.
    """
    found: list[TensorProto] = []
    try:
        _walk(model, (None, ""), name, found)
    except UnicodeDecodeError as error:  # Some versions of protobuf raise this, others return bytes.
        raise CheckError(name, f"holds a string that is not UTF-8: {error}") from error
    return found


def _inner_tensors(model: onnx.ModelProto, name: str) -> list[TensorProto]:
    """Returns the tensors in attributes and subgraphs of nodes, and in functions."""
    found: list[TensorProto] = []
    for each in itertools.chain(model.graph.node, model.functions):
        _walk(each, (None, ""), name, found)
    return found


def _walk(message: _Message, place: _Place, name: str, tensors: list[TensorProto]) -> None:
    if isinstance(message, TensorProto):
        tensors.append(message)
        _check_text((message.name, message.doc_string), place, name)
        fields = [*message.external_data, *message.metadata_props]
        for each in fields:
            _check_text((each.key, each.value), place, name)
        return
    for field, value in message.ListFields():
        kind, repeated = _kind(field)
        if kind == field.TYPE_STRING:
            _check_text(value if repeated else (value,), (place, field.name), name)
        elif kind == field.TYPE_MESSAGE:
            for index, each in enumerate(value if repeated else (value,)):
                _walk(each, (place, f"{field.name}[{index}]" if repeated else field.name), name, tensors)
    if isinstance(message, onnx.NodeProto):
        names = {each.name for each in message.attribute}
        if len(names) != len(message.attribute):
            raise CheckError(name, f"{_shown(place)} has two attributes of one name; allowed: one of each.")
        # In other domains, string attributes may hold any bytes.
        words = (each.s for each in message.attribute if each.HasField("s")) if not message.domain else ()
        if not all(map(_is_text, words)):
            raise CheckError(name, f"{_shown(place)} has an attribute that is not UTF-8.")


@functools.cache
def _kind(field: Any) -> tuple[int, bool]:
    """Returns the type of a field and whether it is repeated; cached, since descriptors are slow."""
    repeated = field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED
    return field.type, repeated


def _check_text(texts: Iterable[object], place: _Place, name: str) -> None:
    if not all(type(text) is str for text in texts):
        raise CheckError(name, f"{_shown(place)} is not UTF-8.")


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _shown(place: _Place) -> str:
    parts = []
    around: _Place | None = place
    while around is not None:
        around, part = around
        parts.append(part)
    return ".".join(reversed(parts[:-1]))
