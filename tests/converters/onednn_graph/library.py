"""oneDNN itself, to compare with: runs graph documents in a process of its own, which may die of a bad graph.

``ORTCONV_ONEDNN`` names the folder of ``libdnnl.so.3`` and of the libraries it needs. The wheel has all of them::

    pip install --prefix build/onednn onednn
    ORTCONV_ONEDNN=build/onednn/lib pytest tests/onednn_graph/test_library.py

Every tensor is laid out densely.
"""

from __future__ import annotations

import ctypes
import os
import pathlib
import pickle
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tests.converters.onednn_graph.references.call import DTYPES
from tests.converters.onednn_graph.references.interpreter import RENAMED
from tests.folders import ROOT

FOLDER = os.environ.get("ORTCONV_ONEDNN", "")
UNKNOWN = -(1 << 63)
MAX_RANK = 12
ALIGNMENT = 64
CPU = 1
STRIDED = 2
HOST_SCALAR = 3

_KINDS = """
    Abs AbsBackward Add AvgPool AvgPoolBackward BatchNormTrainingBackward BatchNormForwardTraining BatchNormInference
    BiasAdd BiasAddBackward Clamp ClampBackward Concat Convolution ConvolutionBackwardData ConvolutionBackwardWeights
    ConvTranspose ConvTransposeBackwardData ConvTransposeBackwardWeights Dequantize Divide DynamicDequantize
    DynamicQuantize Elu EluBackward End Exp GELU GELUBackward HardSwish HardSwishBackward Interpolate
    InterpolateBackward LayerNorm LayerNormBackward LeakyReLU Log LogSoftmax LogSoftmaxBackward MatMul Maximum MaxPool
    MaxPoolBackward Minimum Mish MishBackward Multiply PReLU PReLUBackward Quantize Reciprocal ReduceL1 ReduceL2
    ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReLU ReLUBackward Reorder Round Sigmoid SigmoidBackward SoftMax
    SoftMaxBackward SoftPlus SoftPlusBackward Sqrt SqrtBackward Square SquaredDifference StaticReshape StaticTranspose
    Subtract Tanh TanhBackward TypeCast Wildcard HardSigmoid HardSigmoidBackward Select Pow GroupNorm GenIndex
    GreaterEqual RMSNorm Dropout
"""
KINDS = _KINDS.split()
"""In the order of the C header's enumeration; the numbers below are its, too."""

ATTRIBUTES = {
    name: base + offset
    for base, names in (
        (0x01, "alpha beta epsilon max min momentum"),
        (0x20, "scales"),
        (0x30, "axis begin_norm_axis groups"),
        (
            0x40,
            "axes dilations dst_shape kernel order output_padding pads_begin pads_end shape sizes src_shape strides",
        ),
        (0x4C, "weights_shape zps group_shape"),
        (0x60, "exclude_pad keep_dims keep_stats per_channel_broadcast special_zero transpose_a transpose_b"),
        (0x67, "use_affine use_dst"),
        (0x80, "auto_broadcast auto_pad coordinate_transformation_mode data_format mode qtype rounding_type"),
        (0x87, "weights_format accumulation_mode"),
    )
    for offset, name in enumerate(names.split())
}
TYPES = {"f16": 1, "bf16": 2, "f32": 3, "s32": 4, "s8": 5, "u8": 6, "boolean": 8, "f8_e5m2": 9, "f8_e4m3": 10}
TYPES |= {"s4": 11, "u4": 12, "s64": 16}
PROPERTIES = ("undef", "variable", "constant", "host_scalar")
STATUSES = (
    *("success", "out_of_memory", "invalid_arguments", "unimplemented", "last_impl_reached", "runtime_error"),
    *("not_required", "invalid_graph", "invalid_graph_op", "invalid_shape", "invalid_data_type"),
)

Arrays = dict[int, np.ndarray]
Json = Mapping[str, Any]


class RefusedError(Exception):
    """The library does not run a graph."""


