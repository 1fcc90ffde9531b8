"""The engines on the GPU: each turns a shape into a CUDA graph of many runs of it, which is replayed.

A graph holds what the GPU does and nothing of what the CPU does to launch it, which for a small layer takes longer.
Each run of a graph has weights and results of its own.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.answers import NUMPY
from benchmarks.cuda.answers import stored
from benchmarks.engines import Unsupported
from benchmarks.shapes import Shape
from benchmarks.turn import Turn

__all__ = ["ENGINES", "LAYOUTS", "Prepared", "bind", "captured", "prepare", "provider", "session_options"]

Array = npt.NDArray[Any]

LAYOUTS = ("ncx", "nxc")
"""Channels before the spatial axes, or after them."""

_WARM = 3
_MOST_RUNS = 100
_REPLAY_SECONDS = 2e-3
_REPLAY_BYTES = 8 << 30
_GUESS = 50e12, 1e12
"""Operations and bytes per second that the length of a graph is guessed by."""


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A loaded shape.

    Attributes:
        replay: Computes the shape `runs` times and waits.
        result: The first run's result, [N, M, spatial...].
        runs: How often a replay computes it.
    """

    replay: Callable[[], object]
    result: Callable[[], Array]
    runs: int

    def answer(self) -> Array:
        """Returns the first run's result."""
        return self.result()

    def time(self, runs: int) -> Turn:
        """Returns a turn, after a replay that does not count: the clocks may have gone down."""
        self.replay()
        replays = math.ceil(runs / self.runs)
        begin = time.perf_counter()
        for _ in range(replays):
            self.replay()
        return Turn((time.perf_counter() - begin) / (replays * self.runs))


def prepare(engine: str, layout: str, shape: Shape, dtype: str, x: Array, w: Array, graph: bool) -> Prepared:
    """Loads a shape into an engine.

    Args:
        engine: Its name.
        layout: One of `LAYOUTS`.
        shape: The shape.
        dtype: One of `benchmarks.cuda.gpu.DTYPES`.
        x: The input, [N, C, spatial...].
        w: The weights.
        graph: Whether the runs are captured in a graph; otherwise the CPU launches them, one after the other.

    Raises:
        Unsupported: The engine cannot do that; the message says why.
    """
    try:
        return ENGINES[engine](layout, shape, dtype, x, w, graph)
    except ImportError as error:
        raise Unsupported(f"not installed: {error.name or error}") from error


def _runs(shape: Shape, dtype: str) -> int:
    """Returns how many runs take long enough for their launch not to matter, within a share of the memory."""
    width = NUMPY[stored(dtype)].itemsize
    moved = shape.bytes_moved("f32") * width / 4
    held = width * (math.prod(shape.w_shape) + math.prod(shape.y_shape))
    seconds = max(shape.flops / _GUESS[0], moved / _GUESS[1])
    return max(1, min(_MOST_RUNS, math.ceil(_REPLAY_SECONDS / seconds), _REPLAY_BYTES // (2 * held)))


def _ours(layout: str, shape: Shape, dtype: str, x: Array, w: Array, graph: bool) -> Prepared:
    from onnx import TensorProto

    import ortconv
    from ortconv.opset.domain import DOMAIN
    from ortconv.runtime import cuda

    perm = _permutation(layout, shape.axes)
    identity = list(range(shape.axes + 2))
    more = {"x_perm": perm, "w_perm": identity, "y_perm": _inverse(perm), "accumulation_type": TensorProto.FLOAT}
    model = _model(layout, shape, dtype, w, DOMAIN, more)
    options = session_options()
    options.add_session_config_entry(cuda.TF32_ENTRY, str(int(dtype == "tf32")))
    session = ortconv.InferenceSession(model.SerializeToString(), options, providers=[provider(dtype, graph)])
    return _bound(session, layout, shape, dtype, x)


def _ort(layout: str, shape: Shape, dtype: str, x: Array, w: Array, graph: bool) -> Prepared:
    import onnxruntime

    from ortconv.runtime import cuda

    if layout == "nxc":
        raise Unsupported("its ConvTranspose has no such layout")
    cuda.load_libraries(onnxruntime)
    model = _model(layout, shape, dtype, w, "", {})
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), session_options(), providers=[provider(dtype, graph)], enable_fallback=0
        )
    except Exception as error:  # ONNX Runtime's own exception classes have no common base
        if "NOT_IMPLEMENTED" in str(error) or "fallback" in str(error):
            raise Unsupported("the CUDA provider has no such kernel") from error
        raise
    return _bound(session, layout, shape, dtype, x)


