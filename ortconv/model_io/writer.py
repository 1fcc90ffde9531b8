"""Writes models without holding all weights in memory: large tensors are copied into the file one at a time.

A protobuf message is the concatenation of its fields. So the model without its large initializers is serialized in
memory, and these are appended to the graph while they are read. If the message would be too long for protobuf, the
large initializers are written to a file beside it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np
import onnx
import onnx_ir as ir

from ortconv.graph.annotations import BYTES_IN_FILE
from ortconv.progress import Progress, silent

__all__ = ["LARGE", "weights_as_inputs", "without_weights", "write"]

LARGE = 1 << 16
"""Initializers of at least this many bytes are written one at a time."""

_MAX_MESSAGE = (1 << 31) - (1 << 20)
"""Longest message that is written; protobuf reads up to 2 GiB."""

_ALIGNMENT = 1 << 12
"""Alignment of tensors in an external file, so that they can be memory-mapped."""

_CHUNK = 1 << 22


def write(model: ir.Model, path: pathlib.Path, progress: Progress = silent) -> None:
    """Writes a model; if it is longer than 2 GiB, its weights are written to ``<name>.data`` beside it.

    Args:
        model: The model.
        path: The file.
        progress: Receives the number of bytes of large initializers that are written.

    Raises:
        OSError: The file cannot be written.
    """
    large = _large(model.graph)
    with _without(model.graph, large):
        message = ir.to_proto(model)
    if message.ByteSize() + sum(_data(value).nbytes + LARGE for value in large) < _MAX_MESSAGE:
        _write_whole(message, large, path, progress)
        return
    weights = path.with_name(f"{path.name}.data")
    with weights.open("wb") as file:
        for value in _reported(large, progress):
            message.graph.initializer.append(_write_external(file, value, weights.name))
        file.truncate(file.tell())
    path.write_bytes(message.SerializeToString(deterministic=True))


def weights_as_inputs(model: ir.Model) -> onnx.ModelProto:
    """Returns a model with inputs in place of large and external initializers, for the checker and shape inference."""
    large = _large(model.graph)
    with _without(model.graph, large):
        message = ir.to_proto(model)
    taken = {value.name for value in model.graph.inputs}
    for value in large:
        data = _data(value)
        if value.name not in taken:
            message.graph.input.append(
                onnx.helper.make_tensor_value_info(str(value.name), int(data.dtype), data.shape.numpy())
            )
    return message


def without_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns the same for a message; the weights are not copied."""
    light = onnx.ModelProto()
    _copy(model, light, "graph")
    _copy(model.graph, light.graph, "initializer")
    taken = {value.name for value in model.graph.input}
    for tensor in model.graph.initializer:
        external = tensor.data_location == onnx.TensorProto.EXTERNAL
        if not external and tensor.ByteSize() < LARGE:
            light.graph.initializer.append(tensor)
        elif tensor.name not in taken:
            light.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    return light


def _copy(source: Any, target: Any, but: str) -> None:
    """Copies all fields of a message except one."""
    for field, value in source.ListFields():
        if field.name == but:
            continue
        if hasattr(value, "extend"):
            getattr(target, field.name).extend(value)
        elif hasattr(value, "CopyFrom"):
            getattr(target, field.name).CopyFrom(value)
        else:
            setattr(target, field.name, value)


def _large(graph: ir.Graph) -> list[ir.Value]:
    return [
        value
        for value in graph.initializers.values()
        if value.const_value is not None
        and (value.const_value.nbytes >= LARGE or isinstance(value.const_value, ir.ExternalTensor))
    ]


@contextlib.contextmanager
def _without(graph: ir.Graph, large: Sequence[ir.Value]) -> Iterator[None]:
    """Removes initializers from a graph within the context."""
    everything = list(graph.initializers.values())
    for value in large:
        graph.initializers.pop(str(value.name))
    try:
        yield
    finally:
        graph.initializers.clear()
        for value in everything:
            graph.initializers.add(value)


