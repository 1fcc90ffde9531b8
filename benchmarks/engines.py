"""The engines: each turns a shape into something that can be called again and again. Runtimes are imported on use."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.shapes import Shape

__all__ = [
    "ENGINES",
    "OURS",
    "PEERS",
    "Prepared",
    "Unsupported",
    "prepare",
    "prepare_ours",
    "session_options",
    "version",
]

Array = npt.NDArray[Any]
Prepared = tuple[Callable[[], object], Callable[[object], Array]]
"""Runs once and returns the engine's own result; makes an array of such a result, which is not timed."""


class Unsupported(Exception):  # noqa: N818 - an answer, not an error
    """The engine is not installed, or has no kernel for the type."""


def prepare(engine: str, shape: Shape, dtype: str, threads: int, x: Array, w: Array) -> Prepared:
    """Loads the shape's model, with constant weights, into an engine.

    Raises:
        Unsupported: The engine cannot do that; the message says why.
    """
    try:
        return ENGINES[engine](shape, dtype, threads, x, w)
    except ImportError as error:
        raise Unsupported(f"not installed: {error.name or error}") from error


def version(engine: str) -> str | None:
    """Returns the version of the package behind an engine, or None where it is not installed."""
    import importlib.metadata

    try:
        return importlib.metadata.version({"ort": "onnxruntime", "ours": "ortconv"}.get(engine, engine))
    except importlib.metadata.PackageNotFoundError:
        return None


def prepare_ours(shape: Shape, dtype: str, threads: int, x: Array, w: Array, entries: Mapping[str, str]) -> Prepared:
    """Loads the shape's model into ortconv, with some session config entries."""
    from onnx import TensorProto

    import ortconv
    from ortconv.opset.domain import DOMAIN

    identity = list(range(shape.axes + 2))
    accumulation = TensorProto.DOUBLE if dtype == "f64" else TensorProto.FLOAT
    layout = dict.fromkeys(("x_perm", "w_perm", "y_perm"), identity)
    model = _model(shape, dtype, w, DOMAIN, accumulation_type=accumulation, **layout)
    options = session_options(threads)
    for name, value in entries.items():
        options.add_session_config_entry(name, value)
    return _runner(ortconv.InferenceSession(model, options), shape, dtype, x)


def _ours(shape: Shape, dtype: str, threads: int, x: Array, w: Array) -> Prepared:
    return prepare_ours(shape, dtype, threads, x, w, {})


def _ort(shape: Shape, dtype: str, threads: int, x: Array, w: Array) -> Prepared:
    import onnxruntime

    if dtype in ("bf16", "f64"):
        raise Unsupported("the CPU provider has no such kernel")
    model = _model(shape, dtype, w, "")
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), session_options(threads), providers=["CPUExecutionProvider"]
    )
    return _runner(session, shape, dtype, x)


def session_options(threads: int) -> Any:
    """Returns options of ONNX Runtime for so many threads, which say errors only."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return options


def _runner(session: Any, shape: Shape, dtype: str, x: Array) -> Prepared:
    """Runs a session from and to tensors that are bound to it once, as OpenVINO's requests have theirs.

    Other ways to call one from Python take ten times as long as a small run itself.
    """
    import ctypes

    import onnxruntime

    if dtype == "bf16":
        value = onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(x.view(np.uint16), _element(dtype))
    else:
        value = onnxruntime.OrtValue.ortvalue_from_numpy(x)
    output = onnxruntime.OrtValue.ortvalue_from_shape_and_type(shape.y_shape, _element(dtype))
    binding = session.io_binding()
    binding.bind_ortvalue_input("X", value)
    binding.bind_ortvalue_output("Y", output)

    def run() -> object:
        session.run_with_iobinding(binding)
        return output

    def result(_: object) -> Array:
        size = x.dtype.itemsize * math.prod(shape.y_shape)
        return np.frombuffer(ctypes.string_at(output.data_ptr(), size), x.dtype).reshape(shape.y_shape)

    return run, result


def _element(dtype: str) -> int:
    """Returns ONNX's number of a type."""
    from onnx import TensorProto

    return {
        "f32": TensorProto.FLOAT,
        "f16": TensorProto.FLOAT16,
        "bf16": TensorProto.BFLOAT16,
        "f64": TensorProto.DOUBLE,
    }[dtype]