def session_options() -> Any:
    """Returns quiet options, with which a session fails that would leave a node to another provider."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    return options


def provider(dtype: str, graph: bool) -> tuple[str, dict[str, object]]:
    """Returns the CUDA provider for runs of a type, in graphs or not."""
    # Without use_tf32 ONNX Runtime keeps cuDNN from the tensor cores for the narrow types, too.
    settings = {"use_tf32": int(dtype != "f32"), "enable_cuda_graph": int(graph)}
    return "CUDAExecutionProvider", settings | {"cudnn_conv_algo_search": "EXHAUSTIVE"}


def _permutation(layout: str, axes: int) -> list[int]:
    """Returns where each axis of [N, C, spatial...] stands in memory."""
    return [0, 1, *range(2, axes + 2)] if layout == "ncx" else [0, axes + 1, *range(1, axes + 1)]


def _inverse(perm: list[int]) -> list[int]:
    return [perm.index(axis) for axis in range(len(perm))]


def _physical(shape: tuple[int, ...], layout: str) -> list[int]:
    return list(shape) if layout == "ncx" else [shape[0], *shape[2:], shape[1]]


def _model(layout: str, shape: Shape, dtype: str, w: Array, domain: str, more: dict[str, Any]) -> Any:
    """Returns a model of many transposed convolutions, ONNX's operator or ours, of the same input."""
    from onnx import TensorProto, helper, numpy_helper

    from ortconv.opset.ops.transposed_convolution import TRANSPOSED_CONVOLUTION

    element = {"f16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16}.get(dtype, TensorProto.FLOAT)
    attributes = {
        "strides": shape.strides,
        "dilations": shape.dilations,
        "group": shape.group,
        "pads": shape.pads * 2,
        "output_padding": shape.extras,
        **more,
    }
    runs = _runs(shape, dtype)
    op_type = TRANSPOSED_CONVOLUTION.name if domain else "ConvTranspose"
    graph = helper.make_graph(
        [
            helper.make_node(op_type, ["X", f"W{i}"], [f"Y{i}"], name=f"run{i}", domain=domain, **attributes)
            for i in range(runs)
        ],
        "benchmark",
        [helper.make_tensor_value_info("X", element, _physical(shape.x_shape, layout))],
        [helper.make_tensor_value_info(f"Y{i}", element, _physical(shape.y_shape, layout)) for i in range(runs)],
        [numpy_helper.from_array(w, f"W{i}") for i in range(runs)],
    )
    opsets = [helper.make_opsetid("", 22 if dtype == "bf16" else 21)]
    opsets += [helper.make_opsetid(domain, 1)] if domain else []
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _bound(session: Any, layout: str, shape: Shape, dtype: str, x: Array) -> Prepared:
    source = np.ascontiguousarray(np.moveaxis(x, 1, -1) if layout == "nxc" else x)
    prepared = bind(session, source, _physical(shape.y_shape, layout))
    if layout == "ncx":
        return prepared
    return dataclasses.replace(prepared, result=lambda: np.moveaxis(prepared.result(), -1, 1))


def bind(session: Any, x: Array, dims: list[int], result: Any = None) -> Prepared:
    """Runs a session from and to memory of the GPU, often enough for a graph to be captured.

    Args:
        session: The session, whose only input is X and whose outputs are results of one shape, each of a run.
        x: The input.
        dims: The shape of a result.
        result: The type of results, if it is not that of the input.
    """
    import onnxruntime
    from onnx import TensorProto

    # The bits of bfloat16 travel as those of another type of that size.
    def travels(dtype: np.dtype[Any]) -> tuple[np.dtype[Any], Any]:
        return (np.dtype(np.uint16), TensorProto.BFLOAT16) if dtype == NUMPY["bf16"] else (dtype, dtype)

    kind = x.dtype if result is None else np.dtype(result)
    (stored_x, element), (stored_y, element_y) = travels(x.dtype), travels(kind)
    value = onnxruntime.OrtValue.ortvalue_from_numpy(x.view(stored_x), "cuda", 0)
    binding = session.io_binding()
    binding.bind_input("X", "cuda", 0, element, list(x.shape), value.data_ptr())
    results = []
    for output in session.get_outputs():
        results.append(onnxruntime.OrtValue.ortvalue_from_shape_and_type(dims, stored_y, "cuda", 0))
        binding.bind_output(output.name, "cuda", 0, element_y, dims, results[-1].data_ptr())

    def replay() -> None:
        session.run_with_iobinding(binding)
        binding.synchronize_outputs()

    def first() -> Array:
        assert value is not None  # the input lives as long as what reads it
        return np.asarray(results[0].numpy()).view(kind)

    for _ in range(_WARM):
        replay()
    return Prepared(replay, first, len(results))


def _torch(layout: str, shape: Shape, dtype: str, x: Array, w: Array, graph: bool) -> Prepared:
    import torch

    if layout == "nxc" and shape.axes == 1:
        raise Unsupported("has no channels-last layout for one axis")
    torch.set_grad_enabled(False)
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = dtype == "tf32"
    element = {"f16": torch.float16, "bf16": torch.bfloat16}.get(dtype, torch.float32)
    last = {2: torch.channels_last, 3: torch.channels_last_3d}.get(shape.axes, torch.contiguous_format)
    memory_format = last if layout == "nxc" else torch.contiguous_format

    def tensor(array: Array) -> Any:
        host = torch.from_numpy(array.view(np.int16)).view(element) if dtype == "bf16" else torch.from_numpy(array)
        return host.cuda().to(memory_format=memory_format)

    convolve = (
        torch.nn.functional.conv_transpose1d,
        torch.nn.functional.conv_transpose2d,
        torch.nn.functional.conv_transpose3d,
    )[shape.axes - 1]
    source, runs = tensor(x), _runs(shape, dtype)
    weights = [tensor(w) for _ in range(runs)]
    settings = {
        "stride": shape.strides,
        "padding": shape.pads,
        "output_padding": shape.extras,
        "groups": shape.group,
        "dilation": shape.dilations,
    }

    def run() -> list[Any]:
        return [convolve(source, each, **settings) for each in weights]

    return captured(run, x.dtype, graph)


def captured(run: Callable[[], list[Any]], dtype: np.dtype[Any], graph: bool) -> Prepared:
    """Runs torch on the GPU, in a graph or not.

    Args:
        run: Computes the results, tensors of one shape.
        dtype: Their type as numpy has it.
        graph: Whether the run is captured in a graph.
    """
    import torch

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(_WARM):
            results = run()
    torch.cuda.synchronize()
    if graph:
        recorded = torch.cuda.CUDAGraph()
        with torch.cuda.graph(recorded):
            results = run()

    def replay() -> None:
        if graph:
            recorded.replay()
        else:
            results[:] = run()
        torch.cuda.synchronize()

    def result() -> Array:
        replay()
        found = results[0].contiguous().cpu()
        is_bf16 = dtype == NUMPY["bf16"]
        return np.asarray(found.view(torch.int16).numpy().view(dtype) if is_bf16 else found.numpy())

    return Prepared(replay, result, len(results))


ENGINES: dict[str, Callable[[str, Shape, str, Array, Array, bool], Prepared]] = {
    "ort": _ort,
    "torch": _torch,
    "ours": _ours,
}
"""By name; the order is that of the tables."""