def _write_whole(message: onnx.ModelProto, large: Sequence[ir.Value], path: pathlib.Path, progress: Progress) -> None:
    graph = message.graph.SerializeToString(deterministic=True)
    message.ClearField("graph")
    starts: dict[ir.Value, bytes] = {}
    length = len(graph)
    for value in large:
        size = _data(value).nbytes
        header = _header(value).SerializeToString(deterministic=True) + _prefix(onnx.TensorProto, "raw_data", size)
        starts[value] = _prefix(onnx.GraphProto, "initializer", len(header) + size) + header
        length += len(starts[value]) + size
    with path.open("wb") as file:
        file.write(message.SerializeToString(deterministic=True))
        file.write(_prefix(onnx.ModelProto, "graph", length))
        file.write(graph)
        for value in _reported(large, progress):
            file.write(starts[value])
            _write_data(file, _data(value))
        file.truncate(file.tell())


def _reported(large: Sequence[ir.Value], progress: Progress) -> Iterator[ir.Value]:
    done, total = 0, sum(_data(value).nbytes for value in large)
    for value in large:
        progress("writing weights", done, total)
        yield value
        done += _data(value).nbytes


def _write_external(file: BinaryIO, value: ir.Value, location: str) -> onnx.TensorProto:
    """Writes a tensor to the end of a file and returns a tensor that refers to it."""
    offset = -(-file.tell() // _ALIGNMENT) * _ALIGNMENT
    file.seek(offset)
    data = _data(value)
    _write_data(file, data)
    tensor = _header(value)
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, entry in (("location", location), ("offset", str(offset)), ("length", str(data.nbytes))):
        tensor.external_data.add(key=key, value=entry)
    return tensor


def _data(value: ir.Value) -> ir.TensorProtocol:
    assert value.const_value is not None
    return value.const_value


def _header(value: ir.Value) -> onnx.TensorProto:
    data = _data(value)
    return onnx.TensorProto(name=str(value.name), data_type=int(data.dtype), dims=data.shape.numpy())


def _write_data(file: BinaryIO, data: ir.TensorProtocol) -> None:
    """Writes the bytes of a tensor; copies them from file to file if they lie in one, and keeps holes."""
    place = BYTES_IN_FILE.get(data)
    if place is None:
        # 4-bit and 2-bit types are packed.
        array = None if data.dtype.bitwidth < 8 else np.ascontiguousarray(data.numpy()).reshape(-1)
        file.write(data.tobytes() if array is None else array.view(np.uint8).data)
        return
    path, offset = place
    end = offset + data.nbytes
    with open(path, "rb") as source:
        while offset < end:
            begin, stop = _extent(source.fileno(), offset, end)
            file.seek(begin - offset, os.SEEK_CUR)
            source.seek(begin)
            while begin < stop:
                chunk = source.read(min(_CHUNK, stop - begin))
                if not chunk:
                    raise OSError(errno.EIO, f"ends before byte {end}; it has changed since it was read", str(path))
                begin += file.write(chunk)
            offset = stop


def _extent(descriptor: int, offset: int, end: int) -> tuple[int, int]:
    """Returns the begin and end of the next bytes of a file that are not a hole."""
    try:
        begin = os.lseek(descriptor, offset, os.SEEK_DATA)
    except OSError as error:
        # No data up to the end of the file, or a file system that does not support it.
        return (end, end) if error.errno == errno.ENXIO else (offset, end)
    return min(begin, end), min(os.lseek(descriptor, begin, os.SEEK_HOLE), end)


def _prefix(message: Any, field: str, length: int) -> bytes:
    """Returns the prefix of a length-delimited field: its tag and its length."""
    return _varint(message.DESCRIPTOR.fields_by_name[field].number << 3 | 2) + _varint(length)


def _varint(number: int) -> bytes:
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)