def _model(shape: Shape, dtype: str, w: Array, domain: str, **more: Any) -> Any:
    """Returns a model of one transposed convolution, ONNX's operator or ours."""
    from onnx import helper, numpy_helper

    from ortconv.opset.ops.transposed_convolution import TRANSPOSED_CONVOLUTION

    element = _element(dtype)
    node = helper.make_node(
        TRANSPOSED_CONVOLUTION.name if domain else "ConvTranspose",
        ["X", "W"],
        ["Y"],
        domain=domain,
        strides=shape.strides,
        dilations=shape.dilations,
        group=shape.group,
        pads=shape.pads * 2,
        output_padding=shape.extras,
        **more,
    )
    graph = helper.make_graph(
        [node],
        "benchmark",
        [helper.make_tensor_value_info("X", element, shape.x_shape)],
        [helper.make_tensor_value_info("Y", element, shape.y_shape)],
        [numpy_helper.from_array(w, "W")],
    )
    opsets = [helper.make_opsetid("", 21), *([helper.make_opsetid(domain, 1)] if domain else [])]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _openvino(shape: Shape, dtype: str, threads: int, x: Array, w: Array) -> Prepared:
    import openvino
    from openvino import opset13 as ops

    if dtype == "f64":
        raise Unsupported("computes float64 in float32")
    element = getattr(openvino.Type, dtype)

    def tensor(array: Array) -> Any:
        return openvino.Tensor(array.view(np.uint16), list(array.shape), element) if dtype == "bf16" else array

    parameter = ops.parameter(list(shape.x_shape), element)
    if shape.group > 1:
        w = w.reshape(shape.group, shape.inputs // shape.group, *w.shape[1:])
    weights = openvino.op.Constant(tensor(w)) if dtype == "bf16" else ops.constant(w)
    convolve = ops.convolution_backprop_data if shape.group == 1 else ops.group_convolution_backprop_data
    node = convolve(
        parameter,
        weights,
        strides=shape.strides,
        pads_begin=shape.pads,
        pads_end=shape.pads,
        dilations=shape.dilations,
        output_padding=shape.extras,
    )
    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        # Its own default would compute float32 in bfloat16 on a CPU that has it.
        "INFERENCE_PRECISION_HINT": dtype,
    }
    request = openvino.Core().compile_model(openvino.Model([node], [parameter]), "CPU", settings).create_infer_request()
    request.set_input_tensor(tensor(x) if dtype == "bf16" else openvino.Tensor(x))

    def run() -> object:
        request.start_async()
        request.wait()
        return request.get_output_tensor()

    def result(value: Any) -> Array:
        return np.array(value.data).view(x.dtype).reshape(shape.y_shape)

    return run, result


def _torch(shape: Shape, dtype: str, threads: int, x: Array, w: Array) -> Prepared:
    import torch

    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    element = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "f64": torch.float64}[dtype]

    def tensor(array: Array) -> Any:
        return torch.from_numpy(array.view(np.int16)).view(element) if dtype == "bf16" else torch.from_numpy(array)

    kind = (torch.nn.ConvTranspose1d, torch.nn.ConvTranspose2d, torch.nn.ConvTranspose3d)[shape.axes - 1]
    module = kind(
        shape.inputs,
        shape.outputs,
        shape.kernels,
        stride=shape.strides,
        padding=shape.pads,
        output_padding=shape.extras,
        groups=shape.group,
        bias=False,
        dilation=shape.dilations,
        dtype=element,
    ).eval()
    module.weight.copy_(tensor(w))
    source = tensor(x)

    def run() -> object:
        with torch.inference_mode():
            return module(source)

    def result(value: Any) -> Array:
        return np.asarray(value.view(torch.int16).numpy().view(x.dtype) if dtype == "bf16" else value.numpy())

    return run, result


ENGINES: dict[str, Callable[[Shape, str, int, Array, Array], Prepared]] = {
    "ort": _ort,
    "openvino": _openvino,
    "torch": _torch,
    "ours": _ours,
}
"""By name; the order is that of the tables."""

OURS = "ours"
PEERS = tuple(name for name in ENGINES if name != OURS)
