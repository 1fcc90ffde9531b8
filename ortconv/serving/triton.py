"""A model repository for NVIDIA's Triton Inference Server: the model, the native library and ``config.pbtxt``."""

from __future__ import annotations

import dataclasses
import pathlib
import re
import shutil
from collections.abc import Sequence

import numpy as np
import onnx
import onnx_ir as ir

from ortconv.errors import ExecutionError, InputError
from ortconv.model_io import atomic_write, input_data, loading, protos
from ortconv.model_io.input_data import Array
from ortconv.opset.domain import DOMAIN
from ortconv.runtime import default_shapes, library
from ortconv.runtime.runner import Model

__all__ = ["Bundle", "Options", "write"]

_TYPES = {
    **{ir.DataType[f"{sign}INT{bits}"]: f"{sign}INT{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)},
    **{ir.DataType.FLOAT16: "FP16", ir.DataType.FLOAT: "FP32", ir.DataType.DOUBLE: "FP64"},
    **{ir.DataType.BOOL: "BOOL", ir.DataType.BFLOAT16: "BF16", ir.DataType.STRING: "STRING"},
}
"""Triton's names of element types, without TYPE_."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_DEFAULT_BATCH = 8

_TOLERANCE = 1e-4
"""How far outputs of a batch may be from those of its examples, relative to the largest of them."""


@dataclasses.dataclass(frozen=True)
class Options:
    """What the configuration says.

    Attributes:
        name: The model's name on the server.
        seen_at: Where the server sees the repository.
        max_batch: The largest batch that the server forms; 0 for none; None for 8 if the model computes
            each example of a batch as it does alone, else 0.
        delay: Microseconds that a request waits for others, to form a batch.
        instances: Instances on the CPU, or on each GPU.
        gpu: Whether instances run on GPUs.
        plugin: Whether the native library executes the operators of org.ortconv; else their function bodies do.
    """

    name: str
    seen_at: str = "/models"
    max_batch: int | None = None
    delay: int = 500
    instances: int = 1
    gpu: bool = False
    plugin: bool = True


@dataclasses.dataclass(frozen=True)
class Bundle:
    """What was written.

    Attributes:
        files: The files.
        max_batch: The largest batch that the server forms; 0 for none.
        alone: Why there are no batches, or "".
    """

    files: tuple[pathlib.Path, ...]
    max_batch: int
    alone: str = ""


@dataclasses.dataclass(frozen=True)
class _Tensor:
    name: str
    dtype: ir.DataType
    shape: tuple[int | None, ...]


def write(path: pathlib.Path, repository: pathlib.Path, options: Options) -> Bundle:
    """Writes ``NAME/config.pbtxt``, ``NAME/1/model.onnx`` and the native library, if the model needs it, to a folder.

    Args:
        path: The ONNX file.
        repository: The folder, which is created.
        options: What the configuration says.

    Raises:
        CheckError: The file is no valid model.
        InputError: The name is not allowed, the model has a tensor of a type that Triton lacks or without a rank, or
            batches are asked for and the model does not compute their examples as it does alone.
        PluginError: The native library is not installed.
        OSError: A file cannot be written.
    """
    if not _NAME.fullmatch(options.name):
        raise InputError(
            str(path), f"the name {options.name!r} is not allowed; allowed: letters, digits, dots, dashes, underscores."
        )
    model = loading.load(path)
    constants = {each.name for each in model.graph.initializer}
    inputs = [_tensor(each, path) for each in model.graph.input if each.name not in constants]
    outputs = [_tensor(each, path) for each in model.graph.output]
    ours = options.plugin and any(node.domain == DOMAIN for node in protos.nodes(model.graph.node))
    alone = "" if options.max_batch == 0 else _obstacle(path, inputs, outputs)
    if alone and options.max_batch:
        raise InputError(str(path), f"cannot take batches of {options.max_batch}: {alone}.")
    max_batch = 0 if alone else _DEFAULT_BATCH if options.max_batch is None else options.max_batch
    folder = repository / options.name
    copies = {path: folder / "1" / "model.onnx"}
    for location in loading.external_files(model):
        copies[path.parent / location] = folder / "1" / location
    library_name = ""
    if ours:
        installed = pathlib.Path(library.library_path())
        copies[installed] = folder / installed.name
        library_name = f"{options.seen_at.rstrip('/')}/{options.name}/{installed.name}"
    for source, target in copies.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write.whole(target) as temporary:
            shutil.copyfile(source, temporary)
    config = folder / "config.pbtxt"
    with atomic_write.whole(config) as temporary:
        temporary.write_text(_config(inputs, outputs, options, max_batch, library_name), encoding="utf-8")
    return Bundle((config, *copies.values()), max_batch, alone)


def _tensor(value: onnx.ValueInfoProto, path: pathlib.Path) -> _Tensor:
    tensor = value.type.tensor_type
    dtype = ir.DataType(tensor.elem_type)
    if dtype not in _TYPES:
        raise InputError(
            str(path), f"{value.name} has type {dtype.name.lower()}; allowed: {', '.join(map(_lower, _TYPES))}."
        )
    if not tensor.HasField("shape"):
        raise InputError(str(path), f"{value.name} has no shape; Triton has to know the rank.")
    dims = tuple(dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim)
    return _Tensor(value.name, dtype, dims)


def _lower(dtype: ir.DataType) -> str:
    return dtype.name.lower()


def _obstacle(path: pathlib.Path, inputs: Sequence[_Tensor], outputs: Sequence[_Tensor]) -> str:
    """Returns why the server must not form batches, or "": a batch of two has to give what its examples give alone."""
    for each in (*inputs, *outputs):
        if not each.shape or each.shape[0] is not None:
            return f"the first dimension of {each.name} is not dynamic"
    if any(each.dtype == ir.DataType.STRING for each in inputs):
        return "it takes strings, and examples are random numbers"
    loaded = Model(path, str(path))
    try:
        chosen = default_shapes.choose(loaded.inputs, {}, {}, 0, loaded.run)
        examples = [input_data.fill(loaded.inputs, {}, chosen, seed) for seed in (0, 1)]
        separate = [loaded.run(example) for example in examples]
        together = loaded.run({name: np.concatenate([each[name] for each in examples]) for name in examples[0]})
    except ExecutionError as error:
        return f"it cannot be tried on random data ({' '.join(error.problem.split())})"
    for name, found in together.items():
        expected = np.concatenate([each[name] for each in separate])
        if not _is_same(found, expected):
            return f"{name} of a batch is not {name} of its examples"
    return ""


def _is_same(found: Array, expected: Array) -> bool:
    if found.shape != expected.shape:
        return False
    got, want = found.astype(np.float64), expected.astype(np.float64)
    return bool(np.allclose(got, want, rtol=0, atol=_TOLERANCE * float(np.abs(want).max(initial=0)), equal_nan=True))


def _config(
    inputs: Sequence[_Tensor], outputs: Sequence[_Tensor], options: Options, max_batch: int, library_name: str
) -> str:
    """Returns the configuration in protobuf's text format."""
    lines = [f"name: {_quoted(options.name)}", 'backend: "onnxruntime"', f"max_batch_size: {max_batch}"]
    for kind, tensors in (("input", inputs), ("output", outputs)):
        for each in tensors:
            lines += [f"{kind} {{", *_described(each, max_batch > 0), "}"]
    kind = "KIND_GPU" if options.gpu else "KIND_CPU"
    lines += ["instance_group {", f"  kind: {kind}", f"  count: {options.instances}", "}"]
    if max_batch:
        lines += ["dynamic_batching {", f"  max_queue_delay_microseconds: {options.delay}", "}"]
    if library_name:
        lines += ["model_operations {", f"  op_library_filename: {_quoted(library_name)}", "}"]
    return "\n".join(lines) + "\n"


def _described(tensor: _Tensor, batched: bool) -> list[str]:
    shape = tensor.shape[1:] if batched else tensor.shape
    lines = [f"  name: {_quoted(tensor.name)}", f"  data_type: TYPE_{_TYPES[tensor.dtype]}"]
    if shape:
        return [*lines, f"  dims: [ {', '.join(str(-1 if dim is None else dim) for dim in shape)} ]"]
    return [*lines, "  dims: [ 1 ]", "  reshape { shape: [ ] }"]  # Triton has no scalars


def _quoted(text: str) -> str:
    plain = (c if c.isprintable() and c not in '"\\' else "".join(f"\\{byte:03o}" for byte in c.encode()) for c in text)
    return f'"{"".join(plain)}"'