class Library:
    """oneDNN in another process.

    Args:
        fuse: Whether partitions are formed as for speed; otherwise every op is one.
    """

    def __init__(self, *, fuse: bool = False) -> None:
        self._fuse = fuse
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, document: Json, feeds: Mapping[int, np.ndarray]) -> Arrays:
        """Returns the tensors that leave a partition, by id.

        Raises:
            RefusedError: The library refuses the graph, or dies of it.
            RuntimeError: There is no library that could.
        """
        if self._process is None:
            self._process = _start()
            if (trouble := _greeting(self._process)) is not None:
                self.close()
                raise RuntimeError(f"oneDNN does not start, ORTCONV_ONEDNN={FOLDER}: {trouble}")
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            pickle.dump((document, dict(feeds), self._fuse), stdin)
            stdin.flush()
            answer = pickle.load(stdout)
        except (EOFError, BrokenPipeError):
            self.close()
            raise RefusedError("the library died") from None
        if isinstance(answer, str):
            raise RefusedError(answer)
        assert isinstance(answer, dict)
        return answer

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _start() -> subprocess.Popen[bytes]:
    libraries = [FOLDER, os.environ.get("LD_LIBRARY_PATH", "")]
    environment = {
        "LD_LIBRARY_PATH": os.pathsep.join(filter(None, libraries)),
        # The build in the wheel runs on what SYCL calls a device: here OpenCL for the CPU.
        "OCL_ICD_FILENAMES": str(pathlib.Path(FOLDER) / "libintelocl.so"),
        "ONEAPI_DEVICE_SELECTOR": "opencl:cpu",
    }
    return subprocess.Popen(
        [sys.executable, "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | environment,
        cwd=ROOT,
    )


def _greeting(process: subprocess.Popen[bytes]) -> str | None:
    """Returns why the library cannot be used, None where it can."""
    assert process.stdout is not None
    try:
        trouble = pickle.load(process.stdout)
    except EOFError:
        return "it died"
    return None if trouble is None else str(trouble)


class _LogicalTensor(ctypes.Structure):
    """`dnnl_graph_logical_tensor_t`."""

    _fields_ = (
        ("id", ctypes.c_size_t),
        ("ndims", ctypes.c_int),
        ("dims", ctypes.c_int64 * MAX_RANK),
        ("data_type", ctypes.c_int),
        ("property", ctypes.c_int),
        ("layout_type", ctypes.c_int),
        ("strides", ctypes.c_int64 * MAX_RANK),
    )


def _logical(identity: int, dtype: int, shape: Sequence[int] | None, kind: int = 0) -> _LogicalTensor:
    tensor = _LogicalTensor(id=identity, data_type=dtype, property=kind, layout_type=STRIDED)
    tensor.ndims = -1 if shape is None else len(shape)
    dims = [UNKNOWN] * MAX_RANK if shape is None else list(shape)
    strides = [1] * len(dims)
    for axis in reversed(range(len(dims) - 1)):
        strides[axis] = UNKNOWN if UNKNOWN in dims else strides[axis + 1] * max(dims[axis + 1], 1)
    tensor.dims[: len(dims)] = dims
    tensor.strides[: len(dims)] = strides
    return tensor


class _Engine:
    """The library in this process."""

    def __init__(self) -> None:
        self._lib = ctypes.CDLL(str(pathlib.Path(FOLDER) / "libdnnl.so.3"))
        self._engine = self._new("engine_create", CPU, ctypes.c_size_t(0))
        self._stream = self._new("stream_create", self._engine, 1)

    def _call(self, name: str, *arguments: object) -> None:
        status = getattr(self._lib, f"dnnl_{name}")(*arguments)
        if status:
            raise RefusedError(f"{name}: {STATUSES[status]}")

    def _new(self, name: str, *arguments: object) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        self._call(name, ctypes.byref(handle), *arguments)
        return handle

    def _size(self, name: str, *arguments: object) -> int:
        size = ctypes.c_size_t()
        self._call(name, *arguments, ctypes.byref(size))
        return size.value

    def run(self, document: Json, feeds: Arrays, fuse: bool) -> Arrays:
        graph = self._new("graph_graph_create", CPU)
        for op in document["graph"]:
            self._call("graph_add_op", graph, self._op(op))
        self._call("graph_graph_finalize", graph)
        self._call("graph_graph_filter", graph, 1 if fuse else 2)
        partitions = (ctypes.c_void_p * self._size("graph_graph_get_partition_num", graph))()
        self._call("graph_graph_get_partitions", graph, ctypes.c_size_t(len(partitions)), partitions)
        properties = {
            tensor["id"]: PROPERTIES.index(tensor.get("property_type", "undef"))
            for op in document["graph"]
            for tensor in op["inputs"]
        }
        known = dict(feeds)
        waiting = [self._ports(ctypes.c_void_p(partition)) for partition in partitions]
        while waiting:
            ready = [task for task in waiting if all(tensor.id in known for tensor in task[1])]
            if not ready:
                raise RefusedError("a partition lacks inputs")
            for partition, inputs, outputs in ready:
                if outputs:
                    self._execute(partition, inputs, outputs, known, properties)
            waiting = [task for task in waiting if task not in ready]
        return known

    def _op(self, op: Json) -> ctypes.c_void_p:
        made = self._new(
            "graph_op_create", ctypes.c_size_t(op["id"]), KINDS.index(RENAMED.get(op["kind"], op["kind"])), b"op"
        )
        for name, attribute in op.get("attrs", {}).items():
            value, kind = attribute["value"], attribute["type"]
            if name not in ATTRIBUTES:
                continue
            if kind == "string":
                text = value.encode()
                self._call("graph_op_set_attr_str", made, ATTRIBUTES[name], text, ctypes.c_size_t(len(text)))
                continue
            values = list(value) if isinstance(value, list | tuple) else [value]
            element = {"f32": ctypes.c_float, "boo": ctypes.c_uint8}.get(kind[:3], ctypes.c_int64)
            setter = f"graph_op_set_attr_{kind.removesuffix('[]')}"
            self._call(setter, made, ATTRIBUTES[name], (element * len(values))(*values), ctypes.c_size_t(len(values)))
        for argument, side in (("input", "inputs"), ("output", "outputs")):
            for tensor in op[side]:
                shape = None if tensor["shape"] == [UNKNOWN] else tensor["shape"]
                kind = PROPERTIES.index(tensor.get("property_type", "undef"))
                logical = _logical(tensor["id"], TYPES[tensor["dtype"]], shape, kind)
                self._call(f"graph_op_add_{argument}", made, ctypes.byref(logical))
        return made

    def _ports(self, partition: ctypes.c_void_p) -> tuple[ctypes.c_void_p, list[_LogicalTensor], list[_LogicalTensor]]:
        supported = ctypes.c_uint8()
        self._call("graph_partition_is_supported", partition, ctypes.byref(supported))
        sides: list[list[_LogicalTensor]] = []
        for side in ("input", "output"):
            tensors = (_LogicalTensor * self._size(f"graph_partition_get_{side}_ports_num", partition))()
            self._call(f"graph_partition_get_{side}_ports", partition, ctypes.c_size_t(len(tensors)), tensors)
            sides.append(list(tensors))
        if sides[1] and not supported.value:
            raise RefusedError("a partition is not supported")
        return partition, sides[0], sides[1]

    def _execute(
        self,
        partition: ctypes.c_void_p,
        inputs: Sequence[_LogicalTensor],
        outputs: Sequence[_LogicalTensor],
        known: Arrays,
        properties: Mapping[int, int],
    ) -> None:
        given = [_logical(t.id, t.data_type, known[t.id].shape, properties.get(t.id, 0)) for t in inputs]
        wanted = [_logical(t.id, t.data_type, None if t.ndims < 0 else t.dims[: t.ndims]) for t in outputs]
        compiled = self._new("graph_compiled_partition_create", partition)
        sides = [argument for side in (given, wanted) for argument in (ctypes.c_size_t(len(side)), _pointers(side))]
        self._call("graph_partition_compile", partition, compiled, *sides, self._engine)
        names = {number: name for name, number in TYPES.items()}
        results = []
        for tensor in wanted:
            identity = ctypes.c_size_t(tensor.id)
            self._call("graph_compiled_partition_query_logical_tensor", compiled, identity, ctypes.byref(tensor))
            results.append(_aligned(np.zeros(tensor.dims[: tensor.ndims], DTYPES[names[tensor.data_type]])))
        arrays = [_aligned(known[tensor.id]) for tensor in given]
        handles = [self._tensor(t, array) for t, array in zip([*given, *wanted], [*arrays, *results], strict=True)]
        count = len(given)
        for_inputs, for_outputs = ((ctypes.c_void_p * len(part))(*part) for part in (handles[:count], handles[count:]))
        self._call(
            "graph_compiled_partition_execute",
            compiled,
            self._stream,
            ctypes.c_size_t(count),
            for_inputs,
            ctypes.c_size_t(len(wanted)),
            for_outputs,
        )
        self._call("stream_wait", self._stream)
        known.update({tensor.id: result.copy() for tensor, result in zip(wanted, results, strict=True)})

    def _tensor(self, tensor: _LogicalTensor, array: np.ndarray) -> ctypes.c_void_p:
        data = ctypes.c_void_p(array.ctypes.data)
        if tensor.property == HOST_SCALAR:
            return self._new("graph_tensor_create_scalar", ctypes.byref(tensor), data)
        return self._new("graph_tensor_create", ctypes.byref(tensor), self._engine, data)


def _pointers(tensors: Sequence[_LogicalTensor]) -> ctypes.Array[Any]:
    return (ctypes.POINTER(_LogicalTensor) * len(tensors))(*map(ctypes.pointer, tensors))


def _aligned(array: np.ndarray) -> np.ndarray:
    """Copies an array to where the library may load whole vectors."""
    if array.dtype in (DTYPES["s4"], DTYPES["u4"]):
        nibbles = array.reshape(-1).view(np.uint8) & 15
        array = np.append(nibbles, np.zeros(nibbles.size % 2, np.uint8)).reshape(-1, 2) @ np.array([1, 16], np.uint8)
    room = np.empty(array.nbytes + ALIGNMENT, np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    copy = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def _serve() -> None:
    engine, trouble = None, None
    try:
        engine = _Engine()
    except (OSError, RefusedError) as error:
        trouble = str(error)
    _send(trouble)
    while engine is not None:
        try:
            question = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer: Arrays | str = engine.run(*question)
        except RefusedError as refusal:
            answer = str(refusal)
        _send(answer)


def _send(answer: Arrays | str | None) -> None:
    pickle.dump(answer, sys.stdout.buffer)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    _serve()
